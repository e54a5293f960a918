"""Every term of every task is what its expression says: computed from raw states by torch and by the C made of it.

`measured` reads states of the engine, not observations; the expressions are evaluated on them, and compared with what the task
observes after random actions. The C of all tasks is compiled once.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.own_files import is_in_file
from rookery.sim.specs import Group, Term
from rookery.sim.terms import Expression
from rookery.sim.terms.c import CWriter, helpers, identifier, member, quantities_of, terms
from rookery.tasks.registry import TASKS
from tests.sim2real.independent_terms import evaluate

WORLDS = 6
STEPS = 12
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("swarm-surround", {"action": "velocity"}),
    ("swarm-surround", {"fewest_drones": 2}),
    ("volley-1v1", {"observe_landing": True}),
    ("volley-3v3", {"observe_landing": True}),
    ("volley-hit", {"observe_landing": True}),
    ("volley-1v1", {"observe_landing": True, "observe_action": True}),
    ("volley-bump-and-pass", {"observe_action": True}),
    ("volley-solo-bump", {"observe_action": True, "history": 3}),
    ("go2-velocity", {"history": 3}),
    ("go2arm-reach", {"agents": "parts"}),
    ("go2arm-reach", {"history": 3}),
    ("go2arm-loco-manipulation", {"predictor": True}),
    ("panda-lift", {"action": "joint_position"}),
    ("table-push", {"observation": "full"}),
    ("table-reach", {"hide_goal": True}),
]
SETS = {name for name, entry in TASKS.items() if entry.members or entry.wrapper}
CASES = [(name, {}) for name in sorted(TASKS) if name not in SETS] + OPTIONS


@dataclass
class Seen:
    """What a group observed in some steps.

    Attributes:
        terms: all that it declares, by name.
        observed: by term and step, [N, A, d].
        measured: by step and quantity, [N, A, d]; before: of the step before, of now where an episode begins.
        taking_part: by step, [N, A], agents that do; the others observe nothing.
    """

    terms: dict[str, Term]
    observed: list[dict[str, Tensor]] = field(default_factory=list)
    measured: list[dict[str, Tensor]] = field(default_factory=list)
    before: list[dict[str, Tensor]] = field(default_factory=list)
    taking_part: list[Tensor] = field(default_factory=list)


def terms_of(group: Group) -> dict[str, Term]:
    sets = [t for s in group.sets().values() for t in s.terms]
    return {t.name: t for t in (*sets, *group.targets, *group.observation)}


def copied(values: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: v.float().clone() for k, v in values.items()}


def play(task_id: str, config: dict[str, Any]) -> dict[str, Seen]:
    """Random steps of a task, from episodes that end now and then."""
    env = rookery.make(task_id, WORLDS, seed=3, config=config)
    assert isinstance(env, VecEnv)
    env.reset()
    out = {name: Seen(terms_of(group)) for name, group in env.groups.items()}
    rng = torch.Generator().manual_seed(1)
    last: dict[str, dict[str, Tensor]] = {}
    begun = torch.ones(WORLDS, dtype=torch.bool)
    for step in range(STEPS):
        measured = {g: copied(v) for g, v in env.task.measured().items()}
        privileged = env.task.observe_privileged()
        for g, values in env.observe_terms().items():
            measured[g] = (
                copied(env.sensors.read(g)) | measured[g]
            )  # those that a task measures in another way too, by that
            now, old = measured[g], last.get(g, {})
            out[g].taking_part.append(torch.ones(WORLDS, env.groups[g].count) if env.active is None else env.active[g])
            out[g].observed.append(copied(values | privileged.get(g, {})))
            out[g].measured.append(now)
            out[g].before.append({k: torch.where(begun[:, None, None], v, old.get(k, v)) for k, v in now.items()})
        last = measured
        if step == STEPS // 2:  # some worlds begin anew
            env.steps[:2] = env.max_episode_steps - 1
        shapes = {g: (WORLDS, s.count, s.action.size) for g, s in env.groups.items()}
        actions = {g: torch.empty(shape).uniform_(-1.0, 1.0, generator=rng) for g, shape in shapes.items()}
        env.step(actions)
        begun = env.episode_start
    env.close()
    return out


def name_of(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


@pytest.fixture(scope="module", params=CASES, ids=name_of)
def seen(request: pytest.FixtureRequest) -> dict[str, Seen]:
    return play(*request.param)


def tolerance(x: Tensor, term: Term, values: dict[str, Tensor]) -> Tensor:
    """Of float32 computed in another order: some units in the last place of the value and of what it is made of."""
    most = max((float(values[q.name].abs().max()) for q in term.expression.leaves()), default=1.0)
    return 2e-6 + 4e-7 * most + 1e-5 * x.abs()


def test_terms_are_their_expressions(seen: dict[str, Seen]) -> None:
    for group in seen.values():
        for name, term in group.terms.items():
            steps = zip(group.observed, group.measured, group.before, group.taking_part, strict=True)
            for observed, now, before, taking_part in steps:
                value = term.expression.evaluate(now, before)
                error = (value - observed[name]).abs() * taking_part[..., None]
                assert value.shape == observed[name].shape, name
                assert (error <= tolerance(observed[name], term, now)).all(), (
                    f"{name}: {term.formula}, off by {error.max()}"
                )


def test_quantities_are_measured_as_declared(seen: dict[str, Seen]) -> None:
    """Each has its size, and no name stands for two of them."""
    for group in seen.values():
        for q in quantities_of([t.expression for t in group.terms.values()]):
            assert group.measured[0][q.name].shape[-1] == q.size, q.name


def test_the_c_of_terms_is_their_expressions(seen: dict[str, Seen], tmp_path: Path) -> None:
    for name, group in seen.items():
        expressions = [t.expression for t in group.terms.values()]
        quantities = quantities_of(expressions)
        total = sum(e.size for e in expressions)
        function = compiled(source_of(expressions), tmp_path / name)
        for now, before in zip(group.measured, group.before, strict=True):
            declared = list(group.terms.values())
            parts = [t.expression.evaluate(now, before) for t in declared]
            allowed = [tolerance(x, t, now) for x, t in zip(parts, declared, strict=True)]
            wanted = torch.cat(parts, dim=-1).flatten(0, 1)
            states = [torch.cat([v[q.name] for q in quantities], dim=-1).flatten(0, 1) for v in (now, before)]
            got = np.empty((len(wanted), total), np.float32)
            for row, (a, b) in enumerate(zip(*(s.contiguous().numpy() for s in states), strict=True)):
                function(a.ctypes.data, b.ctypes.data, got[row].ctypes.data)
            assert (abs(torch.from_numpy(got) - wanted) <= torch.cat(allowed, dim=-1).flatten(0, 1)).all()


def test_json_is_enough_to_compute_terms(seen: dict[str, Seen]) -> None:
    """Somebody else's evaluation, in NumPy, of what contracts say."""
    for group in seen.values():
        now, before = (
            {k: v[0, 0].double().numpy() for k, v in values[-1].items()} for values in (group.measured, group.before)
        )
        for name, term in group.terms.items():
            value = evaluate(json.loads(json.dumps(term.expression.to_json())), now, before)
            wanted = term.expression.evaluate(group.measured[-1], group.before[-1])[0, 0]
            error = (torch.from_numpy(value) - wanted).abs()
            assert (error <= tolerance(wanted, term, group.measured[-1])).all(), f"{name}: {term.formula}"


def source_of(expressions: list[Expression]) -> str:
    """A function of the raw values of expressions, of structs with their quantities."""
    members = "".join(f"{member(q, identifier(q.name))}\n" for q in quantities_of(expressions))
    body = "\n".join(terms(expressions, CWriter()))
    return "\n".join((
        "#include <math.h>", *helpers(body), f"typedef struct {{ {members} }} state;",
        "void observe(const state *now, const state *before, float *raw)",
        f"{{ int i; (void)i; (void)now; (void)before; {body} }}\n",
    ))  # fmt: skip


def compiled(code: str, at: Path) -> Any:
    """The function, of structs as arrays of floats."""
    source, library = at.with_suffix(".c"), at.with_suffix(".so")
    source.write_text(code)
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source,
               "-lm"]  # fmt: skip
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(library)).observe
    function.argtypes = [ctypes.c_void_p] * 3
    function.restype = None
    return function


def test_identifiers() -> None:
    assert identifier("tool's position + x") == "tools_position_x"
    assert identifier("1 for each") == "q_1_for_each"
    assert identifier("double") == "q_double"


def test_cases_are_all_tasks() -> None:
    packaged = {name for name in TASKS if not is_in_file(name)}  # other tests register files
    assert {name for name, _ in CASES} | SETS == packaged

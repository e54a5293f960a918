"""The terms of a task of one's own against their expressions, before a policy learns from them.

A task's contract, its C and its documentation follow the expressions, training follows `observe`: where they differ, a policy
learns well and fails on the robot. Tasks of this package have a test of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.making import make
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group, Term
from rookery.tasks.registry import OWN_TASKS, find

WORLDS = 4
STEPS = 5
"""Control steps with random actions after which they are compared, too: much is zero at an episode's start."""
TOLERANCE = 1e-4
"""Of a difference, as a share of the largest of the quantities."""

Values = dict[str, dict[str, Tensor]]
"""By group and name, [N, A, d]."""


def refuse_other_terms(task: str, engine: str | None, config: dict[str, Any]) -> None:
    """Refuse a task whose `observe` gives something else than its terms' expressions, where `measured` gives what they read.

    Args:
        task: name or FILE.py:CLASS.
        engine: on which it will be trained; None takes its first.
        config: values of its config.

    Raises:
        RookeryError: naming the first term that differs, or what `make` refuses.
    """
    entry = find(task)
    if task in OWN_TASKS or entry.members or entry.wrapper:
        return
    env = make(task, WORLDS, engine=engine, config=config, seed=0)
    try:
        if isinstance(env, VecEnv):
            _compare(env)
    finally:
        env.close()


def _compare(env: VecEnv) -> None:
    rng = torch.Generator().manual_seed(0)
    env.reset()
    before = _measured(env)
    for step in range(STEPS + 1):
        if step:
            env.step({g: _random(env, s, rng) for g, s in env.groups.items()})
        now, begins = _measured(env), env.episode_start[:, None, None]
        for g, group in env.groups.items():
            old = {
                k: torch.where(begins, v, before[g][k]) for k, v in now[g].items()
            }  # an episode begins with what is now
            observed = env.observe_terms()[g] | env.task.observe_privileged().get(g, {})
            active = torch.ones(WORLDS, group.count) if env.active is None else env.active[g]
            for term in _terms(group):
                read = [now[g].get(q.name) for q in term.expression.leaves()]
                known = [x for x in read if x is not None]
                if len(known) == len(read):
                    value, seen = term.expression.evaluate(now[g], old), observed[term.name]
                    most = max((float(x.abs().max()) for x in known), default=1.0)
                    wrong = ((value - seen).abs() > TOLERANCE * max(most, 1e-2)) & active.bool()[..., None]
                    if wrong.any():
                        raise _differs(env.task_id, g, term, tuple(wrong.nonzero()[0].tolist()), seen, value)
        before = now


def _differs(task: str, group: str, term: Term, where: tuple[int, ...], seen: Tensor, value: Tensor) -> RookeryError:
    """The error for a term whose observed value is not the expression's at `where`, an index of [N, A, d]."""
    return RookeryError(
        f"the term {term.name!r} of group {group!r} of {task} is not what its expression says, {term.formula}: observe() gives "
        f"{float(seen[where]):.4g} and the expression {float(value[where]):.4g} in component {where[2]} of agent {where[1]}. "
        "Mend one of them: contracts and exported C follow the expression."
    )


def _terms(group: Group) -> list[Term]:
    """All terms of a group that a task computes."""
    sets = [t for s in group.sets().values() for t in s.terms]
    found = {t.name: t for t in (*sets, *group.targets, *group.observation)}
    return [t for t in found.values() if not t.sensed]


def _measured(env: VecEnv) -> Values:
    """Copies of the quantities that expressions may read now."""
    measured = env.task.measured()
    return {g: {k: v.float().clone() for k, v in measured.get(g, {}).items()} for g in env.groups}


def _random(env: VecEnv, group: Group, rng: torch.Generator) -> Tensor:
    """Random numbers and first options."""
    action = torch.empty(env.num_envs, group.count, group.action.size).uniform_(-1.0, 1.0, generator=rng)
    action[..., : len(group.action.choices)] = 0.0
    return action

"""Worlds divided among processes give what they give together, to the bit."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from sampled import slow_but
from torch import Tensor

import rookery
from rookery.making import make_shard
from rookery.sim.compiling import compiling_s
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.tasks.registry import TASKS

ON_MUJOCO = [t.id for t in TASKS.values() if t.engines[0] == "mujoco" and not t.members and not t.wrapper]


def same(a: Any, b: Any, where: str = "") -> None:
    """Equal structure and equal bits."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for k in a:
            same(a[k], b[k], f"{where}/{k}")
    elif isinstance(a, Tensor):
        assert a.dtype == b.dtype, where
        assert a.shape == b.shape, where
        if a.is_floating_point():
            a, b = a.nan_to_num(9e9), b.nan_to_num(9e9)
        assert torch.equal(a, b), where
    else:
        assert a == b, where


def actions(env: Env, generator: torch.Generator) -> dict[str, Tensor]:
    return {
        g: torch.rand(env.num_envs, s.count, s.action.size, generator=generator) * 2 - 1 for g, s in env.groups.items()
    }


def same_info(a: dict[str, Any], b: dict[str, Any]) -> None:
    """final_state has a meaning in the rows that ended."""
    assert a.keys() == b.keys()
    if "episode" in a:
        ids = a["episode"]["ids"]
        same(a.pop("final_state")[ids], b.pop("final_state")[ids], "final_state")
    same(a, b, "info")


OF_EACH_KIND = (
    "go2-velocity",
    "go2arm-reach",
    "table-push",
    "table-drawer-open",
    "panda-stack",
    "hand-grasp",
    "dual-panda-handover",
)


@pytest.mark.parametrize("task", slow_but(OF_EACH_KIND, ON_MUJOCO))
def test_a_shard_gives_the_worlds_of_the_whole(task: str) -> None:
    arguments: dict[str, Any] = {"task": task, "engine": "mujoco", "seed": 5, "randomize": "default"}
    arguments |= {"fixed": None, "config": {}}
    whole = make_shard(num_envs=5, **arguments)
    if not whole.task.shardable:
        pytest.skip("its worlds depend on each other")
    parts = [make_shard(num_envs=n, first=first, total=5, **arguments) for n, first in ((2, 0), (3, 2))]
    rows = slice(0, 2), slice(2, 5)
    same(whole.reset()[0], _joined([p.reset()[0] for p in parts]), "reset")
    for env in (whole, *parts):
        env.steps.copy_(env.max_episode_steps - 3 - (torch.arange(env.num_envs) + env.first))
    generator = torch.Generator().manual_seed(0)
    for i in range(9):
        a = actions(whole, generator)
        obs, reward, terminated, truncated, _ = whole.step(a)
        steps = [p.step({g: x[at] for g, x in a.items()}) for p, at in zip(parts, rows, strict=True)]
        same(obs, _joined([s[0] for s in steps]), f"step {i}, observation")
        same(reward, _joined([s[1] for s in steps]), f"step {i}, reward")
        same(terminated, torch.cat([s[2] for s in steps]), f"step {i}, terminated")
        same(truncated, torch.cat([s[3] for s in steps]), f"step {i}, truncated")
    same(whole.metrics(), _joined([p.metrics() for p in parts]), "metrics")
    same(whole.randomization.values, torch.cat([p.randomization.values for p in parts]), "randomization")


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return {k: _joined([p[k] for p in parts]) for k in parts[0]}


@pytest.fixture(scope="module")
def pair() -> Any:
    """table-push with 7 worlds, in one process and in three."""
    options: dict[str, Any] = {"seed": 3, "randomize": "default", "config": {"episode_s": 0.25}}
    one = rookery.make("table-push", 7, **options)
    three = rookery.make("table-push", 7, shards=3, **options)
    one.reset(4)
    three.reset(4)  # tests of one file may run in several processes: none relies on another's reset
    yield one, three
    three.close()


def test_three_processes_give_the_same_bits(pair: tuple[Env, Env]) -> None:
    one, three = pair
    same(one.reset(4)[0], three.reset(4)[0], "reset")
    one.stagger()
    three.stagger()
    generator = torch.Generator().manual_seed(1)
    ended = set()
    for _ in range(30):
        a = actions(one, generator)
        x, y = one.step(a), three.step(a)
        for i, name in enumerate(("observation", "reward", "terminated", "truncated")):
            same(x[i], y[i], name)
        ended |= set(x[4]["episode"]["ids"].tolist()) if "episode" in x[4] else set()
        same_info(x[4], y[4])
    assert ended == set(range(7))
    same(one.state, three.state, "state")
    same(one.metrics(), three.metrics(), "metrics")
    assert one.active == three.active
    assert one.deployment() == three.deployment()
    assert [one.markers(i) for i in range(7)] == [three.markers(i) for i in range(7)]
    for i in range(7):
        assert (one.mj_data(i).xpos == three.mj_data(i).xpos).all()
    expert, sharded = one.controller(), three.controller()
    assert expert is not None
    assert sharded is not None
    same(expert(x[0]), sharded(y[0]), "controller")


def test_it_knows_whether_it_was_seeded_and_cannot_tell_of_ends(pair: tuple[Env, Env]) -> None:
    _, three = pair
    with pytest.raises(RookeryError, match="shards=1"):
        three.before_restart(print)
    three.seeded = False
    three.reset()
    assert not three.seeded
    three.reset(4)
    assert three.seeded


def test_states_are_interchangeable(pair: tuple[Env, Env]) -> None:
    one, three = pair
    generator = torch.Generator().manual_seed(2)
    one.reset(8)
    three.reset(9)
    for _ in range(5):
        one.step(actions(one, generator))
    three.load_state_dict(one.state_dict())
    same(one.state_dict(), three.state_dict(), "state")
    a = actions(one, generator)
    same(one.step(a)[0], three.step(a)[0], "after one's state")
    three.step(a)
    one.load_state_dict(three.state_dict())
    same(one.step(a)[0], three.step(a)[0], "after three's state")
    with pytest.raises(ValueError, match="number of worlds"):
        three.load_state_dict(
            rookery.make("table-push", 6, config={"episode_s": 0.25}, randomize="default").state_dict()
        )
    damaged = one.state_dict()
    damaged["steps"] = damaged["steps"].double()  # only the last check, in the shards, sees its type
    for use in (three.check_state_dict, three.load_state_dict):
        with pytest.raises((ValueError, RookeryError)):
            use(damaged)
        with pytest.raises(ValueError, match="another task or version"):
            use({**one.state_dict(), "strange": torch.zeros(7)})
    same(one.state_dict(), three.state_dict(), "unchanged")
    three.check_state_dict(one.state_dict())


@pytest.mark.slow
def test_recorded_terms_are_those_of_all_worlds(pair: tuple[Env, Env]) -> None:
    logs: list[list[Any]] = [[], []]
    for env, log in zip(pair, logs, strict=True):
        env.record_terms(lambda what, terms, log=log: log.append((what, _copied(terms))))  # type: ignore[misc]
        env.reset(1)
        env.step(torch.zeros(7, 1, 4))
        env.record_terms(None)
        env.step(torch.zeros(7, 1, 4))
    assert [what for what, _ in logs[0]] == ["observation", "reward", "observation"]
    assert len(logs[0]) == len(logs[1])
    for (what, a), (what_too, b) in zip(*logs, strict=True):
        assert what == what_too
        same(a, b, what)


def _copied(terms: Any) -> Any:
    return {k: _copied(v) for k, v in terms.items()} if isinstance(terms, dict) else terms.clone()


def test_wrong_actions_name_the_world_of_the_whole(pair: tuple[Env, Env]) -> None:
    _, three = pair
    a = torch.zeros(7, 1, 4)
    a[5] = torch.nan
    with pytest.raises(RookeryError, match="first in world 5"):
        three.step(a)
    three.step(torch.zeros(7, 1, 4))


def test_an_error_in_a_shard_is_raised_and_the_environment_goes_on(pair: tuple[Env, Env]) -> None:
    _, three = pair
    with pytest.raises(RookeryError, match="observation set"):
        three.observation_set("nothing")
    three.step(torch.zeros(7, 1, 4))


@pytest.mark.slow
def test_neither_a_closed_one_nor_that_of_another_process_is_used() -> None:
    env = rookery.make("go2-velocity", 4, shards=2)
    try:
        env.reset(seed=0)
        saved = env.state_dict()
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (env.reset, env.state_dict, lambda: env.load_state_dict(saved), lambda: env.mj_data(3)):
                try:
                    use()
                except RookeryError as error:
                    refused += "before a fork" in str(error)
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        env.load_state_dict(saved)
    finally:
        env.close()
    for use in (env.reset, env.state_dict, lambda: env.load_state_dict(saved), lambda: env.mj_data(3)):
        with pytest.raises(RookeryError, match="this environment is closed"):
            use()


OWN = """
import torch
from numba import njit
from rookery.tasks.drones.hover import Hover


@njit
def compiled(x):
    return 2.0 * x


class Own(Hover):
    def advance(self):
        compiled(1.0)
        super().advance()

    def rewards(self):
        terms = super().rewards()
        if self.steps[0] > 2 and self.world.num_envs == 2:
            terms["drone"]["speed"][1] = torch.nan
        return terms
"""


@pytest.mark.slow
def test_compiling_in_the_processes_is_told_and_nan_names_the_world_of_the_whole(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    env = rookery.make(f"{tmp_path}/own.py:Own", 5, engine="mujoco", shards=2)
    try:
        env.reset(seed=0)
        still = torch.tensor(env.groups["drone"].action.neutral).expand(5, 1, 4)
        before, began = compiling_s(), time.perf_counter()
        env.step(still)
        spent = compiling_s() - before
        assert 0.005 < spent < time.perf_counter() - began
        env.step(still)
        assert compiling_s() - before == spent, "once"
        with pytest.raises(RookeryError, match="'speed' of 'drone' is NaN or infinite, first in world 4: look for"):
            env.step(still)
    finally:
        env.close()


def test_refusals() -> None:
    with pytest.raises(RookeryError, match="at least 2 worlds"):
        rookery.make("table-reach", 3, shards=2)
    with pytest.raises(RookeryError, match="whole number"):
        rookery.make("table-reach", 3, shards="many")
    with pytest.raises(RookeryError, match="rotor"):
        rookery.make("drone-hover", 8, shards=2)
    with pytest.raises(RookeryError, match="set of tasks"):
        rookery.make("MT10", 20, shards=2)


@pytest.mark.slow  # it is the processes that say so
@pytest.mark.parametrize(("task", "config"), [("go2arm-reach", {}), ("go2-velocity", {"terrain": "rough"})])
def test_tasks_whose_worlds_depend_on_each_other_are_refused(task: str, config: dict[str, Any]) -> None:
    with pytest.raises(RookeryError, match="this config"):
        rookery.make(task, 4, shards=2, config=config)

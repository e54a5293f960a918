"""Observations, rewards, ends and metrics of the manipulation tasks only read: any order, any number of times."""

from __future__ import annotations

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.sim.envs.concat_env import ConcatEnv
from rookery.tasks import registry

NAMES = [
    name
    for name, entry in registry.TASKS.items()
    if ".manipulation." in entry.cls and not (entry.members and registry.TASKS.keys() >= set(entry.members))
]
"""All tasks, and those sets whose members are no tasks of their own."""


def flat(values: object) -> list[torch.Tensor]:
    """All tensors in nested dicts."""
    if isinstance(values, torch.Tensor):
        return [values.clone()]
    return [t for v in values.values() for t in flat(v)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", slow_but([n for n in NAMES if n != "hand-grasp-objects"], NAMES))
def test_reading_changes_nothing(name):
    worlds = max(2, len(registry.TASKS[name].members))
    env = rookery.make(name, worlds, seed=3)
    env.reset()
    tasks = [part.task for part in env.parts.values()] if isinstance(env, ConcatEnv) else [env.task]
    reads = [read for t in tasks for read in (t.observe, t.rewards, t.terminated, t.metrics)]
    for k in range(3):
        before = env.state_dict()
        values = [flat(read()) for read in reads]
        again = [flat(read()) for read in reversed(reads)][::-1]
        after = env.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before)
        assert all(torch.equal(a, b) for x, y in zip(values, again, strict=True) for a, b in zip(x, y, strict=True))
        env.step({g: torch.full((worlds, s.count, s.action.size), 0.3 - 0.3 * k) for g, s in env.groups.items()})
    env.close()


@pytest.mark.parametrize("name", ["table-push", "panda-cabinet", "panda-push-t", "dual-panda-handover"])
def test_a_restored_state_gives_the_same_observation_at_once(name):
    env = rookery.make(name, 2, seed=3)
    env.reset()
    for _ in range(2):
        env.step({g: torch.full((2, s.count, s.action.size), 0.5) for g, s in env.groups.items()})
    other = rookery.make(name, 2, seed=4)
    other.load_state_dict(env.state_dict())
    for a, b in zip(flat(env.task.observe()), flat(other.task.observe()), strict=True):
        assert torch.equal(a, b)

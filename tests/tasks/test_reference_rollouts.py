"""One short rollout for each base class of tasks against numbers that were written down: an alarm, and no judge.

It notices what changes a number and cannot say which number is right. After a change on purpose, `python
tests/tasks/test_reference_rollouts.py` writes the file anew, or only the cases named behind it. What is right is for the tests
beside this one, which compute it.
"""

from __future__ import annotations

import sys
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))

from references import Recording, Reference, write

import rookery

FILE = Path(__file__).parent / "reference_rollouts.json"
N = 4
STEPS = 18
CASES: dict[str, dict[str, Any]] = {
    "drone-hover": {},
    "drone-hover randomized": {"randomize": "all", "config": {"episode_s": 0.11}},
    "drone-track": {"config": {"path": "random"}},
    "drone-formation": {},
    "swarm-surround": {},
    "uav-coverage": {},
    "volley-solo-bump": {},
    "volley-1v1": {},
    "go2-velocity": {},
    "go2-velocity randomized": {"randomize": "all", "config": {"episode_s": 0.11}},
    "go2arm-loco-manipulation": {},
    "table-push": {},
    "panda-lift": {},
    "hand-reorient": {},
}


def uniform(name: str, step: int, shape: tuple[int, ...]) -> Tensor:
    """In [-1, 1], the same numbers for the same name and step whatever else is drawn."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {step}".encode()))
    return 2.0 * torch.rand(shape, generator=generator) - 1.0


def run(case: str, jolt: float = 0.0) -> Recording:
    """Record a case; the jolt is in the actions."""
    env = rookery.make(case.split(" ")[0], N, seed=2, **CASES[case])
    out = Recording()
    obs, _ = env.reset()
    out.take("start", "obs", obs)
    for step in range(STEPS):
        actions = {}
        for group, spec in env.groups.items():
            u = uniform(group, step, (N, spec.count, spec.action.size))
            actions[group] = torch.tensor(spec.action.neutral) + 0.3 * u + jolt * torch.sin(9.0 * u)
        obs, reward, terminated, truncated, info = env.step(actions)
        out.take("steps", "obs", obs)
        out.take("steps", "reward", reward)
        out.take("steps", "ends", terminated + 2 * truncated)
        if "episode" in info:
            out.take("ends", "return", info["episode"]["return"])
            out.take("ends", "metrics", info["episode"]["metrics"])
    if "randomized" not in case:
        out.take("last", "metrics", env.task.metrics())
    env.close()
    return out


REFERENCE = Reference(FILE, {case: partial(run, case) for case in CASES})


@pytest.mark.parametrize("case", sorted(CASES))
def test_numbers_are_those_written_down(case):
    found = REFERENCE.differences(case)
    assert not found, "\n".join(found[:20])


def test_all_that_is_written_down_is_run():
    assert sorted(REFERENCE.written) == sorted(CASES)


def test_most_numbers_are_compared():
    assert REFERENCE.share_left_out() < 0.1


if __name__ == "__main__":
    write(FILE, REFERENCE.runs, sys.argv[1:])

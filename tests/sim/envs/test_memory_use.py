"""Environments use no more memory after many steps than after a few."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest
import torch

import rookery
from rookery.sim.env import Env

WARM, STEPS, PARTS = 2_000, 8_000, 4
MOST_MB = 4.0
"""MB that the allocator may take between two looks; a leak of 1 kB a step is 8."""


def used_mb() -> float:
    """Resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def play(env: Env, steps: int) -> None:
    """Step with random actions, which end episodes."""
    shapes = {g: (env.num_envs, s.count, s.action.size) for g, s in env.groups.items()}
    for _ in range(steps):
        env.step({g: torch.rand(shape) * 2 - 1 for g, shape in shapes.items()})


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("task", ["drone-hover", "swarm-surround", "volley-1v1", "go2-velocity", "table-push"])
def test_memory_does_not_grow_with_steps(task: str) -> None:
    env = rookery.make(task, 4, seed=0, randomize="default")
    env.reset()
    play(env, WARM)
    looks = [used_mb()]
    for _ in range(PARTS):
        play(env, STEPS // PARTS)
        looks.append(used_mb())
    env.close()
    assert looks[-1] - looks[0] < MOST_MB, looks

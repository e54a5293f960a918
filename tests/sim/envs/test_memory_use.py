"""Environments hold no more memory, files or shared memory after many steps than after a few, and none when they are closed."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
from pathlib import Path

import pytest
import torch

import rookery
from rookery.sim.env import Env

WARM, PARTS = 2_000, 4
MOST_MB = 4.0
"""MB that the allocator may take between two looks; a leak of 1 kB a step is 8 in 8,000 steps, one of 50 B 5 in 100,000."""

C_LIBRARY = ctypes.CDLL(None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]


def used_mb() -> float:
    """Resident memory of this process, but what the allocator keeps of that which was given back: 10 to 40 MB, now more and now
    less."""
    gc.collect()
    if hasattr(C_LIBRARY, "malloc_trim"):
        C_LIBRARY.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def held() -> tuple[int, int, int]:
    """How many files this process has open, how many pieces of shared memory it sees, and how many children it has."""
    shared = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if "/memfd:" in line or "/dev/shm/" in line
    ]
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), len(shared), len(children)


def play(env: Env, steps: int) -> None:
    """Step with random actions, which end episodes."""
    shapes = {g: (env.num_envs, s.count, s.action.size) for g, s in env.groups.items()}
    for _ in range(steps):
        env.step({g: torch.rand(shape) * 2 - 1 for g, shape in shapes.items()})


@pytest.mark.parametrize(
    ("task", "worlds", "steps"),
    [
        ("drone-hover", 1, 100_000),
        ("go2-velocity", 1, 100_000),
        ("swarm-surround", 4, 8_000),
        ("volley-1v1", 4, 8_000),
        ("table-push", 4, 8_000),
    ],
)
def test_nothing_grows_with_steps(task: str, worlds: int, steps: int) -> None:
    env = rookery.make(task, worlds, seed=0, randomize="default")
    env.reset()
    play(env, WARM)
    looks, before = [used_mb()], held()
    for _ in range(PARTS):
        play(env, steps // PARTS)
        looks.append(used_mb())
    assert held() == before
    env.close()
    assert looks[-1] - looks[0] < MOST_MB, looks


@pytest.mark.parametrize(("task", "shards"), [("drone-hover", 1), ("table-reach", 2), ("go2-velocity", 1)])
def test_nothing_is_left_of_environments_that_were_closed(task: str, shards: int) -> None:
    def live() -> None:
        env = rookery.make(task, 4, seed=0, shards=shards)
        env.reset()
        play(env, 8)
        env.close()

    for _ in range(4):
        live()
    before, memory = held(), used_mb()
    for _ in range(24 // shards):
        live()
    assert held() == before
    assert used_mb() - memory < 2.0 * MOST_MB

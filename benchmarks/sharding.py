"""What processes gain over one process: measured here for `--shards`, computed for more cores.

    python benchmarks/sharding.py table-reach table-pick-place go2-velocity --seconds 3

A step of N worlds in one process takes c + v N + p N / C: Python's constant part, the part that grows with the worlds, and the
physics on C cores. In S = C processes it takes c + (v + p) N / C + h, h being for messages and copies. c, v, p and h
are measured, on cores without other work; the table follows from them, without memory bandwidth, in which many cores differ.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from machine import commit, machine

import rookery
from rookery.sim.env import Env

CORES = (2, 8, 32, 128)
SMALL = 32
LARGE = 512


def step_time(env: Env, seconds: float) -> float:
    """Median time of a step with random actions, s."""
    generator = torch.Generator().manual_seed(0)
    actions = {
        g: torch.rand(env.num_envs, s.count, s.action.size, generator=generator) * 2 - 1 for g, s in env.groups.items()
    }
    env.reset()
    env.stagger()
    for _ in range(20):
        env.step(actions)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        env.step(actions)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def physics_time(env: Any, seconds: float) -> float:
    """Median time of the physics of a step, s."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        env.world.step(env.task.physics_steps)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def constants(task: str, seconds: float) -> dict[str, float]:
    """c, v, p and h of a task, us."""
    cores = len(os.sched_getaffinity(0))
    rest, physics = {}, {}
    for n in (SMALL, LARGE):
        env = rookery.make(task, n)
        whole = step_time(env, seconds)
        physics[n] = physics_time(env, seconds)
        rest[n] = whole - physics[n]
        env.close()
    v = max(rest[LARGE] - rest[SMALL], 0.0) / (LARGE - SMALL)
    c = max(rest[SMALL] - v * SMALL, 0.0)
    p = physics[LARGE] * cores / LARGE
    divided = rookery.make(task, LARGE, shards=max(cores, 2))
    h = step_time(divided, seconds) - (c + (v + p) * LARGE / cores)
    divided.close()
    return {"c": c * 1e6, "v": v * 1e6, "p": p * 1e6, "h": max(h, 0.0) * 1e6}


def table(task: str, worlds: int, k: dict[str, float]) -> list[dict[str, Any]]:
    """Rows of a task: steps per second that follow from its constants, by number of cores."""
    rows = []
    for cores in CORES:
        one = k["c"] + k["v"] * worlds + k["p"] * worlds / cores
        parts = {
            "physics": k["p"] * worlds / cores,
            "Python by world": k["v"] * worlds / cores,
            "Python and messages": k["c"] + k["h"],
        }
        row: dict[str, Any] = {"task": task, "cores": cores, **k}
        row |= {"one": worlds / one * 1e6, "many": worlds / sum(parts.values()) * 1e6}
        rows.append(row | {"limit": max(parts, key=lambda name: parts[name])})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=["table-reach", "table-pick-place", "go2-velocity"])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--num-envs", type=int, default=4096)
    args = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for task in args.tasks:
        rows += table(task, args.num_envs, constants(task, args.seconds))
        print(rows[-1], flush=True)
    result = {
        "name": "sharding",
        "command": f"python benchmarks/sharding.py {' '.join(args.tasks)} --seconds {args.seconds:g}",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {
            "c": "Python's constant part of a step; v its part by world; p physics by world on one core; h messages and "
            "copies of processes: all measured on this machine",
            "one": f"computed from them for {args.num_envs} worlds; memory bandwidth is left out",
        },
        "columns": [
            {"key": "task", "title": "task"},
            {"key": "cores", "title": "cores", "format": "d"},
            {"key": "c", "title": "c, us", "format": ".0f"},
            {"key": "v", "title": "v, us", "format": ".2f"},
            {"key": "p", "title": "p, us", "format": ".1f"},
            {"key": "h", "title": "h, us", "format": ".0f"},
            {"key": "one", "title": "one process, steps/s", "format": ",.0f"},
            {"key": "many", "title": "one a core, steps/s", "format": ",.0f"},
            {"key": "limit", "title": "largest part of a step"},
        ],
        "rows": rows,
    }
    (Path(__file__).parent / "results" / "sharding.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

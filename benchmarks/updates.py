"""Microseconds of a gradient step of SAC and of PPO, by torch and compiled, for batch and width.

    python benchmarks/updates.py [--out benchmarks/results/updates.json]

One group with 16 observations and 4 actions, two hidden layers, one thread; each figure is the least of several
repetitions, and torch and the kernel take turns. Widths above nn/compiled.MAX_WIDTH are measured with that limit lifted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from machine import commit, machine

import rookery
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.algorithms.sac_learner import SACLearner
from rookery.policies.nn import compiled as limits
from rookery.policies.storage.rollout import Samples

TASK = "drone-hover"
STEPS = 16  # gradient steps of one repetition
WIDTHS = (64, 128, 256)
SAC_BATCHES = (64, 128, 256, 512)
PPO_BATCHES = (256, 512, 2048)


def sac_steps(group: Any, width: int, batch: int, compiled: bool) -> Callable[[], Any]:
    """A function that makes STEPS gradient steps on a full memory."""
    g = torch.Generator().manual_seed(0)
    config = SACConfig(hidden=(width, width), batch=batch, activation="tanh", compiled=compiled)
    learner = SACLearner(group, 8, 2000, config, g, torch.device("cpu"))
    replay = learner.replay
    replay.size = replay.steps
    for tensor in (replay.observation, replay.action, replay.reward):
        tensor.uniform_(-1.0, 1.0, generator=g)
    return lambda: learner.learn(*learner.draw(STEPS, g), g)


def ppo_steps(env: Any, width: int, batch: int, compiled: bool) -> Callable[[], Any]:
    """A function that makes STEPS optimiser steps on one minibatch."""
    g = torch.Generator().manual_seed(0)
    config = PPOConfig(hidden=(width, width), compiled=compiled, rollout_steps=1, minibatches=1)
    ppo = PPO(env, config)
    (learner,) = ppo.learners.values()
    learner.divide(1)
    obs = torch.rand(1, batch, learner.actor.inputs, generator=g)
    action = torch.rand(1, batch, learner.actor.outputs, generator=g)
    log_prob, advantage, target, value = torch.rand(4, 1, batch, generator=g)
    samples = Samples(obs, obs, action, log_prob, advantage, target, value, None)

    def run() -> None:
        with torch.no_grad():
            for _ in range(STEPS):
                ppo.learn(learner, samples, slice(0, batch))

    return run


def compare(make_steps: Callable[[bool], Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """us per gradient step of both, and their ratio."""
    kinds = {"torch": make_steps(False), "compiled": make_steps(True)}
    best = dict.fromkeys(kinds, float("inf"))
    for run in kinds.values():
        run()
    for _ in range(repetitions):
        for name, run in kinds.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - start) / STEPS * 1e6)
    return best | {"ratio": best["torch"] / best["compiled"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "updates.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    limits.MAX_WIDTH = max(WIDTHS)
    start = time.perf_counter()
    env = rookery.make(TASK, num_envs=64)
    (group,) = env.groups.values()
    cases = [("SAC", n, b, lambda c, n=n, b=b: sac_steps(group, n, b, c)) for n in WIDTHS for b in SAC_BATCHES]
    cases += [("PPO", n, b, lambda c, n=n, b=b: ppo_steps(env, n, b, c)) for n in WIDTHS for b in PPO_BATCHES]
    rows = []
    for name, width, batch, make_steps in cases:
        rows.append({"algorithm": name, "width": width, "batch": batch, **compare(make_steps, args.repetitions)})
        print(json.dumps(rows[-1]), flush=True)
    made = {
        "name": "updates",
        "command": "python benchmarks/updates.py",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {"torch, compiled": "time of a gradient step on one thread, the least of several repetitions"},
        "columns": [
            {"key": "algorithm", "title": "algorithm"},
            {"key": "width", "title": "units of two layers", "format": "d"},
            {"key": "batch", "title": "batch", "format": "d"},
            {"key": "torch", "title": "torch, us", "format": ",.0f"},
            {"key": "compiled", "title": "compiled, us", "format": ",.0f"},
            {"key": "ratio", "title": "ratio", "format": ".1f"},
        ],
        "rows": rows,
    }
    args.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()

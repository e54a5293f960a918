"""Microseconds of a gradient step of SAC by torch, by the compiled kernels, and by Stable-Baselines3, beside what its matrix
products alone take.

    python benchmarks/updates_vs_sb3.py [--repetitions 12] [--out benchmarks/results/updates-vs-sb3.json]

One group with the observations and actions of drone-hover (16 and 4), two hidden layers of ReLU, batches of 256 from a full
memory, one thread. The three take turns; each figure is the least of several repetitions. All steps include the draw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numba
import numpy as np
import stable_baselines3
import torch
from result_file import RESULTS, write_result
from stable_baselines3.common.logger import configure

import rookery
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.algorithms.sac_learner import SACLearner
from rookery.policies.nn.gemm import ZERO, multiply

WIDTHS = (64, 128, 256)
BATCH = 256
STEPS = 32  # gradient steps of one repetition
STORED = 16_000


def ours(group: Any, width: int, compiled: bool) -> Callable[[], Any]:
    """A function that makes STEPS gradient steps."""
    g = torch.Generator().manual_seed(0)
    config = SACConfig(hidden=(width, width), batch=BATCH, compiled=compiled)
    learner = SACLearner(group, 8, STORED // 8, config, g, torch.device("cpu"))
    assert (learner.compiled is not None) == compiled
    replay = learner.replay
    replay.size = replay.steps
    for tensor in (replay.observation, replay.action, replay.reward):
        tensor.uniform_(-1.0, 1.0, generator=g)
    return lambda: learner.learn(*learner.draw(STEPS, g), g)


class Spaces(gymnasium.Env[np.ndarray, np.ndarray]):
    """The spaces of a group; it is never stepped."""

    def __init__(self, group: Any) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (group.observation_size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (group.action.size,), np.float32)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return self.observation_space.sample(), {}


def theirs(group: Any, width: int) -> Callable[[], Any]:
    """The same of Stable-Baselines3."""
    model = stable_baselines3.SAC(
        "MlpPolicy", Spaces(group), batch_size=BATCH, buffer_size=STORED, device="cpu", seed=0,
        policy_kwargs={"net_arch": [width, width]},
    )  # fmt: skip
    model.set_logger(configure(None, []))
    replay = model.replay_buffer
    rng = np.random.default_rng(0)
    for values in (replay.observations, replay.next_observations, replay.actions, replay.rewards):
        values[:] = rng.uniform(-1.0, 1.0, values.shape)
    replay.full = True
    return lambda: model.train(STEPS, BATCH)


def operations(group: Any, width: int) -> float:
    """Floating-point operations of the matrix products that a gradient step cannot do without.

    Two passes of the policy, six of critics or their targets; derivatives by weights of the policy and both critics, by the
    hidden layers of the same, and by the input of the lower critic alone, through which the policy's gradient comes back.
    """
    obs, act = group.observation_size, group.action.size
    actor = [i * o for i, o in pairwise((obs, width, width, 2 * act))]
    critic = [i * o for i, o in pairwise((obs + act, width, width, 1))]
    forward = 2 * sum(actor) + 6 * sum(critic)
    backward = sum(actor) + 2 * sum(critic) + sum(actor[1:]) + 2 * sum(critic[1:]) + sum(critic)
    return 2.0 * BATCH * (forward + backward)


@numba.njit
def _products(a: Any, b: Any, c: Any, times: int) -> None:
    n = a.shape[0]
    for _ in range(times):
        multiply(a.ctypes.data, n, 1, b.ctypes.data, n, c.ctypes.data, n, n, n, n, ZERO, a.ctypes.data)


def best(run: Callable[[], Any], repetitions: int) -> float:
    """Seconds, the least."""
    run()
    found = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS / "updates-vs-sb3.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    (group,) = rookery.make("drone-hover", num_envs=1).groups.values()
    matrices = np.random.default_rng(0).random((3, 256, 256), np.float32)
    rate = 20 * 2.0 * 256**3 / best(lambda: _products(*matrices, 20), 40)
    rows = []
    for width in WIDTHS:
        runs = {"torch": ours(group, width, False), "compiled": ours(group, width, True), "sb3": theirs(group, width)}
        times = dict.fromkeys(runs, float("inf"))
        for _ in range(args.repetitions):
            times = {name: min(times[name], best(run, 1) / STEPS * 1e6) for name, run in runs.items()}
        floor = operations(group, width) / rate * 1e6
        ratios = {"of_torch": times["sb3"] / times["torch"], "of_compiled": times["sb3"] / times["compiled"]}
        rows.append({"width": width, **times, **ratios, "floor": floor, "share": floor / times["compiled"]})
        print(rows[-1], flush=True)
    columns = [
        {"key": "width", "title": "units of two layers", "format": "d"},
        {"key": "sb3", "title": "Stable-Baselines3, us", "format": ",.0f"},
        {"key": "torch", "title": "torch, us", "format": ",.0f"},
        {"key": "compiled", "title": "compiled, us", "format": ",.0f"},
        {"key": "of_torch", "title": "torch is faster by", "format": ".2f"},
        {"key": "of_compiled", "title": "compiled is faster by", "format": ".2f"},
        {"key": "floor", "title": "products alone, us", "format": ",.0f"},
        {"key": "share", "title": "of compiled", "format": ".2f"},
    ]
    metrics = {
        "torch, compiled": f"time of a gradient step on batches of {BATCH}, one thread, the least of several repetitions",
        "products alone": f"matrix products of a step at {rate / 1e9:.0f} GFLOP/s, the rate of the kernels' 256 x 256 x 256",
    }
    write_result(args.out, "python benchmarks/updates_vs_sb3.py", start, columns, rows, metrics)


if __name__ == "__main__":
    main()

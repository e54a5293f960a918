"""Steps per second of each adapter over those of the native environment, at 1,024 worlds.

    python benchmarks/adapters.py [--tasks drone-hover go2-velocity] [--num-envs 1024] [--rounds 30]
        [--out benchmarks/results/adapters.json]

An environment is stepped natively and through the adapter by turns, with the same random actions, on one thread. Times are
processor time, the least of all rounds. On a machine that does other work rows still differ by 10 % of a step of drone-hover.

drone-hover has the fastest engine. Of a slower environment, such as go2-velocity, the same own time is a smaller share.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import torch
from result_file import RESULTS, write_result

import rookery
from rookery.sim.adapters.gymnasium_vector import VectorEnv
from rookery.sim.adapters.isaacgym.rookery_task import RookeryVecTask
from rookery.sim.adapters.rsl_rl_env import RslRlEnv
from rookery.sim.adapters.sb3_env import Sb3VecEnv
from rookery.sim.adapters.skrl_env import SkrlEnv
from rookery.sim.adapters.torchrl_env import TorchRLEnv
from rookery.sim.env import Env

Step = Callable[[torch.Tensor], Any]
BURST = 40  # control steps of one side before the other has its turn, at most
BURST_S = 0.1  # s, that these may take


def native(env: Env) -> Step:
    return lambda action: env.step(action[:, None])


def gymnasium_numpy(env: Env) -> Step:
    vector = VectorEnv(env)
    return lambda action: vector.step(action.numpy())


def gymnasium_torch(env: Env) -> Step:
    return VectorEnv(env, tensors=True).step


def vec_task(env: Env) -> Step:
    return RookeryVecTask(env, {}, rl_device="cpu", sim_device="cpu").step


def rsl_rl(env: Env) -> Step:
    return RslRlEnv(env).step


def sb3(env: Env) -> Step:
    vector = Sb3VecEnv(env)
    return lambda action: vector.step(action.numpy())


def skrl(env: Env) -> Step:
    return SkrlEnv(env).step


def torchrl(env: Env) -> Step:
    wrapped = TorchRLEnv(env)
    data = wrapped.reset()

    def step(action: torch.Tensor) -> None:
        nonlocal data
        _, data = wrapped.step_and_maybe_reset(data.set("action", action))

    return step


ADAPTERS: dict[str, tuple[Callable[[Env], Step], float]] = {
    "gymnasium.make_vec, NumPy": (gymnasium_numpy, 5.0),
    "gymnasium.make_vec, tensors=True": (gymnasium_torch, 5.0),
    "Isaac Gym VecTask": (vec_task, 5.0),
    "rsl_rl": (rsl_rl, 5.0),
    "Stable-Baselines3": (sb3, 15.0),
    "skrl": (skrl, 5.0),
    "TorchRL": (torchrl, 5.0),
}
"""By name: what makes it, and the most overhead in % that it shall have."""


def burst(step: Step, actions: list[torch.Tensor]) -> float:
    """Seconds of processor time of a control step."""
    start = time.process_time()
    for action in actions:
        step(action)
    return (time.process_time() - start) / len(actions)


def compare(make: Callable[[Env], Step], task: str, n: int, rounds: int) -> dict[str, float]:
    """Least seconds of a control step of both."""
    env = rookery.make(task, n)
    env.reset()
    torch.manual_seed(0)
    actions = [torch.rand(n, next(iter(env.groups.values())).action.size) * 2 - 1 for _ in range(BURST)]
    ours, theirs = native(env), make(env)
    actions = actions[: max(round(BURST_S / burst(ours, actions[:4])), 2)]
    burst(ours, actions), burst(theirs, actions)
    times = [(burst(ours, actions), burst(theirs, actions)) for _ in range(rounds)]
    env.close()
    return {"native": min(a for a, _ in times), "adapter": min(b for _, b in times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=["drone-hover", "go2-velocity"])
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=RESULTS / "adapters.json")
    args = parser.parse_args()
    start = time.perf_counter()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    rows = []
    for task in args.tasks:
        for name, (make, target) in ADAPTERS.items():
            measured = compare(make, task, args.num_envs, args.rounds)
            speeds = {key: args.num_envs / measured[key] for key in ("native", "adapter")}
            own = measured["adapter"] - measured["native"]
            overhead = 100.0 * own / measured["native"]
            row = {"task": task, "library": name, **speeds, "own_us": 1e6 * own, "overhead": overhead, "target": target}
            rows.append(row)
            print(f"{task:14s} {name:34s} {overhead:6.1f} % (target {target:.0f} %), {1e6 * own:.0f} us", flush=True)
    columns = [
        {"key": "task", "title": "task", "format": "s"},
        {"key": "library", "title": "adapter", "format": "s"},
        {"key": "native", "title": "native, steps/s", "format": ",.0f"},
        {"key": "adapter", "title": "adapter, steps/s", "format": ",.0f"},
        {"key": "own_us", "title": "own time, us a step", "format": ".0f"},
        {"key": "overhead", "title": "overhead, %", "format": ".1f"},
        {"key": "target", "title": "target, %", "format": ".0f"},
    ]
    metrics = {
        "native": f"control steps a second of processor time of {args.num_envs} worlds, on one thread",
        "adapter": "the same environment through the adapter, by turns",
        "own_us": "the adapter's time of a step of all worlds less the native one, each the least of all rounds",
        "overhead": "that over the native time",
    }
    command = f"python benchmarks/adapters.py --tasks {' '.join(args.tasks)} --rounds {args.rounds}"
    write_result(args.out, command, start, columns, rows, metrics)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()

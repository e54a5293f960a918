"""Speed of Meta-World's MT10 tasks, one process on one core, in its own environment with its own MuJoCo.

    python -m venv .venv-metaworld && .venv-metaworld/bin/pip install -r benchmarks/peers/metaworld.txt
    .venv-metaworld/bin/python benchmarks/peers/metaworld_speed.py [--tasks push-v3] [--seconds 2] [--rounds 5] [--json]

Every task is measured as its bare class and as ``gym.make("Meta-World/MT1", ...)`` gives it, with random actions (episodes
of 500 steps) and with its scripted expert (episodes that end at success, as its evaluation counts them). All figures are of
one core: BLAS and OpenMP get one thread and the process is pinned. A control step is 5 physics steps of 2.5 ms.

"step" counts only what ``env.step`` takes; "all" also the actions and the resets, each of which simulates 50 control steps
to bring the hand to its place. Both are per second of processor time, in which other programs weigh less than on the clock;
on a quiet machine the two are the same. Medians over the rounds, which go through all the cases in turn; the best round
stands beside the median. `metaworld` does not name `packaging`, without which gymnasium's MuJoCo environments do not import:
the list of requirements has it.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # before numpy reads them

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import gymnasium as gym
import metaworld
import numpy as np
from metaworld.policies import ENV_POLICY_MAP

MT10 = (
    "reach-v3", "push-v3", "pick-place-v3", "door-open-v3", "drawer-open-v3", "drawer-close-v3", "button-press-topdown-v3",
    "peg-insert-side-v3", "window-open-v3", "window-close-v3",
)  # fmt: skip
ENVIRONMENTS = ("class", "gym.make")
ACTIONS = ("random", "expert")


def bare(name: str) -> tuple[Any, Callable[[], Any]]:
    """A task's class without wrappers, and what begins an episode: one of its 50 goals in turn, then a reset."""
    benchmark = metaworld.MT1(name, seed=0)
    env = benchmark.train_classes[name]()
    tasks = benchmark.train_tasks
    count = 0

    def reset() -> Any:
        nonlocal count
        env.set_task(tasks[count % len(tasks)])
        count += 1
        return env.reset()[0]

    return env, reset


def wrapped(name: str) -> tuple[Any, Callable[[], Any]]:
    """The same as its users make it: time limit, statistics, a goal of chance at every reset."""
    env = gym.make("Meta-World/MT1", env_name=name, seed=0)
    return env, lambda: env.reset()[0]


class Case:
    """One task with one kind of environment and of actions; `run` plays on from where it stopped."""

    def __init__(self, task: str, environment: str, actions: str) -> None:
        self.task = task
        self.environment = environment
        self.actions = actions
        begin = time.process_time()
        self._env, self._reset = (bare if environment == "class" else wrapped)(task)
        self.construct_s = time.process_time() - begin
        self._expert = ENV_POLICY_MAP[task]() if actions == "expert" else None
        self._random = np.random.default_rng(0).uniform(-1, 1, (500, 4)).astype(np.float32)
        self._obs = self._reset()
        self._count = 0
        self.step_rates: list[float] = []
        self.rates: list[float] = []
        self.resets: list[float] = []
        self.lengths: list[int] = []
        self.successes: list[bool] = []

    def run(self, seconds: float) -> None:
        """Play for about so many seconds and note the rates."""
        inside = 0.0
        steps = 0
        begin = time.process_time()
        while time.process_time() - begin < seconds:
            if self._expert is None:
                action = self._random[self._count]
            else:
                action = np.clip(self._expert.get_action(self._obs), -1.0, 1.0).astype(np.float32)
            before = time.process_time()
            self._obs, _, _, truncated, info = self._env.step(action)
            inside += time.process_time() - before
            self._count = self._count + 1
            steps = steps + 1
            success = bool(info["success"]) and self._expert is not None
            if success or truncated:
                self.lengths.append(self._count)
                self.successes.append(success)
                before = time.process_time()
                self._count = 0
                self._obs = self._reset()
                self.resets.append(time.process_time() - before)
        self.step_rates.append(steps / inside)
        self.rates.append(steps / (time.process_time() - begin))

    def figures(self) -> dict[str, Any]:
        """What was measured, by name; lengths and successes of an expert's whole episodes."""
        out: dict[str, Any] = {"task": self.task, "environment": self.environment, "actions": self.actions}
        out |= {"step": statistics.median(self.step_rates), "step_best": max(self.step_rates)}
        out |= {"all": statistics.median(self.rates), "all_best": max(self.rates), "construct_s": self.construct_s}
        out["reset_s"] = statistics.median(self.resets) if self.resets else None
        if self._expert is not None and self.lengths:
            out |= {"episodes": len(self.lengths), "success": statistics.mean(self.successes)}
            out["length"] = statistics.median(self.lengths)
        return out


def vector(seconds: float) -> dict[str, Any]:
    """All ten in one ``gym.make_vec("Meta-World/MT10")``, in this process, with random actions."""
    begin = time.process_time()
    envs = gym.make_vec("Meta-World/MT10", vector_strategy="sync", seed=0)
    construct = time.process_time() - begin
    begin = time.process_time()
    envs.reset()
    reset = time.process_time() - begin
    actions = np.random.default_rng(0).uniform(-1, 1, (500, 10, 4)).astype(np.float32)
    steps = 0
    begin = time.process_time()
    while time.process_time() - begin < seconds and steps < 499:  # within one episode: no reset falls in
        envs.step(actions[steps])
        steps += 1
    rate = 10 * steps / (time.process_time() - begin)
    envs.close()
    return {"task": "MT10", "environment": "gym.make_vec sync", "actions": "random", "step": rate,
            "construct_s": construct, "reset_s": reset}  # fmt: skip


def heading() -> str:
    """One line: processor, load and versions."""
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    packages = ", ".join(f"{p} {version(p)}" for p in ("metaworld", "mujoco", "gymnasium", "numpy"))
    load = os.getloadavg()[0]
    return f"{cpu}, 1 core, load at the start {load:.1f}, python {platform.python_version()}, {packages}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=MT10, default=list(MT10))
    parser.add_argument("--seconds", type=float, default=2.0, help="of one slice")
    parser.add_argument("--rounds", type=int, default=5, help="slices of each case")
    parser.add_argument("--json", action="store_true", help="one JSON line a case")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # gymnasium's, about its own interface
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if not args.json:
        print(heading(), flush=True)
    cases = [Case(task, e, a) for task in args.tasks for e in ENVIRONMENTS for a in ACTIONS]
    for _ in range(args.rounds):
        for case in cases:
            case.run(args.seconds)
    rows = [*(case.figures() for case in cases), vector(args.seconds)]
    if args.json:
        print("\n".join(json.dumps(row) for row in rows))
        return
    print("\nControl steps per second of processor time on one core: median (best)\n")
    print("| task | environment | actions | step | all | construct s | reset ms | expert's success, steps |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        step, whole = (
            f"{row[k]:,.0f} ({row[k + '_best']:,.0f})" if k + "_best" in row else "" for k in ("step", "all")
        )
        step = step or f"{row['step']:,.0f}"
        reset = "" if row["reset_s"] is None else f"{1e3 * row['reset_s']:.0f}"
        expert = f"{row['success']:.2f} of {row['episodes']}, {row['length']:.0f}" if "length" in row else ""
        print(
            f"| {row['task']} | {row['environment']} | {row['actions']} | {step} | {whole} | {row['construct_s']:.2f} "
            f"| {reset} | {expert} |"
        )


if __name__ == "__main__":
    main()

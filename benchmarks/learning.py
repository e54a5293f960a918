"""Learned results: train a task with several seeds by the command line, evaluate every policy on all engines.

    python benchmarks/learning.py drone-hover --seeds 5
    python benchmarks/learning.py drone-track --seeds 1 --baseline
    python benchmarks/learning.py drone-hover -- --steps 1000000   # further options of each training

Wall time is that of the whole `rookery train` process, imports included. Evaluation: deterministic policy, 256 episodes,
nominal physics, and once more with the default randomization.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from evaluation import eval_figures
from machine import machine


def rookery(*args: str) -> str:
    """Output of a rookery command."""
    return subprocess.run(
        [sys.executable, "-m", "rookery", *args], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def row(name: str, result: dict[str, Any]) -> str:
    """A table row of one evaluation."""
    error = result["metrics"].get("error_m", float("nan"))
    return f"| {name} | {result['success_rate']:.3f} | {100 * error:.2f} | {result['episode_length_mean']:.0f} |"


def main() -> None:
    usage = "%(prog)s [task] [options] [-- OPTIONS OF EACH TRAINING]"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage=usage)
    parser.add_argument("task", nargs="?", default="drone-hover")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--baseline", action="store_true", help="also evaluate the PID cascade")
    parser.add_argument("--pybullet-episodes", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=256, help="on other engines than pybullet")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"))
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = words[split + 1 :]
    args = parser.parse_args(words[:split])  # argparse itself takes no words after -- where options follow the task
    episodes = ("--episodes", str(args.episodes))
    print(machine(), flush=True)
    print("| run | success rate | position error, cm | episode length |\n|---|---|---|---|", flush=True)
    pybullet = ("--engine", "pybullet", "--episodes", str(args.pybullet_episodes))
    if args.baseline:
        print(row("PID cascade, rotor", eval_figures(args.task, "--controller", "classical", *episodes)), flush=True)
    for seed in range(args.seeds):
        out = args.out / f"{args.task}-{seed}-{int(time.time())}"
        start = time.perf_counter()
        rookery("train", args.task, "--seed", str(seed), "--out", str(out), *options)
        wall = time.perf_counter() - start
        name = f"seed {seed}, {wall:.0f} s"
        print(row(f"{name}, rotor", eval_figures(str(out), *episodes)), flush=True)
        randomized = eval_figures(str(out), "--randomize", "default", *episodes)
        print(row(f"{name}, rotor randomized", randomized), flush=True)
        print(row(f"{name}, mujoco", eval_figures(str(out), "--engine", "mujoco", *episodes)), flush=True)
        print(row(f"{name}, pybullet", eval_figures(str(out), *pybullet)), flush=True)


if __name__ == "__main__":
    main()

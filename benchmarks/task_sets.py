"""A policy of a set of tasks: its success in each of them.

    python benchmarks/task_sets.py MT10 [--policy policies/zoo/MT10] [--episodes 50] [--out FILE]

Worlds hold the tasks in turn, so that each gets the same number of episodes, with nominal physics and under the default
randomization. Success is Meta-World's: the criterion is met at any time of the episode.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from evaluation import eval_figures
from result_file import RESULTS, write_result

from rookery.cli.main import guarded
from rookery.experiments.runs import find_run
from rookery.sim.errors import RookeryError
from rookery.tasks.registry import find

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"
CASES = {"none": "nominal", "default": "default randomization"}
COLUMNS = [
    {"key": "task", "title": "task"},
    *({"key": key, "title": f"success, {title}", "format": ".3f"} for key, title in CASES.items()),
    {"key": "episodes", "title": "episodes of each", "format": "d"},
]
METRICS = {
    "none": "share of episodes in which the task's criterion is met at any time; nominal physics",
    "default": "the same under the default randomization of these tasks",
}


def evaluated(policy: Path, tasks: int, episodes: int, seed: int, randomize: str) -> dict[str, float]:
    """Success rate by task, and that of all under "all"."""
    words = ["--episodes", str(tasks * episodes), "--num-envs", str(5 * tasks), "--seed", str(seed)]
    result = eval_figures(policy, *words, "--randomize", randomize)
    rates = {name: row["success_rate"] for name, row in result["tasks"].items()}
    assert all(row["episodes"] == episodes for row in result["tasks"].values())
    return rates | {"all": result["success_rate"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", help="name of a set of tasks, such as MT10")
    parser.add_argument("--policy", type=Path, help="folder of the policy; the zoo's without it")
    parser.add_argument("--episodes", type=int, default=50, help="of each task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    def measure() -> int:
        start = time.perf_counter()
        tasks = find(args.set).members
        if not tasks:
            raise RookeryError(f"{args.set!r} is a single task: name a set, such as MT10, or use `rookery eval`.")
        policy = find_run(args.policy or ZOO / args.set)
        rates = {c: evaluated(policy, len(tasks), args.episodes, args.seed, c) for c in CASES}
        rows: list[dict[str, Any]] = [
            {"task": name, **{c: rates[c][name] for c in CASES}, "episodes": args.episodes} for name in (*tasks, "all")
        ]
        out = args.out or RESULTS / f"{args.set.lower()}.json"
        words = ["python", "benchmarks/task_sets.py", args.set]
        words += ["--policy", str(args.policy)] if args.policy else []
        words += ["--episodes", str(args.episodes), "--seed", str(args.seed)]
        write_result(out, shlex.join(words), start, COLUMNS, rows, METRICS)
        print(f"{args.set}: {rates['none']['all']} nominal, {rates['default']['all']} default randomization")
        return 0

    return guarded(measure)


if __name__ == "__main__":
    sys.exit(main())

"""Speed of PPO with two workers of one thread against one process of two threads, and bytes that workers send.

    python benchmarks/workers.py [--repetitions 3] [--iterations 24] [--tasks drone-hover ...]

Rates are control steps a second from the second half of the rows of a training's log, so that starting and compiling do not
count; the trainings alternate, and the median over repetitions is kept. Needs `rookery[ray]` and two quiet processors.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import write_result

TASKS = {"drone-hover": ("--num-envs", "1024"), "go2-velocity": ("--num-envs", "512", "--rollout-steps", "16")}


def rate(task: str, words: tuple[str, ...], iterations: int, workers: int) -> float:
    """Control steps a second of one training."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        steps = iterations * int(words[1]) * 32
        command = [sys.executable, "-m", "rookery", "train", task, *words, "--steps", str(steps), "--out", str(run)]
        command += ["--workers", str(workers)] if workers > 1 else ["--shards", "1"]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "2"}, stderr=subprocess.DEVNULL)
        with open(run / "progress.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    late = rows[len(rows) // 2 :]
    spent = sum(float(r["collect_s"]) + float(r["learn_s"]) for r in late)
    return (float(late[-1]["steps"]) - float(rows[len(rows) // 2 - 1]["steps"])) / spent


RESULT = Path(__file__).parent / "results" / "workers.json"
COLUMNS = (
    {"key": "task", "title": "task", "format": ""},
    {"key": "one", "title": "one process, 2 threads", "format": ",.0f"},
    {"key": "two", "title": "two workers, 1 thread each", "format": ",.0f"},
    {"key": "ratio", "title": "ratio", "format": ".2f"},
    {"key": "range", "title": "least to greatest", "format": ""},
)
METRICS = {
    "one process, two workers": "control steps/s of PPO, collecting and learning; median over repetitions, second half of each",
    "ratio": "median over repetitions, of trainings one after the other",
}


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    args = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for task in args.tasks:
        rates: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(args.repetitions):
            for workers in (1, 2):
                rates[workers].append(rate(task, TASKS[task], args.iterations, workers))
        ratios = [b / a for a, b in zip(rates[1], rates[2], strict=True)]
        one, two = (statistics.median(rates[k]) for k in (1, 2))
        row = {"task": task, "one": one, "two": two, "ratio": statistics.median(ratios), "ratios": ratios}
        rows.append(row | {"range": f"{min(ratios):.2f} to {max(ratios):.2f}"})
        print(rows[-1], flush=True)
    command = f"python benchmarks/workers.py --repetitions {args.repetitions} --iterations {args.iterations}"
    write_result(RESULT, command, start, COLUMNS, rows, METRICS)


if __name__ == "__main__":
    main()

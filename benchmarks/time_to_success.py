"""Wall time of a training with other settings than the preset's, and the success of what it learned.

    python benchmarks/time_to_success.py drone-hover --variant "" --variant "--epochs 5 --steps 2000000" --seeds 5

Each variant is a list of options of `rookery train`; "" is the preset. With --before, the first row is the preset of another
checkout, trained and judged by that checkout's Python. Seeds are the outer loop and variants alternate, so that
whatever else the machine does falls on all of them. After its training each policy is judged by `rookery eval` with other
starts than those of the training, with nominal physics and with the default randomization. The result says, by variant,
how many seeds reach the success asked for, and how long training took.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from result_file import RESULTS, write_result

EVALUATION_SEED = 12_345
BEFORE = "the preset before"  # row of the checkout given by --before


def run(python: str, *words: str) -> dict[str, Any]:
    """The JSON that a `rookery` command prints; outside every checkout, since Python imports from the current folder first."""
    command = [python, "-m", "rookery", *words, "--json"]
    folder = tempfile.gettempdir()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, cwd=folder)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(python: str, task: str, options: list[str], seed: int, episodes: int) -> dict[str, Any]:
    """Train and judge once."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        trained = run(python, "train", task, "--seed", str(seed), "--out", out, *options)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        judge = ("eval", out, "--episodes", str(episodes), "--seed", str(EVALUATION_SEED))
        judged = run(python, *judge)
        randomized = run(python, *judge, "--randomize", "default")
    return {
        "seed": seed,
        "wall_s": wall,
        "training_s": trained["seconds"],
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "steps": trained["steps"],
        "success": judged["success_rate"],
        "success_default": randomized["success_rate"],
        "metrics": judged["metrics"],
    }


def summary(variant: str, runs: list[dict[str, Any]], wanted: float, base: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of the table; the ratio is the median over seeds of that to the first variant's."""
    ratios = [mine["wall_s"] / theirs["wall_s"] for mine, theirs in zip(runs, base, strict=True)]
    return {
        "variant": variant or "preset",
        "seeds": len(runs),
        "reached": sum(r["success"] >= wanted for r in runs),
        "least": min(r["success"] for r in runs),
        "default": statistics.median(r["success_default"] for r in runs),
        "wall_s": statistics.median(r["wall_s"] for r in runs),
        "training_s": statistics.median(r["training_s"] for r in runs),
        "cpu_s": statistics.median(r["cpu_s"] for r in runs),
        "ratio": statistics.median(ratios),
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", nargs="?", default="drone-hover")
    parser.add_argument("--variant", action="append", help='options of `rookery train`; "" is the preset')
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--success", type=float, default=0.95)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--before", metavar="PYTHON", help="Python of another checkout, whose preset is the first row")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    variants: list[str] = [*([BEFORE] if args.before else []), *(args.variant or [""])]
    start = time.perf_counter()
    runs: dict[str, list[dict[str, Any]]] = {variant: [] for variant in variants}
    for seed in range(args.seeds):
        for variant in variants:
            python = args.before if variant == BEFORE else sys.executable
            options = [] if variant == BEFORE else shlex.split(variant)
            runs[variant].append(measure(python, args.task, options, seed, args.episodes))
            shown = {k: v for k, v in runs[variant][-1].items() if k != "metrics"}
            print(f"{variant or 'preset'}: {shown}", flush=True)
    words = " ".join(f"--variant {shlex.quote(v)}" for v in variants if v != BEFORE)
    before = "--before PYTHON " if args.before else ""
    command = f"python benchmarks/time_to_success.py {args.task} {before}{words} --seeds {args.seeds}"
    metrics = {
        "reached": f"seeds whose deterministic policy succeeds in at least {args.success} of {args.episodes} episodes",
        "default": "median over seeds of the success in as many episodes with the default randomization",
        "wall_s": "median over seeds of the whole command `rookery train`, imports and making of worlds included, s",
        "ratio": "median over seeds of the command's wall time over that of the first variant with the same seed",
    }
    columns = [
        {"key": "variant", "title": f"`rookery train {args.task}` with"},
        {"key": "seeds", "title": "seeds", "format": "d"},
        {"key": "reached", "title": f"reached {args.success}", "format": "d"},
        {"key": "least", "title": "least success", "format": ".3f"},
        {"key": "default", "title": "success, default randomization", "format": ".3f"},
        {"key": "wall_s", "title": "command, s", "format": ".1f"},
        {"key": "training_s", "title": "training, s", "format": ".1f"},
        {"key": "cpu_s", "title": "processor time, s", "format": ".1f"},
        {"key": "ratio", "title": "over the first", "format": ".2f"},
    ]
    rows = [summary(v, runs[v], args.success, runs[variants[0]]) for v in variants]
    write_result(args.out or RESULTS / "time-to-success.json", command, start, columns, rows, metrics)


if __name__ == "__main__":
    main()

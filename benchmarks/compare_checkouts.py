"""Collection and learning speed of two checkouts, in turn, in one run: the ratio of medians is what counts.

    python benchmarks/compare_checkouts.py \
        --before '/old/python -m rookery train {task} --steps {steps} --num-envs {envs} --out {out} --ppo steps={rollout}' \
        --after '/new/python -m rookery train {task} --steps {steps} --num-envs {envs} --out {out} --rollout-steps {rollout}'

Each command trains for a few iterations and leaves progress.csv in {out}; its columns collect_s and learn_s (s, per
iteration) are read, the first iterations left out. The commands run alternately, A B A B ..., since the speed of shared
machines drifts. Writes benchmarks/results/compare_checkouts.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path

from machine import machine

TASKS = {  # worlds, rollout steps, iterations
    "drone-hover": (512, 32, 30),
    "go2-velocity": (512, 24, 8),
    "table-reach": (256, 32, 12),
    "volley-3v3": (1024, 32, 12),
}
SKIPPED = 2  # first iterations: compilation, caches
COLUMNS = ("collect_s", "learn_s")


def measure(command: str, task: str, folder: Path) -> dict[str, list[float]]:
    """Seconds of each iteration, by column."""
    envs, rollout, iterations = TASKS[task]
    steps = envs * rollout * iterations
    words = shlex.split(command.format(task=task, steps=steps, rollout=rollout, envs=envs, out=folder))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}\n{done.stderr}")
    with (folder / "progress.csv").open() as f:
        rows = list(csv.DictReader(f))[SKIPPED:]
    return {c: [float(r[c]) for r in rows] for c in COLUMNS}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    args = parser.parse_args()
    rows = []
    for task in args.tasks:
        seconds: dict[str, dict[str, list[float]]] = {side: {c: [] for c in COLUMNS} for side in ("before", "after")}
        for _ in range(args.rounds):
            for side in ("before", "after"):
                with tempfile.TemporaryDirectory() as folder:
                    measured = measure(vars(args)[side], task, Path(folder) / "run")
                for column, values in measured.items():
                    seconds[side][column].append(statistics.median(values))
        row: dict[str, object] = {"task": task, "worlds": TASKS[task][0]}
        for column in COLUMNS:
            before = statistics.median(seconds["before"][column])
            after = statistics.median(seconds["after"][column])
            ratios = [b / a for b, a in zip(seconds["before"][column], seconds["after"][column], strict=True)]
            row |= {
                f"{column}_before": round(before, 4),
                f"{column}_after": round(after, 4),
                f"{column}_speed_ratio": round(statistics.median(ratios), 3),
                f"{column}_ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            }
        print(json.dumps(row), flush=True)
        rows.append(row)
    out = Path(__file__).parent / "results" / "compare_checkouts.json"
    out.parent.mkdir(exist_ok=True)
    result = {
        "name": "compare_checkouts",
        "machine": machine(),
        "before": args.before,
        "after": args.after,
        "rows": rows,
    }
    out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Evaluates every policy that comes with the package: one table.

    python benchmarks/zoo.py [--episodes 256] [--only drone-hover table-push] [--out benchmarks/results/zoo.json]

With --only the other rows stay as they are in the file.
Each policy is measured by `rookery eval`, with nominal physics and with the task's default randomization. `--rookery` gives
another command, such as that of another checkout, to compare two versions.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation import eval_figures
from machine import commit, machine

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = [
    {"key": "policy", "title": "policy"},
    {"key": "randomize", "title": "randomization"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "metric_name", "title": "figure"},
    {"key": "metric", "title": "value", "format": ".4g"},
    {"key": "length", "title": "episode length, control steps", "format": ".0f"},
    {"key": "episodes", "title": "episodes", "format": "d"},
    {"key": "commit", "title": "commit"},
]
METRICS = {
    "success": "share of episodes that meet the task's success criterion, as the task's guide and docstring define it; of "
    "table-* tasks Meta-World's: at any time of the episode",
    "metric": "mean over episodes of the metric in the column before; the rows of the JSON file hold all metrics",
}


def evaluate(
    rookery: list[str], folder: Path, randomize: str, episodes: int, seed: int, options: Sequence[str] = ()
) -> dict[str, Any]:
    """One row: what `rookery eval` reports of a policy, with further options.

    Raises:
        CalledProcessError: the evaluation failed.
    """
    words = ["--episodes", str(episodes), "--seed", str(seed), "--randomize", randomize, *options]
    start = time.perf_counter()
    result = eval_figures(folder, *words, rookery=rookery)
    return {
        "policy": folder.name,
        "randomize": randomize,
        "success": result["success_rate"],
        "metric_name": result["metric_name"],
        "metric": result["metric"],
        "length": result["episode_length_mean"],
        "return": result["return_mean"],
        "return_std": result["return_std"],
        "metrics": result["metrics"],
        "causes": result["causes"],
        "engine": result["engine"],
        "episodes": episodes,
        "commit": commit(),
        "wall_s": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=(), help="policies; all without it")
    parser.add_argument("--randomize", nargs="*", default=("none", "default"), choices=("none", "default"))
    parser.add_argument("--rookery", default=f"{shlex.quote(sys.executable)} -m rookery", help="command to run")
    parser.add_argument("--zoo", type=Path, default=ZOO, help="folder of the policies")
    parser.add_argument("--out", type=Path, default=RESULTS / "zoo.json")
    args = parser.parse_args()
    folders = [
        f.parent for f in sorted(args.zoo.glob("*/contract.json")) if not args.only or f.parent.name in args.only
    ]
    rows = []
    for folder in folders:
        for randomize in args.randomize:
            row = evaluate(shlex.split(args.rookery), folder, randomize, args.episodes, args.seed)
            rows.append(row)
            print(
                f"{row['policy']:28} {randomize:8} success {row['success']} {row['metric_name']} {row['metric']}",
                flush=True,
            )
    if args.only and args.out.exists():
        measured = {(r["policy"], r["randomize"]) for r in rows}
        rows += [r for r in json.loads(args.out.read_text())["rows"] if (r["policy"], r["randomize"]) not in measured]
        rows.sort(key=lambda r: (str(r["policy"]), r["randomize"] == "default"))
    numbers = sorted({r["episodes"] for r in rows})
    options = f"--episodes {' or '.join(map(str, numbers))} --seed {args.seed}"
    result = {
        "name": "zoo",
        "command": f"python benchmarks/zoo.py {options}",
        "commit": ", ".join(dict.fromkeys(r["commit"] for r in rows)),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(sum(r["wall_s"] for r in rows), 1),
        "seed": args.seed,
        "metrics": METRICS,
        "columns": COLUMNS,
        "rows": rows,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The spread over training seeds: policies trained again by their recipes with other seeds, and evaluated.

    python benchmarks/seeds.py table-push drone-track [--seeds 0 1 2] [--runs runs/seeds]

Each seed is `rookery reproduce POLICY --seed S`; POLICY may be the file of a recipe. Each policy made is evaluated over 256
episodes (`--episodes`), with nominal physics and under the default randomization, with the same starts for all seeds. What was
trained before is not trained again, so the command goes on after a stop. Rows of policies that are not named stay as they are
in the file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from evaluation import evaluate, training_seconds
from machine import commit
from result_file import RESULTS, told, write_result

ROOKERY = [sys.executable, "-m", "rookery"]
COLUMNS = [
    {"key": "policy", "title": "policy"},
    {"key": "seeds", "title": "seeds"},
    {"key": "none_mean", "title": "success, nominal", "format": ".3f"},
    {"key": "none_range", "title": "least to greatest"},
    {"key": "default_mean", "title": "success, default randomization", "format": ".3f"},
    {"key": "default_range", "title": "least to greatest"},
    {"key": "metric_name", "title": "figure"},
    {"key": "metric_mean", "title": "its mean, default randomization", "format": ".4g"},
    {"key": "metric_range", "title": "least to greatest"},
    {"key": "training_s", "title": "training, s", "format": ".0f"},
    {"key": "commit", "title": "commit"},
]
METRICS = {
    "seeds": "of the trainings, each by the whole recipe; a policy of the zoo whose contract names the same commit is seed 0,"
    " and of volleyball's three the zoo's policy, of an earlier commit",
    "none_mean": "mean over the seeds of the success rate in 256 episodes, or in those that a command asks for",
    "training_s": "median over seeds of the seconds of all stages; one thread, or two, while other processes ran",
    "commit": "of training and evaluation",
}


def trained(policy: str, seed: int, folder: Path, episodes: int) -> dict[str, Any]:
    """Train by the recipe where that is not done; the row of a seed, figures of both evaluations in it."""
    run = folder / f"{Path(policy).stem}-{seed}"
    made = subprocess.run([*ROOKERY, "reproduce", policy, "--seed", str(seed), "--out", str(run)], check=False)
    if made.returncode:
        raise SystemExit(made.returncode)  # it has said why
    row: dict[str, Any] = {"seed": seed, "episodes": episodes, "training_s": round(training_seconds(run), 1)}
    for randomize in ("none", "default"):
        figures = evaluate(ROOKERY, run, randomize, episodes, 0)
        row[randomize] = {key: figures[key] for key in ("success", "metric_name", "metric", "metrics", "causes")}
    row["contract_commit"] = json.loads((run / "contract.json").read_text())["provenance"]["commit"]
    return row


def summary(policy: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a policy."""
    row: dict[str, Any] = {"policy": policy, "seeds": ", ".join(str(r["seed"]) for r in rows)}
    for randomize in ("none", "default"):
        row |= spread(randomize, [r[randomize]["success"] for r in rows], ".3f")
    row["metric_name"] = rows[0]["default"]["metric_name"]
    row |= spread("metric", [r["default"]["metric"] for r in rows], ".4g")
    return row | {"training_s": statistics.median(r["training_s"] for r in rows), "runs": rows}


def spread(key: str, values: list[float], form: str) -> dict[str, Any]:
    """Mean and range of values."""
    return {f"{key}_mean": statistics.fmean(values), f"{key}_range": f"{min(values):{form}} to {max(values):{form}}"}


def options(row: dict[str, Any]) -> str:
    """The options of a row that are not the default's; nothing where there are none."""
    seeds, episodes = row["seeds"].replace(",", ""), row["runs"][0].get("episodes", 256)
    words = [f"--seeds {seeds}"] if seeds != "0 1 2" else []
    words += [f"--episodes {episodes}"] if episodes != 256 else []
    return f"{row['policy']} with {' '.join(words)}" if words else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="+", help="of the zoo, or files of recipes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=256, help="of each evaluation")
    parser.add_argument("--runs", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--out", type=Path, default=RESULTS / "seeds.json")
    args = parser.parse_args()
    for policy in args.policies:
        start = time.perf_counter()
        runs = [trained(policy, seed, args.runs, args.episodes) for seed in args.seeds]
        row = summary(policy, runs) | {"commit": commit(), "wall_s": round(time.perf_counter() - start, 1)}
        print({key: value for key, value in row.items() if key != "runs"}, flush=True)
        kept = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
        rows = sorted([row, *(r for r in kept if r["policy"] != policy)], key=lambda r: str(r["policy"]))
        others = "; ".join(differs for r in rows if (differs := options(r)))
        command = f"python benchmarks/seeds.py {' '.join(str(r['policy']) for r in rows)}" + (
            f" ({others})" if others else ""
        )
        write_result(args.out, command, start, COLUMNS, rows, METRICS, **told(rows))


if __name__ == "__main__":
    main()

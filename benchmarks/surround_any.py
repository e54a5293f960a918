"""One policy of swarm-surround for 2 to 16 drones: success at every number, beside the classical controller that taught it.

    python benchmarks/surround_any.py --runs RUN [RUN ...] [--episodes 256] [--seed 0]

The runs are training seeds of the recipe swarm-surround-any; the first is tabled. The result is
benchmarks/results/surround-any.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import Any

from evaluation import eval_figures
from machine import commit, machine

from rookery.cli.main import guarded

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
NUMBERS = (2, 3, 4, 6, 8, 10, 12, 14, 16)
CASES = {
    "nominal": (),
    "default": ("--randomize", "default"),
    "delay": ("--set", "observation_delay=0.05"),
    "mujoco": ("--engine", "mujoco"),
}


def success(run: Path | str, number: int, args: argparse.Namespace, *options: str) -> dict[str, float]:
    """Success and least gap (m) of a policy in a swarm of a number of drones."""
    words = ["--episodes", str(args.episodes), "--seed", str(args.seed), "--task-config", f"num_drones={number}"]
    found = eval_figures(run, *words, *options)
    return {"success": found["success_rate"], "gap_m": found["metrics"]["gap_m"]}


def row(number: int, args: argparse.Namespace) -> dict[str, Any]:
    """All cases of the first run at a number of drones, and the least success of all runs."""
    first, *others = args.runs
    found = {case: success(first, number, args, *options) for case, options in CASES.items()}
    out: dict[str, Any] = {"drones": number, **{case: f["success"] for case, f in found.items()}}
    out["gap_m"] = found["nominal"]["gap_m"]
    if others:
        out["least"] = min(out["nominal"], *(success(run, number, args)["success"] for run in others))
    taught = ("--controller", "classical", "--task-config", "neighbours=15")
    return out | {"classical": success("swarm-surround", number, args, *taught)["success"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--runs", type=Path, nargs="+", default=[ZOO / "swarm-surround-any"], help="the first is tabled"
    )
    parser.add_argument("--numbers", type=int, nargs="+", default=list(NUMBERS), help="of drones")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start, source = time.perf_counter(), commit()
    rows = []
    for number in args.numbers:
        rows.append(row(number, args))
        print(rows[-1], flush=True)
    seeds = len(args.runs)
    result = {
        "name": "surround-any",
        "command": f"python benchmarks/surround_any.py --episodes {args.episodes} --seed {args.seed}",
        "commit": source,
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {
            "nominal": "share of the episodes in which, all through the last second, no drone had crashed and all stood on the "
            "shell around the target, from all sides (see swarm-surround); nominal physics, the rotor engine",
            "default": "the same under the default randomization",
            "delay": "the same with observations 50 ms old",
            "mujoco": "the same in MuJoCo",
            "gap_m": "m, least distance between two drones in an episode, mean of the episodes",
            **({"least": f"least nominal success of {seeds} training seeds"} if seeds > 1 else {}),
            "classical": "of the controller that taught it",
        },
        "columns": [
            {"key": "drones", "title": "drones"},
            {"key": "nominal", "title": "success rate", "format": ".3f"},
            {"key": "default", "title": "randomized", "format": ".3f"},
            {"key": "delay", "title": "50 ms late", "format": ".3f"},
            {"key": "mujoco", "title": "MuJoCo", "format": ".3f"},
            {"key": "gap_m", "title": "least gap, m", "format": ".2f"},
            *([{"key": "least", "title": "least of the seeds", "format": ".3f"}] if seeds > 1 else []),
            {"key": "classical", "title": "classical controller", "format": ".3f"},
        ],
        "rows": rows,
    }
    (RESULTS / "surround-any.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(guarded(main))

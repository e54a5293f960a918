"""Paces of the randomization curriculum: how wide drone-hover's preset draws at its end, and how its policy does.

    python benchmarks/curriculum.py [--steps 0.05 0.1 0.2] [--seeds 2] [--out FILE] [-- OPTION ...]

Each pace, the share of the width by which a turn widens, and for comparison the preset without curriculum, is trained with each
seed and evaluated over 256 episodes with nominal physics and under the default randomization, all with the same starts. What
comes after -- are further options of each training.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import shlex
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from machine import commit, machine

from rookery.cli.main import main as command_line
from rookery.sim.randomization import curriculum

TASK = "drone-hover"
EVALUATION = ["--seed", "100", "--json"]


def measure(step: float | None, seed: int, run: Path, episodes: int, options: list[str]) -> dict[str, Any]:
    """Train with a pace, None for no curriculum, and further options, and evaluate."""
    words = ["train", TASK, "--seed", str(seed), "--out", str(run), *options]
    if step is not None:
        curriculum.STEP = step
        words.append("--randomize-curriculum")
    start = time.monotonic()
    quietly(words)
    row = {"pace": step, "seed": seed, "wall_s": round(time.monotonic() - start, 1)} | width(run)
    for randomize in ("none", "default"):
        asked = [*EVALUATION, "--episodes", str(episodes), "--num-envs", str(episodes), "--randomize", randomize]
        row[randomize] = json.loads(quietly(["eval", str(run), *asked]))["success_rate"]
    return row


def quietly(words: list[str]) -> str:
    """What a command prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        if command_line(words):
            raise SystemExit(f"`rookery {' '.join(words)}` failed.")
    return out.getvalue()


def width(run: Path) -> dict[str, Any]:
    """The share of the width at the end of a run, and the control steps at which all of it was reached."""
    with open(run / "progress.csv") as opened:
        rows = [row for row in csv.DictReader(opened) if row.get("randomization_share")]
    if not rows:
        return {"share": None, "whole_at": None}
    shares = [float(row["randomization_share"]) for row in rows]
    whole = next((int(row["steps"]) for row, share in zip(rows, shares, strict=True) if share >= 1.0), None)
    return {"share": shares[-1], "whole_at": None if whole is None else round(1e-6 * whole, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=float, nargs="+", default=[0.05, 0.1, 0.2])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=256, help="of each evaluation")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("options", nargs="*", metavar="OPTION", help="of each training, after --")
    args = parser.parse_args()
    start = time.monotonic()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seeds):
            for step in (*args.steps, None):
                rows.append(measure(step, seed, Path(folder) / f"{step}-{seed}", args.episodes, args.options))
                print(rows[-1], flush=True)
    command = f"python benchmarks/{shlex.join([Path(__file__).name, *sys.argv[1:]])}"
    made = result(rows, command, args.episodes, time.monotonic() - start)
    if args.out is not None:
        args.out.write_text(json.dumps(made, indent=1) + "\n")
    return 0


def result(rows: list[dict[str, Any]], command: str, episodes: int, wall_s: float) -> dict[str, Any]:
    """What goes to --out, see tables.py."""
    for row in rows:
        row["pace"] = "none" if row["pace"] is None else row["pace"]
    return {
        "name": "randomization-curriculum",
        "command": command,
        "commit": commit(),
        "machine": machine(),
        "date": str(datetime.date.today()),
        "wall_s": round(wall_s, 1),
        "metrics": {
            "pace": "share of the width by which a turn of 512 episodes widens or narrows; none: no curriculum",
            "whole_at": "millions of control steps after which all of the width was drawn, of 3.2",
            "none": f"success over {episodes} episodes with nominal physics",
            "default": "the same under the default randomization",
        },
        "columns": [
            {"key": "pace", "title": "pace"},
            {"key": "seed", "title": "seed"},
            {"key": "share", "title": "width at the end", "format": ".2f"},
            {"key": "whole_at", "title": "all of it after, M steps", "format": ".2f"},
            {"key": "none", "title": "success, nominal", "format": ".2f"},
            {"key": "default", "title": "success, randomized", "format": ".2f"},
        ],
        "rows": rows,
    }


if __name__ == "__main__":
    sys.exit(main())

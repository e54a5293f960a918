"""A policy outside nominal physics: `rookery eval --set` for one changed parameter at a time, and on other engines.

    python benchmarks/robustness.py [--policy drone-hover] [--episodes 64] [--seed 0]

The result is benchmarks/results/POLICY-robustness.json (of drone-hover: hover-robustness.json).
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from machine import commit, machine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CASES = {
    "drone-hover": (
        "", "mass=0.8", "mass=1.1", "mass=1.2", "thrust_coefficient=0.9", "action_delay=0.02", "action_delay=0.04",
        "action_delay=0.06", "observation_delay=0.03", "rotor_lag=1.5", "gravity_tilt=0.02", "gravity_tilt=0.05",
        "observation_noise=2",
    ),
}  # fmt: skip
"""Changes by policy; "" is nominal physics."""
ENGINES = {"drone-hover": ("mujoco",)}
"""Engines beside the task's own, by policy."""


def evaluate(policy: str, episodes: int, seed: int, *options: str) -> dict[str, Any]:
    """What `rookery eval` reports."""
    command = [sys.executable, "-m", "rookery", "eval", str(ROOT / "policies" / "zoo" / policy), "--json"]
    command += ["--episodes", str(episodes), "--seed", str(seed), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def row(change: str, result: dict[str, Any]) -> dict[str, Any]:
    error_cm = 100.0 * result["metrics"]["error_m"]
    return {"set": change, "success": result["success_rate"], "error_cm": error_cm, "crash": result["metrics"]["crash"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="drone-hover", choices=sorted(CASES))
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for change in CASES[args.policy]:
        options = ("--set", change) if change else ()
        rows.append(row(change or "nominal", evaluate(args.policy, args.episodes, args.seed, *options)))
        print(rows[-1], flush=True)
    for engine in ENGINES[args.policy]:
        rows.append(row(f"engine {engine}", evaluate(args.policy, args.episodes, args.seed, "--engine", engine)))
        print(rows[-1], flush=True)
    name = f"{args.policy.removeprefix('drone-')}-robustness"
    result = {
        "name": name,
        "command": f"python benchmarks/robustness.py --policy {args.policy} --episodes {args.episodes} --seed {args.seed}",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {
            "success": "no crash, and a mean position error below 5 cm over the last 2 s of the episode",
            "error_cm": "mean over episodes of that position error",
            "crash": "share of episodes that end in a crash",
        },
        "columns": [
            {"key": "set", "title": "`--set`"},
            {"key": "success", "title": "success rate", "format": ".3f"},
            {"key": "error_cm", "title": "position error, cm", "format": ".2f"},
            {"key": "crash", "title": "crashed", "format": ".3f"},
        ],
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

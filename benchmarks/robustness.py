"""drone-hover's policies of the zoo outside nominal physics: one changed parameter at a time, other engines, other starts.

    python benchmarks/robustness.py [--episodes 64] [--seed 0] [--gru RUN RUN]

`drone-hover` has no memory, `drone-hover-gru` has. --gru adds runs of the latter's recipe with other training seeds: the table
then has the least success of all of them. The result is benchmarks/results/hover-robustness.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import commit, machine

from rookery.cli.main import guarded
from rookery.experiments.run_env import open_env
from rookery.policies.training.evaluate import evaluate

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
PLAIN, GRU = "drone-hover", "drone-hover-gru"


@dataclass(frozen=True)
class Case:
    """What is changed: parameters in all worlds, what is drawn, the engine, the task's config."""

    name: str
    fixed: dict[str, float] = field(default_factory=dict)
    randomize: str = "none"
    engine: str | None = None
    config: dict[str, float] = field(default_factory=dict)


CHANGES = (
    ("mass", 0.8), ("mass", 1.1), ("mass", 1.2), ("mass", 1.3), ("thrust_coefficient", 0.9), ("action_delay", 0.02),
    ("action_delay", 0.04), ("action_delay", 0.06), ("action_delay", 0.08), ("observation_delay", 0.03), ("rotor_lag", 1.5),
    ("gravity_tilt", 0.02), ("gravity_tilt", 0.05), ("gravity_tilt", 0.08), ("observation_noise", 2.0),
)  # fmt: skip
STARTS = {"start_box_m": 1.5, "start_speed": 1.5, "start_tilt": 0.9, "start_spin": 3.0}
CASES = (
    Case("nominal"),
    *(Case(f"{name}={value:g}", {name: value}) for name, value in CHANGES),
    Case("default randomization", randomize="default"),
    Case("unseen starts", config=STARTS),
    Case("engine mujoco", engine="mujoco"),
    Case("engine pybullet", engine="pybullet"),
)


def figures(run: Path, case: Case, episodes: int, seed: int) -> dict[str, float]:
    """Success, position error (cm) and crashes of a policy."""
    worlds = 16 if case.engine == "pybullet" else episodes
    options: dict[str, Any] = {"engine": case.engine, "randomize": case.randomize, "fixed": case.fixed}
    env, act = open_env(run, worlds, config=dict(case.config), seed=seed, **options)
    result = evaluate(env, act, episodes, seed)
    env.close()
    metrics = result["metrics"]
    return {"success": metrics["success"], "error_cm": 100.0 * metrics["error_m"], "crash": metrics["crash"]}


def row(case: Case, runs: list[Path], episodes: int, seed: int) -> dict[str, Any]:
    """A line of the table: the policy without memory, the one with, and the least success of all with."""
    plain, *gru = [figures(run, case, episodes, seed) for run in runs]
    out: dict[str, Any] = {"set": case.name, **plain, "runs": gru}
    return out | {f"gru_{k}": v for k, v in gru[0].items()} | {"least": min(r["success"] for r in gru)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gru", type=Path, nargs="*", default=(), help="runs with other training seeds")
    args = parser.parse_args()
    start, source = time.perf_counter(), commit()
    runs = [ZOO / PLAIN, ZOO / GRU, *args.gru]
    rows = []
    for case in CASES:
        rows.append(row(case, runs, args.episodes, args.seed))
        print({k: v for k, v in rows[-1].items() if k != "runs"}, flush=True)
    more = f" --gru {' '.join(f.name for f in args.gru)}" if args.gru else ""
    result = {
        "name": "hover-robustness",
        "command": f"python benchmarks/robustness.py --episodes {args.episodes} --seed {args.seed}{more}",
        "commit": source,
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {
            "success": "no crash, and a mean position error below 5 cm over the last 2 s of the episode; first of drone-hover, "
            "which has no memory, then of drone-hover-gru",
            "error_cm": "mean over episodes of that position error",
            **({"least": f"least success of {len(args.gru) + 1} training seeds of that recipe"} if args.gru else {}),
            "unseen starts": "up to 1.5 m away on each axis, 1.5 m/s, 3 rad/s and 0.9 rad of tilt, farther than in training",
        },
        "columns": [
            {"key": "set", "title": "`--set`, or"},
            {"key": "success", "title": "success rate", "format": ".3f"},
            {"key": "error_cm", "title": "position error, cm", "format": ".2f"},
            {"key": "gru_success", "title": "success rate, GRU", "format": ".3f"},
            {"key": "gru_error_cm", "title": "position error, cm, GRU", "format": ".2f"},
            *([{"key": "least", "title": "least of the seeds", "format": ".3f"}] if args.gru else []),
        ],
        "rows": rows,
    }
    (RESULTS / "hover-robustness.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(guarded(main))

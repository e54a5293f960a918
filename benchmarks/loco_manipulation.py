"""How a policy of go2arm-loco-manipulation does outside nominal physics: benchmarks/results/loco-manipulation.json.

    python benchmarks/loco_manipulation.py [policies/zoo/go2arm-loco-manipulation] [--episodes 256] [--only nominal]

Deterministic policy, all nine tasks drawn alike. Rows of the policy that are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from result_file import RESULTS, measure_cases

from rookery.experiments.run_env import open_env
from rookery.policies.training.evaluate import evaluate
from rookery.sim2real.gate.intervals import wilson
from rookery.tasks.locomanip.task_table import TABLE

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"
OUT = RESULTS / "loco-manipulation.json"
LATE = {"observation_delay": 0.04, "action_delay": 0.03}
"""s; of observations in whole control steps (20 ms), of actions in physics steps (5 ms)."""
CASES: dict[str, dict[str, Any]] = {
    "nominal": {},
    "default randomization": {"randomize": "default"},
    "default randomization, unseen library": {"randomize": "default", "config": {"library_seed": 1}},
    "observations 40 ms late, actions 30 ms": {"fixed": LATE},
    "default randomization, observations 40 ms late, actions 30 ms": {"randomize": "default", "fixed": LATE},
    "default randomization, pushes of 0.3 m/s every 6 s": {"randomize": "default", "config": {"push_s": 6.0}},
    "physics steps of 2.5 ms": {"config": {"dt": 0.0025}},
}
"""Options of open_env."""
COLUMNS = [
    {"key": "case", "title": "physics"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "interval", "title": "95 %"},
    {"key": "fell", "title": "fell", "format": ".3f"},
    {"key": "position_cm", "title": "position error, cm", "format": ".2f"},
    {"key": "rotation", "title": "orientation error, rad", "format": ".3f"},
    {"key": "change", "title": "action change", "format": ".3f"},
    {"key": "torque", "title": "largest torque, mean, N m", "format": ".1f"},
    {"key": "worst", "title": "worst tasks"},
]
METRICS = {
    "success": "the rule of the episode's task is met at its end and the robot did not fall",
    "interval": "Wilson's interval of the success rate",
    "position_cm": "distance of the tool from its goal, mean over an episode but its first second, mean over episodes",
    "rotation": "angle between the tool's orientation and its goal's, likewise",
    "change": "mean size of an action component's change between control steps",
    "torque": "the largest of any joint in any physics step of an episode",
    "worst": "the three with the lowest success rate",
}


def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one case."""
    env, act = open_env(run, min(episodes, 256), seed=seed, **CASES[case])
    try:
        m = evaluate(env, act, episodes, seed)["metrics"]
    finally:
        env.close()
    low, high = wilson(round(m["success"] * episodes), episodes)
    rates = {name: m[f"done/{name}"] / m[f"share/{name}"] for name in TABLE if m[f"share/{name}"] > 0.0}
    worst = sorted(rates, key=lambda name: rates[name])[:3]
    return {
        "case": case,
        "episodes": episodes,
        "success": m["success"],
        "interval": f"{low:.3f} to {high:.3f}",
        "fell": m["fell"],
        "position_cm": 100.0 * m["position_error"],
        "rotation": m["rotation_error"],
        "change": m["action_change"],
        "torque": m["torque_peak"],
        "worst": ", ".join(f"{name} {rates[name]:.2f}" for name in worst),
        "tasks": rates,
    }


def main() -> int:
    about = str(__doc__).splitlines()[0]
    return measure_cases(
        Path(__file__), about, ZOO / "go2arm-loco-manipulation", 256, list(CASES), row, OUT, COLUMNS, METRICS
    )


if __name__ == "__main__":
    sys.exit(main())

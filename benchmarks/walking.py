"""How well a policy of go2-velocity walks: benchmarks/results/walking.json.

    python benchmarks/walking.py [policies/zoo/go2-velocity] [--episodes 1000] [--only nominal pybullet]

Deterministic policy, episodes of 20 s with the task's own commands and pushes. `identified Go2` draws the default randomization
with the ranges that `rookery sysid` finds for a real one (identified_go2.toml).
Rows of the policy that are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from result_file import RESULTS, measure_cases

from rookery.experiments.run_env import open_env
from rookery.policies.training.evaluate import evaluate
from rookery.sim2real.gate.intervals import wilson

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"
OUT = RESULTS / "walking.json"
CASES: dict[str, dict[str, Any]] = {
    "nominal": {},
    "default randomization": {"randomize": "default"},
    "identified Go2": {"randomize": str(Path(__file__).with_name("identified_go2.toml"))},
    "actions 20 ms late": {"fixed": {"action_delay": 0.02}, "share": 0.25},
    "physics steps of 2.5 ms": {"config": {"dt": 0.0025}, "share": 0.25},
    "pybullet": {"engine": "pybullet", "share": 0.032, "worlds": 16},
}
"""Options of open_env; `share` of the episodes, and the most worlds."""
COLUMNS = [
    {"key": "case", "title": "physics"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
    {"key": "success", "title": "success", "format": ".3f"},
    {"key": "all", "title": "velocity error, all time, m/s", "format": ".3f"},
    {"key": "settled", "title": "settled, low-passed, m/s", "format": ".3f"},
    {"key": "turn_all", "title": "yaw rate error, all time, rad/s", "format": ".3f"},
    {"key": "height", "title": "trunk's height error, mm", "format": ".0f"},
    {"key": "falls", "title": "falls", "format": ".0f"},
    {"key": "falls_interval", "title": "falls in 1,000, 95 %"},
    {"key": "change", "title": "action change", "format": ".3f"},
    {"key": "torque", "title": "largest torque, mean, N m", "format": ".1f"},
    {"key": "torque_most", "title": "of all episodes, N m", "format": ".1f"},
]
METRICS = {
    "all": "rms over an episode but its first second, mean over episodes; commands jump and pushes of up to 0.5 m/s "
    "come every 4 s",
    "settled": "rms behind a low-pass of 0.2 s, without the second after the start, every command and every push",
    "height": "rms difference of the trunk's height over the ground from that of standing, over all time",
    "falls_interval": "Wilson's interval",
    "torque": "the largest of any joint in any physics step of an episode",
}


def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one case."""
    options = dict(CASES[case])
    count = max(1, round(options.pop("share", 1.0) * episodes))
    env, act = open_env(run, min(count, options.pop("worlds", 500)), seed=seed, **options)
    largest = [0.0]
    step: Any = env.step

    def watched(actions: Any) -> Any:
        result = step(actions)
        if "episode" in result[4]:
            largest.append(float(result[4]["episode"]["metrics"]["torque_peak"].max()))
        return result

    env.step = watched  # type: ignore[method-assign]
    try:
        figures = evaluate(env, act, count, seed)
    finally:
        env.close()
    m = figures["metrics"]
    falls = round(m["fell"] * count)
    low, high = wilson(falls, count)
    return {
        "case": case,
        "episodes": count,
        "all": m["velocity_error_all"],
        "settled": m["velocity_error"],
        "turn_all": m["turn_error_all"],
        "turn": m["turn_error"],
        "height": 1e3 * m["height_error"],
        "success": m["success"],
        "falls": falls,
        "falls_interval": f"{1e3 * low:.1f} to {1e3 * high:.1f}",
        "change": m["action_change"],
        "torque": m["torque_peak"],
        "torque_most": max(largest),
    }


def main() -> int:
    about = str(__doc__).splitlines()[0]
    return measure_cases(Path(__file__), about, ZOO / "go2-velocity", 1000, list(CASES), row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

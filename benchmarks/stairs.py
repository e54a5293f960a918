"""How well a policy of go2-velocity climbs and descends stairs: benchmarks/results/stairs.json.

    python benchmarks/stairs.py [policies/zoo/go2-stairs] [--episodes 256] [--only "up 0.15"]

Deterministic policy, episodes of 20 s with the task's own commands and pushes. Every episode on stairs begins on the
platform of a pit ("up") or a pyramid ("down") all of whose steps have one height: that of the case, in m, or of "all to 0.15"
one of eight from 0.05 to 0.15, an eighth of the episodes on each. There a robot that leaves its tile comes to the next height.
Commands go to all sides, but for "straight ahead", which is 4 m in 8 s.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from result_file import RESULTS, measure_cases

from rookery.experiments.run_env import open_env
from rookery.policies.training.evaluate import evaluate
from rookery.sim2real.gate.intervals import wilson

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"
OUT = RESULTS / "stairs.json"
STEPS_M = (0.05, 0.10, 0.15, 0.18)
HARD_M = 0.15
ROWS = 8
AHEAD = 0.5
OTHERS: dict[str, dict[str, Any]] = {
    "default randomization": {"randomize": "default"},
    "actions 20 ms late": {"fixed": {"action_delay": 0.02}},
    "physics steps of 2.5 ms": {"config": {"dt": 0.0025}},
    f"straight ahead at {AHEAD} m/s": {"config": {"episode_s": 8.0, "resample_s": 8.0}},
}


def _on(kind: str, step_m: float) -> dict[str, Any]:
    """A terrain of one row."""
    return {"terrain": kind, "terrain_rows": 1, "terrain_columns": 4, "terrain_step_m": step_m}


CASES: dict[str, dict[str, Any]] = {
    f"{way} {step:.2f}": {"config": _on(f"stairs_{way}", step)} for way in ("up", "down") for step in STEPS_M
}
for way in ("up", "down"):
    rows = {"terrain_rows": ROWS, "terrain_start_rows": ROWS, "terrain_columns": 10}
    CASES[f"{way}, all to {HARD_M:.2f}"] = {"config": _on(f"stairs_{way}", HARD_M) | rows}
for name, options in OTHERS.items():
    for way in ("up", "down"):
        config = _on(f"stairs_{way}", HARD_M) | options.get("config", {})
        CASES[f"{way} {HARD_M:.2f}, {name}"] = options | {"config": config}
CASES["rough, noise of 0.06"] = {"config": _on("rough", HARD_M)}
"""Options of open_env."""
COLUMNS = [
    {"key": "case", "title": "steps, m"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "interval", "title": "95 %"},
    {"key": "settled", "title": "velocity error, settled, low-passed, m/s", "format": ".3f"},
    {"key": "all", "title": "all time, m/s", "format": ".3f"},
    {"key": "fell", "title": "fell, %", "format": ".1f"},
    {"key": "climbed", "title": "climbed, m", "format": ".2f"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
]
METRICS = {
    "success": "no fall, and a settled velocity error below 0.15 m/s",
    "interval": "of the success rate, Wilson's",
    "settled": "rms error of the horizontal velocity behind a low-pass of 0.2 s, without the second after the start, every "
    "command and every push; mean over episodes",
    "all": "rms error over an episode but its first second",
    "climbed": "farthest of the trunk above or below where it began, in each world's first episode; mean",
}


class Watch:
    """Acts, commands robots to walk straight ahead where `ahead` (m/s) is given, and notes how far they climb.

    Attributes:
        climbed: [N] m, farthest height of the trunk above or below its first one, in each world's first episode.
    """

    def __init__(self, env: Any, act: Any, ahead: float | None) -> None:
        self.env = env
        self.act = act
        self.ahead = ahead
        self.begun = False

    def __call__(self, obs: Any) -> Any:
        task = self.env.task
        height = task.robot.base.pos.reshape(self.env.num_envs, 3)[:, 2]
        if not self.begun:
            self.begun = True
            self.first = height.clone()
            self.climbed = torch.zeros_like(height)
            self.over = torch.zeros_like(height, dtype=torch.bool)
        else:
            self.over |= task.steps == 0
        farther = torch.maximum(self.climbed, (height - self.first).abs())
        self.climbed = torch.where(self.over, self.climbed, farther)
        if self.ahead is not None:
            task.command[:] = torch.tensor([self.ahead, 0.0, 0.0])
        return self.act(obs)


def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one case."""
    worlds = min(episodes, 256)
    if "all to" in case:  # one episode a world, as many on each height: the curriculum moves worlds after their first
        worlds = episodes = worlds // ROWS * ROWS
    env, act = open_env(run, worlds, seed=seed, **CASES[case])
    watch = Watch(env, act, AHEAD if "ahead" in case else None)
    try:
        m = evaluate(env, watch, episodes, seed)["metrics"]
    finally:
        env.close()
    low, high = wilson(round(m["success"] * episodes), episodes)
    return {
        "case": case,
        "episodes": episodes,
        "success": m["success"],
        "interval": f"{low:.2f} to {high:.2f}",
        "settled": m["velocity_error"],
        "all": m["velocity_error_all"],
        "fell": 100.0 * m["fell"],
        "climbed": float(watch.climbed.mean()),
    }


def main() -> int:
    about = str(__doc__).splitlines()[0]
    return measure_cases(Path(__file__), about, ZOO / "go2-stairs", 256, list(CASES), row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

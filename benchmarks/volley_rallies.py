"""How long the rallies of volley-6v6 last: benchmarks/results/volley-rallies.json.

    python benchmarks/volley_rallies.py [policies/zoo/volley-6v6] [--episodes 256] [--only "nominal"]

One policy flies all twelve drones; beside it the script that taught it. Rows that are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from policy_key import ZOO
from result_file import RESULTS, measure_cases

from rookery.experiments.run_env import open_env
from rookery.policies.training.evaluate import play_episodes, quota_of
from rookery.sim2real.gate.intervals import wilson

OUT = RESULTS / "volley-rallies.json"
TASK = "volley-6v6"
LONG = 6
CASES: dict[str, dict[str, Any]] = {
    "nominal": {},
    "default randomization": {"randomize": "default"},
    "commands 20 ms late": {"fixed": {"action_delay": 0.02}},
    "observations and commands 20 ms late": {"fixed": {"observation_delay": 0.02, "action_delay": 0.02}},
    "MuJoCo": {"engine": "mujoco"},
}
"""Options of open_env."""
COLUMNS = [
    {"key": "case", "title": "case"},
    {"key": "long", "title": f"{LONG} crossings or more", "format": ".3f"},
    {"key": "interval", "title": "95 %"},
    {"key": "crossings", "title": "crossings", "format": ".2f"},
    {"key": "script_long", "title": f"script, {LONG} or more", "format": ".3f"},
    {"key": "script", "title": "script, crossings", "format": ".2f"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
]
METRICS = {
    "long": f"share of the episodes of 10 s in which the ball crosses the net at least {LONG} times; one policy flies both"
    " sides. Nominal episodes begin alike, but for the side that serves",
    "interval": "Wilson's",
    "crossings": "mean of all episodes",
}


def crossings(run: Path, controller: str, case: str, episodes: int, seed: int) -> list[float]:
    """Crossings of the net, by episode."""
    env, act = open_env(run, min(episodes, 256), controller=controller, seed=seed, **CASES[case])
    try:
        columns = play_episodes(env, act, quota_of(env.num_envs, episodes), seed)
    finally:
        env.close()
    return [float(x) for x in columns["metric/crossings"]]


def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one case."""
    learned = crossings(run, "policy", case, episodes, seed)
    script = crossings(Path(TASK), "classical", case, episodes, seed)
    many = sum(x >= LONG for x in learned)
    low, high = wilson(many, episodes)
    return {
        "case": case,
        "long": many / episodes,
        "interval": f"{low:.3f} to {high:.3f}",
        "crossings": sum(learned) / episodes,
        "script_long": sum(x >= LONG for x in script) / episodes,
        "script": sum(script) / episodes,
        "episodes": episodes,
    }


def main() -> int:
    about = str(__doc__).splitlines()[0]
    return measure_cases(Path(__file__), about, ZOO / TASK, 256, list(CASES), row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

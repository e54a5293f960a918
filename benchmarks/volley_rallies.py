"""How long the rallies of volley-6v6 last: benchmarks/results/volley-rallies.json.

    python benchmarks/volley_rallies.py [policies/zoo/volley-6v6] [--episodes 256] [--only "nominal"]

One policy flies all twelve drones; beside it the script that taught it. Rows that are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from policy_key import ZOO
from result_file import RESULTS, measure_cases

from rookery.experiments.run_env import open_env
from rookery.policies.training.evaluate import play_episodes, quota_of
from rookery.sim.env import Env
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
    "interval": "Wilson's, where all worlds begin differently: repetitions of one rally have no chance in them",
    "crossings": "mean of all episodes",
}


def starts(env: Env, seed: int) -> int:
    """Different ones among the worlds of an environment, which is reset."""
    obs, _ = env.reset(seed)
    return len(torch.unique(torch.cat([seen.flatten(1) for seen in obs.values()], 1), dim=0))


def crossings(run: Path, controller: str, case: str, episodes: int, seed: int) -> tuple[list[float], bool]:
    """Crossings of the net, by episode, and whether all worlds begin differently."""
    env, act = open_env(run, min(episodes, 256), controller=controller, seed=seed, **CASES[case])
    try:
        varied = starts(env, seed) == env.num_envs
        columns = play_episodes(env, act, quota_of(env, episodes), seed)
    finally:
        env.close()
    return [float(x) for x in columns["metric/crossings"]], varied


def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one case."""
    learned, varied = crossings(run, "policy", case, episodes, seed)
    script, _ = crossings(Path(TASK), "classical", case, episodes, seed)
    many = sum(x >= LONG for x in learned)
    low, high = wilson(many, episodes)
    return {
        "case": case,
        "long": many / episodes,
        "interval": f"{low:.3f} to {high:.3f}" if varied else None,
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

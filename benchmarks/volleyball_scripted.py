"""How volleyball's scripted teams play: benchmarks/results/volleyball-scripted.json.

    python benchmarks/volleyball_scripted.py [--episodes 512] [--only volley-hit]

`rookery eval TASK --controller classical`, with nominal physics, under the default randomization, and with the weakest rotors
and the heaviest drones that the transfer gate's profile has. Rows that are not measured anew stay.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from evaluation import eval_figures
from result_file import RESULTS, measure_tasks
from volleyball import CASES

from rookery.sim2real.gate.profile import load_profile, profile_of

OUT = RESULTS / "volleyball-scripted.json"
MATCHES = ("volley-1v1", "volley-3v3", "volley-6v6")
"""Tasks of two sides: how long their rallies are; nothing was published that compares."""
COLUMNS = [
    {"key": "case", "title": "task"},
    {"key": "figure", "title": "figure"},
    {"key": "value", "title": "scripted team", "format": ".4g"},
    {"key": "published", "title": "published, learned", "format": ".2f"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "value_default", "title": "default randomization", "format": ".4g"},
    {"key": "success_default", "title": "success rate there", "format": ".3f"},
    {"key": "success_weak", "title": "with weak rotors", "format": ".3f"},
    {"key": "success_heavy", "title": "heavy, too", "format": ".3f"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
]
METRICS = {
    "success_weak": "success rate with the least thrust of all rotors that the gate's profile asks for, the rest nominal",
    "success_heavy": "success rate with the greatest mass as well: in no combination may it be less than a half",
    "success": "as the task defines it; none of matches, where the same script plays both sides",
    "published": "VolleyBots (Xu et al. 2025, arXiv 2502.01932), of learned policies",
}


def row(task: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one task's script."""
    words = ("--controller", "classical", "--episodes", str(episodes), "--seed", str(seed), "--randomize")
    nominal = eval_figures(task, *words, "none")
    default = eval_figures(task, *words, "default")
    if task in MATCHES:
        own = {"figure": "crossings of the net", "published": None}
        own |= dict.fromkeys(("success", "success_default", "success_weak", "success_heavy"))
        own |= {"value": nominal["metrics"]["crossings"], "value_default": default["metrics"]["crossings"]}
    else:
        own = CASES[task]._asdict() | {"value": nominal["metric"], "value_default": default["metric"]}
        own |= {"success": nominal["success_rate"], "success_default": default["success_rate"]}
        own |= {"success_weak": extreme(task, *words), "success_heavy": extreme(task, *words, heavy=True)}
    return {"case": task, "causes": nominal["causes"], **own}


def extreme(task: str, *words: str, heavy: bool = False) -> float:
    """The script's success with the weakest rotors of the gate's profile, and its heaviest drones if `heavy`."""
    factors = load_profile(profile_of(task)).factors
    values = {"thrust_coefficient": factors["thrust_coefficient"].low} | (
        {"mass": factors["mass"].high} if heavy else {}
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "extreme.toml"
        file.write_text("".join(f"[{name}]\nlow = {value}\nhigh = {value}\n" for name, value in values.items()))
        return float(eval_figures(task, *words, str(file))["success_rate"])


def main() -> int:
    return measure_tasks("volleyball_scripted.py", 512, [*CASES, *MATCHES], row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

"""How a drone does each skill of volleyball that a high level can command: benchmarks/results/volley-skills.json.

    python benchmarks/volley_skills.py [RUN] [--episodes 512] [--only serve receive]

The policy, and the script that taught it, by `rookery eval` with nominal physics and with the default randomization. Rows that
are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from evaluation import ROOKERY, evaluate
from policy_key import ZOO
from result_file import RESULTS, digest, measure_cases

from rookery.experiments.runs import find_run
from rookery.tasks.volleyball.skill import NAMES

OUT = RESULTS / "volley-skills.json"
TASK = "volley-skill"
COLUMNS = [
    {"key": "case", "title": "skill"},
    {"key": "nominal", "title": "success, nominal", "format": ".3f"},
    {"key": "default", "title": "success, default randomization", "format": ".3f"},
    {"key": "off_m", "title": "miss, randomized, m", "format": ".2f"},
    {"key": "script", "title": "script, nominal", "format": ".3f"},
    {"key": "script_default", "title": "script, randomized", "format": ".3f"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
]
METRICS = {
    "nominal": "hit with the racket, the ball flies within 1 m of where it was told, and over the net where that is beyond"
    " it; of `go`, the drone within 0.3 m after 3 s",
    "off_m": "mean of all episodes, one without a hit as 10 m",
    "script": "of the scripted player that taught the policy; it knows the true state, and how late commands are",
}


def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one skill."""
    folder = find_run(run)
    told = ("--task-config", f"skill={case}")
    classical = (*told, "--controller", "classical")
    nominal, default = (evaluate(ROOKERY, folder, r, episodes, seed, told) for r in ("none", "default"))
    script, late = (evaluate(ROOKERY, Path(TASK), r, episodes, seed, classical) for r in ("none", "default"))
    return {
        "case": case, "nominal": nominal["success"], "default": default["success"], "off_m": default["metrics"]["off_m"],
        "script": script["success"], "script_default": late["success"], "causes": default["causes"],
        "episodes": episodes, "policy_sha256": digest(folder),
    }  # fmt: skip


def main() -> int:
    about = "How a drone does each skill of volleyball."
    return measure_cases(Path(__file__), about, ZOO / TASK, 512, NAMES, row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

"""How the zoo's policies of volleyball play: benchmarks/results/volleyball.json.

    python benchmarks/volleyball.py [--episodes 1000] [--only volley-hit]

Deterministic policies, nominal physics, by `rookery eval`. Rows that are not measured anew stay.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from result_file import RESULTS, digest, measure_tasks
from zoo import ZOO, evaluate

OUT = RESULTS / "volleyball.json"


class Trained(NamedTuple):
    """What is known of a task and of the training of its policy."""

    figure: str
    published: float
    """VolleyBots' figure."""
    steps: str
    """Millions of control steps."""
    train_s: float


CASES = {
    "volley-back-and-forth": Trained("targets", 10.04, "130", 1077.0),
    "volley-hit": Trained("m", 11.40, "80", 582.0),
    "volley-solo-bump": Trained("hits above 3.5 m", 10.83, "24", 209.0),
    "volley-bump-and-pass": Trained("passes", 13.71, "6 imitating", 453.0),
    "volley-set-and-spike-easy": Trained("success", 0.99, "1.5 imitating, 12", 586.0),
    "volley-set-and-spike-hard": Trained("success", 0.75, "1.5 imitating, 12", 595.0),
}
"""Tasks in the order of the table, with the figures of their trainings as they were noted then."""
COLUMNS = [
    {"key": "case", "title": "task"},
    {"key": "figure", "title": "figure"},
    {"key": "value", "title": "here", "format": ".4g"},
    {"key": "published", "title": "published", "format": ".2f"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
    {"key": "steps", "title": "control steps, M"},
    {"key": "train_s", "title": "training, s", "format": ",.0f"},
]
METRICS = {
    "value": "deterministic policy of the zoo, one training seed, mean over episodes",
    "published": "VolleyBots (Xu et al. 2025, arXiv 2502.01932), PPO or MAPPO, 500 M frames, pairs 1,000 M. In "
    "set-and-spike-hard the defending board is our own design, and the physics differ from the published ones (exact contacts "
    "at 200 Hz here, PhysX at 50 Hz there): the two success rates are of two games",
    "train_s": "wall time beside other work (progress.csv)",
}


def row(task: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one task."""
    policy = ZOO / task
    figures = evaluate([sys.executable, "-m", "rookery"], policy, "none", episodes, seed)
    own = {"case": task, "value": figures["metric"], "success": figures["success"], "policy_sha256": digest(policy)}
    return own | CASES[task]._asdict() | {"causes": figures["causes"]}


def main() -> int:
    return measure_tasks("volleyball.py", 1000, list(CASES), row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

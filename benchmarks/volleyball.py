"""How the zoo's policies of volleyball play: benchmarks/results/volleyball.json.

    python benchmarks/volleyball.py [--episodes 1000] [--only volley-hit]

Deterministic policies, nominal physics, by `rookery eval`. Rows that are not measured anew stay.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

from evaluation import ROOKERY, evaluate
from policy_key import ZOO
from result_file import RESULTS, digest, measure_tasks

OUT = RESULTS / "volleyball.json"


class Published(NamedTuple):
    """The figure of a task in VolleyBots' paper."""

    figure: str
    published: float


CASES = {
    "volley-back-and-forth": Published("targets", 10.04),
    "volley-hit": Published("m", 11.40),
    "volley-solo-bump": Published("hits above 3.5 m", 10.83),
    "volley-bump-and-pass": Published("passes", 13.71),
    "volley-set-and-spike-easy": Published("success", 0.99),
    "volley-set-and-spike-hard": Published("success", 0.75),
}
"""Tasks in the order of the table."""
COLUMNS = [
    {"key": "case", "title": "task"},
    {"key": "figure", "title": "figure"},
    {"key": "value", "title": "here", "format": ".4g"},
    {"key": "published", "title": "published", "format": ".2f"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "episodes", "title": "episodes", "format": ",.0f"},
    {"key": "steps_m", "title": "control steps, M", "format": ".1f"},
]
METRICS = {
    "value": "deterministic policy of the zoo, one training seed, mean over episodes",
    "published": "VolleyBots (Xu et al. 2025, arXiv 2502.01932), PPO or MAPPO from one observation, 500 M frames, pairs "
    "1,000 M. All physics differ (exact contacts at 200 Hz here, PhysX at 50 Hz there); here solo-bump and the pairs imitate a "
    "script first, see several observations, and the pairs where the ball will land; a hit is any touch of the racket, where "
    "the published code asks for a ball within its radius when a step ends. In set-and-spike-hard the defending board is our "
    "own design: the two success rates are of two games",
    "steps_m": "as the policy's contract records them; of volley-back-and-forth and volley-hit those of the last stage, which "
    "began from another policy",
}


def row(task: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one task."""
    policy = ZOO / task
    figures = evaluate(ROOKERY, policy, "none", episodes, seed)
    own = {"case": task, "value": figures["metric"], "success": figures["success"], "policy_sha256": digest(policy)}
    return own | CASES[task]._asdict() | {"steps_m": recorded_steps(task), "causes": figures["causes"]}


def recorded_steps(task: str) -> float:
    """Millions of control steps in the contract of a policy."""
    return float(json.loads((ZOO / task / "contract.json").read_text())["provenance"]["steps"]) / 1e6


def main() -> int:
    return measure_tasks("volleyball.py", 1000, list(CASES), row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())

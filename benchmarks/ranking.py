"""What the scripts share that hold the transfer gate's scores against success on physics that the gate has not seen."""

from __future__ import annotations

import copy
import datetime
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import commit, machine
from numpy.typing import NDArray

from rookery.experiments.gating import gate_policies
from rookery.experiments.run_env import make_env
from rookery.policies.policy import Policy, layers_of
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim2real.contract import Contract
from rookery.sim2real.gate.gate import GateSettings
from rookery.sim2real.gate.intervals import wilson

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
SEVERITIES = (0.2, 0.5, 1.0)
"""Shares of the width of what is drawn: at full width alone, most policies fail, and nothing tells them apart."""

Entry = tuple[dict[str, Policy], Contract]
Scores = dict[str, list[float]]


def faulty(policies: Mapping[str, Policy], change: Callable[[torch.Tensor, torch.Tensor], None]) -> dict[str, Policy]:
    """Copies whose last layer's weights and biases `change` alters in place."""
    out = copy.deepcopy(dict(policies))
    with torch.no_grad():
        for policy in out.values():
            last = layers_of(policy)[-1]
            change(last.weight, last.bias)
    return out


@dataclass(frozen=True)
class Hidden:
    """Physics that the gate never sees.

    Args:
        ranges: file of what is drawn, at each of SEVERITIES.
        config: values of the task's config in place of the policy's own.
        episodes: of each severity.
        metric: shown beside success, its unit, and what it is multiplied with for that.
    """

    ranges: Path
    config: Mapping[str, Any]
    episodes: int
    metric: tuple[str, str, float]

    def success(self, entry: Entry, seed: int = 12345) -> tuple[float, float]:
        """Success and the metric: means over the severities, with the same draws for every policy."""
        policies, contract = entry
        found = []
        for severity in SEVERITIES:
            env = make_env(contract, self.episodes, dict(self.config), seed=seed, randomize=str(self.ranges))
            assert isinstance(env, VecEnv)
            env.randomization.curriculum.share.fill_(severity)
            metrics = evaluate(env, act_with(policies, env), self.episodes, seed)["metrics"]
            env.close()
            found.append((metrics["success"], self.metric[2] * metrics[self.metric[0]]))
        success, metric = np.array(found).mean(0).tolist()
        return success, metric


def score(entry: Entry, settings: GateSettings) -> dict[str, Any]:
    """The gate's score, and what it is made of."""
    policies, contract = entry
    report = gate_policies(policies, contract, None, settings, "", lambda line: None)
    return {"score": report.score, "report": report.to_json()}


def cached(cache: Path, key: str, make: Callable[[], Any]) -> Any:
    """A value of the cache, a folder; made and kept where it is not there."""
    file = cache / f"{key.replace('/', '_').replace(' ', '_')}.json"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(make()))
    return json.loads(file.read_text())


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    return np.array([0.5 * ((values < v).sum() + (values <= v).sum() + 1.0) for v in values])


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Rank correlation: Pearson's of the ranks."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def right_rankings(names: list[str], hidden: Mapping[str, tuple[float, float]], scores: Scores, repeats: int) -> int:
    """In how many repeats the scores put policies in the order of their hidden success; two equal scores are no order."""
    truth = sorted(names, key=lambda name: -hidden[name][0])
    pairs = list(zip(truth, truth[1:], strict=False))
    return sum(all(scores[a][r] > scores[b][r] for a, b in pairs) for r in range(repeats))


def correlation(hidden: Mapping[str, tuple[float, float]], scores: Scores) -> float:
    """Spearman's, of the first score and hidden success."""
    names = list(hidden)
    return spearman(np.array([scores[n][0] for n in names]), np.array([hidden[n][0] for n in names]))


def result(
    name: str, command: str, hidden: Mapping[str, tuple[float, float]], scores: Scores, physics: Hidden, seconds: float
) -> dict[str, Any]:
    """What is common to the results files: a row for every policy, the best first."""
    total = physics.episodes * len(SEVERITIES)
    rows = []
    for policy in sorted(hidden, key=lambda n: -hidden[n][0]):
        success, metric = hidden[policy]
        low, high = wilson(success * total, total)
        s = scores[policy]
        row = {"policy": policy, "hidden": success, "low": low, "high": high, "metric": metric, "score": s[0]}
        rows.append(row | {"least": min(s), "most": max(s), "repeats": len(s)})
    rho = correlation(hidden, scores)
    return {
        "name": name,
        "command": command,
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(seconds, 1),
        "spearman": rho if math.isfinite(rho) else None,
        "metrics": {
            "hidden": f"success over {total} episodes on hidden physics ({physics.ranges.name}), a third each at 0.2, 0.5 and "
            "all of its width; from, to: its 95 % interval (Wilson)",
            "metric": f"mean of {physics.metric[0]} there",
            "score": "of the gate with seed 0",
            "rank correlation": f"Spearman's, of score (seed 0) and hidden success over {len(hidden)} policies: {rho:.3f}",
        },
        "columns": [
            {"key": "policy", "title": "policy"},
            {"key": "hidden", "title": "hidden success", "format": ".3f"},
            {"key": "low", "title": "from", "format": ".3f"},
            {"key": "high", "title": "to", "format": ".3f"},
            {"key": "metric", "title": f"{physics.metric[0]}, {physics.metric[1]}", "format": ".3g"},
            {"key": "score", "title": "score", "format": ".3f"},
        ],
        "rows": rows,
    }  # fmt: skip


def write(value: dict[str, Any]) -> None:
    """The results file."""
    (RESULTS / f"{value['name']}.json").write_text(json.dumps(value, indent=1) + "\n")

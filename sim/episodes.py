"""Returns, lengths and reward terms of running episodes, reported when they end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.errors import unknown
from rookery.sim.specs import Group
from rookery.sim.task import Task


class EpisodeLog(Buffers):
    """Weights and sums a task's reward terms, world by world.

    Args:
        task: gives the weights (``cfg.reward``) and the metrics.
        groups: its agent groups.
        num_envs: N.
    """

    def __init__(self, task: Task, groups: dict[str, Group], num_envs: int) -> None:
        super().__init__()
        self.task, self.groups = task, groups
        self._weights: dict[str, Tensor] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._sums: dict[str, Tensor] = {}
        self._num_envs = num_envs
        for g, s in groups.items():
            self._sums[g] = self.buffer(f"sums.{g}", len(task.cfg.reward), num_envs, s.count)

    def add(self, rewards: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
        """Take unweighted terms, each [N, A]; give the weighted sum by group, [N, A]."""
        out = {}
        for g, terms in rewards.items():
            if g not in self._weights:
                self._learn_names(g, terms)
            weighted = torch.stack([terms[name] for name in self._names[g]]).mul_(self._weights[g])
            self._sums[g][: len(weighted)] += weighted
            out[g] = weighted.sum(0)
        return out

    def _learn_names(self, group: str, terms: dict[str, Tensor]) -> None:
        weights = self.task.cfg.reward
        for name in terms:
            if name not in weights:
                raise unknown("reward term", name, weights)
        self._names[group] = tuple(terms)
        self._weights[group] = torch.tensor([weights[name] for name in terms])[:, None, None]

    def reset(self, ids: Tensor) -> None:
        """Episodes begin in the worlds `ids`."""
        for s in self._sums.values():
            s[:, ids] = 0.0

    def finish(self, ids: Tensor, length: Tensor, cause: Tensor) -> dict[str, Any]:
        """What is known of the episodes that end in the worlds `ids` [m].

        Returns:
            "ids" [m]; "length" [m] control steps; "cause" [m], 0 for the time limit, i for ``task.causes[i - 1]``, one
            more than there are causes for diverged physics; "return" {group: [m]}, mean over agents; "reward_terms"
            {"group/term": [m]}, weighted sums; "metrics" {name: [m]}, of the task.
        """
        returns, by_term = {}, {}
        for g, names in self._names.items():
            sums = self._sums[g][: len(names), ids].mean(-1)
            returns[g] = sums.sum(0)
            by_term.update({f"{g}/{name}": sums[i] for i, name in enumerate(names)})
        metrics = {name: v[ids] for name, v in self.task.metrics().items()}
        return {"ids": ids, "length": length.clone(), "cause": cause.clone(), "return": returns,
                "reward_terms": by_term, "metrics": metrics}  # fmt: skip

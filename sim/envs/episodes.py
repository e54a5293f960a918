"""Returns, lengths and reward terms of running episodes, reported when they end."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group
from rookery.sim.task import Task


class EpisodeLog(Buffers):
    """Weights and sums a task's reward terms, world by world.

    Args:
        task: gives the weights (``cfg.reward``), the objectives of a vector reward and the metrics.
        groups: its agent groups.
        num_envs: N.

    Raises:
        RookeryError: an objective names a term that has no weight.
    """

    def __init__(self, task: Task, groups: dict[str, Group], num_envs: int) -> None:
        super().__init__()
        self.task = task
        self.groups = groups
        self._weights: dict[str, Tensor] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._sums: dict[str, Tensor] = {}
        self._num_envs = num_envs
        self._members: dict[str, Tensor] = {}  # [terms, M]: 1 where a term counts in an objective
        for term in (t for terms in task.objectives.values() for t in terms):
            if term not in task.cfg.reward:
                raise unknown("reward term", term, task.cfg.reward)
        for g, s in groups.items():
            self._sums[g] = self.buffer(f"sums.{g}", len(task.cfg.reward), num_envs, s.count)

    def add(self, rewards: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
        """Take unweighted terms, each [N, A]; give the weighted sum by group: [N, A], or [N, A, M] for M objectives."""
        out = {}
        for g, terms in rewards.items():
            if g not in self._weights:
                self._learn_names(g, terms)
            weighted = torch.stack([terms[name] for name in self._names[g]]).mul_(self._weights[g])
            self._sums[g][: len(weighted)] += weighted
            out[g] = weighted.sum(0) if g not in self._members else self._by_objective(g, weighted)
        return out

    def _by_objective(self, group: str, weighted: Tensor) -> Tensor:
        """[..., M] from weighted terms [terms, ...]."""
        members = self._members[group]
        return (weighted.flatten(1).t() @ members).view(*weighted.shape[1:], members.shape[1])

    def _learn_names(self, group: str, terms: dict[str, Tensor]) -> None:
        weights = self.task.cfg.reward
        for name in terms:
            if name not in weights:
                raise unknown("reward term", name, weights)
        self._names[group] = tuple(terms)
        self._weights[group] = torch.tensor([weights[name] for name in terms])[:, None, None]
        objectives = self.task.objectives
        if not objectives:
            return
        for name in terms:
            if not any(name in members for members in objectives.values()):
                raise RookeryError(f"the reward term {name!r} belongs to none of the objectives {list(objectives)}.")
        self._members[group] = torch.tensor([[float(name in m) for m in objectives.values()] for name in terms])

    def reset(self, ids: Tensor) -> None:
        """Episodes begin in the worlds `ids`."""
        for s in self._sums.values():
            s[:, ids] = 0.0

    def finish(self, ids: Tensor, length: Tensor, cause: Tensor) -> dict[str, Any]:
        """What is known of the episodes that end in the worlds `ids` [m].

        Returns:
            "ids" [m]; "length" [m] control steps; "cause" [m], 0 for the time limit, i for ``task.causes[i - 1]``, one
            more than there are causes for diverged physics; "return" {group: [m]}, mean over agents, or
            {"group/objective": [m]} of a vector reward; "reward_terms" {"group/term": [m]}, weighted sums; "metrics"
            {name: [m]}, of the task.
        """
        returns = {}
        by_term = {}
        for g, names in self._names.items():
            sums = self._sums[g][: len(names), ids].mean(-1)
            if g in self._members:
                by_objective = self._by_objective(g, sums).unbind(-1)
                returns.update({f"{g}/{name}": r for name, r in zip(self.task.objectives, by_objective, strict=True)})
            else:
                returns[g] = sums.sum(0)
            by_term.update({f"{g}/{name}": sums[i] for i, name in enumerate(names)})
        metrics = {name: v[ids] for name, v in self.task.metrics().items()}
        return {"ids": ids, "length": length.clone(), "cause": cause.clone(), "return": returns,
                "reward_terms": by_term, "metrics": metrics}  # fmt: skip

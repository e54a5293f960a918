"""Returns, lengths and reward terms of running episodes, reported when they end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.columns import Columns
from rookery.sim.envs import episode_kernels as kernels
from rookery.sim.envs.episode_kernels import RewardArrays
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.pointers import TensorTable
from rookery.sim.specs import Group
from rookery.sim.task import Task, by_name


class _GroupRewards:
    """Weights and objectives of one group's terms, as the kernels read them.

    Raises:
        RookeryError: a term has no weight, or belongs to no objective.
    """

    def __init__(self, task: Task, group: str, names: tuple[str, ...], num_envs: int, count: int, sums: Tensor) -> None:
        weights = task.cfg.reward
        objectives = task.objectives
        for name in names:
            if name not in weights:
                raise unknown("reward term", name, weights)
            if objectives and not any(name in members for members in objectives.values()):
                raise RookeryError(f"the reward term {name!r} belongs to none of the objectives {list(objectives)}.")
        self.names = names
        self.labels = [f"{group}/{name}" for name in names]
        self.totals = [f"{group}/{name}" for name in objectives] or [group]
        self.table = TensorTable(names, [(num_envs, count)] * len(names), "rewards")
        self.shape = (num_envs, count, len(objectives)) if objectives else (num_envs, count)
        members = [[float(name in m) for m in objectives.values()] or [1.0] for name in names]
        self.at = RewardArrays(
            np.array([weights[name] for name in names], np.float32),
            np.array(members, np.float32).reshape(len(names), -1),
            sums[: len(names)].numpy(),
        )

    def add(self, terms: dict[str, Tensor]) -> tuple[Tensor, bool]:
        """The reward, and whether it is finite everywhere."""
        self.table.update(terms)
        out = torch.empty(self.shape)
        return out, kernels.add(self.at, self.table.rows, out.numpy())

    def summarize(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Means over agents [terms, m] by term and [M, m] by objective."""
        by_term = np.empty((len(self.labels), len(ids)), np.float32)
        by_objective = np.empty((len(self.totals), len(ids)), np.float32)
        kernels.summarize(self.at, ids, by_term, by_objective)
        return by_term, by_objective


class EpisodeLog(Buffers):
    """Weights and sums a task's reward terms, world by world.

    Args:
        task: gives the weights (``cfg.reward``), the objectives of a vector reward and the metrics.
        groups: its agent groups.
        num_envs: N.

    Attributes:
        cut: [N] bool, worlds whose running episode began in the middle, see `Env.stagger`.

    Raises:
        RookeryError: an objective names a term that has no weight.
    """

    cut: Tensor

    def __init__(self, task: Task, groups: dict[str, Group], num_envs: int) -> None:
        super().__init__()
        self._cut = self.buffer("cut", num_envs, dtype=torch.bool).numpy()
        self.task = task
        self.groups = groups
        self._num_envs = num_envs
        self._rewards: dict[str, _GroupRewards] = {}  # known from the first step on
        self._metrics = TensorTable((), (), "measures")
        self._finite = True  # in the step that was added last
        for term in (t for terms in task.objectives.values() for t in terms):
            if term not in task.cfg.reward:
                raise unknown("reward term", term, task.cfg.reward)
        # [terms, N, A] weighted sums
        self._sums = {g: self.buffer(f"sums.{g}", len(task.cfg.reward), num_envs, s.count) for g, s in groups.items()}
        self._arrays = [s.numpy() for s in self._sums.values()]

    def add(self, rewards: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
        """Take unweighted terms, each [N, A]; give the weighted sum by group: [N, A], or [N, A, M] for M objectives. New
        tensors.

        Raises:
            RookeryError: in the first step, a term without a weight, or a weight that no term uses.
        """
        out = {}
        self._finite = True
        known = len(self._rewards)
        for g, terms in by_name(self.task, "rewards", rewards).items():
            if g not in self._rewards:
                if g not in self.groups:
                    raise unknown(f"group of {type(self.task).__name__}.rewards()", g, self.groups)
                count = self.groups[g].count
                self._rewards[g] = _GroupRewards(self.task, g, tuple(terms), self._num_envs, count, self._sums[g])
            out[g], finite = self._rewards[g].add(terms)
            self._finite &= finite
        if len(self._rewards) > known:
            self._refuse_unused()
        return out

    def _refuse_unused(self) -> None:
        """Refuse weights of terms that the task does not have, which would change nothing."""
        terms = dict.fromkeys(name for group in self._rewards.values() for name in group.names)
        for name, weight in self.task.cfg.reward.items():
            if name not in terms and weight:
                raise unknown(f"reward term of {type(self.task).__name__} with a weight", name, terms)

    def refuse_nan(self, terms: dict[str, dict[str, Tensor]], rewards: dict[str, Tensor], first: int) -> None:
        """Refuse rewards that are not finite, once those of worlds whose physics diverged are out of them.

        Args:
            terms: that `add` took last.
            rewards: that it gave.
            first: number of the first world in messages.

        Raises:
            RookeryError: naming the term and the world.
        """
        if self._finite:
            return
        for g, reward in rewards.items():
            for i in (~torch.isfinite(reward)).flatten(1).any(1).nonzero().flatten().tolist()[:1]:
                wrong = [name for name, x in terms[g].items() if not torch.isfinite(x[i].float()).all()]
                name = f"reward term {wrong[0]!r}" if wrong else "sum of the weighted reward terms"
                raise RookeryError(
                    f"the {name} of {g!r} is NaN or infinite, first in world {first + i}: look for a division by zero in "
                    "the task."
                )

    def reset(self, ids: NDArray[np.int64]) -> None:
        """Episodes begin in the worlds `ids`."""
        self._cut[ids] = False
        for sums in self._arrays:
            kernels.clear(sums, ids)

    def finish(
        self, ids: NDArray[np.int64], length: NDArray[np.int64], cause: NDArray[np.int64], first: int
    ) -> dict[str, Tensor | Mapping[str, Tensor]]:
        """Facts about the episodes that end in the worlds `ids` [m]; `first` is the number of the first world in messages.

        Returns:
            "ids" [m]; "length" [m] control steps; "cut" [m] bool, true where it began in the middle (see `Env.stagger`) and so
            tells nothing of success; "cause" [m], 0 for the time limit, i for ``task.causes[i - 1]``, one
            more than there are causes for diverged physics; "return" {group: [m]}, mean over agents, or
            {"group/objective": [m]} of a vector reward; "reward_terms" {"group/term": [m]}, weighted sums; "metrics"
            {name: [m]}, of the task, but that an episode whose physics diverged is no success; NaN where an episode has no such
            figure. The tables are read-only.

        Raises:
            RookeryError: metrics of other names than before, or a success that is no number.
        """
        by_term, by_objective = self._summarize(ids)
        return {"ids": torch.from_numpy(ids), "length": torch.from_numpy(length), "cause": torch.from_numpy(cause),
                "cut": torch.from_numpy(self._cut[ids]),
                "return": by_objective, "reward_terms": by_term, "metrics": self._measure(ids, cause, first)}  # fmt: skip

    def _summarize(self, ids: NDArray[np.int64]) -> tuple[Columns, Columns]:
        """Reward terms and returns of all groups."""
        groups = list(self._rewards.values())
        parts = [g.summarize(ids) for g in groups]
        if len(parts) == 1:
            return Columns(groups[0].labels, parts[0][0]), Columns(groups[0].totals, parts[0][1])
        terms, objectives = (np.concatenate(p) for p in zip(*parts, strict=True))
        labels = [name for g in groups for name in g.labels]
        return Columns(labels, terms), Columns([name for g in groups for name in g.totals], objectives)

    def _measure(self, ids: NDArray[np.int64], cause: NDArray[np.int64], first: int) -> Columns:
        metrics = by_name(self.task, "metrics", self.task.metrics())
        names = tuple(metrics)
        if names != self._metrics.names:
            if self._metrics.names:
                raise RookeryError(
                    f"{type(self.task).__name__}.metrics() gives {list(names)}, and gave {list(self._metrics.names)} before: "
                    "let it give the same names always, with NaN for what an episode does not have."
                )
            if self.task.headline not in ("success", *names):
                raise unknown(f"metric, the headline of {type(self.task).__name__},", self.task.headline, names)
            self._metrics = TensorTable(names, [(self._num_envs,)] * len(names), "measures")
        self._metrics.update(metrics)
        out = np.empty((len(names), len(ids)), np.float32)
        kernels.pick(self._metrics.rows, ids, out)
        if "success" in names:
            success = out[names.index("success")]
            if not kernels.judge(success, cause, len(self.task.causes)):
                raise RookeryError(
                    f"the metric 'success' of {type(self.task).__name__} is NaN or infinite in world "
                    f"{first + ids[~np.isfinite(success)][0]}: let it be 0 or 1."
                )
        return Columns(names, out)

"""Many values of many factors in one vectorized environment, each over the same episodes.

World j * E + i holds the j-th point and begins like world i (`starts` of `rookery.make`): a success at one point and a failure
at another are due to the factors, not to the start or the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.env import Act
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import DrawLog
from rookery.sim.specs import Group
from rookery.sim.threads import one_thread_each
from rookery.sim2real.gate.factors import complete
from rookery.sim2real.gate.intervals import wilson
from rookery.sim2real.gate.opponents import OpposingTeams

Point = Mapping[str, float]
"""Values of factors by name; the others are nominal."""
ACTION_CHANGE = "action_change"
"""Mean size of an action component's change between control steps, in units of [-1, 1], of every task; another option of
a choice counts 1."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one point.

    Args:
        success: [E] bool of the episodes.
        figures: [E, F] everything that is known of them: length, returns, metrics, and a sum over all that was observed, which
            differs where anything does.
        means: of the task's metrics over the episodes that have them, by name, and of ACTION_CHANGE.
        missing: episodes that have none, by the name of each metric, of which a mean leaves them out.
    """

    success: NDArray[np.bool_]
    figures: NDArray[np.float64]
    means: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Share of episodes that succeeded."""
        return float(self.success.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the rate."""
        return wilson(float(self.success.sum()), len(self.success))

    def same(self, other: Outcome) -> bool:
        """True where every episode went exactly as in another outcome."""
        return bool(np.array_equal(self.figures, other.figures, equal_nan=True))


class Open(Protocol):
    """Makes the environment that a policy was trained for, and what acts in it."""

    def __call__(
        self, num_envs: int, *, starts: int = 0, fixed: dict[str, float] | None = None, engine: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> tuple[VecEnv, Act]: ...  # fmt: skip


class PointRunner(Protocol):
    """Runs a policy at points, over the same episodes at each; `episodes_run` counts them all."""

    seed: int
    episodes_run: int

    def run(self, points: Sequence[Point], seed: int | None = None) -> list[Outcome]:
        """The outcome of each point; `seed` is that of other episodes than usual."""
        ...

    def close(self) -> None:
        """Free what it has."""
        ...


class Trials:
    """Runs a policy at points in one environment.

    Args:
        env: with `starts` equal to `episodes` and a whole number of times as many worlds; all its factors are drawn, at their
            nominal values.
        act: the policy; in a game it plays the first team, see `OpposingTeams`.
        episodes: E, at each point.
        seed: of the episodes.

    Raises:
        RookeryError: the task does not say what success is, or as `OpposingTeams`.
    """

    def __init__(self, env: VecEnv, act: Act, episodes: int, seed: int = 0) -> None:
        if "success" not in env.metrics():
            raise RookeryError(f"{env.task_id} has no metric 'success', without which nothing passes or fails.")
        self.env = env
        self.act = act
        self.episodes = episodes
        self.seed = seed
        self.capacity = env.num_envs // episodes
        self.parameters = env.randomization.parameters
        self._names = env.randomization.names
        self._nominal = np.array([self.parameters[name].nominal for name in self._names], np.float32)
        self.episodes_run = 0
        self._opponents = OpposingTeams(env) if env.teams else None

    def run(self, points: Sequence[Point], seed: int | None = None) -> list[Outcome]:
        """The outcome of each point, over the same E episodes.

        Args:
            points: any number.
            seed: of other episodes than usual.
        """
        out: list[Outcome] = []
        for first in range(0, len(points), self.capacity):
            out += self._batch(points[first : first + self.capacity], self.seed if seed is None else seed)
        return out

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    @one_thread_each
    def _batch(self, points: Sequence[Point], seed: int) -> list[Outcome]:
        env = self.env
        self._set(points, seed)
        wanted = len(points) * self.episodes
        waiting = torch.zeros(env.num_envs, dtype=torch.bool)
        waiting[:wanted] = True
        rows: NDArray[np.float64] | None = None
        success = np.zeros(wanted, np.bool_)
        obs, _ = env.reset(seed)
        seen = torch.zeros(env.num_envs, dtype=torch.float64)
        changes = _Changes(env.num_envs, env.groups, self._opponents)
        names: list[str] = []
        steps = 0
        while waiting.any():
            steps += 1
            for rows_seen in obs.values():  # times the step's number, so that it shows when something was observed
                seen += steps * rows_seen.flatten(1).sum(1, dtype=torch.float64)
            actions = self.act(obs)
            changes.add(actions)
            if self._opponents is not None:
                actions = self._opponents(obs, actions)
            obs, _, _, _, info = env.step(actions)
            if "episode" not in info:
                continue
            episode = info["episode"]
            ids = episode["ids"]
            new = waiting[ids]
            where = ids[new].numpy()
            waiting[ids] = False
            metrics = {ACTION_CHANGE: changes.end(ids), **episode["metrics"]}
            names = [*metrics]
            columns = [*metrics.values(), episode["length"], episode["cause"], *episode["return"].values(), seen[ids]]
            found = torch.stack([c.double() for c in columns], 1)[new].numpy()
            rows = np.zeros((wanted, found.shape[1])) if rows is None else rows
            rows[where] = found
            success[where] = episode["metrics"]["success"][new].numpy() > 0.5
        assert rows is not None
        self.episodes_run += wanted
        each = zip(success.reshape(-1, self.episodes), rows.reshape(-1, self.episodes, rows.shape[1]), strict=True)
        return [Outcome(s, f, _means(names, f), _missing(names, f)) for s, f in each]

    def _set(self, points: Sequence[Point], seed: int) -> None:
        """Hand the values of the points to the worlds; worlds that are left over repeat the last point."""
        if not self._names:
            return
        values = np.tile(self._nominal, (self.capacity, 1))
        for j in range(self.capacity):
            for name, value in complete(points[min(j, len(points) - 1)]).items():
                values[j, self._names.index(name)] = value
        worlds = np.arange(self.env.num_envs)
        drawn = np.repeat(values, self.episodes, 0)
        log = DrawLog(self.env.task_id, seed, self.env.num_envs, self._names, worlds, np.zeros_like(worlds), drawn)
        self.env.randomization.replay(log)


def _means(names: Sequence[str], figures: NDArray[np.float64]) -> dict[str, float]:
    """Means of the first columns of figures [E, F], each over the episodes that have it; those that none has are left out."""
    columns = torch.from_numpy(figures)[:, : len(names)]
    means = columns.masked_fill(~columns.isfinite(), torch.nan).nanmean(0)
    return {name: mean for name, mean in zip(names, means.tolist(), strict=True) if mean == mean}


def _missing(names: Sequence[str], figures: NDArray[np.float64]) -> dict[str, int]:
    """Numbers of episodes of figures [E, F] that have none, by the name of each of the first columns."""
    missing = (~np.isfinite(figures[:, : len(names)])).sum(0)
    return dict(zip(names, missing.tolist(), strict=True))


class _Changes:
    """Sums how much the actions of each world change from one control step to the next.

    Args:
        num_envs: N.
        groups: by name, in the order of the actions.
        opponents: whose actions are not counted.
    """

    def __init__(self, num_envs: int, groups: Mapping[str, Group], opponents: OpposingTeams | None = None) -> None:
        self._opponents = opponents
        # which of a world's components are indices of options
        every = {
            name: torch.tensor([k < len(g.action.choices) for k in range(g.action.size)]).expand(1, g.count, -1)
            for name, g in groups.items()
        }
        self._index = self._row(every)[0]
        self._sum = torch.zeros(num_envs)
        self._count = torch.zeros(num_envs)
        self._fresh = torch.ones(num_envs, dtype=torch.bool)
        self._last = torch.zeros(num_envs, 1)

    def add(self, actions: Mapping[str, Tensor]) -> None:
        """The actions of a control step, by group [N, A, D]."""
        now = self._row(actions)
        now = now.where(self._index, now.clamp(-1.0, 1.0))
        change = (now - self._last).abs()
        change = change.where(~self._index, (change > 0.0).float()).mean(1)
        self._sum += torch.where(self._fresh, 0.0, change)
        self._count += ~self._fresh
        self._last = now
        self._fresh.zero_()

    def _row(self, actions: Mapping[str, Tensor]) -> Tensor:
        """The components that count of each world, side by side."""
        judged = actions if self._opponents is None else self._opponents.judged(actions)
        return torch.cat([a.flatten(1) for a in judged.values()], 1)

    def end(self, ids: Tensor) -> Tensor:
        """[n] the mean change of the episodes that ended in the worlds `ids`, whose next ones begin."""
        mean = self._sum[ids] / self._count[ids].clamp_min(1.0)
        self._sum[ids] = self._count[ids] = 0.0
        self._fresh[ids] = True
        return mean

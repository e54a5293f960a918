"""The wind in every world: its mean, and the state of its gusts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.multirotor import wind
from rookery.sim.multirotor.effects import Effects
from rookery.sim.multirotor.lanes import from_lanes, to_lanes
from rookery.sim.multirotor.layout import AIR, LANES, MEAN_WIND
from rookery.sim.random import Streams
from rookery.sim.random_kernels import begin_episode
from rookery.sim.randomization.batch import Batch

_PARTS = (("speed", 0), ("direction", 0))


class Wind:
    """Gusts of all worlds, and what their mean winds make of them.

    Args:
        lanes: [blocks, WORLD * LANES] of the worlds, see layout; kept, and written.
        effects: of the scene.
        height: m, at which the turbulence is taken.
        dt: s, physics step.

    Attributes:
        blows: [1] bool, whether gusts blow in any world.
        gust: [blocks, wind.STATE * LANES] states of the gusts.
        filters: [blocks, wind.COEFFICIENTS * LANES] of the gusts.
        streams: the worlds' random streams.
    """

    def __init__(self, lanes: NDArray[np.float64], effects: Effects, height: float, dt: float) -> None:
        self._lanes = lanes
        self._effects = effects
        self._dt = dt
        self._steps = 1  # physics steps for which the filters are
        self._scale = np.array((*wind.scales(height, 1.0), effects.gust_speed, effects.gust_time))
        self._mean = np.tile([effects.wind_speed, effects.wind_direction], (len(lanes) * LANES, 1))
        self.blows = np.zeros(1, np.bool_)
        self.gust = np.zeros((len(lanes), wind.STATE * LANES))
        self.filters = np.zeros((len(lanes), wind.COEFFICIENTS * LANES))
        self.streams = Streams(len(lanes) * LANES, 0, "wind")

    @property
    def gusty(self) -> bool:
        """True where gusts blow in any world."""
        return bool(self.blows[0])

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        """See randomization's BatchWriter: mean wind of "speed" m/s towards "direction" rad (from world x to y) in the worlds
        `ids`; where the effects have gusts, with turbulence of that strength."""
        where = values.places.rows(_PARTS)
        dt = self._steps * self._dt
        windy = wind.set_mean(self._lanes, ids, values.table, where, self._mean, self.filters, self._scale, dt)
        if windy and not self.gusty and self._effects.gusts:
            self.blows[0] = True
            self._stir(ids)

    def seed(self, seed: int, starts: int = 0, first: int = 0) -> None:
        """Start the random streams anew; `starts` and `first` as in Streams."""
        self.streams.starts = starts
        self.streams.first = first
        self.streams.seed(seed)

    def begin(self, ids: NDArray[np.int64]) -> None:
        """Episodes begin in the worlds `ids`, in turbulence that has blown for long."""
        if self._effects.gusts:
            begin_episode(self.streams.counters, ids)
        if self.gusty:
            self._stir(ids)
            block, lane = np.divmod(ids, LANES)
            for f in range(3):  # not the gust in which the episode before ended
                self._lanes[block, (AIR + f) * LANES + lane] = self._lanes[block, (MEAN_WIND + f) * LANES + lane]

    def velocity(self, worlds: int) -> Tensor:
        """[worlds, 3] m/s, world axes, of the air now, gusts included; before an episode's first step that of the mean wind."""
        return torch.from_numpy(from_lanes(self._lanes[:, AIR * LANES : (AIR + 3) * LANES], worlds).astype(np.float32))

    def _stir(self, ids: NDArray[np.int64]) -> None:
        wind.stir(self.streams.keys, self.streams.counters, ids, self.gust)

    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the compiled steps, see `step.advance`."""
        return self.blows, self.gust, self.filters, *self._numbers()

    def _numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.streams.keys.reshape(-1, LANES), self.streams.counters.reshape(-1, LANES)

    def blow(self, k: int) -> None:
        """The air of the coming k physics steps, on engines whose own steps do not bring it."""
        if self.gusty:
            self.set_step(k)
            keys, counters = self._numbers()
            wind.blow_everywhere(self.gust, self.filters, keys, counters, self._lanes)

    def set_step(self, k: int) -> None:
        """From now on a step of the gusts is k physics steps."""
        if k != self._steps:
            self._steps = k
            self._find()

    def _find(self) -> None:
        wind.set_step(self._lanes, self.filters, self._scale, self._steps * self._dt)

    def follow(self) -> None:
        """Filters of the mean winds and gusts as they stand: the scene's, or those of a snapshot."""
        fx = self._effects
        self.blows[0] = fx.gusts and (fx.wind_speed > 0.0 or fx.gust_speed > 0.0 or bool(self.gust.any()))
        self._find()

    @property
    def _air(self) -> NDArray[np.float64]:
        """[blocks, 6 * LANES] m/s, of the mean wind and of the air now."""
        return self._lanes[:, MEAN_WIND * LANES : (AIR + 3) * LANES]

    def snapshot(self, worlds: int) -> dict[str, Tensor]:
        """The winds and gusts of all worlds, and what will become of them, [N, ...] each.

        Args:
            worlds: N, without the filling lanes.
        """
        out = {"air": from_lanes(self._air, worlds), "gust": from_lanes(self.gust, worlds)}
        return {name: torch.from_numpy(x) for name, x in out.items()} | self.snapshot_streams(worlds)

    def snapshot_streams(self, worlds: int) -> dict[str, Tensor]:
        """The random streams' part of a snapshot."""
        return {f"streams.{k}": v[:worlds].clone() for k, v in self.streams.state_dict().items()}

    def restore(self, snapshot: dict[str, Tensor]) -> None:
        """Put a snapshot back."""
        to_lanes(snapshot["air"].numpy(), self._air)
        to_lanes(snapshot["gust"].numpy(), self.gust)
        self.restore_streams(snapshot)
        self.follow()

    def restore_streams(self, snapshot: dict[str, Tensor]) -> None:
        """Put the random streams of a snapshot back."""
        own = self.streams.state_dict()
        for name, numbers in own.items():
            saved = snapshot[f"streams.{name}"]
            numbers[: len(saved)] = saved
        self.streams.load_state_dict(own)

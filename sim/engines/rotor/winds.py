"""The wind in every world of the `rotor` engine: its mean, and the state of its gusts."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.sim.engines.rotor import wind
from rookery.sim.engines.rotor.effects import Effects
from rookery.sim.random import Streams


class Wind:
    """Gusts of N worlds, and what their mean winds make of them.

    Args:
        worlds: N.
        effects: of the scene.
        height: m, at which the turbulence is taken.
        dt: s, physics step.

    Attributes:
        gusty: whether gusts blow in any world.
        gust: [N, wind.STATE] states of the gusts.
        filters: [N, wind.COEFFICIENTS] of the gusts.
        streams: the worlds' random streams.
    """

    def __init__(self, worlds: int, effects: Effects, height: float, dt: float) -> None:
        self._effects = effects
        self.gusty = effects.gusts and effects.wind_speed > 0.0
        self.gust = np.zeros((worlds, wind.STATE))
        self._own = wind.coefficients(height, effects.wind_speed, dt)
        self.filters = np.tile(self._own, (worlds, 1))
        self._all = wind.coefficients(height, wind.SPEEDS, dt)
        self.streams = Streams(worlds, 0, "wind")

    def set_mean(
        self,
        lanes: NDArray[np.float64],
        ids: NDArray[np.int64],
        speed: NDArray[np.float64],
        direction: NDArray[np.float64],
    ) -> bool:
        """Mean wind [n] m/s towards [n] rad (from world x to y) in the worlds `ids`; where the effects have gusts, with
        turbulence of that strength, which has blown for long.

        Args:
            lanes: of the worlds, see layout; written.

        Returns:
            whether there have been no gusts in any world before.
        """
        wind.set_mean(lanes, ids, speed, direction, self.filters, self._all)
        begins = not self.gusty and self._effects.gusts and bool(speed.max(initial=0.0) > 0.0)
        self.gusty = self.gusty or begins
        if self.gusty:
            self.stir(ids)
        return begins

    def stir(self, ids: NDArray[np.int64]) -> None:
        """Turbulence of a new episode in the worlds `ids`."""
        where = torch.from_numpy(ids)
        self.streams.begin_episode(where)
        calm = self.streams(where).normal((wind.NORMALS,))
        self.gust[ids] = wind.equilibrium(calm.double().numpy())

    def find(self, lanes: NDArray[np.float64]) -> None:
        """Follow from mean winds that have been put back."""
        self.filters[:] = self._own
        wind.find_filters(lanes, self._effects.wind_speed, self.filters, self._all)
        self.gusty = self.gusty or (self._effects.gusts and bool(self.gust.any()))

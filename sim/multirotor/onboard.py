"""Rotors and onboard controllers of multirotors on an engine that simulates them itself."""

from __future__ import annotations

import abc

import numpy as np
from torch import Tensor

from rookery.sim.randomization.batch import Batch
from rookery.sim.world import Ids

FULL = np.ones(1, np.float32)
"""Charge of full batteries."""


class Multirotors(abc.ABC):
    """View of A multirotors in all N worlds: their rotors and onboard controllers, which the engine has inside."""

    @abc.abstractmethod
    def command(self, level: int, setpoint: Tensor, *scale: np.ndarray) -> None:
        """Setpoints [N, A, 4] (held) or [N, K, A, 4] (one row a physics step) at a level of the cascade; at MOTORS they are
        thrusts in N.

        Args:
            level: of the cascade.
            setpoint: in SI units, or normalized where a scale is given.
            scale: (mid, half), each [4] float32: setpoints are mid + half * setpoint.
        """

    @abc.abstractmethod
    def integrate_yaw(self, on: bool) -> None:
        """Let yaw rate setpoints move a yaw angle that is tracked, as in the Crazyflie firmware, or not."""

    @property
    @abc.abstractmethod
    def rotor_speed(self) -> Tensor:
        """[N, A, 4] normalized rotor speeds. Valid until the next step or write."""

    @abc.abstractmethod
    def start(self, ids: Ids, speed: Tensor, charge: np.ndarray = FULL) -> None:
        """New flights: rotors at normalized speeds [n, A, 4], or [1, A, 4] for all, an empty controller, and batteries that
        hold `charge` of the worlds [N], 0 to 1, or [1] for all."""

    @abc.abstractmethod
    def write_batch(self, ids: np.ndarray, values: Batch) -> None:
        """See randomization's BatchWriter; the parameters are `factors.FACTORS`."""

"""Drift of drones' headings, which no success asks for and hardware notices: a metric of every drone task."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.arrays import array
from rookery.sim.buffers import Buffers
from rookery.sim.random_kernels import kernel

TURNING_METRICS = MappingProxyType(
    {
        "yaw_drift": (
            "rad/s, size of the mean angular velocity about the vertical over the episode, of the drone that turns most; "
            "NaN where no step has counted. No success asks for it: the heading is free"
        )
    }
)
"""Definition of `Turning.metrics`; a task in which a part of the episode counts says so."""


class Turning(Buffers):
    """Sums over the control steps of the episodes of N worlds of A drones each.

    Args:
        num_envs: N.
        drones: A.

    Attributes:
        counted_from: control step of an episode after which steps count; 0 for all of them.
        rate: [N, A] rad/s, angular velocity about the vertical in the latest control step.
    """

    counted_from = 0
    turned: Tensor
    counted: Tensor

    def __init__(self, num_envs: int, drones: int) -> None:
        super().__init__()
        self.buffer("turned", num_envs, drones)  # rad/s, summed
        self.buffer("counted", num_envs)  # control steps
        self._sums = self.turned.numpy(), self.counted.numpy()
        self.rate = torch.zeros(num_envs, drones)  # no part of what an episode remembers
        self._drift = torch.zeros(num_envs)

    def reset(self, ids: NDArray) -> None:
        """New episodes in the worlds `ids`."""
        begin_turning(ids, *self._sums)

    def add(self, state: NDArray, steps: NDArray) -> None:
        """Take in a control step.

        Args:
            state: [N, A, 13], see Bodies.state, at its end.
            steps: [N] control steps into the episode, this one included.
        """
        add_turning(state, steps, self.counted_from, *self._sums, array(self.rate))

    def metrics(self) -> dict[str, Tensor]:
        """See TURNING_METRICS: [N], NaN where no step has counted. The tensor is reused."""
        yaw_drift(*self._sums, array(self._drift))
        return {"yaw_drift": self._drift}


@kernel
def add_turning(state, steps, counted_from, turned, counted, rate):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add a control step to the sums of `Turning`, and write its `rate`; the other arguments as in `Turning.add`."""
    for w in range(state.shape[0]):
        counts = steps[w] > counted_from
        if counts:
            counted[w] += 1.0
        for a in range(state.shape[1]):
            s = state[w, a]
            qw, qx, qy, qz = float(s[3]), float(s[4]), float(s[5]), float(s[6])
            # the world's z axis in body axes, against the angular velocity in body axes
            about = 2.0 * (qx * qz - qw * qy) * s[10] + 2.0 * (qy * qz + qw * qx) * s[11]
            about += (qw * qw - qx * qx - qy * qy + qz * qz) * s[12]
            rate[w, a] = about
            if counts:
                turned[w, a] += about


@kernel
def begin_turning(ids, turned, counted):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Clear the sums of `Turning` in the worlds `ids`."""
    for w in ids:
        counted[w] = 0.0
        for a in range(turned.shape[1]):
            turned[w, a] = 0.0


@kernel
def yaw_drift(turned, counted, drift):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The metric [N], the last array, written, of the sums of `Turning`."""
    for w in range(turned.shape[0]):
        most = np.float32(0.0)
        for a in range(turned.shape[1]):
            mean = abs(turned[w, a]) / max(counted[w], np.float32(1.0))
            if not mean <= most:  # so that what is no number stays to be seen
                most = mean
        drift[w] = most if counted[w] > 0.0 else np.float32(np.nan)

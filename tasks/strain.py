"""Demands of a policy on a robot's hardware, whether it succeeds or not: torque, power, contacts that nobody wants."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.random_kernels import kernel

STRAIN_METRICS = MappingProxyType(
    {
        "torque_peak_share": "largest torque of any joint in any physics step, as a share of its motor's limit",
        "torque_rms_share": (
            "rms torque of a joint over the episode, as a share of its motor's limit; of the joint where it is largest"
        ),
        "power": "W, mechanical power that the motors give, mean over the episode; what they brake is not given back",
        "undesired_contact": "share of the control steps in which the robot touches what it should not",
        "self_collision": "share of the control steps in which parts of the robot touch each other",
    }
)
"""Definitions of `Strain.metrics`; a task says more exactly what its robot should not touch."""


class Strain(Buffers):
    """Sums over the control steps of the episodes of N worlds.

    Args:
        num_envs: N.
        limits: [J] N m (N of slides), of the motors.
    """

    peak: Tensor
    squares: Tensor
    work: Tensor
    touched: Tensor
    collided: Tensor

    def __init__(self, num_envs: int, limits: Tensor) -> None:
        super().__init__()
        self.limits = limits
        self.buffer("peak", num_envs)
        self.buffer("squares", num_envs, len(limits))
        for name in ("work", "touched", "collided"):
            self.buffer(name, num_envs)
        self._limits = limits.numpy()
        sums = self.peak, self.squares, self.work, self.touched, self.collided
        self._sums = tuple(t.numpy() for t in sums)

    def reset(self, ids: Tensor) -> None:
        """New episodes in the worlds `ids`."""
        for name in ("peak", "squares", "work", "touched", "collided"):
            getattr(self, name)[ids] = 0.0

    def add(self, torque: Tensor, peak: Tensor, speed: Tensor, touching: Tensor, colliding: Tensor) -> None:
        """Take in a control step.

        Args:
            torque: [N, J] N m, at its end.
            peak: [N, J] N m, that of the largest size in any of its physics steps.
            speed: [N, J] rad/s.
            touching, colliding: [N] contact points with what the robot should not touch, and among its own parts; 0 for none.
        """
        add_strain(
            torque.numpy(), peak.numpy(), speed.numpy(), touching.numpy(), colliding.numpy(), self._limits, *self._sums
        )

    def metrics(self, steps: Tensor) -> dict[str, Tensor]:
        """Means over episodes of `steps` [N] control steps, each [N]; see STRAIN_METRICS."""
        count = steps.clamp_min(1)
        return {
            "torque_peak_share": self.peak.clone(),
            "torque_rms_share": ((self.squares / count[:, None]).sqrt() / self.limits).amax(1),
            "power": self.work / count,
            "undesired_contact": self.touched / count,
            "self_collision": self.collided / count,
        }


@kernel
def add_strain(torque, peak, speed, touching, colliding, limits, peaks, squares, work, touched, collided):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add a control step to the sums of `Strain`; arrays as in `Strain.add`."""
    for n in range(torque.shape[0]):
        power = np.float32(0.0)
        for j in range(torque.shape[1]):
            share = abs(peak[n, j]) / limits[j]
            if not share <= peaks[n]:  # so that what is no number stays to be seen, here and below
                peaks[n] = share
            squares[n, j] += torque[n, j] * torque[n, j]
            given = torque[n, j] * speed[n, j]
            if not given <= 0.0:
                power += given
        work[n] += power
        touched[n] += touching[n] > 0.0
        collided[n] += colliding[n] > 0.0

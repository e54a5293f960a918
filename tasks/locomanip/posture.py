"""Posture of a legged robot: its trunk's height, and whether it walks on its feet or on its shins."""

from __future__ import annotations

from torch import Tensor

from rookery.sim.buffers import Buffers

KNEE_M = 0.18
"""m, of a Go2: height of its knees over the ground when it stands, about; the unit of what knees lack to that height."""
LEAST_KNEES = 0.6
"""Height of a knee over the ground, as a share of that of standing, below which a leg begins to kneel."""


def posture_definitions(stand_height: float) -> dict[str, str]:
    """Definitions of `Posture.metrics` of a robot whose trunk is `stand_height` m high."""
    return {
        "height_error": f"m, rms difference of the trunk's height over the ground from {stand_height:g} m, over all time",
        "knee_height": (
            "height of the lowest knee over the ground, about as a share of that of standing, mean: about 1 where a"
            " robot stands or trots, below 0.4 where it kneels"
        ),
    }


class Posture(Buffers):
    """Sums over the control steps of the episodes of N worlds.

    Args:
        num_envs: N.
        stand_height: m, of the trunk.
    """

    height_squared: Tensor
    knee_sum: Tensor

    def __init__(self, num_envs: int, stand_height: float) -> None:
        super().__init__()
        self.stand_height = stand_height
        self.buffer("height_squared", num_envs)
        self.buffer("knee_sum", num_envs)

    def reset(self, ids: Tensor) -> None:
        """New episodes in the worlds `ids`."""
        self.height_squared[ids] = 0.0
        self.knee_sum[ids] = 0.0

    def add(self, height: Tensor, knees: Tensor) -> None:
        """Take in a control step.

        Args:
            height: [N] m, of the trunk over the ground.
            knees: [N, 4] heights of the knees over the ground, as shares of those of standing.
        """
        self.height_squared += (height - self.stand_height).square()
        self.knee_sum += knees.amin(1)

    def metrics(self, steps: Tensor) -> dict[str, Tensor]:
        """Means over episodes of `steps` [N] control steps, each [N]; see `posture_definitions`."""
        count = steps.clamp_min(1)
        return {"height_error": (self.height_squared / count).sqrt(), "knee_height": self.knee_sum / count}

"""The lidar service of a simulated Go2: a map of the ground around it, and its trunk's place, both in the odometry's frame.

That frame is where the trunk lay, and as it was turned, when the robot was switched on. The map has the size and the resolution
of a Go2's and its axes are the frame's; it rolls along with the robot by whole cells. A cell is seen once it is in the map
beyond the robot's own body, and stays so until it rolls out; what steps hide is seen too. The odometry does not drift: a drift
would move the map and the place in it alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.links.frames import matrix, multiply
from rookery.sim2real.links.height_map import HeightMap, TrunkPose
from rookery.sim2real.vehicles.joints import JointVehicle
from rookery.sim2real.vehicles.noise import turned

CELLS, CELL_M = 128, 0.06
MAP_S = 1.0 / 15.0  # s between maps: one for each of the lidar's clouds, of which a Go2 sends about 15 a second
HIDDEN_M = (0.45, 0.3)  # m, ahead and beside the trunk's origin, what the body and its legs hide
HEIGHT_NOISE = 0.01  # m (our choice), of each cell in each map
PLACE_NOISE, TURN_NOISE = 0.003, 0.003  # m, rad (our choice)


class LidarMap:
    """See the module.

    Args:
        vehicle: the robot, as it lies when it is switched on.
        noise: factor on the noise.
        seed: of the noise.
    """

    def __init__(self, vehicle: JointVehicle, noise: float = 1.0, seed: int = 0) -> None:
        self._vehicle = vehicle
        self._noise = noise
        self._rng = np.random.default_rng(seed)
        true = vehicle.truth()
        self._start = true["position"].astype(float)
        w, _, _, z = true["rotation"].astype(float)
        self._heading = np.array((w, 0.0, 0.0, z)) / math.hypot(w, z)
        self._axes = matrix(self._heading)  # from the frame's to the world's
        self._corner: NDArray[np.int64] | None = None  # cells, of cell [0, 0] of the newest map
        self._seen = np.zeros((CELLS, CELLS), bool)

    def _place(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The trunk's true place and rotation in the frame."""
        true = self._vehicle.truth()
        back = self._heading * (1.0, -1.0, -1.0, -1.0)
        return (true["position"] - self._start) @ self._axes, multiply(back, true["rotation"]).astype(float)

    def pose(self) -> TrunkPose:
        """The trunk's place, measured now."""
        position, rotation = self._place()
        by = self._noise * TURN_NOISE * self._rng.standard_normal(3)
        position = position + self._noise * PLACE_NOISE * self._rng.standard_normal(3)
        return TrunkPose(self._vehicle.now, position, np.asarray(turned(rotation, by), float))

    def map(self) -> HeightMap:
        """The map now."""
        position, rotation = self._place()
        self._roll(np.rint(position[:2] / CELL_M).astype(np.int64) - CELLS // 2)
        assert self._corner is not None
        cells = np.arange(CELLS)
        x, y = np.meshgrid(CELL_M * (self._corner[0] + cells), CELL_M * (self._corner[1] + cells))
        ahead, left = matrix(rotation)[:2, :2].T @ np.stack((x - position[0], y - position[1])).reshape(2, -1)
        hidden = (np.abs(ahead) < HIDDEN_M[0]) & (np.abs(left) < HIDDEN_M[1])
        self._seen |= ~hidden.reshape(CELLS, CELLS)
        world = np.stack((x, y), axis=-1) @ self._axes[:2, :2].T + self._start[:2]
        heights = self._vehicle.ground(world) - self._start[2]
        heights += self._noise * HEIGHT_NOISE * self._rng.standard_normal(heights.shape)
        heights[~self._seen] = np.nan
        origin = CELL_M * float(self._corner[0]), CELL_M * float(self._corner[1])
        return HeightMap(self._vehicle.now, CELL_M, origin, heights.astype(np.float32))

    def _roll(self, corner: NDArray[np.int64]) -> None:
        """Move the map so that cell [0, 0] is at `corner`."""
        by = np.zeros(2, np.int64) if self._corner is None else corner - self._corner
        self._corner = corner
        for axis, cells in ((1, int(by[0])), (0, int(by[1]))):
            if not cells:
                continue
            self._seen = np.roll(self._seen, -cells, axis)
            fresh = slice(CELLS - cells, None) if cells > 0 else slice(0, -cells)
            self._seen[(slice(None), fresh) if axis else (fresh, slice(None))] = False

"""A lidar's distances to upright cylinders and level ground in many worlds, compiled: exact intersections, no pictures.

Rays are fixed to a body and lie in its xy plane. For other shapes and for pictures see rookery.sim.sensors.cameras.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rookery.sim.random_kernels import inlined
from rookery.sim.terms import Sensor
from rookery.sim.world import World

_loop = njit(cache=True, nogil=True, error_model="numpy")


def ring(count: int) -> np.ndarray:
    """[count, 3] unit vectors, body axes: a level ring of rays, the first one forward, the others anticlockwise."""
    angle = 2.0 * math.pi * np.arange(count) / count
    return np.stack((np.cos(angle), np.sin(angle), np.zeros(count)), axis=1)


class Cylinders(NamedTuple):
    """Upright cylinders in a scene.

    Args:
        names: of their bodies.
        radii: [P] m.
        half: m, half the height of all of them.
    """

    names: Sequence[str]
    radii: np.ndarray
    half: float


def ring_sensor(
    count: int, most: float, mounts: Sequence[str], cylinders: Cylinders, ground: Callable[[], Tensor]
) -> Sensor:
    """The distances [count] m along a level ring of rays of the bodies `mounts`, one for each agent.

    Args:
        count: of rays.
        most: m, what a ray gets that meets nothing nearer.
        mounts: full names of bodies.
        cylinders: what rays meet beside the ground.
        ground: gives the ground's height [N] m.
    """
    doc = f"{most:g} m where there is none; rays in the body's xy plane, the first along x, the others anticlockwise"
    make = lambda world: Lidar(world, ring(count), most, mounts, cylinders, ground)  # noqa: E731
    return Sensor("distance to the first surface along each ray", count, "m", doc=doc, make=make)


class Lidar:
    """Reads `ring_sensor`."""

    def __init__(
        self,
        world: World,
        rays: np.ndarray,
        most: float,
        mounts: Sequence[str],
        cylinders: Cylinders,
        ground: Callable[[], Tensor],
    ) -> None:
        self._bodies = world.bodies(list(mounts))
        self._cylinders = world.bodies(list(cylinders.names))
        self._shapes = cylinders.radii, cylinders.half
        self._rays, self._most, self._ground = rays, most, ground
        self._out = torch.zeros(world.num_envs, len(mounts), len(rays))

    def read(self) -> Tensor:
        """[N, A, R] m."""
        scan(
            self._bodies.state.numpy(), self._cylinders.state.numpy(), *self._shapes, self._ground().numpy(), self._rays,
            self._most, self._out.numpy(),
        )  # fmt: skip
        return self._out


@_loop
def scan(state, pillars, radii, half, ground, rays, most, out):
    """Distances along rays to the first surface.

    Args:
        state: [N, A, 13] see Bodies.state, of the bodies that carry the lidar.
        pillars: [N, P, 13] see Bodies.state, of upright cylinders; their attitude is not read.
        radii: [P] m.
        half: m, half the height of all of them.
        ground: [N] m, height of the ground.
        rays: [R, 3] unit vectors, body axes.
        most: m, what a ray gets that meets nothing nearer.
        out: [N, A, R] float32 m, written.
    """
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            s = state[w, a]
            qw, qx, qy, qz = float(s[3]), float(s[4]), float(s[5]), float(s[6])
            for r in range(rays.shape[0]):
                x, y, z = rays[r, 0], rays[r, 1], rays[r, 2]
                tx, ty, tz = 2.0 * (qy * z - qz * y), 2.0 * (qz * x - qx * z), 2.0 * (qx * y - qy * x)
                dx, dy, dz = (
                    x + qw * tx + qy * tz - qz * ty,
                    y + qw * ty + qz * tx - qx * tz,
                    z + qw * tz + qx * ty - qy * tx,
                )
                nearest = float(most)
                if dz < 0.0:
                    t = (float(ground[w]) - s[2]) / dz
                    nearest = min(nearest, max(t, 0.0))
                for p in range(pillars.shape[1]):
                    ox, oy = float(s[0]) - pillars[w, p, 0], float(s[1]) - pillars[w, p, 1]
                    oz = float(s[2]) - pillars[w, p, 2]
                    nearest = min(nearest, _cylinder(ox, oy, oz, dx, dy, dz, radii[p], half))
                out[w, a, r] = nearest


@inlined
def _cylinder(ox, oy, oz, dx, dy, dz, radius, half):
    """Distance from a point, in the axes of an upright cylinder, along a unit vector to its surface: inf where it misses, 0
    from inside."""
    enter, leave = 0.0, math.inf
    a = dx * dx + dy * dy
    b = ox * dx + oy * dy
    c = ox * ox + oy * oy - radius * radius
    if a > 0.0:
        root = b * b - a * c
        if root < 0.0:
            return math.inf
        root = math.sqrt(root)
        enter, leave = max(enter, (-b - root) / a), min(leave, (-b + root) / a)
    elif c > 0.0:
        return math.inf
    if dz != 0.0:
        t, u = (-half - oz) / dz, (half - oz) / dz
        enter, leave = max(enter, min(t, u)), min(leave, max(t, u))
    elif abs(oz) > half:
        return math.inf
    return enter if enter <= leave else math.inf


@_loop
def clearances(state, pillars, radii, half, out):
    """out [N, A] m: from each body's origin to the nearest surface of a pillar; negative inside. Arguments as in `scan`."""
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            least = math.inf
            for p in range(pillars.shape[1]):
                x, y = float(state[w, a, 0]) - pillars[w, p, 0], float(state[w, a, 1]) - pillars[w, p, 1]
                side = math.sqrt(x * x + y * y) - radii[p]
                end = abs(float(state[w, a, 2]) - pillars[w, p, 2]) - half
                outside = math.sqrt(max(side, 0.0) ** 2 + max(end, 0.0) ** 2)
                least = min(least, outside + min(max(side, end), 0.0))
            out[w, a] = least

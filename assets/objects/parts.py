"""Convex parts: what objects collide with. Each is a MuJoCo primitive where there is one, and a convex mesh otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import mujoco
import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray

from rookery.assets.objects.hulls import hull

Kind = Literal["box", "cylinder", "sphere", "capsule", "ellipsoid", "mesh"]
Floats = NDArray[np.float64]
_UNTURNED = (1.0, 0.0, 0.0, 0.0)
_SIDES = 32  # of the meshes that show round primitives


@dataclass(frozen=True, eq=False)
class Part:
    """A convex solid in an object's frame.

    Args:
        kind: how MuJoCo collides with it.
        size: [3] m, MuJoCo's sizes of the primitive: half edges, or radius and half length, ...
        pos: [3] m, its centre. quat: wxyz, its axes. A mesh uses none of these: its vertices say all.
        mesh: its surface, closed, m, object's frame; of a round primitive, an inscribed one of 32 sides.
    """

    kind: Kind
    size: tuple[float, ...]
    pos: tuple[float, ...]
    quat: tuple[float, ...]
    mesh: trimesh.Trimesh

    def moved(self, by: Sequence[float]) -> Part:
        """The same part `by` [3] m further on."""
        pos = tuple(float(p + d) for p, d in zip(self.pos, by, strict=True))
        return replace(self, pos=pos, mesh=self.mesh.copy().apply_translation(by))

    @property
    def volume(self) -> float:
        """m^3, of what MuJoCo collides with: a round primitive is a little more than its mesh."""
        a, b, c = (*self.size, 0.0, 0.0, 0.0)[:3]
        exact = {
            "box": 8.0 * a * b * c,
            "cylinder": 2.0 * np.pi * a * a * b,
            "sphere": 4.0 / 3.0 * np.pi * a**3,
            "capsule": np.pi * a * a * (2.0 * b + 4.0 / 3.0 * a),
            "ellipsoid": 4.0 / 3.0 * np.pi * a * b * c,
        }
        return float(exact.get(self.kind, self.mesh.volume))


def box(size: Sequence[float], centre: Sequence[float] = (0.0, 0.0, 0.0)) -> Part:
    """A box of edges `size` [3] m around `centre` [3] m."""
    mesh = trimesh.creation.box(extents=size).apply_translation(centre)
    return Part("box", tuple(0.5 * v for v in size), tuple(centre), _UNTURNED, mesh)


def sphere(radius: float) -> Part:
    """A ball of `radius` m around the origin."""
    mesh = trimesh.creation.icosphere(subdivisions=3, radius=radius)
    return Part("sphere", (radius, radius, radius), (0.0, 0.0, 0.0), _UNTURNED, mesh)


def cylinder(radius: float, length: float, centre: Sequence[float], axis: Sequence[float] = (0.0, 0.0, 1.0)) -> Part:
    """A cylinder of `length` m around `centre` [3] m along the unit vector `axis` [3]."""
    mesh = trimesh.creation.cylinder(radius=radius, height=length, sections=_SIDES)
    quat = np.zeros(4)
    mujoco.mju_quatZ2Vec(quat, np.asarray(axis, float))
    turn = trimesh.transformations.quaternion_matrix(quat)
    mesh.apply_transform(turn).apply_translation(centre)
    return Part("cylinder", (radius, 0.5 * length, 0.0), tuple(centre), tuple(quat.tolist()), mesh)


def solid(points: ArrayLike) -> Part:
    """The convex hull of points [V, 3] m."""
    return convex(hull(np.asarray(points, float).reshape(-1, 3)))


def convex(mesh: trimesh.Trimesh) -> Part:
    """A mesh (m) that is convex already."""
    return Part("mesh", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), _UNTURNED, mesh)


def strip(rings: ArrayLike) -> tuple[Part, ...]:
    """A bent bar as S - 1 convex parts, one between each two of its rings [S, P, 3] m."""
    points = np.asarray(rings, float)
    return tuple(solid(points[i : i + 2]) for i in range(len(points) - 1))

"""Triangle meshes made from numbers: lofts, extrusions and propellers. All lengths in m; all meshes are closed.

A loft is a skin over a row of rings; most of what a drone is made of (blades, shells, arms, legs) is one loft each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:  # half a second of imports that no training of a drone needs
    import trimesh

Spin = Literal["ccw", "cw"]


def loft(rings: ArrayLike) -> trimesh.Trimesh:
    """Closed skin over S rings of P points each, with flat caps at both ends.

    Args:
        rings: [S, P, 3] m. Every ring runs anticlockwise as viewed from the last ring looking towards the first.
    """
    import trimesh

    points = np.asarray(rings, dtype=float)
    s, p, _ = points.shape
    vertices = np.concatenate([points.reshape(-1, 3), points[0].mean(0)[None], points[-1].mean(0)[None]])
    j = np.arange(p)
    k = (j + 1) % p
    faces = []
    for i in range(s - 1):
        a, b = i * p, (i + 1) * p
        faces += [np.stack([a + j, a + k, b + k], 1), np.stack([a + j, b + k, b + j], 1)]
    first = s * p
    last = s * p + 1
    faces.append(np.stack([np.full(p, first), k, j], 1))
    faces.append(np.stack([np.full(p, last), (s - 1) * p + j, (s - 1) * p + k], 1))
    return trimesh.Trimesh(vertices, np.concatenate(faces), process=False)


def extrude(outline: ArrayLike, bottom: float, top: float) -> trimesh.Trimesh:
    """A plate between two heights over an outline that is star-shaped around its mean point.

    Args:
        outline: [P, 2] m, anticlockwise.
        bottom: z of the lower face, m.
        top: z of the upper face, m.
    """
    flat = np.asarray(outline, dtype=float)
    return loft([np.column_stack([flat, np.full(len(flat), z)]) for z in (bottom, top)])


def tube(start: Sequence[float], end: Sequence[float], radii: Sequence[float], sides: int = 10) -> trimesh.Trimesh:
    """A straight round bar from `start` to `end` [3] m, with one radius (m) for each of its equally spaced rings."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    axis = (b - a) / np.linalg.norm(b - a)
    u = np.cross(axis, [0.0, 0.0, 1.0] if abs(axis[2]) < 0.9 else [1.0, 0.0, 0.0])
    u /= np.linalg.norm(u)
    v = np.cross(axis, u)
    angle = np.linspace(0, 2 * np.pi, sides, endpoint=False)[:, None]
    circle = np.cos(angle) * u + np.sin(angle) * v
    along = np.linspace(0, 1, len(radii))
    return loft([a + t * (b - a) + r * circle for t, r in zip(along, radii, strict=True)])


def superellipse(half_width: float, half_height: float, power: float = 2.6, points: int = 20) -> NDArray[np.float64]:
    """[P, 2] m: a rounded rectangle, anticlockwise; power 2 is an ellipse, larger powers are boxier."""
    angle = np.linspace(0, 2 * np.pi, points, endpoint=False)
    c, s = np.cos(angle), np.sin(angle)
    x = half_width * np.sign(c) * np.abs(c) ** (2 / power)
    y = half_height * np.sign(s) * np.abs(s) ** (2 / power)
    return np.column_stack([x, y])


@functools.cache
def propeller(radius: float, spin: Spin, blades: int = 2, stations: int = 8) -> trimesh.Trimesh:
    """A twisted propeller in the xy plane that pushes along +z when it rotates by `spin` as viewed from +z. Each is made
    once, to be read.

    Args:
        radius: blade tip radius in m.
        spin: "ccw" or "cw"; the second is the mirror image of the first.
        blades: number of blades.
        stations: number of sections along a blade.
    """
    import trimesh

    parts = [trimesh.creation.cylinder(radius=0.09 * radius, height=0.12 * radius, sections=14)]
    rings = [_blade_section(radius, t) for t in np.linspace(0.0, 1.0, stations)]
    blade = loft(rings)
    for i in range(blades):
        turn = trimesh.transformations.rotation_matrix(2 * math.pi * i / blades, [0, 0, 1])
        parts.append(blade.copy().apply_transform(turn))
    mesh = join(parts)
    if spin == "cw":
        mesh.apply_transform(np.diag([1.0, -1.0, 1.0, 1.0]))  # trimesh turns the faces' winding back by itself
    return mesh


def _blade_section(radius: float, t: float) -> NDArray[np.float64]:
    """[P, 3] m: the blade's lens-shaped section at share t of its length, root 0, tip 1."""
    r = radius * (0.05 + 0.95 * t)
    chord = radius * (0.10 + 0.24 * math.sin(math.pi * min(1.0, 0.15 + 0.85 * t) ** 0.8) - 0.02 * t)
    thickness = 0.045 * radius * (1 - 0.7 * t)
    # Constant geometric pitch: the angle falls with the radius. Turning anticlockwise, the edge at +y leads and is up.
    pitch = math.atan2(0.22 * radius, r)
    lens = superellipse(0.5 * chord, 0.5 * thickness, power=2.0, points=8)
    y = lens[:, 0] * math.cos(pitch) - lens[:, 1] * math.sin(pitch)
    z = lens[:, 0] * math.sin(pitch) + lens[:, 1] * math.cos(pitch)
    return np.column_stack([np.full(len(lens), r), y, z])


def box(size: Sequence[float], centre: Sequence[float]) -> trimesh.Trimesh:
    """A box of edge lengths `size` [3] m around `centre` [3] m."""
    import trimesh

    return trimesh.creation.box(extents=size).apply_translation(centre)


def cylinder(radius: float, bottom: float, top: float, xy: Sequence[float], sides: int = 16) -> trimesh.Trimesh:
    """An upright cylinder between two heights (m) over the point `xy` [2] m."""
    import trimesh

    mesh = trimesh.creation.cylinder(radius=radius, height=top - bottom, sections=sides)
    return mesh.apply_translation([xy[0], xy[1], 0.5 * (bottom + top)])


def join(parts: Iterable[trimesh.Trimesh]) -> trimesh.Trimesh:
    """One mesh of several closed ones, vertices untouched."""
    import trimesh

    vertices = []
    faces = []
    at = 0
    for part in parts:
        vertices.append(part.vertices)
        faces.append(part.faces + at)
        at += len(part.vertices)
    return trimesh.Trimesh(np.concatenate(vertices), np.concatenate(faces), process=False)

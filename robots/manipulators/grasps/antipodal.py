"""Antipodal grasps: two contacts that face each other, each within the other's friction cone (Nguyen 1988).

Pairs come from lines through the object: a point drawn from the surface, a line drawn from the friction cone about its inward
normal, and the point where the line leaves the solid. A gripper that closes along the line holds the object by friction alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.robots.manipulators.grasps.clearing import CLEARANCE, GRIP_DEPTH, clear
from rookery.robots.manipulators.grasps.pose import PARALLEL, Floats, GraspPose, HandShape, quaternions
from rookery.robots.manipulators.grasps.surface import sample_surface, through
from rookery.sim.errors import RookeryError

LEVER = 0.03
"""m, distance of the centre of mass from the line of the contacts that takes a grasp's quality down to 1 / e."""
_ROUNDS = 12
_BATCH = 128
_TURNS = 8  # approaches that are tried about each line, of which the first that is clear is taken
_PROBES = 500  # points of the object that are held against the hand


@dataclass(frozen=True)
class Pairs:
    """Contact pairs: points [N, 3] m on the surface, outward normals there [N, 3], unit lines from first to second [N, 3]."""

    first: Floats
    second: Floats
    first_normal: Floats
    second_normal: Floats
    line: Floats

    @property
    def width(self) -> Floats:
        """[N] m, between the contacts."""
        return np.linalg.norm(self.second - self.first, axis=1)

    @property
    def angle(self) -> Floats:
        """[N] rad, between the line and the normals; the larger of both contacts' angles."""
        cosine = np.minimum(-(self.first_normal * self.line).sum(1), (self.second_normal * self.line).sum(1))
        return np.arccos(cosine.clip(-1.0, 1.0))

    def subset(self, rows: NDArray[np.bool_]) -> Pairs:
        """Those of them where `rows` [N] is true."""
        return Pairs(
            self.first[rows], self.second[rows], self.first_normal[rows], self.second_normal[rows], self.line[rows]
        )


def pairs(
    mesh: trimesh.Trimesh, count: int, rng: np.random.Generator, *, friction: float, finger: float = 0.0
) -> Pairs:
    """Contact pairs from `count` drawn lines; lines whose other end is outside its friction cone are left out.

    Args:
        mesh: closed surface, m.
        rng: of the draws.
        friction: coefficient of sliding friction, half the tangent of the cones' opening.
        finger: m, space that a finger needs in front of the object at both ends of the line.
    """
    points, normals = sample_surface(mesh, count, rng)
    lines = _tilted(-normals, friction * np.sqrt(rng.uniform(size=count)), rng.uniform(0.0, 2.0 * np.pi, count))
    length, face, before, behind = through(mesh, points, lines)
    there = np.asarray(mesh.face_normals)[face]
    held = (there * lines).sum(1) >= np.cos(np.arctan(friction))
    keep = np.isfinite(length) & (length > 1e-4) & held & (before > finger) & (behind > finger)
    ends = points + np.where(keep, length, 0.0)[:, None] * lines
    return Pairs(points[keep], ends[keep], normals[keep], there[keep], lines[keep])


def sample(
    mesh: trimesh.Trimesh,
    count: int,
    rng: np.random.Generator,
    *,
    width: float | None = None,
    friction: float = 0.8,
    hand: HandShape = PARALLEL,
    table: float | None = None,
) -> list[GraspPose]:
    """Antipodal grasp poses of an object, best first.

    The grasp frame is in the middle of the contacts, its y is the line through them, and its approach is drawn from the
    circle about that line. The open hand, CLEARANCE from the object on both sides or more, neither cuts the object nor
    reaches below the table; one with long fingers draws back for that, so that it touches with their ends.
    Quality: (1 - a / c) exp(-l / LEVER) with the angle a between line and normals, the friction cone's half opening c, and
    the distance l of the line from the centre of the surface.

    Args:
        mesh: closed surface in the object's frame, m; shells may overlap.
        count: of poses wanted; there are fewer where few exist.
        rng: of all draws; the same seed gives the same poses.
        width: m, largest width to grasp; None: what the hand can take.
        friction: coefficient of sliding friction.
        hand: its space, see HandShape.
        table: m, height of the table in the object's frame; None: the mesh's lowest point.

    Raises:
        RookeryError: a number is not positive, nothing on the object is narrow enough, or the hand always hits the object or
            the table.
    """
    limit = hand.width - 2.0 * CLEARANCE
    width = limit if width is None else min(width, limit)
    if count < 1 or width <= 0.0 or friction <= 0.0:
        raise RookeryError(f"count, width and friction must be positive, got {count}, {width:g} m and {friction:g}.")
    table = float(mesh.bounds[0, 2]) if table is None else table
    probes, _ = sample_surface(mesh, _PROBES, rng)
    found: list[GraspPose] = []
    narrow = 0
    for _ in range(_ROUNDS):
        some = pairs(mesh, _BATCH, rng, friction=friction, finger=max(hand.thickness) + CLEARANCE)
        fits = some.width <= width
        narrow += int(fits.sum())
        if fits.any():
            found += _clear_poses(some.subset(fits), rng, friction, hand, table, probes)
        if len(found) >= count:
            break
    if not found:
        raise RookeryError(_why(mesh, hand, width, narrow))
    return sorted(found[:count], key=lambda pose: -pose.quality)


def _clear_poses(
    some: Pairs, rng: np.random.Generator, friction: float, hand: HandShape, table: float, probes: Floats
) -> list[GraspPose]:
    """For each pair the first of the approaches about its line in which the hand is clear, if there is one; see `sample`.

    Args:
        probes: [P, 3] m, on the object's surface.
    """
    middle = np.repeat(0.5 * (some.first + some.second), _TURNS, axis=0)
    around = rng.uniform(0.0, 2.0 * np.pi, (len(some.line), 1)) + np.arange(_TURNS) * 2.0 * np.pi / _TURNS
    axes = _frames(np.repeat(some.line, _TURNS, axis=0), around.ravel())
    opening = np.repeat(hand.opening(some.width, CLEARANCE), _TURNS)
    place, free = clear(hand, middle, axes, opening, probes, table, max(0.0, hand.reach - GRIP_DEPTH))
    lever = np.linalg.norm(np.cross(probes.mean(0) - middle[::_TURNS], some.line), axis=1)
    quality = (1.0 - some.angle / np.arctan(friction)).clip(0.0, 1.0) * np.exp(-lever / LEVER)
    free = free.reshape(-1, _TURNS)
    poses = []
    for i in np.flatnonzero(free.any(1)):
        k = i * _TURNS + int(free[i].argmax())
        quat = quaternions(axes[k : k + 1])[0]
        poses.append(GraspPose(place[k], quat, float(some.width[i]), float(quality[i]), "antipodal"))
    return poses


def _why(mesh: trimesh.Trimesh, hand: HandShape, width: float, narrow: int) -> str:
    x, y, z = (1000.0 * float(v) for v in mesh.extents)
    size = f"the object measures {x:.0f} x {y:.0f} x {z:.0f} mm"
    if not narrow:
        return (
            f"{size}, and two contacts within their friction cones at most {1000 * width:.0f} mm apart were not found: "
            f"take a hand that opens wider than the {hand.name}'s {1000 * hand.width:.0f} mm, or more friction."
        )
    return f"{size}, and wherever the {hand.name} could hold it, it would hit it or the table: use another sampler or hand."


def _tilted(axes: Floats, tangent: Floats, around: Floats) -> Floats:
    """Unit vectors [N, 3] at angles of the tangents [N] to axes [N, 3], turned by `around` [N] rad about them."""
    u, v = _across(axes)
    out = axes + tangent[:, None] * (np.cos(around)[:, None] * u + np.sin(around)[:, None] * v)
    return out / np.linalg.norm(out, axis=1, keepdims=True)


def _frames(lines: Floats, around: Floats) -> Floats:
    """[N, 3, 3] axes of grasp frames: y along lines [N, 3], z at angles [N] rad about them."""
    u, v = _across(lines)
    approach = np.cos(around)[:, None] * u + np.sin(around)[:, None] * v
    return np.stack((np.cross(lines, approach), lines, approach), axis=2)


def _across(axes: Floats) -> tuple[Floats, Floats]:
    """Two unit vectors [N, 3] square to unit vectors [N, 3] and to each other."""
    least = np.eye(3)[np.abs(axes).argmin(1)]
    u = np.cross(axes, least)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    return u, np.cross(axes, u)

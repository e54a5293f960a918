"""Superquadrics: one smooth shape for a whole object, fitted to points, and grasps by a hand around it.

F(x, y, z) = (|x / a1|^(2 / e2) + |y / a2|^(2 / e2))^(e2 / e1) + |z / a3|^(2 / e1) is 1 on the surface (Barr 1981). Exponents of
1 make ellipsoids; e1 near 0 a cylinder along z; both near 0 a box. Fit: the least squares of Solina and Bajcsy 1990, by the
method of Levenberg and Marquardt. Grasps: after Vezzani, Pattacini and Natale 2017, as in G-PAYN (arXiv 2306.03484), the palm
faces the surface along its normal and the fingers go round the object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.robots.manipulators.grasps.clearing import CLEARANCE, GRIP_DEPTH, clear
from rookery.robots.manipulators.grasps.pose import ALLEGRO, Floats, GraspPose, HandShape, quaternions
from rookery.sim.errors import RookeryError

EXPONENTS = (0.1, 1.8)
"""Range of e1 and e2: below it is a box or cylinder with sharp edges, above it the shape is nearly a diamond's."""
GAP = 0.008
"""m, between the palm and the object before the hand closes."""
LEVER = 0.03
"""m, distance of the centre from the line of approach that takes a grasp's quality down to 1 / e."""
_STEPS, _ENOUGH = 60, 1e-6  # of the fit: at most so many, until the cost falls by less than this share
_DRAWS = 16  # surface points that are tried for each grasp wanted


@dataclass(frozen=True, eq=False)
class Superquadric:
    """A superquadric in the object's frame.

    Args:
        axes: [3] m, half lengths a1, a2, a3. exponents: e1 (towards z) and e2 (around z).
        position: [3] m. quaternion: [4] wxyz, its frame to the object's.
        error: m, root mean square distance of the fitted points from its surface, along the ray from its centre.
    """

    axes: Floats
    exponents: Floats
    position: Floats
    quaternion: Floats
    error: float = 0.0

    @property
    def rotation(self) -> Floats:
        """[3, 3], its frame to the object's."""
        return GraspPose(self.position, self.quaternion, 0.0, 0.0, "").axes

    def inside_outside(self, points: Floats) -> Floats:
        """[N]: F at points [N, 3] m of the object's frame; 1 on the surface, less inside."""
        return _inside_outside((points - self.position) @ self.rotation, self.axes, self.exponents)

    def surface(self, directions: Floats) -> tuple[Floats, Floats]:
        """Points [N, 3] m on the surface and unit outward normals [N, 3] there, object frame.

        Args:
            directions: [N, 3], from its centre, in its own frame.
        """
        e1 = self.exponents[0]
        own = directions * (_inside_outside(directions, self.axes, self.exponents) ** (-0.5 * e1))[:, None]
        normal = _gradient(own, self.axes, self.exponents)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        return own @ self.rotation.T + self.position, normal @ self.rotation.T


def fit(points: Floats) -> Superquadric:
    """The superquadric nearest to points [N, 3] m, N >= 20, spread over the object's surface.

    The cost is Solina and Bajcsy's, sum a1 a2 a3 (F^e1 - 1)^2, of eleven parameters. It has local minima, since the shape is
    not the same along its three axes: the fit begins along each of the points' principal axes, also turned by 45 degrees.

    Raises:
        RookeryError: too few points, or points in a plane.
    """
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 20:
        raise RookeryError(f"a superquadric has 11 parameters: give at least 20 points [N, 3], got {points.shape}.")
    middle = points.mean(0)
    spread, principal = np.linalg.eigh(np.cov((points - middle).T))
    if spread[0] < 1e-6 * spread[2]:
        raise RookeryError("the points lie in a plane: give points from all sides of the object.")
    if np.linalg.det(principal) < 0.0:
        principal[:, 0] *= -1.0
    size = float(np.sqrt(spread.sum()))
    unit = (points - middle) / size
    best: tuple[float, Floats, Floats] | None = None
    for z in range(3):
        for angle in (0.0, 0.25 * np.pi):
            start = principal[:, [(z + 1) % 3, (z + 2) % 3, z]] @ _rotation(np.array([0.0, 0.0, angle]))
            own = unit @ start
            first = np.concatenate((np.log(np.abs(own).max(0)), np.zeros(8)))
            first[8:] = 0.5 * (own.max(0) + own.min(0))
            vector, cost = _least_squares(lambda v, own=own: _residual(v, own), first)  # type: ignore[misc]
            if best is None or cost < 0.98 * best[0]:
                best = cost, vector, start
    assert best is not None
    _, vector, start = best
    axes, exponents, turn, shift = _unpack(vector)
    rotation = start @ turn
    found = Superquadric(size * axes, exponents, middle + size * start @ shift, quaternions(rotation[None])[0])
    own = (points - found.position) @ rotation
    off = np.linalg.norm(own, axis=1) * (1.0 - found.inside_outside(points) ** (-0.5 * exponents[0]))
    return Superquadric(
        found.axes, exponents, found.position, found.quaternion, float(np.sqrt(np.mean(np.square(off))))
    )


def sample(
    superquadric: Superquadric,
    count: int,
    rng: np.random.Generator,
    *,
    hand: HandShape = ALLEGRO,
    table: float | None = None,
    upwards: float = 0.2,
) -> list[GraspPose]:
    """Grasp poses around a superquadric, from the top and the sides, best first.

    The approach is against the surface's normal at a drawn point; the closing axis is an axis of the superquadric, as far as
    it is square to that, to either side; the palm is GAP before the surface, the object midway between the fingers. Where the
    fingers would touch the table, a hand from above draws back and one from the side moves up. Quality: exp(-l / LEVER)
    (1 - width / hand's) with the distance l of the line of approach from the centre.

    Args:
        superquadric: of the object, see `fit`.
        count: of poses wanted; there are fewer where few exist.
        rng: of all draws; the same seed gives the same poses.
        hand: its space, see HandShape.
        table: m, height of the table in the object's frame; None: the superquadric's lowest point.
        upwards: sine of the steepest approach from below.

    Raises:
        RookeryError: the count is not positive, the object is too wide for the hand, or it would always hit the table.
    """
    if count < 1:
        raise RookeryError(f"count must be positive, got {count}.")
    probes, _ = superquadric.surface(rng.normal(size=(800, 3)))
    table = float(probes[:, 2].min()) if table is None else table
    place, axes, width = _fitting(superquadric, _DRAWS * count, rng, hand, upwards, probes)
    opening = hand.opening(width, CLEARANCE)
    aside = axes[:, 2, 2] > -0.5
    below = table + CLEARANCE - (place[:, 2] - hand.lowest(axes, opening))
    place[:, 2] += np.where(aside, below.clip(min=0.0), 0.0)
    fingers = hand.reach - hand.behind[1]
    place, free = clear(hand, place, axes, opening, probes, table, max(0.0, fingers - GRIP_DEPTH))
    free &= _held(np.einsum("npj,njk->npk", probes[None] - place[:, None], axes), hand, opening)
    if not free.any():
        raise RookeryError(f"the {hand.name} would hit the table wherever it could hold the object: raise the object.")
    lever = np.linalg.norm(np.cross(superquadric.position - place, axes[:, :, 2]), axis=1)
    quality = np.exp(-lever / LEVER) * (1.0 - width / hand.width)
    quats = quaternions(axes)
    chosen = np.flatnonzero(free)[:count]
    poses = [GraspPose(place[i], quats[i], float(width[i]), float(quality[i]), "superquadric") for i in chosen]
    return sorted(poses, key=lambda pose: -pose.quality)


def _fitting(
    superquadric: Superquadric, draws: int, rng: np.random.Generator, hand: HandShape, upwards: float, probes: Floats
) -> tuple[Floats, Floats, Floats]:
    """Grasp frames' positions [N, 3] m and axes [N, 3, 3], and the object's width [N] m there, where the hand opens that far.

    Args:
        draws: how many points of the surface are tried.
        probes: [P, 3] m, on the object's surface.
    """
    points, normals = superquadric.surface(rng.normal(size=(draws, 3)))
    keep = normals[:, 2] >= -upwards
    points = points[keep]
    approach = -normals[keep]
    axes = _frames(approach, superquadric.rotation, rng)
    local = np.einsum("npj,njk->npk", probes[None] - points[:, None], axes)
    place, width = _around(local, points, axes, hand)
    fits = width + 2.0 * CLEARANCE <= hand.width
    if not fits.any():
        x, y, z = 2000.0 * superquadric.axes
        raise RookeryError(
            f"the object measures about {x:.0f} x {y:.0f} x {z:.0f} mm, and the {hand.name} opens {1000 * hand.width:.0f} mm: "
            "take a hand that opens wider."
        )
    return place[fits], axes[fits], width[fits]


def _frames(approach: Floats, rotation: Floats, rng: np.random.Generator) -> Floats:
    """[N, 3, 3] axes of grasp frames: z along approaches [N, 3], y near one of the two axes that are most square to it."""
    n = len(approach)
    along = np.abs(approach @ rotation)
    pick = np.argsort(along, axis=1)[np.arange(n), rng.integers(0, 2, n)]
    closing = rotation.T[pick] * rng.choice([-1.0, 1.0], (n, 1))
    closing -= (closing * approach).sum(1, keepdims=True) * approach
    closing /= np.linalg.norm(closing, axis=1, keepdims=True)
    return np.stack((np.cross(closing, approach), closing, approach), axis=2)


def _held(local: Floats, hand: HandShape, opening: Floats) -> NDArray[np.bool_]:
    """[N]: whether some points [N, P, 3] m in the grasp frames are between the fingers, in the middle of these."""
    x, y, z = np.moveaxis(local, -1, 0)
    ahead = (np.abs(x) < hand.breadth) & (z < hand.reach - min(GRIP_DEPTH, 0.5 * (hand.reach - hand.behind[1])))
    low, high = np.where(ahead, x, 1.0).min(1), np.where(ahead, x, -1.0).max(1)  # m
    wide = np.where(ahead, np.abs(y), 0.0).max(1)
    return (ahead.sum(1) >= 8) & (np.abs(low + high) < hand.breadth) & (wide < 0.5 * opening)


def _around(local: Floats, points: Floats, axes: Floats, hand: HandShape) -> tuple[Floats, Floats]:
    """Positions [N, 3] m of grasp frames with the palm before the object and the fingers beside it, and its width [N] m there.

    Args:
        local: [N, P, 3] m, the object's surface in the grasp frames at `points` [N, 3] m with `axes` [N, 3, 3].
    """
    x, y, z = np.moveaxis(local, -1, 0)
    over = (np.abs(x) < hand.across[1]) & (np.abs(y) < hand.width)
    nearest = np.where(over, z, np.inf).min(1)
    face = nearest - GAP  # where the palm stands
    ahead = face - hand.behind[1]
    held = (np.abs(x) < hand.breadth) & (z < (ahead + hand.reach)[:, None])
    low = np.where(held, y, np.inf).min(1)
    high = np.where(held, y, -np.inf).max(1)
    offset = np.stack((np.zeros_like(ahead), 0.5 * (low + high), ahead), axis=1)
    return points + np.einsum("njk,nk->nj", axes, offset), high - low


def _inside_outside(own: Floats, axes: Floats, exponents: Floats) -> Floats:
    e1, e2 = exponents
    x, y, z = np.maximum(np.abs(own / axes), 1e-9).T
    return (x ** (2.0 / e2) + y ** (2.0 / e2)) ** (e2 / e1) + z ** (2.0 / e1)


def _gradient(own: Floats, axes: Floats, exponents: Floats) -> Floats:
    """[N, 3], along the gradient of F at points [N, 3] of its own frame."""
    e1, e2 = exponents
    ratio = np.maximum(np.abs(own / axes), 1e-9)
    x, y, z = ratio.T
    round_z = (x ** (2.0 / e2) + y ** (2.0 / e2)) ** (e2 / e1 - 1.0)
    flat = np.stack((round_z * x ** (2.0 / e2), round_z * y ** (2.0 / e2), z ** (2.0 / e1)), axis=1)
    return np.sign(own) * flat / ratio / axes


def _unpack(vector: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Half axes [3], exponents [2], rotation [3, 3] and position [3] of the vector [11] that the fit works on.

    In units of the points' rms distance from their middle: no half axis of a closed surface is longer than twice that.
    """
    low, high = EXPONENTS
    exponents = low + (high - low) / (1.0 + np.exp(-vector[3:5].clip(-20.0, 20.0)))
    return np.exp(vector[:3].clip(-5.0, 0.7)), exponents, _rotation(vector[5:8]), vector[8:]


def _residual(vector: Floats, own: Floats) -> Floats:
    axes, exponents, turn, shift = _unpack(vector)
    value = _inside_outside((own - shift) @ turn, axes, exponents)
    return np.sqrt(axes.prod()) * (value ** exponents[0] - 1.0)


def _rotation(vector: Floats) -> Floats:
    """[3, 3] of a rotation vector [3] rad (Rodrigues)."""
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def _least_squares(residual: Callable[[Floats], Floats], vector: Floats) -> tuple[Floats, float]:
    """The vector that a descent from `vector` ends at, and its cost (Levenberg and Marquardt; differences for slopes)."""
    now = residual(vector)
    cost = float(now @ now)
    damping = 1e-2
    step = 1e-6
    for _ in range(_STEPS):
        slopes = np.stack([(residual(vector + step * e) - now) / step for e in np.eye(len(vector))], axis=1)
        normal = slopes.T @ slopes
        pull = slopes.T @ now
        before = cost
        while damping < 1e8:
            trial = vector - np.linalg.solve(
                normal + damping * (np.diag(np.diag(normal)) + 1e-9 * np.eye(len(vector))), pull
            )
            there = residual(trial)
            if float(there @ there) < cost:
                vector = trial
                now = there
                cost = float(there @ there)
                damping *= 0.3
                break
            damping *= 4.0
        if before - cost <= _ENOUGH * before:
            break
    return vector, cost

"""Angles of an arm's joints when its tool looks down over a table: home, and what it can reach from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.robots.manipulators.chain import HingeChain, tools
from rookery.robots.manipulators.pose_search import PoseSearch, track_pose

Floats = NDArray[np.float64]
HOMES = ((0.45, 0.0, 0.3), (0.55, 0.0, 0.15))
"""m, base's frame, of the tool at home: as a Panda's, or farther out for arms that fold less."""
PLACES: tuple[tuple[float, float, float], ...] = (
    (0.43, 0.0, -0.05), (0.43, 0.1, -0.18), (0.43, -0.1, -0.18), (0.63, 0.1, -0.18), (0.63, -0.1, -0.18), (0.73, 0.1, -0.18),
    (0.73, -0.1, -0.18), (0.63, 0.1, 0.1), (0.63, -0.1, 0.1), (0.73, 0.1, 0.1), (0.73, -0.1, 0.1),
)  # fmt: skip
"""m, likewise: ends of where tools, pucks and goals of table-reach, table-push and table-pick-place are."""
STARTS = 256
NEARER = np.arange(0.0, 0.37, 0.03)
"""m, tried one after the other: how much nearer to its places an arm stands than a Panda."""
MARGIN = 0.05  # rad, from the limits, as of manipulator.MARGIN
LOW = 0.05  # m, under the base's frame, which no joint of an arm at home is


@dataclass(frozen=True)
class Postures:
    """Result of the search.

    Args:
        home, across: [J] rad, fingers closing along the base's y and x.
        nearer: m, see ManipulatorModel.
        poses: [P, J] rad, of an arm whose tool is at PLACES.
    """

    home: Floats
    across: Floats
    nearer: float
    poses: Floats


def search(
    chain: HingeChain, lower: Floats, upper: Floats, home: Floats | None, nearer: float | None, fingers: bool
) -> Postures | None:
    """Home and distance of an arm whose chain is in its base's frame; None where it reaches no PLACES.

    Args:
        lower, upper: [J] rad. home: [J] rad, or None to look for one. nearer: m, or None likewise.
        fingers: False where the way in which they close does not matter or is not to be chosen.
    """
    low, high = lower + MARGIN, upper - MARGIN
    down = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
    for near in NEARER if nearer is None else (nearer,):
        shift = np.array([near, 0.0, 0.0])
        if home is None:
            homes = np.concatenate([_homes(chain, low, high, down, np.array(p) - shift)[:12] for p in HOMES])
        else:
            homes = home[None]
        for candidate in homes:
            _, turn = _tool(chain, candidate[None])
            turned = candidate
            if fingers:
                found = _quarter(chain, low, high, candidate, turn[0])
                if found is None:
                    continue
                turned = found
            _, facing = _tool(chain, turned[None])
            poses = _follow(chain, low, high, turned, facing[0], np.array(PLACES) - shift)
            if poses is not None:
                return Postures(candidate, turned, round(float(near), 3), poses)
    return None


def _tool(chain: HingeChain, q: Floats) -> tuple[Floats, Floats]:
    pos, turn = np.zeros((len(q), 3)), np.zeros((len(q), 3, 3))
    tools(np.ascontiguousarray(q), chain, pos, turn)
    return pos, turn


def _track(
    chain: HingeChain, low: Floats, high: Floats, q: Floats, place: Floats, turn: Floats, home: Floats
) -> Floats:
    """[S] whether joint angles q [S, J], which are moved, now bring the tool there."""
    goal, facing = np.ascontiguousarray(place, float), np.ascontiguousarray(turn, float)
    track_pose(q, goal, facing, chain, PoseSearch(low, high, home, damping=0.05, posture=0.02, most=0.3), 60)
    track_pose(q, goal, facing, chain, PoseSearch(low, high, home, damping=0.001, posture=0.0, most=0.1), 10)
    pos, now = _tool(chain, q)
    cosine = 0.5 * ((now * facing).sum((1, 2)) - 1.0)
    if len(low) < 6:  # spin about the tool's z follows from the rest
        cosine = (now[:, :, 2] * facing[:, :, 2]).sum(1)
    return (np.linalg.norm(pos - goal, axis=1) < 1e-3) & (np.arccos(np.clip(cosine, -1.0, 1.0)) < 0.01)


def _homes(chain: HingeChain, low: Floats, high: Floats, down: Floats, place: Floats) -> Floats:
    """[H, J] rad: joint angles that bring the tool to a place, the best first: elbow high, arm in its plane, joints near the
    middle of their turns."""
    start = np.random.default_rng(0).uniform(np.maximum(low, -2.5), np.minimum(high, 2.5), (STARTS, len(low)))
    found = []
    for turn in (down, down * np.array([-1.0, -1.0, 1.0])):  # parallel fingers have no front
        q = start.copy()
        good = _track(chain, low, high, q, np.tile(place, (STARTS, 1)), np.tile(turn, (STARTS, 1, 1)), start.mean(0))
        found.append(q[good])
    q = np.concatenate(found)
    if not len(q):
        return q
    joints = np.stack([_places(chain, one) for one in q])
    room = np.minimum(q - low, high - q).min(1).clip(0.0, 0.3)
    height = joints[:, :, 2].max(1)
    aside = np.abs(joints[:, :, 1]).max(1)
    score = 3.0 * room + 2.0 * height - 2.0 * aside - 0.1 * np.abs(q).sum(1)
    score[joints[:, 1:, 2].min(1) < -LOW] = -np.inf
    return np.round(q[np.argsort(-score)][: int(np.isfinite(score).sum())], 4) + 0.0


def _places(chain: HingeChain, q: Floats) -> Floats:
    """[J, 3] m, of the joints."""
    turns, offsets, axes = chain
    out = []
    turn, place = np.eye(3), np.zeros(3)
    for n, axis in enumerate(axes):
        place = place + turn @ offsets[n]
        turn = turn @ turns[n] @ about(axis, q[n])
        out.append(place)
    return np.array(out)


def about(axis: Sequence[float] | Floats, angle: float) -> Floats:
    """[3, 3]: rotation about a unit axis, rad."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def _quarter(chain: HingeChain, low: Floats, high: Floats, home: Floats, turn: Floats) -> Floats | None:
    """[J] rad: home with the tool turned by a quarter about the vertical, whichever way is nearer."""
    place, _ = _tool(chain, home[None])
    best = None
    for side in (-1.0, 1.0):
        q = home[None].copy()
        good = True
        for step in np.linspace(0.0, 0.5 * np.pi, 7)[1:]:
            facing = about((0.0, 0.0, 1.0), side * step) @ turn
            good = bool(_track(chain, low, high, q, place, facing[None], q[0].copy())[0])
        if good and (best is None or np.abs(q[0] - home).max() < np.abs(best - home).max()):
            best = q[0]
    return best


def _follow(chain: HingeChain, low: Floats, high: Floats, home: Floats, turn: Floats, places: Floats) -> Floats | None:
    """[P, J] rad from which the tool is at places; None where one of them is out of reach."""
    q = np.tile(home, (len(places), 1))
    good = _track(chain, low, high, q, places, np.tile(turn, (len(places), 1, 1)), home)
    return q if good.all() else None

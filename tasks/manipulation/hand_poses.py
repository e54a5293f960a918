"""The grasps that hand-grasp begins at: sampled on an object once, those that can be reached, best first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from rookery.assets.allegro import CHAINS
from rookery.assets.objects import ObjectModel, find_object, names
from rookery.robots.manipulators.grasps import ALLEGRO, GraspPose, antipodal, superquadric
from rookery.robots.manipulators.grasps.surface import Floats, sample_surface
from rookery.sim.errors import RookeryError, unknown

SAMPLERS = ("superquadric", "antipodal")
BACK = 0.05
"""m, from the grasp back along the approach to where the hand begins (G-PAYN, arXiv 2306.03484)."""
BELOW = 0.25
"""Sine of the steepest approach from below: the table leaves no room for more."""
_POINTS = 500
_MORE = 6
_SWEEP = (0.0125, 0.025, 0.0375, 0.05)


@dataclass(frozen=True)
class GraspList:
    """P grasps in the object's frame, best first.

    Args:
        position: [P, 3] m, of the hand's grasp frame. quaternion: [P, 4] wxyz.
        tips: [P] bool, the object is too far from the palm to be wrapped: it is held by the finger tips.
        centre: [3] m, of the superquadric fitted to the object.
    """

    position: Tensor
    quaternion: Tensor
    tips: Tensor
    centre: Tensor


@cache
def grasp_list(name: str, sampler: str, count: int, seed: int) -> GraspList:
    """Grasps of a library object by the Allegro hand; the same for the same arguments.

    Args:
        name: of the object. sampler: of SAMPLERS. count: how many at most. seed: of the sampler's draws.

    Raises:
        RookeryError: unknown names, a count below one, or no grasp that can be reached.
    """
    if name not in names():
        raise unknown("object", name, names())
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    item = find_object(name)
    rng = np.random.default_rng(seed)
    points, _ = sample_surface(item.mesh, _POINTS, rng)
    fitted = superquadric.fit(points)
    table = -item.rest_height
    if sampler == "superquadric":
        poses = superquadric.sample(fitted, _MORE * count, rng, table=table)
    else:
        poses = antipodal.sample(item.mesh, _MORE * count, rng, hand=ALLEGRO, table=table)
    poses = [pose for pose in poses if _reachable(pose, points, table)]
    if not poses:
        raise RookeryError(
            f"no {sampler} grasp of {name!r} can be reached from {1000 * BACK:.0f} mm away: raise grasps."
        )
    poses = sorted(poses, key=lambda pose: -_merit(pose, item, points))[:count]
    return GraspList(
        _tensor([pose.position for pose in poses]), _tensor([pose.quaternion for pose in poses]),
        torch.tensor([_far(pose, points) for pose in poses]), _tensor(fitted.position),
    )  # fmt: skip


def _tensor(values: object) -> Tensor:
    return torch.tensor(np.array(values), dtype=torch.float32)


def _reachable(pose: GraspPose, points: Floats, table: float) -> bool:
    """True where the open hand comes straight along its approach without hitting object or table."""
    axes = pose.axes[None]
    approach = axes[0, :, 2]
    if approach[2] > BELOW:
        return False
    opening = np.array([ALLEGRO.width])
    lowest = ALLEGRO.lowest(axes, opening)[0]
    for back in _SWEEP:
        at = pose.position - back * approach
        local = (points - at) @ axes[0]
        if at[2] - lowest < table or ALLEGRO.inside(local[None], opening, 0.001)[0]:
            return False
    return True


def _between(pose: GraspPose, points: Floats) -> Floats:
    """[M, 3] m: the points between the fingers, in the grasp frame."""
    local = (points - pose.position) @ pose.axes
    keep = (np.abs(local[:, 0]) < ALLEGRO.breadth) & (np.abs(local[:, 1]) < 0.5 * ALLEGRO.width)
    return local[keep & (local[:, 2] < ALLEGRO.reach)]


NEAR_PALM = 0.06
"""m, from the palm to the object: what is farther away the fingers do not wrap, their tips pinch it. potted_meat_can from
above, at 0.05 m, was held by power grasps at 18 of 32 starts and by pinches at 13 of 40; a cube of 50 mm is at 0.08 m."""
FINGERS = (CHAINS["ff"][0].pos[1], 0.0, CHAINS["rf"][0].pos[1])
"""m, where the three fingers stand across the grasp frame."""
THUMB = CHAINS["th"][0].pos[1]
"""m, where the thumb stands across the grasp frame: between the first two fingers."""
DEEP = 0.05  # m, along the approach from the grasp frame: up to there the fingers hold firmly
_WIDE, _ENOUGH = 0.012, 15  # m, half of what a finger covers; so many of the object's points it is to meet


def _far(pose: GraspPose, points: Floats) -> bool:
    return bool(_between(pose, points)[:, 2].min(initial=1.0) > ALLEGRO.behind[1] + NEAR_PALM)


def _merit(pose: GraspPose, item: ObjectModel, points: Floats) -> float:
    """Faults that the samplers leave out, and what grasps of heavy things failed by when they were tried.

    How many of the fingers meet the object; how far beside or above the thumb's line its weight is, since against the thumb all
    fingers turn it, and what hangs below hangs well and what stands above tips over; how far it is before the palm, where the
    hand has little force; how level the fingers close.
    """
    held = _between(pose, points)
    com = np.asarray(item.com)
    if not len(held):
        return 0.0
    meet = sum((np.abs(held[:, 0] - x) < _WIDE).sum() >= _ENOUGH for x in FINGERS) / len(FINGERS)
    middle = np.array([THUMB, *held.mean(0)[1:]])
    arm = com - pose.position - pose.axes @ middle
    arm[2] = max(0.0, arm[2])
    ahead = max(0.0, float((com - pose.position) @ pose.axes[:, 2]) - DEEP)
    level = 1.0 - 0.5 * abs(pose.axes[2, 1])
    return float(meet * level * np.exp(-(np.linalg.norm(arm) + ahead) / superquadric.LEVER))

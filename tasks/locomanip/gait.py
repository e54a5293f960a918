"""The trot as its rewards see it: which legs swing when, how high feet should be, what walking should avoid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.tasks.locomanip.posture import kneeling

if TYPE_CHECKING:
    from rookery.tasks.locomanip.base import LeggedTask

TROT = torch.tensor((0.0, 0.5, 0.5, 0.0))
"""Phase of each leg (front left, front right, rear left, rear right) in the gait."""
EDGE_M = 0.12  # m, of a Go2, before and behind a foot in which the ground's height matters to a swing
LANDING_M = (
    0.03  # m, of a Go2, height of a foot over the ground from which its speed downwards counts as that of a landing
)


def swings(phase: Tensor) -> Tensor:
    """[N, 4] bool of phases [N]: each leg swings in the first half of its own phase."""
    return _of_legs(phase) < 0.5


def swing_height(phase: Tensor, height: float) -> Tensor:
    """[N, 4] m over the ground that feet should have at phases [N], `height` in the middle of a swing.

    A squared sine: it begins and ends without speed, where a sine would have feet land at 2 pi height gait_hz, 1 m/s.
    """
    legs = _of_legs(phase)
    return height * torch.sin(2.0 * math.pi * legs).square() * (legs < 0.5)


def _of_legs(phase: Tensor) -> Tensor:
    return (phase[:, None] + TROT) % 1.0


def gait_terms(task: LeggedTask) -> dict[str, Tensor]:
    """[N, 1] each: how well feet follow the gait, and what walking should avoid. Unweighted.

    Each is in the units of a Go2 that moves alike (`Scale`), so that the same weights suit robots of any size and weight.
    """
    r, c, size = task.robot, task.cfg, task.scale
    walks = task.moving
    moving = walks[:, None]
    swing = swings(task.phase) & moving
    wanted = swing_height(task.phase, task.swing_height) * moving
    velocity = r.velocity
    force = r.force[:, :12]
    speeds, rates, areas = size.velocity**2, size.rate**2, size.length**2
    bent = r.pos[:, :12] - r.home[:12]
    down = (-r.foot_vel[..., 2]).clamp_min(0.0) * (~task.contact & (task.clearance < LANDING_M * size.length))
    terms = {
        "tracking_lin_vel": torch.exp(
            -(velocity[:, :2] - task.command[:, :2]).square().sum(1) / (c.tracking_sigma * speeds)
        ),
        "tracking_ang_vel": torch.exp(
            -(r.base.ang_vel[:, 0, 2] - task.command[:, 2]).square() / (2.0 * c.tracking_sigma * rates)
        ),
        "lin_vel_z": _in(speeds, velocity[:, 2].square()),
        "ang_vel_xy": _in(rates, r.base.ang_vel[:, 0, :2].square().sum(1)),
        "orientation": r.up[:, :2].square().sum(1),
        "base_height": _in(areas, (task.height - task.model.stand_height).square()),
        "gait_phase": (task.contact == swing).float().mean(1),  # a fault: down in its swing, or up in its stance
        "feet_clearance": _in(areas, (short_of(task, wanted).square() * swing).sum(1)),
        "feet_slip": _in(speeds, task.slip),
        "feet_landing": _in(speeds, down.square().sum(1)),
        "torques": _in(size.torque**2, force.square().sum(1)),
        "power": _in(size.power, (force * r.vel[:, :12]).clamp_min(0.0).sum(1)),
        "action_rate": (task.last_action - task.before_action).square().sum(1),
        "hip_pos": bent.square()[:, ::3].sum(1),
        "stand_still": bent.abs().sum(1) * ~walks,
        "undesired_contacts": (task.undesired > 0).float(),
        "self_collision": (task.colliding > 0).float(),
        "kneeling": kneeling(task.knees),
        "termination": task.fallen.float(),
    }
    return {k: v[:, None] for k, v in terms.items()}


def _in(unit: float, value: Tensor) -> Tensor:
    """A value in another unit; a Go2's own are 1."""
    return value if unit == 1.0 else value / unit


def short_of(task: LeggedTask, wanted: Tensor) -> Tensor:
    """[N, 4] m, how far feet are from the height above the ground that the gait asks for. On terrain, how far below it,
    the ground being the highest within EDGE_M ahead and behind: a foot must rise before the step that it comes to, and
    whatever it rises above a lower one is no fault."""
    if task.terrain is None:
        return task.clearance - wanted
    feet = task.robot.foot_pos
    ahead = EDGE_M * task.scale.length * torch.stack((task.robot.yaw.cos(), task.robot.yaw.sin()), dim=1)[:, None]
    near = torch.cat((feet[..., :2] + ahead, feet[..., :2] - ahead), dim=1)
    top = task.ground.at(near).view(-1, 2, 4).amax(1)
    clearance = torch.minimum(task.clearance, feet[..., 2] - top - task.model.foot_radius)
    return (wanted - clearance).clamp_min(0.0)

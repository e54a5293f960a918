"""The trot as its rewards see it: which legs swing when, how high feet should be, what walking should avoid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.tasks import rewards
from rookery.tasks.locomanip.posture import LEAST_KNEES

if TYPE_CHECKING:
    from rookery.tasks.locomanip.base import LeggedBase

TROT = (0.0, 0.5, 0.5, 0.0)
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
    return (phase[:, None] + torch.tensor(TROT)) % 1.0


def gait_terms(task: LeggedBase) -> dict[str, Tensor]:
    """[N, 1] each: how well feet follow the gait, and what walking should avoid. Unweighted.

    Each is in the units of a Go2 that moves alike (`Scale`), so that the same weights suit robots of any size and weight.
    """
    r, size, sigma = task.robot, task.scale, task.cfg.tracking_sigma
    command = task.followed
    moving = task.asks_for_steps(command)
    swing = swings(task.phase) & moving[:, None]
    wanted = swing_height(task.phase, task.swing_height) * moving[:, None]
    landing = ~task.contact & (task.clearance < LANDING_M * size.length)
    velocity, spin, torque = r.velocity, r.base.ang_vel[:, 0], r.force[:, :12]
    legs, home = r.pos[:, :12], r.home[:12]
    speeds, rates = size.velocity**2, size.rate**2
    terms = {
        "tracking_lin_vel": rewards.track_lin_vel_xy_exp(velocity, command[:, :2], math.sqrt(sigma * speeds)),
        "tracking_ang_vel": rewards.track_ang_vel_z_exp(spin[:, 2], command[:, 2], math.sqrt(2.0 * sigma * rates)),
        "lin_vel_z": rewards.lin_vel_z_l2(velocity) / speeds,
        "ang_vel_xy": rewards.ang_vel_xy_l2(spin) / rates,
        "orientation": rewards.flat_orientation_l2(r.up),
        "base_height": rewards.base_height_l2(task.height, task.model.stand_height) / size.length**2,
        "gait_phase": rewards.feet_gait(task.contact, swing),
        "feet_clearance": rewards.feet_clearance_l2(short_of(task, wanted), swing) / size.length**2,
        "feet_slip": task.slip / speeds,
        "feet_landing": rewards.feet_landing_l2(r.foot_vel, landing) / speeds,
        "torques": rewards.joint_torques_l2(torque) / size.torque**2,
        "power": rewards.joint_power(torque, r.vel[:, :12]) / size.power,
        "action_rate": rewards.action_rate_l2(task.last_action, task.before_action),
        "hip_pos": rewards.joint_deviation_l2(legs[:, ::3], home[::3]),
        "stand_still": rewards.joint_deviation_l1(legs, home) * ~moving,
        "undesired_contacts": rewards.undesired_contacts(task.undesired),
        "self_collision": rewards.undesired_contacts(task.colliding),
        "kneeling": rewards.kneeling(task.knees, LEAST_KNEES),
        "termination": rewards.is_terminated(task.fallen),
        "alive": rewards.is_alive(task.fallen),
    }
    return {k: v[:, None] for k, v in terms.items()}


def short_of(task: LeggedBase, wanted: Tensor) -> Tensor:
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

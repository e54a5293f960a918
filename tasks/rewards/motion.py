"""Reward terms of bodies, joints and actions, whatever the robot; names are Isaac Lab's (isaaclab/envs/mdp/rewards.py)."""

from __future__ import annotations

from torch import Tensor


def is_alive(terminated: Tensor) -> Tensor:
    """[...] 1 where an episode, terminated [...] bool, goes on."""
    return (~terminated).float()


def is_terminated(terminated: Tensor) -> Tensor:
    """[...] 1 where an episode, terminated [...] bool, ends otherwise than by time."""
    return terminated.float()


def lin_vel_z_l2(lin_vel: Tensor) -> Tensor:
    """[...] (m/s)^2, square of the vertical velocity of lin_vel [..., 3] m/s."""
    return lin_vel[..., 2].square()


def ang_vel_l2(ang_vel: Tensor) -> Tensor:
    """[...] (rad/s)^2, sum of the squares of angular velocities [..., 3] rad/s."""
    return ang_vel.square().sum(-1)


def ang_vel_xy_l2(ang_vel: Tensor) -> Tensor:
    """[...] (rad/s)^2, sum of the squares of roll and pitch rate of ang_vel [..., 3] rad/s, body axes."""
    return ang_vel[..., :2].square().sum(-1)


def flat_orientation_l2(up: Tensor) -> Tensor:
    """[...] squared sine of the tilt; up [..., 3] is the world's z axis (or gravity, upward) in body axes."""
    return up[..., :2].square().sum(-1)


def base_height_l2(height: Tensor, target: float) -> Tensor:
    """[...] m^2, squared difference of heights [...] m over the ground from a target height, m."""
    return (height - target).square()


def joint_torques_l2(torque: Tensor) -> Tensor:
    """[...] (N m)^2, sum of the squares of joint torques [..., J] N m."""
    return torque.square().sum(-1)


def joint_vel_l2(vel: Tensor) -> Tensor:
    """[...] (rad/s)^2, sum of the squares of joint velocities [..., J] rad/s."""
    return vel.square().sum(-1)


def joint_deviation_l1(angles: Tensor, default: Tensor) -> Tensor:
    """[...] rad, sum of the sizes of the differences of joint angles [..., J] rad from default ones [J] rad."""
    return (angles - default).abs().sum(-1)


def joint_deviation_l2(angles: Tensor, default: Tensor) -> Tensor:
    """[...] rad^2, sum of the squared differences of joint angles [..., J] rad from default ones [J] rad."""
    return (angles - default).square().sum(-1)


def joint_power(torque: Tensor, vel: Tensor) -> Tensor:
    """[...] W, mechanical power that motors give at joints: torques [..., J] N m, velocities [..., J] rad/s. What they brake is
    not given back."""
    return (torque * vel).clamp_min(0.0).sum(-1)


def action_l2(action: Tensor) -> Tensor:
    """[...] sum of the squares of normalized actions [..., D]."""
    return action.square().sum(-1)


def action_rate_l2(action: Tensor, before: Tensor) -> Tensor:
    """[...] sum of the squared changes of normalized actions [..., D] since the control step before."""
    return (action - before).square().sum(-1)


def undesired_contacts(count: Tensor) -> Tensor:
    """[...] 1 where there is a contact; count [...] of contact points (`World.contact_count`)."""
    return (count > 0).float()

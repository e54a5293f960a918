"""Fetching without learning: walk to the ball, stand, grasp, walk back; legs trot, the arm follows by inverse kinematics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.robots.quadrupeds.go2 import STAND_HEIGHT
from rookery.tasks.locomanip.controller import WholeBodyController
from rookery.tasks.locomanip.reach import AHEAD_S

if TYPE_CHECKING:
    from rookery.tasks.locomanip.fetch import Fetch

REACH_M = 0.45  # m, ahead of the trunk, of the ball that it grasps, as in generators.generate("pick-ball")
SLACK_M = (0.05, 0.1)  # m, ahead and aside, of the ball from there, within which it stands
SPEED, TURN_RATE = 0.5, 0.8  # m/s, rad/s, at most
FACING_RAD = 0.5  # rad, off its way, from which on it turns on the spot


def commands(task: Fetch) -> tuple[Tensor, Tensor]:
    """Velocities for the base [N, 3] m/s, m/s, rad/s, and who stands and grasps, [N] bool."""
    here = task.robot.base.pos[:, 0]
    ball = task.in_body(task.ball.pos[:, 0] - here)
    to = torch.where(task.closed[:, None], task.in_body(task.start - here), ball)
    angle = torch.atan2(to[:, 1], to[:, 0])
    left = to[:, :2].norm(dim=1) - torch.where(task.closed, 0.0, REACH_M)
    ahead = torch.where(angle.abs() < FACING_RAD, (1.2 * left).clamp(-0.3, SPEED), 0.0)
    command = torch.stack((ahead, torch.zeros_like(ahead), (1.5 * angle).clamp(-TURN_RATE, TURN_RATE)), 1)
    grasps = ((ball[:, 0] - REACH_M).abs() < SLACK_M[0]) & (ball[:, 1].abs() < SLACK_M[1]) & ~task.closed
    return torch.where(grasps[:, None], 0.0, command), grasps


def fetch_script(task: Fetch) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """The controller of a go2arm-fetch."""
    body = WholeBodyController(task.robot, task.tool, task.gait_hz, task.cfg.control_dt)
    task.child("controller", body)
    level = torch.tensor([0.0, 0.0, STAND_HEIGHT])

    def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
        command, grasps = commands(task)
        goals = task.goals(task.pose)
        grasp, stow = (goals[what, AHEAD_S] for what in ("grasp", "stow"))
        pos, quat = (torch.where(grasps[:, None], a, b) for a, b in zip(grasp, stow, strict=True))
        seen = task.in_trunk(pos, quat)
        last = task.last_action[:, 12:]
        begins = task.steps == 0
        moving = task.asks_for_steps(command)
        action = body.act(seen, (pos - level, quat), 0.0, task.phase, command, moving, begins, last)
        return {"robot": action[:, None]}

    return act

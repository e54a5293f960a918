"""Goals of an end effector that come from a library of trajectories, one for each episode; see goals.MovingGoals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rookery.robots.quadrupeds.quadruped import Quadruped
from rookery.sim.buffers import Buffers
from rookery.sim.rotations import multiply
from rookery.tasks.locomanip.generators import WIPE_PRESS
from rookery.tasks.locomanip.trajectories import Trajectory
from rookery.tasks.locomanip.trajectory_math import conjugate, rotate
from rookery.tasks.locomanip.trajectory_table import Reference, TrajectoryTable

MARKS = 32
"""Points along the way over a board that are looked at."""
CATCH_UP = (1.5, 1.0, 1.2)
"""1/s: how fast the base returns to where the trajectory has it: ahead, sideways, heading."""
SLACK = (0.015, 0.015, 0.03)
SLACK_STANDING = (0.15, 0.15, 0.3)
"""m, m, rad of that error which the base leaves to the arm, while the trajectory drives and while it stands: a robot that
stands and handles something had better not step. From there on commands begin at a speed at which legs do step."""
SETTLE_S = 1.6  # s, played, after a drive in which the base still comes to where it should be


class LibraryGoals(Buffers):
    """Trajectories that N robots are to follow: a trajectory each, in the frame of where the robot stood at its start.

    Args:
        trajectories: in the frame "start".
        table: the same ones at the rate of control.
        robot: whose place it reads; `Quadruped.refresh` keeps it current.

    Attributes:
        dt: s, control step.
        trajectory, clock: [N] int64, which one, and control steps into it.
        origin: [N, 3] x m, y m, heading rad of the start frame in the world.
        base_plan: [N, 3] likewise, where the base should be now, in the start frame.
    """

    trajectory: Tensor
    clock: Tensor
    origin: Tensor
    base_plan: Tensor

    def __init__(self, trajectories: Sequence[Trajectory], table: TrajectoryTable, robot: Quadruped) -> None:
        super().__init__()
        self.table = table
        self.robot = robot
        self.dt = table.control_dt
        n = robot.world.num_envs
        for name in ("trajectory", "clock"):
            self.buffer(name, n, dtype=torch.int64)
        for name in ("origin", "base_plan"):
            self.buffer(name, n, 3)
        self.marks = torch.stack([_marks(x) for x in trajectories])  # [K, MARKS, 2] m, in the board's plane

    def reset(self, ids: Tensor) -> None:
        """The robot stands at the start."""
        state = self.robot.base.state[ids, 0]
        self.origin[ids, :2] = state[:, :2]
        self.origin[ids, 2] = heading(state[:, 3:7])
        self.clock[ids] = 0
        self.base_plan[ids] = 0.0

    def advance(self) -> None:
        """Let a control step pass, in which the base should have followed its command."""
        command = self.reference(0.0).base_command[:, 0]
        half = self.base_plan[:, 2] + 0.5 * self.dt * command[:, 2]
        self.base_plan[:, :2] += self.dt * turned(half, command[:, :2])
        self.base_plan[:, 2] += self.dt * command[:, 2]
        self.clock += 1

    def reference(self, *ahead_s: float) -> Reference:
        """The trajectories at the times now + ahead_s, in the start frame."""
        offsets = torch.tensor([round(a / self.dt) for a in ahead_s])
        return self.table(self.trajectory, self.clock, offsets)

    def over(self, wait_s: float) -> Tensor:
        """[N] bool: the trajectory ended `wait_s` s ago."""
        return self.clock >= self.table.steps[self.trajectory] + round(wait_s / self.dt)

    def pose(self, ahead_s: float = 0.0) -> tuple[Tensor, Tensor]:
        """Goals in the stance frame: pos [N, 3] m, quat [N, 4] wxyz."""
        ref = self.reference(ahead_s)
        here = self.robot.base.state[:, 0]
        turn = self.origin[:, 2] - self.robot.yaw
        level = turned(self.origin[:, 2], ref.pos[:, 0, :2]) + self.origin[:, :2] - here[:, :2]
        pos = torch.cat((turned(-self.robot.yaw, level), ref.pos[:, 0, 2:]), dim=1)
        return pos, multiply(about_z(turn), ref.quat[:, 0])

    def planned(self, ahead_s: float, height: float) -> tuple[Tensor, Tensor]:
        """Goals [N, 3] m, [N, 4] from a trunk that is level at `height` m, where the trajectory has the base now."""
        ref = self.reference(ahead_s)
        yaw = self.base_plan[:, 2]
        level = turned(-yaw, ref.pos[:, 0, :2] - self.base_plan[:, :2])
        return torch.cat((level, ref.pos[:, 0, 2:] - height), dim=1), multiply(about_z(-yaw), ref.quat[:, 0])

    def base_error(self) -> Tensor:
        """[N, 3] m, m, rad: from where the base is to where it should be; ahead, left, turned left."""
        here = self.robot.base.state[:, 0, :2]
        yaw = self.robot.yaw
        level = self.origin[:, :2] + turned(self.origin[:, 2], self.base_plan[:, :2]) - here
        turn = self.origin[:, 2] + self.base_plan[:, 2] - yaw
        return torch.cat((turned(-yaw, level), torch.atan2(turn.sin(), turn.cos())[:, None]), dim=1)

    def command(self, most: Tensor) -> Tensor:
        """[N, 3] m/s, m/s, rad/s: the trajectory's velocities and what brings the base back to it, within +-most [3]."""
        drive = self.reference(0.0).base_command[:, 0]
        error = self.base_error()
        lately = self.reference(0.0, -0.5 * SETTLE_S, -SETTLE_S).base_command.abs().amax((1, 2))
        stands = (lately < 1e-3)[:, None]
        slack = torch.where(stands, torch.tensor(SLACK_STANDING), torch.tensor(SLACK))
        out = drive + torch.tensor(CATCH_UP) * torch.where(error.abs() > slack, error, 0.0)
        return torch.maximum(torch.minimum(out, most), -most)

    def in_world(self, ids: Tensor, pos: Tensor, quat: Tensor) -> tuple[Tensor, Tensor]:
        """Poses [n, 3] m, [n, 4] from the start frames of the worlds `ids` to the world's."""
        yaw = self.origin[ids, 2]
        level = turned(yaw, pos[:, :2]) + self.origin[ids, :2]
        return torch.cat((level, pos[:, 2:]), dim=1), multiply(about_z(yaw), quat)


def played(x: Trajectory, pace: float) -> Trajectory:
    """The same trajectory, `pace` times as fast."""
    return replace(x, t=x.t / pace, base_command=x.base_command * pace)


def turned(angle: Tensor, v: Tensor) -> Tensor:
    """Vectors [N, 2] turned left by angles [N] rad."""
    cos = angle.cos()
    sin = angle.sin()
    return torch.stack((cos * v[:, 0] - sin * v[:, 1], sin * v[:, 0] + cos * v[:, 1]), dim=1)


def about_z(angle: Tensor) -> Tensor:
    """[N, 4] wxyz."""
    zero = torch.zeros_like(angle)
    return torch.stack(((0.5 * angle).cos(), zero, zero, (0.5 * angle).sin()), dim=1)


def heading(quat: Tensor) -> Tensor:
    """[N] rad, of where x points, of rotations [N, 4]."""
    w, x, y, z = quat.unbind(-1)
    return torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def _marks(x: Trajectory) -> Tensor:
    """[MARKS, 2] m: points on the way over a board, in its plane, equally far apart; zeros without a board."""
    if x.family != "wipe-board":
        return torch.zeros(MARKS, 2)
    at = rotate(conjugate(x.object_quat[0]), x.pos - x.object_pos[0])
    path = at[np.abs(at[:, 0] - WIPE_PRESS) < 1e-6, 1:]
    length = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))))
    where = np.linspace(0.0, length[-1], MARKS)
    return torch.tensor(np.stack([np.interp(where, length, path[:, i]) for i in range(2)], axis=1), dtype=torch.float32)

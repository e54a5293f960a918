"""A Go2 with an arm without learning: the legs trot, the arm follows by inverse kinematics."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.robots.arms.kinematics import Kinematics, pose_error
from rookery.robots.quadrupeds.gaits import GRAVITY, Trot
from rookery.robots.quadrupeds.quadruped import Quadruped
from rookery.sim.buffers import Buffers
from rookery.sim.rotations import from_axis_angle, multiply, rotation_error

SETTLE = 0.04  # share of the joints' error that the integral takes in at each control step
SETTLE_MOST = 0.15  # rad
SAME_ACTION = 1e-4  # difference of two actions of [-1, 1] that count as one


FOOTING = 0.2  # s, velocity feedback of the trot: with a moving arm on its back it falls at 0.12 (measured)
STEPS = 2  # of least squares in a control step
DAMPING = 0.05  # of a step, as in kinematics.DAMPING
METRE = 6.0  # rad of the tool's turn that a meter of its place is worth
POSTURE = 0.03
"""How much joints 4 and 6 are drawn home, next to the tool's error in m and rad. Where joint 5 is near 0 the two undo each
other: without it they wander off to their limits, and the arm is stuck there (measured: half of the trajectories)."""
SWAY_S = 0.4
"""s, over which the trunk's motion is smoothed before the arm makes up for it. An arm that held its tool still while the trunk
sways would shake the robot off its feet, also while it stands: at 0.1 s trunk and arm swing each other up (measured)."""


Pose = tuple[Tensor, Tensor]


class WholeBodyController(Buffers):
    """Targets for all joints of N robots.

    The arm's servos are soft: the torque that its weight needs, over the servo's stiffness, is added to the joint angles
    that the inverse kinematics wants, and an integral takes care of the rest. Servos lag, too, so that goals are taken a
    moment ahead. The trunk's deviation from where it should be reaches the arm through a low-pass.

    Args:
        robot: with an arm.
        tool: its kinematics, from the trunk to the tool centre.
        gait_hz: Hz.
        dt: s, control step.
    """

    wanted: Tensor
    sag: Tensor
    sway: Tensor
    sway_rotation: Tensor
    asked: Tensor

    def __init__(self, robot: Quadruped, tool: Kinematics, gait_hz: float, dt: float) -> None:
        super().__init__()
        assert robot.arm is not None
        self.robot = robot
        self.tool = tool
        self.trot = Trot(robot, gait_hz)
        self.dt = dt
        self.legs_view = _Leaning(robot)
        self.trot.robot = self.legs_view  # type: ignore[assignment]  # it reads `velocity` and `up` alone
        self.trot.GAIN = FOOTING
        worlds = len(robot.pos)
        self.buffer("wanted", worlds, 6)
        self.buffer("sag", worlds, 6)
        self.buffer("asked", worlds, 6)
        self.buffer("sway", worlds, 3)
        self.buffer("sway_rotation", worlds, 3)
        self.wanted.copy_(robot.pos[:, 12:])
        self._arm = robot.arm.spec(visual=False, collide=False).compile()
        self._data = mujoco.MjData(self._arm)
        self._kp = torch.tensor(robot.arm.kp)
        self._mount = torch.tensor(robot.arm.mount)
        carried = float(robot.world.model.body(robot.base.names[0]).subtreemass[0])
        self._share = float(self._arm.body_mass.sum()) / carried

    def _restart(self, begins: Tensor) -> None:
        """Forget the past where an episode begins, [N] bool."""
        self.wanted[begins] = self.robot.pos[begins, 12:]
        self.sag[begins] = 0.0
        self.sway[begins] = 0.0
        self.sway_rotation[begins] = 0.0

    def _driving(self, begins: Tensor, last_action: Tensor) -> Tensor:
        """[N, 6] bool, joints whose last action [N, 6] is the one that was asked for; all where an episode begins, [N] bool.

        Elsewhere another moves the arm, a student for instance: an integral of the difference between what one asks for and
        what the other does would wind up, and teach its limits.
        """
        return begins[:, None] | ((last_action - self.asked).abs() < SAME_ACTION)

    def act(
        self, seen: Pose, planned: Pose, ahead_s: float, phase: Tensor, command: Tensor, moving: Tensor, begins: Tensor,
        last_action: Tensor,
    ) -> Tensor:  # fmt: skip
        """Normalized actions [N, 18].

        Args:
            seen: the tool's goal in `ahead_s` s, [N, 3] m and [N, 4], from where the trunk is now.
            planned: the same from where the trunk should be.
            ahead_s: s.
            phase, command, moving: see Trot.act.
            begins: [N] bool, where an episode begins: the past is forgotten there.
            last_action: [N, 6] the arm's, whoever gave it.
        """
        self._restart(begins)
        driving = self._driving(begins, last_action)
        now = self.robot.pos[:, 12:]
        settled = (self.sag + SETTLE * (self.wanted - now)).clamp(-SETTLE_MOST, SETTLE_MOST)
        self.sag.copy_(torch.where(driving, settled, (1.0 - SETTLE) * self.sag))
        share = self.dt / SWAY_S
        self.sway += share * (seen[0] - planned[0] - self.sway)
        self.sway_rotation += share * (rotation_error(seen[1], planned[1]) - self.sway_rotation)
        quat = multiply(_rotation(self.sway_rotation), planned[1])
        # by then the trunk has moved on with its command
        speed = command * _X + command * _Y
        spin = command * _Z
        pos = planned[0] + self.sway
        pos = pos - ahead_s * (speed + torch.linalg.cross(spin, pos))
        quat = multiply(_rotation(-ahead_s * spin), quat)
        self.wanted.copy_(follow(self.robot, self.tool, self.wanted, pos, quat, STEPS))
        weight, self.legs_view.lean = self.weight()
        legs = self.trot.act(phase, command, moving)
        action = self.robot.normalized(torch.cat((legs, self.wanted + self.sag + weight / self._kp), dim=1))
        self.asked.copy_(action[:, 12:].clamp(-1.0, 1.0))
        return action

    def weight(self) -> tuple[Tensor, Tensor]:
        """[N, 6] N m, what the joints need to carry the arm as it is; and [N, 3] m, how far it shifts the robot's weight."""
        n = len(self.wanted)
        torque = np.empty((n, 6), dtype=np.float32)
        centre = np.empty((n, 3), dtype=np.float32)
        down = -GRAVITY * self.robot.up.numpy()
        angles = self.robot.pos[:, 12:].numpy()
        for i in range(n):
            self._arm.opt.gravity[:] = down[i]
            self._data.qpos[:6] = angles[i]
            mujoco.mj_forward(self._arm, self._data)
            torque[i] = self._data.qfrc_bias[:6]
            centre[i] = self._data.subtree_com[0]
        return torch.from_numpy(torque), self._share * (torch.from_numpy(centre) + self._mount)


def follow(robot: Quadruped, tool: Kinematics, q: Tensor, pos: Tensor, quat: Tensor, steps: int) -> Tensor:
    """Joint angles [N, 6] rad nearer to a pose of the tool: inverse kinematics that stays within what actions can ask for.

    Args:
        q: [N, 6] rad, from where.
        pos, quat: [N, 3] m, [N, 4], in the trunk's frame.
        steps: of damped least squares, each of at most 0.1 rad.
    """
    low, high = (robot.targets(torch.full((18,), side))[12:] for side in (-1.0, 1.0))
    weight = torch.tensor([METRE] * 3 + [1.0] * 3)[:, None]
    draw = torch.diag(torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 1.0])) * POSTURE**2
    for _ in range(steps):
        pose = tool.forward(q)
        error = weight[:, 0] * pose_error(pose, pos, quat)
        home = (robot.home[12:] - q) @ draw
        free = torch.ones_like(q)
        for _ in range(2):  # once more without the joints that are at their limits
            jacobian = weight * pose.jacobian * free[:, None]
            square = jacobian.transpose(1, 2) @ jacobian + draw + DAMPING**2 * torch.eye(6)
            change = free * torch.linalg.solve(square, torch.einsum("nij,ni->nj", jacobian, error) + home)
            free = (~(((q >= high) & (change > 0.0)) | ((q <= low) & (change < 0.0)))).float()
        q = torch.maximum(torch.minimum(q + change.clamp(-0.1, 0.1), high), low)
    return q


class _Leaning:
    """The robot as the trot sees it: faster by what makes it set its feet under a weight that the arm has shifted."""

    def __init__(self, robot: Quadruped) -> None:
        self.robot = robot
        self.lean = torch.zeros(3)

    @property
    def velocity(self) -> Tensor:
        return self.robot.velocity + self.lean / FOOTING

    @property
    def up(self) -> Tensor:
        return self.robot.up


_X, _Y, _Z = torch.eye(3)


def _rotation(vector: Tensor) -> Tensor:
    """[N, 4] of rotation vectors [N, 3] rad."""
    angle = vector.norm(dim=1)
    return from_axis_angle(vector / angle.clamp_min(1e-6)[:, None], angle)

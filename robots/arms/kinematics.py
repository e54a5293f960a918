"""Forward and inverse kinematics of a serial arm, batched in torch, from the compiled MuJoCo model.

Everything is in the frame of the arm's base body: with a base that moves, bring goals there first. Loops run over the six
joints, never over worlds; all of it works on any device, but `Kinematics.place`, which is compiled for the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.robots.arms.arm import ArmModel
from rookery.robots.arms.kernels import tool
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rotations import rotation_error

DAMPING = 0.05
"""Of the least-squares step, in the unit of the Jacobian's rows (m and rad); as in UniLab 0.1.0's manip_loco.py."""
MAX_STEP = 0.2
"""Rad, largest change of a joint in one step; as in UniLab 0.1.0's manip_loco.py."""


class Place(NamedTuple):
    """Poses in one frame: pos [N, 3] m, quat [N, 4] wxyz."""

    pos: Tensor
    quat: Tensor

    @classmethod
    def empty(cls, count: int) -> Place:
        """Room for `count` of them."""
        return cls(torch.zeros(count, 3), torch.zeros(count, 4))


@dataclass(frozen=True)
class Pose:
    """Place of the tool, in the arm's base frame.

    Args:
        pos: [N, 3] m.
        quat: [N, 4] wxyz, tool to base.
        jacobian: [N, 6, 6], joint speeds to linear (m/s, rows 0 to 2) and angular velocity (rad/s, rows 3 to 5) of the tool.
    """

    pos: Tensor
    quat: Tensor
    jacobian: Tensor


@dataclass(frozen=True)
class Solution:
    """Joint angles [N, J] rad within the limits, and how far off the pose is: [N] m and [N] rad."""

    q: Tensor
    pos_error: Tensor
    rot_error: Tensor


class Kinematics:
    """A chain of hinges from a body to a site.

    Args:
        model: compiled model that has the arm.
        joints: names of the J hinges, from the base outwards, such as "arm/joint1".
        base: body in whose frame poses are given.
        tip: site whose pose it is.
        device: of the tensors.

    Attributes:
        lower, upper: [J] rad, the joints' limits.

    Raises:
        RookeryError: a name is unknown, the tip does not hang on the base, or other hinges lie between them.
    """

    def __init__(
        self, model: mujoco.MjModel, joints: Sequence[str], base: str, tip: str, device: str | torch.device = "cpu"
    ) -> None:
        chain = _chain(model, joints, base, tip)
        as_tensor = lambda x: torch.tensor(np.asarray(x), dtype=torch.float32, device=device)  # noqa: E731
        self._turn, self._offset = as_tensor(chain.turns), as_tensor(chain.offsets)  # [J + 1, 3, 3], [J + 1, 3]
        self._axes = as_tensor(chain.axes)  # [J, 3]
        self._constants = (quat_of_matrix(self._turn), self._offset, self._axes)
        cross = as_tensor([_cross(a) for a in chain.axes])
        self._cross, self._cross2 = cross, cross @ cross  # [J, 3, 3]
        self.lower = as_tensor(chain.limits[:, 0])
        self.upper = as_tensor(chain.limits[:, 1])
        # more starts for `solve`, the same for all worlds, so that a world's answer does not depend on its neighbours
        share = torch.quasirandom.SobolEngine(len(joints), scramble=True, seed=1).draw(64).to(self.lower)
        self._starts = self.lower + (0.1 + 0.8 * share) * (self.upper - self.lower)

    @classmethod
    def of(cls, arm: ArmModel, device: str | torch.device = "cpu") -> Kinematics:
        """The kinematics of an arm on its own, from `base` to `tcp`."""
        return cls(arm.spec(visual=False, collide=False).compile(), arm.joints, "base", "tcp", device)

    def forward(self, q: Tensor) -> Pose:
        """Pose and Jacobian of the tool at joint angles q [N, J] rad."""
        turn, pos, origins, axes = self._walk(q)
        arms = pos[:, None] - torch.stack(origins, 1)
        world_axes = torch.stack(axes, 1)
        linear = torch.linalg.cross(world_axes, arms)
        return Pose(pos, quat_of_matrix(turn), torch.cat((linear, world_axes), -1).transpose(1, 2))

    def place(self, q: Tensor, out: Place) -> Place:
        """Write the tool's pose at joint angles q [N, J] rad, without the Jacobian, into `out`; on the CPU."""
        tool(*(x.numpy() for x in (q, *self._constants, *out)))
        return out

    def _walk(self, q: Tensor) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
        """Tool's matrix [N, 3, 3] and place [N, 3]; of each joint, place [N, 3] and axis [N, 3]."""
        s, c = q.sin()[..., None, None], (1 - q.cos())[..., None, None]
        eye = torch.eye(3, device=q.device)
        moved = self._turn[:-1] @ (eye + s * self._cross + c * self._cross2)  # [N, J, 3, 3]
        turn = moved[:, 0]
        pos = self._offset[0].expand(len(q), 3)
        origins = [pos]
        axes = [(turn @ self._axes[0])]
        for i in range(1, len(self._axes)):
            pos = pos + turn @ self._offset[i]
            turn = torch.bmm(turn, moved[:, i])
            origins.append(pos)
            axes.append(turn @ self._axes[i])
        return turn @ self._turn[-1], pos + turn @ self._offset[-1], origins, axes

    def step(
        self,
        q: Tensor,
        goal_pos: Tensor,
        goal_quat: Tensor,
        damping: float | Tensor = DAMPING,
        max_step: float = MAX_STEP,
    ) -> Tensor:
        """One damped least-squares step towards a pose; add it to q.

        A joint at its limit that would be pushed beyond is left out, and the others make up for it.

        Args:
            q: [N, J] rad. goal_pos: [N, 3] m. goal_quat: [N, 4] wxyz.
            damping: see DAMPING; a tensor [N] gives each world its own.
            max_step: rad, limit of each joint's change.

        Returns:
            [N, J] rad; q plus this is within the limits if q is.
        """
        pose = self.forward(q)
        return self._step(q, pose.jacobian, pose_error(pose, goal_pos, goal_quat), damping, max_step)

    def _step(self, q: Tensor, jacobian: Tensor, error: Tensor, damping: float | Tensor, max_step: float) -> Tensor:
        square = torch.as_tensor(damping, dtype=q.dtype, device=q.device).square().expand(len(q))
        change = _least_squares(jacobian, error, square)
        # limits leave room for the change; a joint without any is left out, and the rest is solved again
        low = self.lower - q
        high = self.upper - q
        stuck = ((low > -1e-6) & (change < 0)) | ((high < 1e-6) & (change > 0))
        change = _least_squares(jacobian.masked_fill(stuck[:, None], 0.0), error, square)
        return change.clamp(-max_step, max_step).clamp(low.clamp(max=0), high.clamp(min=0))

    def solve(
        self, goal_pos: Tensor, goal_quat: Tensor, start: Tensor, iterations: int = 25, restarts: int = 20
    ) -> Solution:
        """Joint angles for poses, by steps whose damping falls with the error (Sugihara 2011).

        Worlds that are not within 0.5 mm and 0.005 rad after `iterations` steps start again elsewhere, up to `restarts`
        times; the best of all is kept.

        Args:
            goal_pos: [N, 3] m. goal_quat: [N, 4] wxyz. start: [N, J] rad.
            iterations: steps from each start.
            restarts: at most 64.
        """
        best = self._descend(goal_pos, goal_quat, start.clamp(self.lower, self.upper), iterations)
        for again in self._starts[:restarts]:
            open_ = ((best.pos_error > 5e-4) | (best.rot_error > 5e-3)).nonzero()[:, 0]
            if len(open_) == 0:
                break
            new = self._descend(goal_pos[open_], goal_quat[open_], again.expand(len(open_), -1), iterations)
            old = Solution(best.q[open_], best.pos_error[open_], best.rot_error[open_])
            win = new.pos_error + 0.1 * new.rot_error < old.pos_error + 0.1 * old.rot_error
            best.q[open_] = torch.where(win[:, None], new.q, old.q)
            best.pos_error[open_] = torch.where(win, new.pos_error, old.pos_error)
            best.rot_error[open_] = torch.where(win, new.rot_error, old.rot_error)
        return best

    def _descend(self, goal_pos: Tensor, goal_quat: Tensor, q: Tensor, iterations: int) -> Solution:
        for _ in range(iterations):
            pose = self.forward(q)
            error = pose_error(pose, goal_pos, goal_quat)
            damping = (0.02 * error.square().sum(-1) + 1e-6).sqrt()
            q = q + self._step(q, pose.jacobian, error, damping, 2 * MAX_STEP)
        error = pose_error(self.forward(q), goal_pos, goal_quat)
        return Solution(q, error[:, :3].norm(dim=-1), error[:, 3:].norm(dim=-1))


def pose_error(pose: Pose, goal_pos: Tensor, goal_quat: Tensor) -> Tensor:
    """[N, 6]: way (m) and rotation vector (rad), base frame, from a pose to a goal [N, 3] m, [N, 4] wxyz."""
    return torch.cat((goal_pos - pose.pos, rotation_error(goal_quat, pose.quat)), -1)


def quat_of_matrix(m: Tensor) -> Tensor:
    """Unit quaternions wxyz [N, 4], w >= 0, of rotation matrices [N, 3, 3]."""
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    wx, wy, wz = m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]
    xy, xz, yz = m[:, 0, 1] + m[:, 1, 0], m[:, 0, 2] + m[:, 2, 0], m[:, 1, 2] + m[:, 2, 1]
    # row k is the quaternion times four of its component k: the largest such component divides best
    rows = torch.stack(
        (1 + xx + yy + zz, wx, wy, wz, wx, 1 + xx - yy - zz, xy, xz, wy, xy, 1 - xx + yy - zz, yz, wz, xz, yz,
         1 - xx - yy + zz), -1
    ).view(-1, 4, 4)  # fmt: skip
    largest = rows.diagonal(dim1=1, dim2=2).argmax(-1)
    quat = torch.nn.functional.normalize(rows[torch.arange(len(m), device=m.device), largest], dim=-1)
    return torch.where(quat[:, :1] < 0, -quat, quat)


def _least_squares(jacobian: Tensor, error: Tensor, square: Tensor) -> Tensor:
    """[N, J]: J^T (J J^T + square 1)^-1 error."""
    transposed = jacobian.transpose(1, 2)
    normal = torch.bmm(jacobian, transposed)
    normal.diagonal(dim1=1, dim2=2).add_(square[:, None])
    return torch.bmm(transposed, torch.linalg.solve_ex(normal, error[..., None])[0])[..., 0]


def chain_of(
    model: mujoco.MjModel, joints: Sequence[str], base: str, tip: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Turns [J + 1, 3, 3], offsets [J + 1, 3] m and axes [J, 3] of a chain of hinges, as compiled kinematics want them;
    arguments and errors as for `Kinematics`."""
    chain = _chain(model, joints, base, tip)
    return chain.turns, chain.offsets, chain.axes


@dataclass(frozen=True)
class _Chain:
    """Fixed transforms before each joint, and after the last one: [J + 1, 3, 3], [J + 1, 3] m; axes [J, 3]; limits [J, 2]."""

    turns: NDArray[np.float64]
    offsets: NDArray[np.float64]
    axes: NDArray[np.float64]
    limits: NDArray[np.float64]


def _chain(model: mujoco.MjModel, joints: Sequence[str], base: str, tip: str) -> _Chain:
    ids = [_id(model, mujoco.mjtObj.mjOBJ_JOINT, "joint", name) for name in joints]
    first = _id(model, mujoco.mjtObj.mjOBJ_BODY, "body", base)
    site = _id(model, mujoco.mjtObj.mjOBJ_SITE, "site", tip)
    path = []
    body = int(model.site_bodyid[site])
    while body not in (first, 0):
        path.append(body)
        body = int(model.body_parentid[body])
    found = [int(j) for b in reversed(path) for j in _joints_of(model, b)]
    if body != first or found != ids:
        there = [model.joint(j).name for j in found]
        raise RookeryError(
            f"from body {base!r} to site {tip!r} the joints are {there}, not {list(joints)}: name those."
        )
    turns = []
    offsets = []
    turn = np.eye(3)
    offset = np.zeros(3)
    for body in reversed(path):
        offset = offset + turn @ model.body_pos[body]
        turn = turn @ _matrix(model.body_quat[body])
        for joint in _joints_of(model, body):
            if model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_HINGE or np.any(model.jnt_pos[joint]):
                raise RookeryError(f"joint {model.joint(joint).name!r} is not a hinge at its body's origin.")
            turns.append(turn)
            offsets.append(offset)
            turn = np.eye(3)
            offset = np.zeros(3)
    offsets.append(offset + turn @ model.site_pos[site])
    turns.append(turn @ _matrix(model.site_quat[site]))
    limits = np.where(model.jnt_limited[ids][:, None] > 0, model.jnt_range[ids], [-math.pi, math.pi])
    return _Chain(np.array(turns), np.array(offsets), model.jnt_axis[ids].copy(), limits)


def _joints_of(model: mujoco.MjModel, body: int) -> range:
    return range(int(model.body_jntadr[body]), int(model.body_jntadr[body] + model.body_jntnum[body]))


def _id(model: mujoco.MjModel, kind: mujoco.mjtObj, what: str, name: str) -> int:
    found = mujoco.mj_name2id(model, kind, name)
    if found < 0:
        count = {"joint": model.njnt, "body": model.nbody, "site": model.nsite}[what]
        names = [mujoco.mj_id2name(model, kind, i) for i in range(count)]
        raise unknown(what, name, [n for n in names if n])
    return int(found)


def _matrix(quat: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)


def _cross(axis: Sequence[float]) -> NDArray[np.float64]:
    """[3, 3]: the matrix that crosses `axis` [3] with a vector."""
    x, y, z = axis
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])

"""Rotations on tensors: quaternions w, x, y, z and flattened row-major matrices, body to world."""

from __future__ import annotations

import torch
from torch import Tensor

# an entry of the matrix is that of the identity and twice two signed products of components (w, x, y, z): here the one product
# of all nine entries, row by row, and then the other
_LEFT = torch.tensor([2, 1, 1, 1, 1, 2, 1, 2, 1, 3, 0, 0, 0, 3, 0, 0, 0, 2])
_RIGHT = torch.tensor([2, 2, 3, 2, 1, 3, 3, 3, 1, 3, 3, 2, 3, 3, 1, 2, 1, 2])
_TWICE = 2.0 * torch.tensor([-1.0, 1, 1, 1, -1, 1, 1, 1, -1, -1, -1, 1, 1, -1, -1, -1, 1, -1])
_IDENTITY = torch.eye(3).flatten()


def matrix(quat: Tensor) -> Tensor:
    """[..., 9] row-major rotation matrices of unit quaternions [..., 4].

    Each is the same whatever others stand beside it; a product of matrices, which libraries divide into blocks, is not.
    """
    left, right, twice, identity = (t.to(quat.device) for t in (_LEFT, _RIGHT, _TWICE, _IDENTITY))
    products = quat.index_select(-1, left) * quat.index_select(-1, right) * twice
    return identity + products[..., :9] + products[..., 9:]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Hamilton product [..., 4]: rotate by b, then by a."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        dim=-1,
    )


def quaternion(matrix: Tensor) -> Tensor:
    """[..., 4] unit quaternions of rotation matrices [..., 3, 3]."""
    m = [[matrix[..., i, j] for j in range(3)] for i in range(3)]
    # the four products of the quaternion with itself that have its largest component in common give it without cancellation
    (xx, yy, zz) = (m[i][i] for i in range(3))
    wx, wy, wz = m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]
    xy, xz, yz = m[1][0] + m[0][1], m[0][2] + m[2][0], m[2][1] + m[1][2]
    rows = (
        (1 + xx + yy + zz, wx, wy, wz), (wx, 1 + xx - yy - zz, xy, xz),
        (wy, xy, 1 - xx + yy - zz, yz), (wz, xz, yz, 1 - xx - yy + zz),
    )  # fmt: skip
    products = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)  # 4 q q^T
    largest = products.diagonal(dim1=-2, dim2=-1).argmax(-1)
    q = products.gather(-2, largest[..., None, None].expand(*largest.shape, 1, 4)).squeeze(-2)
    return q / q.norm(dim=-1, keepdim=True)


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """[..., 3]: vectors [..., 3] turned by unit quaternions [..., 4]."""
    return (matrix(quat).unflatten(-1, (3, 3)) * vector[..., None, :]).sum(-1)


def from_axis_angle(axis: Tensor, angle: Tensor) -> Tensor:
    """Quaternions [..., 4] of rotations by angle [...] rad about unit axes [..., 3]."""
    half = 0.5 * angle[..., None]
    return torch.cat((half.cos(), half.sin() * axis), dim=-1)


def rotation_error(goal: Tensor, now: Tensor) -> Tensor:
    """[N, 3] rad, rotation vector from `now` to `goal` [N, 4], in the frame that both are given in."""
    turn = multiply(goal, now * now.new_tensor([1.0, -1.0, -1.0, -1.0]))
    turn = torch.where(turn[:, :1] < 0, -turn, turn)  # the short way round
    sine = turn[:, 1:].norm(dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(sine, turn[:, :1])
    return torch.where(sine > 1e-6, angle / sine.clamp(min=1e-6), torch.full_like(sine, 2.0)) * turn[:, 1:]


def slerp(start: Tensor, end: Tensor, share: Tensor) -> Tensor:
    """[..., 4]: quaternions on the short way from start to end [..., 4], at shares [..., 1] of it in [0, 1]."""
    dot = (start * end).sum(-1, keepdim=True)
    angle = torch.acos(dot.abs().clamp_max(1.0))  # half of the rotation between them
    sine = torch.sin(angle)
    straight = sine < 1e-4  # where it is nearly none
    before = torch.where(straight, 1.0 - share, torch.sin((1.0 - share) * angle) / sine)
    after = torch.where(straight, share, torch.sin(share * angle) / sine) * torch.where(dot < 0.0, -1.0, 1.0)
    return torch.nn.functional.normalize(before * start + after * end, dim=-1)

"""What `rows` does, with torch on the GPU: between lanes (see layout) and the rows that views read and write.

Functions take what those of `rows` take, as tensors on the device of `lanes`; members, ids and values may also be NumPy
arrays, which are copied there.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from rookery.sim.rotor.layout import LANES, MOTOR, POS, STATE, THRUST_CURVE

Values = Tensor | np.ndarray


@functools.lru_cache(maxsize=256)
def _columns(members: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(members, dtype=torch.int64, device=device)


def _fields(lanes: Tensor) -> Tensor:
    """[..., fields * LANES] as [..., fields, LANES]."""
    return lanes.view(*lanes.shape[:-1], -1, LANES)


def gather(lanes: Tensor, members: np.ndarray, first: int, out: Tensor) -> None:
    """Fields first, first + 1, ... of some bodies: lanes [blocks, bodies, F * LANES] to out [N, len(members), fields]."""
    n, count, size = out.shape
    found = _fields(lanes)[:, _columns(tuple(members.tolist()), lanes.device), first : first + size]
    out.copy_(found.permute(0, 3, 1, 2).reshape(-1, count, size)[:n])


def scatter(lanes: Tensor, members: np.ndarray, first: int, ids: Values, values: Values) -> None:
    """The reverse for the worlds `ids` [n]: values [n, len(members), fields]."""
    where = torch.as_tensor(ids, device=lanes.device)[:, None]
    new = torch.as_tensor(values, device=lanes.device).to(lanes.dtype)
    columns = _columns(tuple(members.tolist()), lanes.device)
    _fields(lanes)[where // LANES, columns, first : first + new.shape[2], where % LANES] = new


def command(lanes: Tensor, members: np.ndarray, values: Tensor) -> None:
    """Commands [N, rows, len(members), C] into lanes [rows, blocks, drones, C' * LANES] with C' >= C."""
    n, rows, count, size = values.shape
    full = lanes.new_zeros(lanes.shape[1] * LANES, rows, count, size)
    full[:n] = values
    full = full.view(-1, LANES, rows, count, size).permute(2, 0, 3, 4, 1)
    _fields(lanes)[:rows, :, _columns(tuple(members.tolist()), lanes.device), :size] = full


def command_thrusts(lanes: Tensor, members: np.ndarray, values: Tensor, types: np.ndarray) -> None:
    """Thrust commands [N, rows, len(members), 4] in N, as the rotor speeds that give them (see cascade.speed_for_thrust)."""
    curves = torch.as_tensor(types[members, THRUST_CURVE : THRUST_CURVE + 3], device=lanes.device)
    c0, c1, c2 = curves[..., None].unbind(dim=1)  # [len(members), 1] each
    root = (c1 * c1 + 4.0 * c2 * (values.double() - c0)).clamp_min(0.0).sqrt()
    command(lanes, members, ((root - c1) / (2.0 * c2)).clamp(0.0, 1.0))


def diverged(lanes: Tensor, drones: int, limit: float, out: Tensor) -> bool:
    """Whether any world diverged; out [N] bool says which (see `rows.diverged`). Waits for the GPU."""
    fields = _fields(lanes)
    wrong = (~(fields[:, :, :STATE].abs() <= limit)).any(dim=1).any(dim=1)
    wrong |= fields[:, :drones, MOTOR : MOTOR + 4].isnan().any(dim=1).any(dim=1)
    out.copy_(wrong.reshape(-1)[: len(out)])
    return bool(out.any())


def put_state(lanes: Tensor, members: np.ndarray, ids: Values, values: Tensor) -> None:
    """States [n, len(members), 13] (see Bodies.state) with their quaternions brought to unit length."""
    quat = values[..., 3:7]
    state = torch.cat((values[..., :3], quat / quat.norm(dim=-1, keepdim=True), values[..., 7:]), dim=-1)
    scatter(lanes, members, POS, ids, state)

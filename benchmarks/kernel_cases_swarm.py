"""Torch forms of the compiled functions of swarms around a target and of radio cells, see kernel_cases.py."""

# mypy: disable-error-code="no-untyped-def"
# The arguments are those of compiled functions, which say what they are.
from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rookery.sim.rotations import matrix
from rookery.tasks.swarm import radio

# Swarms around a target


def swept(p0: Tensor, q0: Tensor, p1: Tensor, q1: Tensor) -> Tensor:
    """[...] m: least distance of points [..., 3] that move straight and evenly from p0 to p1 and from q0 to q1."""
    apart = q0 - p0
    change = q1 - p1 - apart
    moved = change.square().sum(-1)
    share = (-(apart * change).sum(-1) / moved).nan_to_num().clamp(0.0, 1.0)
    return (apart + share[..., None] * change).norm(dim=-1)


def pairs(part: Tensor) -> Tensor:
    """[m, A, A]: two different drones which both take part, of part [m, A]."""
    return part[:, :, None] & part[:, None] & ~torch.eye(part.shape[1], dtype=torch.bool)


def begin(worlds, start, state, goal, goal_before, goal_velocity, target, before, figures, held):
    held[worlds] = 0
    figures[worlds] = math.inf
    goal[worlds] = goal_before[worlds] = start
    goal_velocity[worlds] = 0.0
    target[worlds] = start[:, None]
    before[worlds] = state[worlds, :, :3]


def evaluate(
    worlds, number, state, before, goal, goal_before, radius, near, ground, floor, half, ceiling, yaw_rate, terms, cause,
    figures,
):  # fmt: skip
    s, old, g, g_old, count, height = (
        torch.from_numpy(x[worlds]).double() for x in (state, before, goal, goal_before, number, ground)
    )
    pos = s[..., :3]
    part = torch.arange(state.shape[1]) < count[:, None]
    both = pairs(part)
    offset = pos - g[:, None]
    away = offset.norm(dim=-1)
    direction = offset / away.clamp_min(1e-9)[..., None]
    gap = torch.where(both, swept(old[:, :, None], old[:, None], pos[:, :, None], pos[:, None]), math.inf).amin(-1)
    closest = torch.where(both, direction @ direction.mT, -1.0).amax(-1)
    around = (closest.clamp(-1.0, 1.0).acos() / (4.0 * math.pi / count).sqrt()[:, None]).clamp_max(1.0)

    why = torch.zeros(part.shape, dtype=torch.int64)
    x, y, z = pos.unbind(-1)
    why[(x.abs() > half) | (y.abs() > half) | (z > ceiling)] = 4
    why[swept(old, g_old[:, None], pos, g[:, None]) < near[1]] = 3
    why[gap < near[0]] = 2
    why[z < height[:, None] + floor] = 1
    why[~part] = 0
    alive = (part & (why == 0)).double()
    nearer = (old - g_old[:, None]).norm(dim=-1) - (pos - g_old[:, None]).norm(dim=-1)
    total = torch.where(both, (pos[:, :, None] - pos[:, None]).norm(dim=-1), 0.0).sum(-1)
    rewards = (
        alive * nearer, alive * total / (count[:, None] - 1.0), alive * torch.exp(-2.0 * (away - radius).abs()),
        alive * around, part * (1.0 - alive),
    )  # fmt: skip
    terms[:, worlds] = torch.stack(rewards).numpy()
    yaw_rate[worlds] = (alive * s[..., 12].abs()).numpy()
    before[worlds] = pos.numpy()
    first = torch.where(why > 0, why, 9).amin(-1)
    cause[worlds] = torch.where(first < 9, first, 0).numpy()

    def worst(values: Tensor, otherwise: float) -> Tensor:
        return torch.where(part, values, otherwise)

    found = (
        worst(away, 0.0).sum(-1) / count, worst(away, math.inf).amin(-1), worst((away - radius).abs(), 0.0).amax(-1),
        worst(around, 1.0).amin(-1), (part[..., None] * direction).sum(1).norm(dim=-1) / count,
    )  # fmt: skip
    least = np.minimum(figures[worlds, 5], worst(gap, math.inf).amin(-1).numpy())
    figures[worlds] = np.column_stack((torch.stack(found, dim=-1).numpy(), least))


def observe(worlds, number, state, goal, goal_velocity, middle, sight, neighbours, in_body, seen):
    s, g, g_moves = (torch.from_numpy(x[worlds]).double() for x in (state, goal, goal_velocity))
    part = torch.arange(state.shape[1]) < torch.from_numpy(number[worlds])[:, None]
    pos, vel = s[..., :3], s[..., 7:10]
    axes = matrix(s[..., 3:7]).unflatten(-1, (3, 3))
    turn = axes if in_body else torch.eye(3, dtype=torch.float64).expand(axes.shape)

    def turned(vectors: Tensor) -> Tensor:
        """[m, A, K, 3] from world axes."""
        return (turn[:, :, None] * vectors[..., None]).sum(-2)

    def of_nearest(values: Tensor) -> Tensor:
        """[m, A, 3 K], relative to the own ones, of values [m, A, 3]."""
        apart = (values[:, None] - values[:, :, None]).gather(2, order[..., None].expand(*order.shape, 3))
        return (turned(apart) * there[..., None]).flatten(2)

    gap = (pos[:, None] - pos[:, :, None]).square().sum(-1)
    gap = torch.where(pairs(part) & (gap <= sight * sight), gap, math.inf)
    nearest, order = gap.topk(min(neighbours, gap.shape[-1]), largest=False)
    there = nearest.isfinite().double()
    own = torch.stack((g[:, None] - pos, g_moves[:, None] - vel, torch.from_numpy(middle) - pos, vel), dim=2)
    target, moves, center, velocity = turned(own).unbind(2)
    size = there.shape[-1]
    empty = torch.zeros(*part.shape, neighbours - size)
    columns = (
        target, moves, center, axes[..., 2, :], velocity, s[..., 10:13], of_nearest(pos), empty.repeat(1, 1, 3),
        of_nearest(vel), empty.repeat(1, 1, 3), there, empty,
    )  # fmt: skip
    seen[worlds] = (torch.cat(columns, dim=-1) * part[..., None]).numpy()


# Radio cells


def serve(worlds, state, users, bias_db, channel, rate, server, load):
    s, u, bias = (torch.from_numpy(x[worlds]).double() for x in (state, users, bias_db))
    horizontal = (s[:, None, :, :2] - u[:, :, None]).norm(dim=-1)  # [m, U, A]
    height = s[:, None, :, 2].clamp_min(0.0)
    distance = torch.hypot(horizontal, height).clamp_min(1.0)
    elevation = torch.rad2deg(torch.atan2(height, horizontal))
    seen = 1.0 / (1.0 + channel.a * torch.exp(-channel.b * (elevation - channel.a)))
    loss = 20.0 * torch.log10(4.0 * math.pi * channel.frequency * distance / radio.LIGHT)
    dbm = channel.power_dbm - loss - seen * channel.los_db - (1.0 - seen) * channel.nlos_db
    power = 10.0 ** (dbm / 10.0)
    chosen = (dbm + bias[:, None]).argmax(-1, keepdim=True)
    signal = power.gather(-1, chosen)[..., 0]
    noise_dbm = channel.noise_dbm_hz + channel.noise_figure_db + 10.0 * math.log10(channel.bandwidth)
    others = power.sum(-1) - signal if channel.interference else 0.0
    shannon = channel.bandwidth * torch.log2(1.0 + signal / (10.0 ** (noise_dbm / 10.0) + others))
    members = torch.zeros_like(s[..., 0]).scatter_add_(1, chosen[..., 0], torch.ones_like(shannon))
    load[worlds] = members.numpy()
    server[worlds] = chosen[..., 0].numpy()
    rate[worlds] = (shannon / members.gather(1, chosen[..., 0])).numpy()


def watch(worlds, state, users, rate, server, load, sight, near_users, neighbours, poor_rate, seen):
    s, u, r, members = (torch.from_numpy(x[worlds]).double() for x in (state, users, rate, load))
    pos = s[..., :3]
    stations, count = pos.shape[1], u.shape[1]
    away = u[:, None] - pos[:, :, None, :2]  # [m, A, U, 2]
    own = torch.from_numpy(server[worlds])[:, None] == torch.arange(stations)[:, None]
    middle = (own[..., None] * away).sum(2) / members.clamp_min(1.0)[..., None]
    weight = (1.0 / (1.0 + r / poor_rate))[:, None, :, None]
    poor = (weight * away).sum(2) / weight.sum(2)
    some = away.square().sum(-1).topk(min(near_users, count), largest=False).indices
    shown = away.gather(2, some[..., None].expand(*some.shape, 2)).flatten(2)
    rates = 1e-6 * r[:, None].expand(-1, stations, -1).gather(2, some)

    apart = pos[:, None] - pos[:, :, None]
    gap = apart.square().sum(-1)
    gap = torch.where((gap <= sight * sight) & ~torch.eye(stations, dtype=torch.bool), gap, math.inf)
    nearest, order = gap.topk(min(neighbours, stations), largest=False)
    there = nearest.isfinite().double()
    offsets = (apart.gather(2, order[..., None].expand(*order.shape, 3)) * there[..., None]).flatten(2)
    shares = (members / count)[:, None].expand(-1, stations, -1).gather(2, order) * there
    no_user = torch.zeros(*pos.shape[:2], near_users - some.shape[-1])
    no_station = torch.zeros(*pos.shape[:2], neighbours - order.shape[-1])
    columns = (
        shown, no_user.repeat(1, 1, 2), rates, no_user, middle, members[..., None] / count, poor,
        offsets, no_station.repeat(1, 1, 3), shares, no_station, there, no_station,
    )  # fmt: skip
    seen[worlds] = torch.cat(columns, dim=-1).numpy()


def walk(users, way, step, arrived):
    to_go = torch.from_numpy(way - users)
    left = to_go.norm(dim=-1)
    length = torch.from_numpy(step)
    arrived[:] = (left <= length).numpy()
    share = torch.where(left <= length, 1.0, length / left)
    users += (share[..., None] * to_go).numpy()

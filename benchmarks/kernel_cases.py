"""Torch forms of what tasks have compiled, for kernels.py: the same arguments and the same effect."""

# mypy: disable-error-code="no-untyped-def"
# The arguments are those of compiled functions, which say what they are.
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import kernel_cases_swarm as around
import numpy as np
import torch
from torch import Tensor

from rookery.sim.rotations import from_axis_angle, matrix, multiply, rotate, rotation_error
from rookery.tasks import rewards
from rookery.tasks.drones import kernels as drones
from rookery.tasks.drones import land_kernels, turning
from rookery.tasks.drones.base import DroneTask
from rookery.tasks.drones.pursuit import Pursuit
from rookery.tasks.locomanip import reach
from rookery.tasks.swarm import formation_kernels, multi_objective_kernels, radio
from rookery.tasks.swarm import kernels as swarm
from rookery.tasks.volleyball import competitive
from rookery.tasks.volleyball import kernels as volley


class Case(NamedTuple):
    """A function of a task in its two forms.

    Args:
        task: in whose environment it is measured.
        owner: module or class in which it stands. name: under which.
        form: its torch form.
    """

    task: str
    owner: Any
    name: str
    form: Callable[..., Any]

    @property
    def title(self) -> str:
        return f"{self.task}: {self.name}"


def tensors(*arrays: np.ndarray) -> list[Tensor]:
    """Of the same memory."""
    return [torch.from_numpy(a) for a in arrays]


# Drones


def closeness(task: Pursuit) -> dict[str, Tensor]:
    near, on_target = (rewards.closeness_exp(task.distance, std) for std in (drones.NEAR_M, drones.ON_TARGET_M))
    return {"near": near, "on_target": on_target}


def motion_rewards(task: DroneTask) -> dict[str, Tensor]:
    spin = task.drones.bodies.ang_vel
    return {
        "ang_vel": rewards.ang_vel_l2(spin),
        "yaw_rate": spin[..., 2].abs(),
        "action_rate": rewards.action_rate_l2(task.last_action, task.previous_action),
        "crash": rewards.is_terminated(task.crashed),
    }


def speeds(task: Pursuit, reference: Tensor | None = None) -> Tensor:
    v = task.drones.bodies.lin_vel
    return rewards.distance(v, torch.zeros(3) if reference is None else reference)


def begin(ids, neutral, last_action, previous_action, crashed, cause):
    last_action[ids] = neutral
    previous_action[ids] = neutral
    crashed[ids] = False
    cause[ids] = 0


def begin_pursuit(ids, state, target, distance, error_sum, error_count):
    error_count[ids] = 0.0
    error_sum[ids] = 0.0
    s, t = tensors(state[ids], target[ids])
    distance[ids] = torch.linalg.vector_norm(s[..., :3] - t, dim=-1).numpy()


def starts(ids, draws, target, facing, box, speed, spin, heading, tilt, ground, above, state):
    u, goal, face, out = tensors(draws, target[ids], facing, state)
    i = torch.from_numpy(ids)
    at, velocity, rates, turn = u.split(3, dim=-1)
    around = math.pi * turn[..., 1]
    axis = torch.stack((around.cos(), around.sin(), torch.zeros_like(around)), dim=-1)
    lean = from_axis_angle(axis, tilt * turn[..., 2].abs())
    about = from_axis_angle(torch.tensor([0.0, 0.0, 1.0]).expand(*around.shape, 3), face[i] + heading * turn[..., 0])
    torch.cat((goal + box * at, multiply(lean, about), speed * velocity, spin * rates), dim=-1, out=out)
    height = torch.from_numpy(ground)[i, None]
    out[..., 2] = torch.where(height > 0.0, torch.maximum(out[..., 2], height + above), out[..., 2])


def detect_crashes(state, ground, radius, height, touching, astray, collided, crashed, cause):
    s, g, out, why, hit = tensors(state, ground, astray, cause, crashed)
    level, tilted = s[..., [3, 6]].square().sum(-1), s[..., [4, 5]].square().sum(-1)
    down = 2.0 * radius * (level * tilted).sqrt() + 0.5 * height * (level - tilted).abs()
    low = s[..., 2] < g[:, None] + (down + touching).clamp_min(height)
    why.copy_(torch.where(low, drones.GROUND, drones.OUT_OF_BOUNDS * out.long()))
    if len(collided):
        why.masked_fill_(torch.from_numpy(collided), drones.COLLISION)
    elif s.shape[1] > 1:
        near = torch.cdist(s[..., :3], s[..., :3]) < 2.0 * radius + touching
        near.diagonal(dim1=1, dim2=2).fill_(False)
        why.masked_fill_(near.any(2), drones.COLLISION)
    hit.copy_(why > 0)


def first_cause(cause, out):
    rank = torch.tensor([0, 2, 3, 1, *range(4, 16)])
    c, o = tensors(cause, out)
    o.copy_(c.gather(1, rank[c].argmax(1, keepdim=True))[:, 0])


def to_body(worlds, state, vectors, are_points, up, velocity, rates, turned):
    s = torch.from_numpy(state[worlds])
    r = matrix(s[..., 3:7]).unflatten(-1, (3, 3))
    up[worlds] = r[..., 2, :].numpy()
    velocity[worlds] = (r * s[..., 7:10, None]).sum(-2).numpy()
    rates[worlds] = s[..., 10:13].numpy()
    for v, out, is_point in zip(vectors, turned, are_points, strict=True):
        if v.shape[2]:
            parts = torch.from_numpy(v[worlds]).unflatten(-1, (-1, 3))
            parts = parts - s[..., None, :3] if is_point else parts
            out[worlds] = (r[..., None, :, :] * parts[..., None]).sum(-2).flatten(-2).numpy()


def pursue(state, target, steps, counted_from, bounds, distance, error_sum, error_count, astray):
    s, goal, n, d, e, c, out = tensors(state, target, steps, distance, error_sum, error_count, astray)
    torch.linalg.vector_norm(s[..., :3] - goal, dim=-1, out=d)
    torch.gt(d, bounds, out=out)
    counts = (n > counted_from).float()
    c += counts
    e.addcmul_(d, counts[:, None])


def add_turning(state, steps, counted_from, turned, counted, rate):
    s, n, t, c, out = tensors(state, steps, turned, counted, rate)
    counts = (n > counted_from).float()
    c += counts
    torch.sum(matrix(s[..., 3:7])[..., 6:] * s[..., 10:13], -1, out=out)
    t.addcmul_(out, counts[:, None])


def begin_turning(ids, turned, counted):
    turned[ids] = 0.0
    counted[ids] = 0.0


def yaw_drift(turned, counted, drift):
    t, c, out = tensors(turned, counted, drift)
    out.copy_((t / c[:, None]).abs().amax(1))  # 0 / 0 where nothing has counted


def pursuit_metrics(steps, max_steps, most, distance, error_sum, error_count, crashed, success, error, crash):
    n, d, e, c, hit = tensors(steps, distance, error_sum, error_count, crashed)
    ok, far, fell = tensors(success, error, crash)
    count = c.clamp_min(1.0)[:, None]
    mean = torch.where(c[:, None] > 0.0, e / count, d)
    any_hit = hit.any(1)
    ok.copy_((mean < most).all(1) & ~any_hit & (n >= max_steps))
    far.copy_(mean.mean(1))
    fell.copy_(any_hit)


def follow_paths(worlds, amplitude, frequency, phase, places, clock, control_dt, ahead, target, velocity, future):
    a, f, p, now = tensors(amplitude[worlds], frequency[worlds], phase[worlds], clock[worlds])
    time = now[:, None] * control_dt + torch.from_numpy(ahead)
    angle = f[:, :, None] * time[:, None, :, None, None] + p[:, :, None]
    place = (a[:, :, None] * angle.sin()).sum(-1) + torch.from_numpy(places)[:, None]
    target[worlds] = place[:, :, 0].numpy()
    velocity[worlds] = (a * f * angle[:, :, 0].cos()).sum(-1).numpy()
    future[worlds] = (place[:, :, 1:] - place[:, :, :1]).flatten(2).numpy()


def move_pads(worlds, wave, clock, place, dt, state):
    w, c = tensors(wave[worlds], clock[worlds])
    swing = [w[..., 0] * torch.sin(w[..., 1] * (c[:, None] * dt + later) + w[..., 2]) for later in (0.0, dt)]
    axes = torch.eye(3, dtype=torch.float64)
    now, then = (multiply(_about(axes[0], s[:, 3]), _about(axes[1], s[:, 4])) for s in swing)
    turn = multiply(now * now.new_tensor([1.0, -1.0, -1.0, -1.0]), then)
    sine = turn[:, 1:].norm(dim=1, keepdim=True)
    rate = torch.where(sine > 0.0, 2.0 * torch.atan2(sine, turn[:, :1]) / (sine * dt), 0.0)
    parts = (torch.from_numpy(place) + swing[0][:, :3], now, (swing[1] - swing[0])[:, :3] / dt, rate * turn[:, 1:])
    state[worlds, 0] = torch.cat(parts, dim=1).float().numpy()


def _about(axis: Tensor, angle: Tensor) -> Tensor:
    return from_axis_angle(axis.expand(len(angle), 3), angle)


def relative(drone, pad, rest, place, speed, lean):
    d, b, where, fast, tilt = tensors(drone[:, 0], pad[:, 0], place, speed, lean)
    back = b[:, 3:7] * b.new_tensor([1.0, -1.0, -1.0, -1.0])
    at = rotate(back, d[:, :3] - b[:, :3])
    moving = rotate(back, d[:, 7:10] - b[:, 7:10]) - torch.linalg.cross(b[:, 10:13], at)
    where.copy_(at - at.new_tensor([0.0, 0.0, rest]))
    torch.linalg.vector_norm(moving, dim=1, out=fast)
    tilt.copy_((matrix(d[:, 3:7])[:, 2::3] * matrix(b[:, 3:7])[:, 2::3]).sum(1))


# Swarms


def track_gaps(before, state, cap, gap, closest):
    old, s, g, least = tensors(before, state, gap, closest)
    new = s[..., :3]
    apart = old[:, None] - old[:, :, None]
    change = new[:, None] - new[:, :, None] - apart
    along, moved = (apart * change).sum(-1), change.square().sum(-1)
    t = torch.where(moved > 0.0, (-along / moved).clamp(0.0, 1.0), 0.0)
    d = (apart.square().sum(-1) + t * (2.0 * along + t * moved)).clamp_min(0.0).sqrt()
    d.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    torch.clamp(d.amin(2), max=cap, out=g)
    torch.minimum(least, g.amin(1), out=least)
    old.copy_(new)


def nearest(state, sight, offset, velocity, closeness):
    s, o, v, c = tensors(state, offset, velocity, closeness)
    k = c.shape[2]
    apart = s[:, None, :, :3] - s[:, :, None, :3]
    d = apart.norm(dim=-1)
    d.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    far, who = d.topk(min(k, s.shape[1]), dim=2, largest=False)
    seen = far <= sight
    pick = who[..., None].expand(*who.shape, 3)
    moving = s[:, None, :, 7:10] - s[:, :, None, 7:10]
    m = who.shape[2]
    o[..., : 3 * m] = (apart.gather(2, pick) * seen[..., None]).flatten(2)
    v[..., : 3 * m] = (moving.gather(2, pick) * seen[..., None]).flatten(2)
    c[..., :m] = torch.where(seen, 1.0 - far / sight, 0.0)


def shape_errors(state, slots, centre, hausdorff, offset):
    s, corners, middle, worst, off = tensors(state, slots, centre, hausdorff, offset)
    mean = s[..., :3].mean(1)
    d = torch.cdist(s[..., :3] - mean[:, None], corners)
    torch.maximum(d.amin(2).amax(1), d.amin(1).amax(1), out=worst)
    torch.linalg.vector_norm(mean - middle, dim=1, out=off)


# Quadrupeds


def to_trunk_frame(base, height, goal, goal_quat, pos, quat):
    b, h, at, turned, out, turn = tensors(base, height, goal, goal_quat, pos, quat)
    w, x, y, z = b[:, 3:7].unbind(1)
    half = 0.5 * torch.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))
    zero = torch.zeros_like(half)
    heading = torch.stack((half.cos(), zero, zero, half.sin()), dim=1)
    back = multiply(b[:, 3:7] * b.new_tensor([1.0, -1.0, -1.0, -1.0]), heading)
    out.copy_(rotate(back, torch.cat((at[:, :2], (at[:, 2] - h)[:, None]), dim=1)))
    turn.copy_(multiply(back, turned))


def pose_errors(goal, goal_quat, pos, quat, off, turn):
    g, gq, p, q, o, t = tensors(goal, goal_quat, pos, quat, off, turn)
    torch.sub(g, p, out=o)
    t.copy_(rotation_error(gq, q))


# Volleyball


def blame(fault, culprit, partner, kinds, wrong_hit, drone_fault, ball_fault):
    f, c, p, k, w, d, b = tensors(fault, culprit, partner, kinds, wrong_hit, drone_fault, ball_fault)
    kind = k[f.long()]
    number = torch.arange(w.shape[1])
    own = number == c[:, None]
    torch.mul(own, kind[:, :1], out=w)
    torch.mul(own | (number == p[:, None]), kind[:, 1:2], out=d)
    b.copy_(kind[:, 2:].expand_as(b))


def note_events(sheet, landed, kinds, hit, crossed, down, crash):
    f, c, p, k, h, x, o, d = tensors(sheet.fault, sheet.culprit, sheet.partner, kinds, hit, crossed, down, crash)
    x.copy_(torch.from_numpy(sheet.crossed) != 0)
    o.copy_(f == landed)
    h.copy_(torch.from_numpy(sheet.hit_now) > 0)
    number = torch.arange(h.shape[1])
    d.copy_(((number == c[:, None]) | (number == p[:, None])) & (k[f.long(), 1:2] > 0.0))


def earn(drones, balls, places, sheet, teams, lines, low, apart, out):
    d, b, at, o = tensors(drones, balls, places, out)
    pos, half = d[..., :3], d.shape[1] // 2
    sides = torch.arange(d.shape[1]) // half
    loser, turn, used, hits = tensors(sheet.loser, sheet.turn, sheet.used, sheet.hit_now)
    o[0] = torch.where(loser[:, None] < 0, 0.0, torch.where(loser[:, None] == sides, -1.0, 1.0))
    o[1] = hits.view(len(d), 2, half).amax(2)[:, sides]
    size = 3 if teams else 2
    away = (pos[..., :size] - b[:, None, :size]).norm(dim=-1)
    may = turn[:, None] == sides
    o[2] = torch.where(may & (used == 0) if teams else may, 1.0 / (1.0 + away), 0.0)
    o[3] = 1.0 / (1.0 + (pos - at).norm(dim=-1))
    x, y, _ = pos.abs().unbind(-1)
    edge = torch.minimum(torch.minimum(x, lines[0] - x), lines[1] - y)
    o[4] = (edge < 0.5) | ((pos[..., 2] - 2.0).abs() > 1.0)
    o[5] = pos[..., 2] < low
    o[6] = 0.0
    if apart > 0.0:
        near = (torch.cdist(pos, pos) < apart) & (sides[:, None] == sides)
        near.diagonal(dim1=1, dim2=2).fill_(False)
        o[6] = near.any(2)


CASES = (
    *(
        Case("drone-hover", owner, name, form)
        for owner, name, form in (
            (Pursuit, "closeness", closeness),
            (Pursuit, "speeds", speeds),
            (DroneTask, "motion_rewards", motion_rewards),
            (drones, "to_body", to_body),
            (drones, "pursue", pursue),
            (turning, "add_turning", add_turning),
            (turning, "begin_turning", begin_turning),
            (turning, "yaw_drift", yaw_drift),
            (drones, "pursuit_metrics", pursuit_metrics),
            (drones, "detect_crashes", detect_crashes),
            (drones, "first_cause", first_cause),
            (drones, "starts", starts),
            (drones, "begin", begin),
            (drones, "begin_pursuit", begin_pursuit),
        )
    ),
    Case("drone-track", drones, "follow_paths", follow_paths),
    Case("drone-land", land_kernels, "move_pads", move_pads),
    Case("drone-land", land_kernels, "relative", relative),
    Case("drone-formation", swarm, "track_gaps", track_gaps),
    Case("drone-formation", swarm, "nearest", nearest),
    Case("drone-formation", formation_kernels, "shape_errors", shape_errors),
    Case("drone-formation", drones, "detect_crashes", detect_crashes),
    *(
        Case("swarm-surround", multi_objective_kernels, form.__name__, form)
        for form in (around.begin, around.evaluate, around.observe)
    ),
    *(Case("uav-coverage", radio, form.__name__, form) for form in (around.serve, around.watch, around.walk)),
    Case("go2arm-reach", reach, "to_trunk_frame", to_trunk_frame),
    Case("go2arm-reach", reach, "pose_errors", pose_errors),
    Case("volley-bump-and-pass", volley, "blame", blame),
    Case("volley-3v3", volley, "note_events", note_events),
    Case("volley-3v3", competitive, "earn", earn),
)
"""Every function that could be torch. Referees, logs and controllers of volleyball, auctions for places, gates that are passed
and polygons that are cut are loops that torch would not say more plainly."""

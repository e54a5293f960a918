"""The rule-based defense of set-and-spike-hard: a board that slides and tilts under the spiked ball to play it back. Compiled.

It is VolleyBots' (arXiv 2502.01932): a cylinder of radius 0.5 m and height 0.3 m, not faster than 8 m/s, rolling and
pitching at 4 rad/s at most. It expects the ball where a ball without drag comes down to 1.1 m, and plays it to (3, 1, 1.3). It
is no body of the engine but a kinematic racket, infinitely heavy and without friction; its restitution of 0.8 holds for every
ball. Our own, since nothing is published of it: how it strikes (`APEX`, `STROKE`), that it leaves balls alone that are going
out, and that it plays a ball once.

A tilt alone rarely gives the ball the right speed, so the board also strikes: it meets the ball moving along its normal.
Between two control steps everything moves on straight lines, and the ball's line in the board's own moving frame is swept
against the cylinder, so that nothing tunnels.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rookery.robots.drones.drone import GRAVITY
from rookery.sim.buffers import Buffers
from rookery.sim.sweeps import CYLINDER, sweep
from rookery.tasks.volleyball.ballistics import bounce, face, fall, lob

RADIUS, HALF_HEIGHT = 0.5, 0.15  # m
HOME = (-4.0, 0.0, 0.5)  # m, world: where the board's centre starts, level
MAX_SPEED = 8.0  # m/s
MAX_SPIN = 4.0  # rad/s, of roll and of pitch
MEETING_HEIGHT = 1.1  # m, of the ball's centre when it is played
AIM = (3.0, 1.0, 1.3)  # m, world: where it is played to
RESTITUTION = 0.8
APEX = 4.0  # m, of the ball on its way back: a meter and a half above the net
STROKE = 0.15  # s, how long before it meets the ball the board begins to strike

_fast = njit(cache=True, nogil=True, error_model="numpy")


class Court(NamedTuple):
    """Constants of the game for the defense, all floats."""

    control_dt: float  # s
    ball_radius: float  # m
    ball_low: float  # m, height of its centre below which the ball has landed
    half_length: float  # m
    half_width: float  # m


@_fast
def rotate(tilt, v, out):
    """out = R v, vectors [3], for the tilt [2] (roll about x, after it pitch about y, rad)."""
    cr, sr, cp, sp = math.cos(tilt[0]), math.sin(tilt[0]), math.cos(tilt[1]), math.sin(tilt[1])
    y, z = cr * v[1] - sr * v[2], sr * v[1] + cr * v[2]
    out[0] = cp * v[0] + sp * z
    out[1] = y
    out[2] = cp * z - sp * v[0]


@_fast
def rotate_back(tilt, v, out):
    """out = R^T v, arguments as in `rotate`."""
    cr, sr, cp, sp = math.cos(tilt[0]), math.sin(tilt[0]), math.cos(tilt[1]), math.sin(tilt[1])
    x, z = cp * v[0] - sp * v[2], sp * v[0] + cp * v[2]
    out[0] = x
    out[1] = cr * v[1] + sr * z
    out[2] = cr * z - sr * v[1]


@_fast
def plan(ball, court, goal, s):
    """Pose of the board when this control step ends.

    Args:
        ball: [13] at its beginning, see Bodies.state.
        court: Court.
        goal: [5], gets position (m, world) and tilt (rad); untouched where there is nothing to play.
        s: [5, 3] scratch.

    Returns:
        Whether the ball comes down inside the far court.
    """
    p = s[0]
    v = s[1]
    away = s[2]
    normal = s[3]
    spare = s[4]
    p[:] = ball[0:3]
    v[:] = ball[7:10]
    left = fall(p, v, MEETING_HEIGHT, GRAVITY, 0.0)
    if left < 0.0 or p[0] > 0.0 or p[0] < -court.half_length or abs(p[1]) > court.half_width:
        return False
    lob(p, AIM, APEX, GRAVITY, 0.0, away, spare, normal)
    speed = face(v, away, RESTITUTION, 1.0, normal)
    back = HALF_HEIGHT + court.ball_radius + speed * min(left - court.control_dt, STROKE)
    for i in range(3):
        goal[i] = p[i] - back * normal[i]
    goal[0] = min(goal[0], -RADIUS)  # on its own side of the net
    goal[2] = max(goal[2], HALF_HEIGHT)
    goal[3] = -math.asin(normal[1])
    goal[4] = math.atan2(normal[0], normal[2])
    return True


@_fast
def approach(pos, tilt, goal, dt):
    """Move the board in place, pos [3] m and tilt [2] rad, as far towards the goal [5] as it comes within dt s."""
    square = 0.0
    for i in range(3):
        square += (goal[i] - pos[i]) * (goal[i] - pos[i])
    share = min(1.0, MAX_SPEED * dt / math.sqrt(square)) if square > 0.0 else 0.0
    for i in range(3):
        pos[i] += share * (goal[i] - pos[i])
    for i in range(2):
        tilt[i] += min(max(goal[3 + i] - tilt[i], -MAX_SPIN * dt), MAX_SPIN * dt)


@_fast
def strike(board, moved, begin, end, until, court, s):
    """The ball meets the board, or not.

    Args:
        board, moved: [5] position (m) and tilt (rad) of the board when the control step begins and ends.
        begin: [13] the ball when the control step begins.
        end: [13] the ball when it ends, overwritten where they met.
        until: s, when the ball first touched something else in this step, inf for never; then `end` is not used.
        court: Court.
        s: [6, 3] scratch.

    Returns:
        Part of the control step after which they met, -1 if they did not; and where, in s[0] m, world.
    """
    dt = court.control_dt
    span = min(until, dt)
    if span <= 0.0:
        return -1.0
    at = s[0]
    v = s[1]
    a = s[2]
    b = s[3]
    line = s[4]
    spin = s[5]
    for i in range(3):
        line[i] = end[i] - begin[i] if until > dt else begin[7 + i] * span
    if until <= dt:
        line[2] -= 0.5 * GRAVITY * span * span
    share = span / dt
    for i in range(3):
        at[i] = begin[i] - board[i]
        v[i] = begin[i] + line[i] - board[i] - share * (moved[i] - board[i])
    rotate_back(board[3:5], at, a)
    spin[0:2] = board[3:5] + share * (moved[3:5] - board[3:5])
    rotate_back(spin[0:2], v, b)
    hit, t, nx, ny, nz, px, py, pz = sweep(
        CYLINDER, RADIUS, HALF_HEIGHT, 0.0, court.ball_radius, a[0], a[1], a[2], b[0], b[1], b[2]
    )
    if not hit:
        return -1.0
    for i in range(3):
        at[i] = begin[i] + t * line[i]
        v[i] = begin[7 + i] + 2.0 * t * (line[i] / span - begin[7 + i])  # on a parabola with that chord
    if at[2] < court.ball_low or abs(at[0]) > court.half_length or abs(at[1]) > court.half_width:
        return -1.0
    u = t * share
    tilt = spin[0:2]
    tilt[:] = board[3:5] + u * (moved[3:5] - board[3:5])
    a[0] = nx
    a[1] = ny
    a[2] = nz
    rotate(tilt, a, b)
    line[0] = px
    line[1] = py
    line[2] = pz
    rotate(tilt, line, a)
    # velocity of the point that is touched: w x a, with the pitch about y and the roll about the pitched x axis
    roll = (moved[3] - board[3]) / dt
    pitch = (moved[4] - board[4]) / dt
    wx, wy, wz = roll * math.cos(tilt[1]), pitch, -roll * math.sin(tilt[1])
    line[0] = (moved[0] - board[0]) / dt + wy * a[2] - wz * a[1]
    line[1] = (moved[1] - board[1]) / dt + wz * a[0] - wx * a[2]
    line[2] = (moved[2] - board[2]) / dt + wx * a[1] - wy * a[0]
    bounce(v, line, b, RESTITUTION, 1.0)
    rest = (1.0 - u) * dt
    for i in range(3):
        end[i] = at[i] + v[i] * rest
        end[7 + i] = v[i]
    end[2] -= 0.5 * GRAVITY * rest * rest
    end[9] -= GRAVITY * rest
    return u


@_fast
def defend(live, begin, end, until, court, pos, tilt, returned, when, where):
    """One control step of the boards of all worlds.

    Args:
        live: [N] bool, where the ball is the defense's to play.
        begin, end: [N, 13] the ball when the step begins and ends; `end` is overwritten where the board meets it.
        until: [N, M] s into the step at which the ball first touched other things, inf for never.
        court: Court.
        pos, tilt: [N, 3] m and [N, 2] rad, the boards.
        returned: [N] bool, set where the board has met the ball.
        when, where: [N] s into the step and [N, 3] m, world, of the meetings; -1 where there was none.

    Returns:
        How many meetings there were.
    """
    s = np.empty((6, 3))
    goal = np.empty(5)
    board = np.empty(5)
    moved = np.empty(5)
    count = 0
    for n in range(live.shape[0]):
        when[n] = -1.0
        if not live[n] or returned[n]:
            continue
        board[0:3] = pos[n]
        board[3:5] = tilt[n]
        if plan(begin[n], court, goal, s):
            approach(pos[n], tilt[n], goal, court.control_dt)
        moved[0:3] = pos[n]
        moved[3:5] = tilt[n]
        u = strike(board, moved, begin[n], end[n], until[n].min(), court, s)
        if u >= 0.0:
            when[n] = u * court.control_dt
            where[n] = s[0]
            returned[n] = True
            count += 1
    return count


class Defender(Buffers):
    """The boards of N worlds.

    Args:
        num_envs: N.
        court: what they know of the game.

    Attributes:
        pos: [N, 3] m, world, their centres.
        tilt: [N, 2] rad, roll and pitch.
        returned: [N] bool, whether they have played the ball in this rally.
        when, where: [N] s into the last control step and [N, 3] m, world, at which they met the ball; -1 for not.
    """

    pos: Tensor
    tilt: Tensor
    returned: Tensor

    def __init__(self, num_envs: int, court: Court) -> None:
        super().__init__()
        self.court = Court(*(float(v) for v in court))
        self.buffer("pos", num_envs, 3).copy_(torch.tensor(HOME))
        self.buffer("tilt", num_envs, 2)
        self.buffer("returned", num_envs, dtype=torch.bool)
        self.when = torch.full((num_envs,), -1.0)
        self.where = torch.zeros(num_envs, 3)
        self._home = torch.tensor(HOME)

    def reset(self, ids: Tensor) -> None:
        """Boards of the worlds `ids` [n] go home."""
        self.pos[ids] = self._home
        self.tilt[ids] = 0.0
        self.returned[ids] = False

    def step(self, live: Tensor, begin: Tensor, end: Tensor, until: Tensor) -> int:
        """Move the boards for a control step, see `defend`. `end` is overwritten where they meet the ball.

        Returns:
            How many of them met it.
        """
        arrays = (x.numpy() for x in (self.pos, self.tilt, self.returned, self.when, self.where))
        return int(defend(live.numpy(), begin.numpy(), end.numpy(), until.numpy(), self.court, *arrays))

    def outline(self, i: int, points: int = 8) -> list[list[float]]:
        """Points [3] m, world, around the middle of world i's board at two thirds of its radius, and the middle."""
        tilt = self.tilt[i].double().numpy()
        out = np.empty(3)
        found = [self.pos[i].tolist()]
        for k in range(points):
            a = 2.0 * math.pi * k / points
            rotate(tilt, np.array((math.cos(a), math.sin(a), 0.0)) * RADIUS * 2.0 / 3.0, out)
            found.append((self.pos[i].double().numpy() + out).tolist())
        return found

"""The referee of all volleyball tasks: one state machine a world, parametrised by the rules of the task.

    SERVE ----first legal hit (teams: the serve crosses the net)----> PLAY ----fault, landing, end----> OVER

In each control step the referee is given when the ball touched which racket, drone body, the ground or the net within the
step, and where ball and drones are at its end. From these it makes events with times: touches, the ball entering the net,
crossing the middle, landing, leaving the court, rising too high, and faults of drones. It handles them in the order in
which they happened and stops at the one that ends the rally. Where the ball was between two control steps is taken from the
straight line between them, so nothing is missed however fast the ball is and no rule needs a tolerance for the step. (The
public simulator samples slabs instead: |x| < 3 r for the net "to avoid missing the net between steps", |x| < 0.01 m for
drones, |y| < r for passes. Here the net is entered at |x| < r, planes are crossed where they are.)

Sides: 0 is near (x > 0), 1 is far. The rules, task by task, are VolleyBots' (arXiv 2502.01932).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.tasks.volleyball import events, rally
from rookery.tasks.volleyball.rally import RallyLog, write
from rookery.tasks.volleyball.rules import (
    ALTERNATE,
    FREE,
    LONG_AGO,
    NOWHERE,
    OVER,
    PLAY,
    SEQUENCE,
    SERVE,
    TEAMS,
    Rules,
    Sheet,
)

_PER_DRONE = ("hits", "used", "hit_now", "last_hit", "last_touch", "touch_start")
_FLOATS = ("apex", "apex_sum", "cross_height")

_fast = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def _side(sides, d):
    return sides[d] if d >= 0 else -1


@_fast
def _finish(n, code, drone, partner, loser, at, time, rules, s, log):
    """End the rally of world n."""
    s.phase[n] = OVER
    s.fault[n] = code
    s.culprit[n] = drone
    s.partner[n] = partner
    s.loser[n] = loser
    for i in range(3):
        s.end[n, i] = at[i]
    write(log, n, time, rally.FAULT + code, drone, at[0], at[1], at[2])


@_fast
def _legal(n, d, racket, rules, s):
    """0 if drone d of world n may hit the ball now, or the fault it commits."""
    if rules.order == TEAMS:
        if s.phase[n] == SERVE and d != s.server[n]:
            return rally.NOT_SERVER
        if s.used[n, d] == 1:
            return rally.ALREADY_HIT
    elif rules.order != FREE and d != s.turn[n]:
        return rally.WRONG_TURN
    if rules.racket_only and not racket:
        return rally.NOT_RACKET
    return 0


@_fast
def _touch(n, d, racket, at, time, rules, sides, s, log):
    """Drone d touches the ball at `at` [3] m."""
    if s.clock[n] - s.last_hit[n, d] <= rules.hit_gap:
        if rules.gap_is_fault:
            _finish(n, rally.DOUBLE_HIT, d, -1, sides[d], at, time, rules, s, log)
        else:
            s.last_hit[n, d] = s.clock[n]
        return
    fault = _legal(n, d, racket, rules, s)
    if fault > 0:
        _finish(n, fault, d, -1, sides[d], at, time, rules, s, log)
        return
    write(log, n, time, rally.RACKET_HIT if racket else rally.BODY_HIT, d, at[0], at[1], at[2])
    if s.total[n] > 0:
        s.apex_sum[n] += s.apex[n]
        s.high_hits[n] += s.apex[n] > rules.apex_above
    s.apex[n] = at[2]
    s.total[n] += 1
    s.hits[n, d] += 1
    s.hit_now[n, d] = 1
    s.last_hit[n, d] = s.clock[n]
    s.last_hitter[n] = d
    if rules.order == ALTERNATE:
        s.turn[n] = (d + 1) % sides.shape[0]
    elif rules.order == SEQUENCE:
        s.turn[n] += 1
    elif rules.order == TEAMS:
        s.used[n, d] = 1
    if rules.order != TEAMS:
        s.phase[n] = PLAY


@_fast
def _handle(n, event, at, time, drones, rules, sides, s, log):
    """One event of world n; `at` [3] is where the ball was."""
    kind = int(event[1])
    d = int(event[2])
    extra = event[3]
    blamed = _side(sides, s.last_hitter[n] if s.last_hitter[n] >= 0 else s.server[n])
    if kind == events.TOUCH:
        _touch(n, d, extra > 0.0, at, time, rules, sides, s, log)
    elif kind == events.NET:
        _finish(n, rally.BALL_IN_NET, -1, -1, blamed, at, time, rules, s, log)
    elif kind == events.CROSS:
        write(log, n, time, rally.CROSSING, -1, at[0], at[1], at[2])
        s.crossed[n] = int(extra)
        s.crossings[n] += 1
        s.cross_height[n] = at[2]
        if at[2] > rules.cross_above:
            s.crossed_well[n] = 1
            s.good_crossings[n] += 1
        if rules.order == TEAMS:
            s.phase[n] = PLAY
            s.turn[n] = 0 if extra > 0.0 else 1
            s.used[n, :] = 0
    elif kind == events.LAND:
        inside = abs(at[0]) <= rules.half_length and abs(at[1]) <= rules.half_width
        if inside or rules.bounds == NOWHERE:
            _finish(n, rally.BALL_LANDED, -1, -1, 0 if at[0] > 0.0 else 1, at, time, rules, s, log)
        else:
            _finish(n, rally.BALL_OUT, -1, -1, blamed, at, time, rules, s, log)
    elif kind == events.OUT:
        _finish(n, rally.BALL_OUT, -1, -1, blamed, at, time, rules, s, log)
    elif kind == events.HIGH:
        _finish(n, rally.BALL_TOO_HIGH, -1, -1, blamed, at, time, rules, s, log)
    elif kind == events.FINISH:
        if s.total[n] == 1:
            _finish(n, rally.FINISHED, -1, -1, -1, at, time, rules, s, log)
    else:
        fault = int(extra) // 64
        other = int(extra) % 64 - 1
        _finish(n, fault, d, other, sides[d], drones[n, d], time, rules, s, log)


@_fast
def judge(start, stop, rules, sides, teams, s, log, control_dt, dt, when, balls, drones):
    """One control step of the worlds from `start` to before `stop`.

    Args:
        rules: Rules.
        sides: [A] side of each drone.
        teams: whether there are two sides that play for points.
        s: Sheet.
        log: LogArrays.
        control_dt, dt: s, control and physics step.
        when: [N, 2 A + 1 or 2] s into the step at which the ball first touched the racket of each drone, the body of
            each drone, the ground, and the net; inf for never.
        balls: [N, >= 3] m, world, the ball's position in the first three columns, at the end of the step.
        drones: [N, A, >= 3] m, the same of the drones.
    """
    found = np.empty((2 * sides.shape[0] + events.MOST, 4))
    at = np.empty(3)
    for n in range(start, stop):
        s.crossed[n] = 0
        s.crossed_well[n] = 0
        s.hit_now[n, :] = 0
        if s.phase[n] == OVER:
            continue
        s.clock[n] += 1
        a, b = s.before[n], balls[n]
        count = events.gather_touches(n, when, control_dt, dt, s.clock, s.last_touch, s.touch_start, found)
        ground = when[n, 2 * sides.shape[0]] / control_dt
        net = when[n, 2 * sides.shape[0] + 1] / control_dt if when.shape[1] > 2 * sides.shape[0] + 1 else math.inf
        count = events.gather_ball(a, b, ground, net, s.total[n], rules, found, count)
        count = events.gather_drones(n, drones, rules, sides, found, count)
        for _ in range(count):
            first = 0
            for i in range(1, count):
                if found[i, 0] < found[first, 0]:
                    first = i
            u = found[first, 0]
            for i in range(3):
                at[i] = a[i] + u * (b[i] - a[i])
            time = (s.clock[n] - 1 + u) * control_dt
            _handle(n, found[first], at, time, drones, rules, sides, s, log)
            found[first, 0] = math.inf
            if s.phase[n] == OVER:
                if teams:
                    event = rally.NO_POINT
                    if s.loser[n] >= 0:
                        event = rally.POINT_FAR if s.loser[n] == 0 else rally.POINT_NEAR
                    write(log, n, time, event, -1, at[0], at[1], at[2])
                break
        s.apex[n] = max(s.apex[n], b[2])
        for i in range(3):
            s.before[n, i] = b[i]


@_fast
def begin(ids, servers, rules, sides, s, log, balls):
    """New rallies in the worlds `ids` [n], served by drones `servers` [n], with the balls where they are [n, >= 3]."""
    for i in range(ids.shape[0]):
        n, d = ids[i], servers[i]
        s.clock[n] = 0
        s.phase[n] = SERVE
        s.server[n] = d
        s.turn[n] = sides[d] if rules.order == TEAMS else d
        s.last_hitter[n] = -1
        s.fault[n] = 0
        s.culprit[n] = -1
        s.partner[n] = -1
        s.loser[n] = -1
        s.total[n] = 0
        s.high_hits[n] = 0
        s.crossings[n] = 0
        s.good_crossings[n] = 0
        s.crossed[n] = 0
        s.crossed_well[n] = 0
        for a in range(sides.shape[0]):
            s.hits[n, a] = 0
            s.used[n, a] = 1 if rules.order == TEAMS and a != d else 0
            s.hit_now[n, a] = 0
            s.last_hit[n, a] = LONG_AGO
            s.last_touch[n, a] = LONG_AGO
            s.touch_start[n, a] = LONG_AGO
        s.apex[n] = balls[i, 2]
        s.apex_sum[n] = 0.0
        s.cross_height[n] = 0.0
        for k in range(3):
            s.before[n, k] = balls[i, k]
            s.end[n, k] = 0.0
        write(log, n, 0.0, rally.START, d, balls[i, 0], balls[i, 1], balls[i, 2])


class Referee(Buffers):
    """Judges the rallies of N worlds.

    Every field of `Sheet` is also a tensor of this object, by the same name: ``referee.turn`` is [N] int32.

    Args:
        num_envs: N.
        rules: of the task.
        sides: [A] side of each drone: 0 near, 1 far.
        control_dt: s.
        dt: s, the physics step.
    """

    phase: Tensor
    clock: Tensor
    server: Tensor
    turn: Tensor
    last_hitter: Tensor
    fault: Tensor
    culprit: Tensor
    partner: Tensor
    loser: Tensor
    total: Tensor
    high_hits: Tensor
    crossings: Tensor
    good_crossings: Tensor
    crossed: Tensor
    crossed_well: Tensor
    hits: Tensor
    used: Tensor
    hit_now: Tensor
    last_hit: Tensor
    apex: Tensor
    apex_sum: Tensor
    cross_height: Tensor
    end: Tensor

    def __init__(self, num_envs: int, rules: Rules, sides: Sequence[int], control_dt: float, dt: float) -> None:
        super().__init__()
        like = Rules(0.0, 0.0, 0.0, 0.0)  # an int for a length would mean compiling anew
        self.rules = Rules._make(type(kind)(value) for kind, value in zip(like, rules, strict=True))
        self.sides = np.array(sides, dtype=np.int64)
        self.control_dt = float(control_dt)
        self.dt = float(dt)
        self.teams = len(set(sides)) > 1
        for name in Sheet._fields:
            shape = (len(sides),) if name in _PER_DRONE else (3,) if name in ("before", "end") else ()
            kind = torch.float32 if name in (*_FLOATS, "before", "end") else torch.int32
            self.buffer(name, num_envs, *shape, dtype=kind)
        self.sheet = Sheet(*(getattr(self, name).numpy() for name in Sheet._fields))
        self.log = RallyLog(num_envs)
        self.child("log", self.log)

    def start(self, ids: Tensor, balls: Tensor, servers: Tensor) -> None:
        """Begin rallies in the worlds `ids` [n].

        Args:
            balls: [n, >= 3] m, world: where the balls are.
            servers: [n] int64 drones that are to hit first.
        """
        begin(ids.numpy(), servers.numpy(), self.rules, self.sides, self.sheet, self.log.arrays, balls.numpy())

    def step(self, when: Tensor, balls: Tensor, drones: Tensor) -> None:
        """Judge one control step; arguments as in `judge`."""
        judge(
            0, len(self.clock), self.rules, self.sides, self.teams, self.sheet, self.log.arrays, self.control_dt, self.dt,
            when.numpy(), balls.numpy(), drones.numpy(),
        )  # fmt: skip

    @property
    def winner(self) -> Tensor:
        """[N] int32 side that won the point, -1 where the rally goes on or nobody did."""
        return torch.where(self.loser >= 0, 1 - self.loser, self.loser)

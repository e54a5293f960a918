"""Observations and rewards of drones of two sides: one compiled pass each over all worlds.

Columns of an observation after the 23 of the drone's own state (state.py), all as seen by the drone's side (symmetry.py):

    1 vs 1    from_anchor 3, from_opponent 3, from_ball 3, ball_velocity 3, turn 2
    teams     from_anchor 3, from_ball 3, ball_velocity 3, turn 2, number a, already_hit 2, positions 6 a

`turn` is (own, the other's); `already_hit` is (may hit, may not); `positions` are those of the own side, then of the other.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from numba import njit

from rookery.tasks.volleyball.state import STATE

(WIN, HIT, NEAR_BALL, NEAR_ANCHOR, MISPLACED, CRASH, TOO_CLOSE) = range(7)
"""Rows of the rewards."""
REWARDS = 7

_fast = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def relations(worlds, drones, balls, places, turn, used, teams, out):
    """Write the columns from STATE on of the worlds `worlds` [m].

    Args:
        drones: [N, A, >= 3] m, positions first; the first half of the drones is the near side.
        balls: [N, 13], see Bodies.state.
        places: [A, 3] m.
        turn: [N] side (teams) or drone (1 vs 1) that is to play.
        used: [N, A] 1 for drones that must not hit now.
        teams: more than one drone a side.
        out: [N, A, O] float32.
    """
    count = drones.shape[1]
    half = count // 2
    for n in worlds:
        for a in range(count):
            o, d = out[n, a], drones[n, a]
            far = a >= half
            sign = -1.0 if far else 1.0
            at = STATE
            for i in range(3):
                s = 1.0 if i == 2 else sign
                o[at + i] = s * (d[i] - places[a, i])
            at += 3
            if not teams:
                for i in range(3):
                    s = 1.0 if i == 2 else sign
                    o[at + i] = s * (d[i] - drones[n, 1 - a, i])
                at += 3
            for i in range(3):
                s = 1.0 if i == 2 else sign
                o[at + i] = s * (d[i] - balls[n, i])
                o[at + 3 + i] = s * balls[n, 7 + i]
            at += 6
            own = turn[n] == (1 if far else 0)
            o[at] = 1.0 if own else 0.0
            o[at + 1] = 0.0 if own else 1.0
            at += 2
            if not teams:
                continue
            first = half if far else 0
            for i in range(half):
                o[at + i] = 1.0 if i == a - first else 0.0
            at += half
            o[at] = 1.0 - used[n, a]
            o[at + 1] = used[n, a]
            at += 2
            for j in range(count):
                other = (first + j) % count
                o[at] = sign * drones[n, other, 0]
                o[at + 1] = sign * drones[n, other, 1]
                o[at + 2] = drones[n, other, 2]
                at += 3


@_fast
def earn(drones, balls, places, sheet, teams, lines, low, apart, out):
    """Write the reward terms of all worlds, unweighted (VolleyBots,
    envs/competitive/volleyball_*.py).

    WIN 1 and -1 for the sides when a point is made; HIT a legal hit, the drone's own (1 vs 1) or one of its side (teams);
    NEAR_BALL 1 / (1 + distance to the ball, horizontal in 1 vs 1) for drones of the side whose turn it is that may still hit;
    NEAR_ANCHOR 1 / (1 + distance); MISPLACED 1 near the net, the lines or off the height of 2 m; CRASH 1 too low; TOO_CLOSE 1
    for both of a pair of one side.

    Args:
        sheet: of the referee, see rules.Sheet.
        lines: (half length, half width) of the court, m.
        low: m, height below which a drone has crashed.
        apart: m, least distance within a side; 0 for none.
        out: [REWARDS, N, A] float32.
    """
    count = drones.shape[1]
    half = count // 2
    for n in range(drones.shape[0]):
        b = balls[n]
        loser = sheet.loser[n]
        for side in range(2):
            hit = 0
            for a in range(side * half, (side + 1) * half):
                hit = max(hit, sheet.hit_now[n, a])
            won = 0.0 if loser < 0 else (-1.0 if loser == side else 1.0)
            for a in range(side * half, (side + 1) * half):
                d = drones[n, a]
                dx, dy, dz = d[0] - b[0], d[1] - b[1], d[2] - b[2]
                away = math.sqrt(dx * dx + dy * dy + (dz * dz if teams else 0.0))
                may = sheet.turn[n] == side and (not teams or sheet.used[n, a] == 0)
                out[WIN, n, a] = won
                out[HIT, n, a] = hit
                out[NEAR_BALL, n, a] = 1.0 / (1.0 + away) if may else 0.0
                dx, dy, dz = d[0] - places[a, 0], d[1] - places[a, 1], d[2] - places[a, 2]
                out[NEAR_ANCHOR, n, a] = 1.0 / (1.0 + math.sqrt(dx * dx + dy * dy + dz * dz))
                edge = min(min(abs(d[0]), lines[0] - abs(d[0])), lines[1] - abs(d[1]))
                out[MISPLACED, n, a] = 1.0 if edge < 0.5 or abs(d[2] - 2.0) > 1.0 else 0.0
                out[CRASH, n, a] = 1.0 if d[2] < low else 0.0
                out[TOO_CLOSE, n, a] = 0.0
                if apart > 0.0:
                    for e in range(side * half, a):
                        dx, dy, dz = d[0] - drones[n, e, 0], d[1] - drones[n, e, 1], d[2] - drones[n, e, 2]
                        if dx * dx + dy * dy + dz * dz < apart * apart:
                            out[TOO_CLOSE, n, a] = 1.0
                            out[TOO_CLOSE, n, e] = 1.0

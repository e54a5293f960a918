"""Work of all volleyball tasks for every drone, compiled: starts, events, and whom a fault is held against."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit

_loop = njit(cache=True, nogil=True, error_model="numpy")


@_loop
def starts(draws, places, heading, box, tilt, yaw, state):
    """Starts near the drones' places, at rest: yaw about z, then pitch about the new y, then roll about the new x.

    Args:
        draws: [n, A, 6] in [-1, 1]: position, roll, pitch, yaw.
        places: [A, 3] m, world.
        heading: [A] rad, the middle of the yaw angles.
        box: (x, y, z) m, half-widths.
        tilt, yaw: rad, half-widths of roll and pitch, and of yaw.
        state: [n, A, 13], see Bodies.state, written.
    """
    for n in range(draws.shape[0]):
        for a in range(draws.shape[1]):
            u, s = draws[n, a], state[n, a]
            r, p, y = 0.5 * tilt * u[3], 0.5 * tilt * u[4], 0.5 * (heading[a] + yaw * u[5])
            cr, sr, cp, sp, cy, sy = math.cos(r), math.sin(r), math.cos(p), math.sin(p), math.cos(y), math.sin(y)
            for i in range(3):
                s[i] = places[a, i] + box[i] * u[i]
            s[3] = cr * cp * cy + sr * sp * sy
            s[4] = sr * cp * cy - cr * sp * sy
            s[5] = cr * sp * cy + sr * cp * sy
            s[6] = cr * cp * sy - sr * sp * cy
            s[7:] = 0.0


@_loop
def balls_above(state, servers, above, ball):
    """Balls [n, 1, 13] at rest `above` m over the drones `servers` [n] of the starts [n, A, 13], written."""
    for n in range(len(servers)):
        ball[n, 0] = 0.0
        for i in range(3):
            ball[n, 0, i] = state[n, servers[n], i]
        ball[n, 0, 2] += above
        ball[n, 0, 3] = 1.0


@_loop
def blame(fault, culprit, partner, kinds, wrong_hit, drone_fault, ball_fault):
    """Reward terms [N, A] of what went wrong in a step, written: 1 for whom it counts against.

    Args:
        fault, culprit, partner: [N], of the referee.
        kinds: [faults, 3] whether a fault is a wrong hit, a drone's, the ball's.
    """
    for n in range(len(fault)):
        kind = kinds[fault[n]]
        for a in range(wrong_hit.shape[1]):
            own = a == culprit[n]
            wrong_hit[n, a] = kind[0] if own else 0.0
            drone_fault[n, a] = kind[1] if own or a == partner[n] else 0.0
            ball_fault[n, a] = kind[2]


@_loop
def note_events(sheet, landed, kinds, hit, crossed, down, crash):
    """Events of a control step, written: see `VolleyTask.event_definitions`.

    Args:
        sheet: of the referee, see rules.Sheet.
        landed: the fault of a ball that comes down in the court.
        kinds: as in `blame`.
        hit, crash: [N, A] bool.
        crossed, down: [N] bool.
    """
    for n in range(len(crossed)):
        crossed[n] = sheet.crossed[n] != 0
        down[n] = sheet.fault[n] == landed
        own = kinds[sheet.fault[n], 1] > 0.0
        for a in range(hit.shape[1]):
            hit[n, a] = sheet.hit_now[n, a] > 0
            crash[n, a] = own and (a == sheet.culprit[n] or a == sheet.partner[n])

"""Drones and the gates of a course, compiled: passed, missed or hit."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

_loop = njit(cache=True, nogil=True, error_model="numpy")


@_loop
def fly(before, state, course, opening, bar, depth, body, following, progress, when, hit):
    """Events at the gates in a control step, in which all drones move straight and evenly.

    Args:
        before: [N, A, 3] m, world: places at the beginning of the step.
        state: [N, A, 13], see Bodies.state: at its end.
        course: [G, 5]: middle of each gate in m, cosine and sine of the heading of the way through it.
        opening, bar, depth: m, of all gates, see assets.gates.gate.
        body: m, radius of the sphere around a drone that must not touch a frame.
        following: [N, A] int64: number of the next gate to pass, advanced by one where it was passed.
        progress: [N, A] float32 m, written: how much nearer the drone came to the gate that was next.
        when: [N, A] float32, written: share of the step at which the gate was passed, -1 where none was.
        hit: [N, A] bool, written: the drone touched a frame.
    """
    gates = course.shape[0]
    p, q = np.empty(3), np.empty(3)
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            hit[w, a] = False
            for g in range(gates):
                into(before[w, a], course[g], p)
                into(state[w, a], course[g], q)
                if g == following[w, a]:
                    old = math.sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2])
                    progress[w, a] = old - math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2])
                    when[w, a] = crossing(p, q, 0.5 * opening)
                if touches(p, q, 0.5 * opening, bar, 0.5 * depth, body):
                    hit[w, a] = True
            if when[w, a] >= 0.0:
                following[w, a] = (following[w, a] + 1) % gates


@_loop
def into(place, gate, out):
    """A place [3] m in world axes as seen from a gate: x along the way through it, y left, z up."""
    dx, dy = place[0] - gate[0], place[1] - gate[1]
    out[0] = dx * gate[3] + dy * gate[4]
    out[1] = dy * gate[3] - dx * gate[4]
    out[2] = place[2] - gate[2]


@_loop
def crossing(p, q, half):
    """Share of the straight way from p to q (m, gate axes) at which it crosses the opening forwards; -1 if it does not."""
    if not (p[0] < 0.0 and q[0] >= 0.0):
        return -1.0
    t = p[0] / (p[0] - q[0])
    y, z = p[1] + t * (q[1] - p[1]), p[2] + t * (q[2] - p[2])
    return t if abs(y) <= half and abs(z) <= half else -1.0


@_loop
def frame_distance(x, y, z, half, bar, deep):
    """m from a point (gate axes) to a frame of inner edge 2 half, bars `bar` wide and 2 deep long; 0 inside it."""
    outer = half + bar
    off = max(abs(x) - deep, 0.0)
    if max(abs(y), abs(z)) < half:
        across = half - max(abs(y), abs(z))
        return math.sqrt(off * off + across * across)
    sideways = max(abs(y) - outer, 0.0)
    upwards = max(abs(z) - outer, 0.0)
    return math.sqrt(off * off + sideways * sideways + upwards * upwards)


@_loop
def touches(p, q, half, bar, deep, body):
    """True where a sphere of radius `body` m that moves straight from p to q (gate axes) touches the frame.

    The distance changes by no more than the way flown, so from a place at distance d one can go on by d - body unseen; at
    least by a tenth of a millimeter, by which a touch may be missed.
    """
    dx, dy, dz = q[0] - p[0], q[1] - p[1], q[2] - p[2]
    length = math.sqrt(dx * dx + dy * dy + dz * dz)
    room = frame_distance(p[0], p[1], p[2], half, bar, deep) - body
    flown = 0.0
    while room > 0.0 and flown < length:  # in this form no NaN can keep it going
        flown = min(flown + max(room, 1e-4), length)
        t = flown / length
        room = frame_distance(p[0] + t * dx, p[1] + t * dy, p[2] + t * dz, half, bar, deep) - body
    return room <= 0.0

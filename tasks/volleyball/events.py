"""Events of a control step of a rally, with their times: input of the referee. Compiled.

An event is a row of four numbers: when, as a part u of the control step in [0, 1]; its kind; the drone, -1 for none; and
one number more. Between control steps the ball is on the straight line from where it was to where it is.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from numba import njit

from rookery.tasks.volleyball import rally
from rookery.tasks.volleyball.rules import IN_THE_AIR, PLANE, SLAB

TOUCH, NET, CROSS, LAND, OUT, HIGH, FINISH, DRONE = range(8)
"""Kinds. The number more is: TOUCH 1 for the racket, 0 for the body; CROSS the direction, -1 or 1; DRONE 64 times the fault
plus 1 plus the other drone, if any."""
MOST = 8
"""Events of a step besides two of each drone, at most."""

_fast = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def _cut(low, high, p, q, limit):
    """The part of low <= u <= high in which p + u q <= limit; low > high when there is none."""
    if q > 0.0:
        high = min(high, (limit - p) / q)
    elif q < 0.0:
        low = max(low, (limit - p) / q)
    elif p > limit:
        low = 2.0
    return low, high


@_fast
def _enters_net(a, b, rules):
    """Part u in [0, 1] of the way from a to b [3] at which the ball is in the net, 2 for never."""
    r = rules.ball_radius
    low, high = _cut(0.0, 1.0, a[0], b[0] - a[0], r)
    low, high = _cut(low, high, -a[0], a[0] - b[0], r)
    low, high = _cut(low, high, a[1], b[1] - a[1], rules.half_width)
    low, high = _cut(low, high, -a[1], a[1] - b[1], rules.half_width)
    low, high = _cut(low, high, a[2], b[2] - a[2], rules.net_height)
    return low if low < high else 2.0


@_fast
def _leaves_court(a, b, rules):
    """Part of the way from a to b at which the ball leaves the space above the court: 0 if it was outside, 1 if it ends on
    the border."""
    if abs(a[0]) > rules.half_length or abs(a[1]) > rules.half_width:
        return 0.0
    low, high = _cut(0.0, 1.0, a[0], b[0] - a[0], rules.half_length)
    low, high = _cut(low, high, -a[0], a[0] - b[0], rules.half_length)
    low, high = _cut(low, high, a[1], b[1] - a[1], rules.half_width)
    low, high = _cut(low, high, -a[1], a[1] - b[1], rules.half_width)
    return high


@_fast
def _add(events, count, u, kind, drone, extra):
    events[count, 0] = u
    events[count, 1] = kind
    events[count, 2] = drone
    events[count, 3] = extra
    return count + 1


@_fast
def gather_touches(n, when, control_dt, dt, clock, last_touch, touch_start, events):
    """New touches of the ball by drones. A contact that lasts into the next control step (engines whose bounces take time)
    is the same touch there; one that lasts longer is a touch again."""
    drones = last_touch.shape[1]
    count = 0
    now = clock[n]
    for d in range(drones):
        t = min(when[n, d], when[n, drones + d])
        if t == math.inf:
            continue
        lasting = last_touch[n, d] == now - 1 and t <= 1.5 * dt and touch_start[n, d] >= now - 1
        last_touch[n, d] = now
        if not lasting:
            touch_start[n, d] = now
            count = _add(events, count, t / control_dt, TOUCH, d, 1.0 if when[n, d] <= when[n, drones + d] else 0.0)
    return count


@_fast
def gather_ball(a, b, ground, net, total, rules, events, count):
    """Events of the ball on its way from a to b [3], apart from touches of drones.

    Args:
        ground, net: part of the step at which it touched them, inf for never.
        total: hits before this step.
    """
    r = rules.ball_radius
    low = rules.ball_low
    if rules.ball_net and min(a[2], b[2]) < rules.net_height:
        u = 2.0
        if min(a[0], b[0]) < r and max(a[0], b[0]) > -r:
            u = _enters_net(a, b, rules)
        u = min(u, net)
        if u <= 1.0:
            count = _add(events, count, u, NET, -1, 0.0)
    was = a[rules.cross_axis] - rules.cross_at
    now = b[rules.cross_axis] - rules.cross_at
    if (was > 0.0) != (now > 0.0):
        count = _add(events, count, was / (was - now), CROSS, -1, 1.0 if now > 0.0 else -1.0)
    if b[2] < low or ground <= 1.0:
        u = 0.0
        if a[2] >= low:
            u = (a[2] - low) / (a[2] - b[2]) if b[2] < low else ground
        count = _add(events, count, u, LAND, -1, 0.0)
    # the space above the court is convex: who leaves it is outside now, or was outside before
    outside = abs(b[0]) > rules.half_length or abs(b[1]) > rules.half_width
    if rules.bounds == IN_THE_AIR and outside:
        count = _add(events, count, _leaves_court(a, b, rules), OUT, -1, 0.0)
    if b[2] > rules.ball_high:
        u = (rules.ball_high - a[2]) / (b[2] - a[2]) if a[2] <= rules.ball_high else 0.0
        count = _add(events, count, u, HIGH, -1, 0.0)
    if b[2] <= rules.finish_height and b[2] < a[2]:
        u = (a[2] - rules.finish_height) / (a[2] - b[2]) if a[2] > rules.finish_height and total == 1 else 1.0
        count = _add(events, count, u, FINISH, -1, 0.0)
    return count


@_fast
def gather_drones(n, drones, rules, sides, events, count):
    """Faults of drones by where they are at the end of the step; `extra` carries fault and partner."""
    for d in range(drones.shape[1]):
        x, y, z = drones[n, d, 0], drones[n, d, 1], drones[n, d, 2]
        sign = 1.0 if sides[d] == 0 else -1.0
        fault = 0
        other = -1
        if z < rules.drone_low:
            fault = rally.DRONE_TOO_LOW
        elif z > rules.drone_high:
            fault = rally.DRONE_TOO_HIGH
        elif rules.drone_net == PLANE and x * sign < 0.0:
            fault = rally.DRONE_CROSSED_NET
        elif (
            rules.drone_net == SLAB
            and abs(x) < rules.drone_reach
            and abs(y) < rules.half_width
            and z < rules.net_height
        ):
            fault = rally.DRONE_IN_NET
        elif rules.apart > 0.0:
            for e in range(d):
                if sides[e] == sides[d]:
                    dx, dy, dz = x - drones[n, e, 0], y - drones[n, e, 1], z - drones[n, e, 2]
                    if dx * dx + dy * dy + dz * dz < rules.apart * rules.apart:
                        fault = rally.DRONES_TOO_CLOSE
                        other = e
        if fault > 0:
            count = _add(events, count, 1.0, DRONE, d, 64.0 * fault + other + 1)
    return count

"""Flight of a ball and its bounce off a racket: prediction and aiming, compiled, one ball at a time.

Flight: gravity g and quadratic drag, ``dv/dt = -g e_z - k |v| v`` with ``k = rho c_d A / (2 m)`` (1/m), 0 for none. Without
drag everything is in closed form; with it the flight is integrated by the midpoint rule in steps of `STEP` s.

Bounce off a racket of normal n and velocity u (smooth, two bodies of masses m and M, restitution e):
``v' = v + (1 + e) M / (M + m) ((u - v) . n) n``. Turned round: to make v' of v the racket must face along
``n = (v' - v) / |v' - v|`` and move along n at ``|v' - v| (M + m) / ((1 + e) M) + v . n``.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from numba import njit

STEP = 0.01  # s, of a flight with drag: errors stay below a millimeter a second at 15 m/s
MAX_FLIGHT = 4.0  # s, longer flights are not looked at
_ROUNDS = 6  # corrections of an aim with drag; each leaves about a fifth of the error

_fast = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def fly(p, v, g, k, dt):
    """Move a ball on by dt s, in place: p [3] m, v [3] m/s."""
    if k == 0.0:
        p[0] += v[0] * dt
        p[1] += v[1] * dt
        p[2] += (v[2] - 0.5 * g * dt) * dt
        v[2] -= g * dt
        return
    s = k * math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    mx = v[0] - 0.5 * dt * s * v[0]
    my = v[1] - 0.5 * dt * s * v[1]
    mz = v[2] - 0.5 * dt * (s * v[2] + g)
    s = k * math.sqrt(mx * mx + my * my + mz * mz)
    p[0] += mx * dt
    p[1] += my * dt
    p[2] += mz * dt
    v[0] -= s * mx * dt
    v[1] -= s * my * dt
    v[2] -= (s * mz + g) * dt


@_fast
def fall(p, v, z, g, k):
    """Fly a ball, in place, until it comes down through height z (m).

    Returns:
        s until then, -1 (and a meaningless state) if it never does so within `MAX_FLIGHT`.
    """
    if k == 0.0:
        square = v[2] * v[2] + 2.0 * g * (p[2] - z)
        if square < 0.0:
            return -1.0
        t = (v[2] + math.sqrt(square)) / g
        if t < 0.0 or t > MAX_FLIGHT:
            return -1.0
        fly(p, v, g, k, t)
        return t
    if v[2] <= 0.0 and p[2] < z:
        return -1.0
    t = 0.0
    while t < MAX_FLIGHT:
        if v[2] <= 0.0 and p[2] < z:
            return -1.0  # it turned before it came so high
        # a last step of the right length: below z at its end, falling
        drop = v[2] - 0.5 * g * STEP
        if drop < 0.0 and p[2] + drop * STEP <= z and p[2] >= z:
            left = min(max((v[2] + math.sqrt(max(v[2] * v[2] + 2.0 * g * (p[2] - z), 0.0))) / g, 0.0), STEP)
            fly(p, v, g, k, left)
            return t + left
        fly(p, v, g, k, STEP)
        t += STEP
    return -1.0


@_fast
def lob(p, target, apex, g, k, out, q, w):
    """Velocity [3] m/s with which a ball at p rises to `apex` (m) and comes down at `target` [3] m.

    An apex below p or the target is raised to 5 cm above the higher of them.

    Args:
        out: [3], the result.
        q, w: [3] scratch.

    Returns:
        s of flight; -1 if there is no such flight.
    """
    apex = max(apex, max(p[2], target[2]) + 0.05)
    rise = math.sqrt(2.0 * g * (apex - p[2]))
    time = (rise + math.sqrt(2.0 * g * (apex - target[2]))) / g
    out[0] = (target[0] - p[0]) / time
    out[1] = (target[1] - p[1]) / time
    out[2] = rise
    if k == 0.0:
        return time
    for _ in range(_ROUNDS):
        q[:] = p
        w[:] = out
        while w[2] > 0.0:
            fly(q, w, g, k, STEP)
        short = apex - q[2]
        out[2] = math.sqrt(max(out[2] * out[2] + 2.0 * g * short * 1.3, 0.01))
        q[:] = p
        w[:] = out
        time = fall(q, w, target[2], g, k)
        if time <= 0.0:
            return -1.0
        out[0] += (target[0] - q[0]) / time * 1.2
        out[1] += (target[1] - q[1]) / time * 1.2
    return time


@_fast
def drive(p, target, time, g, k, out, q, w):
    """Velocity [3] m/s with which a ball at p is at `target` [3] m after `time` s; arguments as in `lob`."""
    for i in range(3):
        out[i] = (target[i] - p[i]) / time
    out[2] += 0.5 * g * time
    if k == 0.0:
        return time
    steps = int(math.ceil(time / STEP))  # noqa: RUF046 (Numba gives a float)
    for _ in range(_ROUNDS):
        q[:] = p
        w[:] = out
        for _ in range(steps):
            fly(q, w, g, k, time / steps)
        for i in range(3):
            out[i] += (target[i] - q[i]) / time * 1.2
    return time


@_fast
def face(v_in, v_out, restitution, share, n):
    """The racket that turns a ball's velocity v_in [3] into v_out [3] (m/s).

    Args:
        share: M / (M + m), racket and ball.
        n: [3], gets the racket's normal.

    Returns:
        m/s, wanted speed of the racket along n.
    """
    size = 0.0
    for i in range(3):
        n[i] = v_out[i] - v_in[i]
        size += n[i] * n[i]
    size = math.sqrt(size)
    along = 0.0
    for i in range(3):
        n[i] /= max(size, 1e-9)
        along += n[i] * v_in[i]
    return size / ((1.0 + restitution) * share) + along


@_fast
def bounce(v, u, n, restitution, share):
    """A ball's velocity v [3] after it met a racket of normal n [3] and velocity u [3], in place. No effect if they part."""
    closing = 0.0
    for i in range(3):
        closing += (u[i] - v[i]) * n[i]
    if closing > 0.0:
        for i in range(3):
            v[i] += (1.0 + restitution) * share * closing * n[i]


@_fast
def landings(balls, z, g, k, out):
    """Landings of balls [N, 6] (position, velocity) through height z (m): out [N, 3] gets x, y (m) and the time until
    then (s), -1 for a ball that does not."""
    p, v = out[0].copy(), out[0].copy()
    for n in range(balls.shape[0]):
        p[:] = balls[n, 0:3]
        v[:] = balls[n, 3:6]
        time = fall(p, v, z, g, k)
        out[n, 0] = p[0]
        out[n, 1] = p[1]
        out[n, 2] = time

"""One physics step of one drone or ball in free flight, for one lane; loops over lanes of these become vector code.

Drones: rotors follow their commands with first-order lag, half a step before the bodies move and half a step after it. All
forces are those of the middle of the step: rotor speeds by their exact lag, height, attitude and rates predicted from the
beginning's (explicit midpoint rule), drag by the implicit midpoint rule, which is stable for any drag. Position and velocity
follow exactly for constant acceleration, the attitude by the exponential map. This is second order in every force.
Switched-off effects are constants of zero.

Arguments: flat arrays with the place in each at which field 0 of this lane stands: `d`, `i` of a body; `p`, `j` of its
varied parameters; `w`, `g` of its world. `k` is the row of the drone's type. See layout.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aero import ball_acceleration, drag, ground_effect, gyroscopic
from rookery.sim.multirotor.cascade import clip, follow, scalar
from rookery.sim.multirotor.layout import LANES as N
from rookery.sim.multirotor.layout import MOTOR, POS, QUAT, RATE, REACTION, SPEED, THRUST, VEL, WAKE, WRENCH


@scalar
def rotors(d, i, p, j, k, limit, g):
    """Rotor speeds in the middle of a step, and the thrusts and reaction torque that they give far from the ground.

    Args:
        limit: [LANES] factor on speed commands that the battery allows.
    """
    t0, t1, t2 = k[at.THRUST_CURVE], k[at.THRUST_CURVE + 1], k[at.THRUST_CURVE + 2]
    q0, q1, q2 = k[at.TORQUE_CURVE], k[at.TORQUE_CURVE + 1], k[at.TORQUE_CURVE + 2]
    torque = 0.0
    for m in range(4):
        rise = p[(at.RISE + m) * N + j]
        fall = p[(at.FALL + m) * N + j]
        u = follow(d[(SPEED + m) * N + i], limit[g] * clip(d[(MOTOR + m) * N + i], 0.0, 1.0), rise, fall)
        d[(SPEED + m) * N + i] = u
        d[(THRUST + m) * N + i] = p[(at.THRUST_FACTOR + m) * N + j] * (t0 + u * (t1 + u * t2))
        torque += p[(at.TORQUE_FACTOR + m) * N + j] * (k[at.DIRECTIONS + m] * (q0 + u * (q1 + u * q2)))
    d[REACTION * N + i] = torque


@scalar
def rotors_onwards(d, i, p, j, limit, g):
    """Rotor speeds at the end of a step, from those in its middle; thrusts stay those of the middle."""
    for m in range(4):
        rise = p[(at.RISE + m) * N + j]
        fall = p[(at.FALL + m) * N + j]
        u = d[(SPEED + m) * N + i]
        d[(SPEED + m) * N + i] = follow(u, limit[g] * clip(d[(MOTOR + m) * N + i], 0.0, 1.0), rise, fall)


@scalar
def rigid(d, i, p, j, w, g, k, dt):
    """Position, velocity, attitude and rates after a step."""
    wx, wy, wz = d[RATE * N + i], d[(RATE + 1) * N + i], d[(RATE + 2) * N + i]
    qw, qx, qy, qz = d[QUAT * N + i], d[(QUAT + 1) * N + i], d[(QUAT + 2) * N + i], d[(QUAT + 3) * N + i]
    # forces turn with the body, so its attitude in the middle of the step is what counts
    qw, qx, qy, qz = turned_ahead(qw, qx, qy, qz, wx, wy, wz, 0.5 * dt)
    a00 = 1.0 - 2.0 * (qy * qy + qz * qz)
    a01 = 2.0 * (qx * qy - qw * qz)
    a02 = 2.0 * (qx * qz + qw * qy)
    a10 = 2.0 * (qx * qy + qw * qz)
    a11 = 1.0 - 2.0 * (qx * qx + qz * qz)
    a12 = 2.0 * (qy * qz - qw * qx)
    a20 = 2.0 * (qx * qz - qw * qy)
    a21 = 2.0 * (qy * qz + qw * qx)
    a22 = 1.0 - 2.0 * (qx * qx + qy * qy)
    vx, vy, vz = d[VEL * N + i], d[(VEL + 1) * N + i], d[(VEL + 2) * N + i]

    # thrusts, their torque, and the rotors' speed and angular momentum
    gain = p[at.GROUND_GAIN * N + j] * max(a22, 0.0)
    height = d[(POS + 2) * N + i] + 0.5 * dt * vz - w[at.GROUND * N + g]
    thrust = 0.0
    tx = 0.0
    ty = 0.0
    tz = d[REACTION * N + i]
    speed = 0.0
    spin = 0.0
    cx, cy = p[at.COM * N + j], p[(at.COM + 1) * N + j]
    for m in range(4):
        px, py, pz = k[at.PLACES + 3 * m], k[at.PLACES + 3 * m + 1], k[at.PLACES + 3 * m + 2]
        f = d[(THRUST + m) * N + i]
        f *= ground_effect(height + a20 * px + a21 * py + a22 * pz, k[at.PROPELLER_RADIUS], gain)
        thrust += f
        tx += (py - cy) * f
        ty -= (px - cx) * f
        u = d[(SPEED + m) * N + i]
        speed += u
        spin -= k[at.DIRECTIONS + m] * u

    # body frame force: thrust and drag against the air; its acceleration is what an accelerometer feels
    ux, uy, uz = vx - w[at.AIR * N + g], vy - w[(at.AIR + 1) * N + g], vz - w[(at.AIR + 2) * N + g]
    kx, ky, kz = drag(
        1.0, 1.0, 1.0, speed * p[at.FULL_SPEED * N + j],
        p[at.BODY_DRAG * N + j], p[(at.BODY_DRAG + 1) * N + j], p[(at.BODY_DRAG + 2) * N + j],
        p[at.ROTOR_DRAG * N + j], p[(at.ROTOR_DRAG + 1) * N + j], p[(at.ROTOR_DRAG + 2) * N + j],
    )  # fmt: skip
    ex = d[WRENCH * N + i] + d[WAKE * N + i]
    ey = d[(WRENCH + 1) * N + i] + d[(WAKE + 1) * N + i]
    ez = d[(WRENCH + 2) * N + i] + d[(WAKE + 2) * N + i]
    inv = p[at.INV_MASS * N + j]
    # the velocity in the middle of the step without drag's own part, which the quotients below hold (drag is linear)
    half = 0.5 * dt
    mx = ux + half * (inv * (ex + a02 * thrust) + w[at.GRAVITY * N + g])
    my = uy + half * (inv * (ey + a12 * thrust) + w[(at.GRAVITY + 1) * N + g])
    mz = uz + half * (inv * (ez + a22 * thrust) + w[(at.GRAVITY + 2) * N + g])
    half *= inv
    fx = inv * (kx / (1.0 - half * kx) * (a00 * mx + a10 * my + a20 * mz) + a00 * ex + a10 * ey + a20 * ez)
    fy = inv * (ky / (1.0 - half * ky) * (a01 * mx + a11 * my + a21 * mz) + a01 * ex + a11 * ey + a21 * ez)
    fz = inv * (kz / (1.0 - half * kz) * (a02 * mx + a12 * my + a22 * mz) + a02 * ex + a12 * ey + a22 * ez + thrust)
    d[at.SPECIFIC_FORCE * N + i] = fx
    d[(at.SPECIFIC_FORCE + 1) * N + i] = fy
    d[(at.SPECIFIC_FORCE + 2) * N + i] = fz
    ax = a00 * fx + a01 * fy + a02 * fz + w[at.GRAVITY * N + g]
    ay = a10 * fx + a11 * fy + a12 * fz + w[(at.GRAVITY + 1) * N + g]
    az = a20 * fx + a21 * fy + a22 * fz + w[(at.GRAVITY + 2) * N + g]
    d[POS * N + i] += dt * (vx + 0.5 * dt * ax)
    d[(POS + 1) * N + i] += dt * (vy + 0.5 * dt * ay)
    d[(POS + 2) * N + i] += dt * (vz + 0.5 * dt * az)
    d[VEL * N + i] = vx + dt * ax
    d[(VEL + 1) * N + i] = vy + dt * ay
    d[(VEL + 2) * N + i] = vz + dt * az

    # rotation
    ex, ey, ez = d[(WRENCH + 3) * N + i], d[(WRENCH + 4) * N + i], d[(WRENCH + 5) * N + i]
    tx += a00 * ex + a10 * ey + a20 * ez
    ty += a01 * ex + a11 * ey + a21 * ez
    tz += a02 * ex + a12 * ey + a22 * ez
    h = spin * p[at.SPIN * N + j]
    bx, by, bz = _spin_up(p, j, wx, wy, wz, tx, ty, tz, h)
    mx, my, mz = wx + 0.5 * dt * bx, wy + 0.5 * dt * by, wz + 0.5 * dt * bz
    bx, by, bz = _spin_up(p, j, mx, my, mz, tx, ty, tz, h)
    d[RATE * N + i] = wx + dt * bx
    d[(RATE + 1) * N + i] = wy + dt * by
    d[(RATE + 2) * N + i] = wz + dt * bz
    turn(d, i, mx, my, mz, dt)


@scalar
def _spin_up(p, j, wx, wy, wz, tx, ty, tz, h):
    """Angular acceleration (rad/s^2, body) by Euler's equations with the rotors' angular momentum h along body z."""
    f = at.INERTIA
    xx, yy, zz = p[f * N + j], p[(f + 1) * N + j], p[(f + 2) * N + j]
    xy, xz, yz = p[(f + 3) * N + j], p[(f + 4) * N + j], p[(f + 5) * N + j]
    gx, gy = gyroscopic(wx, wy, h)
    lx, ly, lz = xx * wx + xy * wy + xz * wz, xy * wx + yy * wy + yz * wz, xz * wx + yz * wy + zz * wz
    tx = tx + gx - (wy * lz - wz * ly)
    ty = ty + gy - (wz * lx - wx * lz)
    tz = tz - (wx * ly - wy * lx)
    f = at.INV_INERTIA
    xx, yy, zz = p[f * N + j], p[(f + 1) * N + j], p[(f + 2) * N + j]
    xy, xz, yz = p[(f + 3) * N + j], p[(f + 4) * N + j], p[(f + 5) * N + j]
    return xx * tx + xy * ty + xz * tz, xy * tx + yy * ty + yz * tz, xz * tx + yz * ty + zz * tz


@scalar
def turned_ahead(qw, qx, qy, qz, wx, wy, wz, time):
    """A quaternion of unit length after turning with body rates for a short time (s), to second order in the angle."""
    hx, hy, hz = 0.5 * time * wx, 0.5 * time * wy, 0.5 * time * wz
    hw = 1.0 / math.sqrt(1.0 + hx * hx + hy * hy + hz * hz)  # q stays of unit length
    return (
        hw * (qw - hx * qx - hy * qy - hz * qz),
        hw * (qx + hx * qw + hz * qy - hy * qz),
        hw * (qy + hy * qw + hx * qz - hz * qx),
        hw * (qz + hz * qw + hy * qx - hx * qy),
    )


@scalar
def turn(d, i, wx, wy, wz, dt):
    """Attitude after turning with constant body rates; the series are exact to 1e-9 below half a radian a step."""
    hx, hy, hz = 0.5 * dt * wx, 0.5 * dt * wy, 0.5 * dt * wz
    square = hx * hx + hy * hy + hz * hz
    c = 1.0 - square * (0.5 - square * (1.0 / 24.0 - square * (1.0 / 720.0)))
    s = 1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0 - square * (1.0 / 5040.0)))
    hx, hy, hz = s * hx, s * hy, s * hz
    qw, qx, qy, qz = d[QUAT * N + i], d[(QUAT + 1) * N + i], d[(QUAT + 2) * N + i], d[(QUAT + 3) * N + i]
    a = c * qw - hx * qx - hy * qy - hz * qz
    b = c * qx + hx * qw + hz * qy - hy * qz
    e = c * qy + hy * qw + hx * qz - hz * qx
    f = c * qz + hz * qw + hy * qx - hx * qy
    norm = 1.0 / math.sqrt(a * a + b * b + e * e + f * f)
    d[QUAT * N + i] = norm * a
    d[(QUAT + 1) * N + i] = norm * b
    d[(QUAT + 2) * N + i] = norm * e
    d[(QUAT + 3) * N + i] = norm * f


@scalar
def ball(b, i, p, j, w, g, dt):
    """A ball in flight: gravity, quadratic drag, Magnus lift and the external wrench by the midpoint rule; air does not slow
    its spin."""
    vx, vy, vz = b[VEL * N + i], b[(VEL + 1) * N + i], b[(VEL + 2) * N + i]
    qw, qx, qy, qz = b[QUAT * N + i], b[(QUAT + 1) * N + i], b[(QUAT + 2) * N + i], b[(QUAT + 3) * N + i]
    rx, ry, rz = b[RATE * N + i], b[(RATE + 1) * N + i], b[(RATE + 2) * N + i]
    half = 0.5 * dt * p[at.INV_INERTIA * N + j]  # the same about all axes
    tx, ty, tz = b[(WRENCH + 3) * N + i], b[(WRENCH + 4) * N + i], b[(WRENCH + 5) * N + i]
    wx, wy, wz = to_world(qw, qx, qy, qz, rx, ry, rz)
    wx, wy, wz = wx + half * tx, wy + half * ty, wz + half * tz
    ux, uy, uz = w[at.AIR * N + g], w[(at.AIR + 1) * N + g], w[(at.AIR + 2) * N + g]
    e = WRENCH
    inv = p[at.INV_MASS * N + j]
    gx = w[at.GRAVITY * N + g] + inv * b[e * N + i]
    gy = w[(at.GRAVITY + 1) * N + g] + inv * b[(e + 1) * N + i]
    gz = w[(at.GRAVITY + 2) * N + g] + inv * b[(e + 2) * N + i]
    k_drag = p[at.BALL_DRAG * N + j]
    k_lift = p[at.BALL_LIFT * N + j]
    ax, ay, az = ball_acceleration(vx - ux, vy - uy, vz - uz, wx, wy, wz, k_drag, k_lift)
    mx, my, mz = vx + 0.5 * dt * (ax + gx), vy + 0.5 * dt * (ay + gy), vz + 0.5 * dt * (az + gz)
    ax, ay, az = ball_acceleration(mx - ux, my - uy, mz - uz, wx, wy, wz, k_drag, k_lift)
    b[POS * N + i] += dt * mx
    b[(POS + 1) * N + i] += dt * my
    b[(POS + 2) * N + i] += dt * mz
    b[VEL * N + i] = vx + dt * (ax + gx)
    b[(VEL + 1) * N + i] = vy + dt * (ay + gy)
    b[(VEL + 2) * N + i] = vz + dt * (az + gz)
    tx, ty, tz = to_body(qw, qx, qy, qz, tx, ty, tz)
    tx, ty, tz = half * tx, half * ty, half * tz
    b[RATE * N + i] = rx + 2.0 * tx
    b[(RATE + 1) * N + i] = ry + 2.0 * ty
    b[(RATE + 2) * N + i] = rz + 2.0 * tz
    turn(b, i, rx + tx, ry + ty, rz + tz, dt)


@scalar
def to_world(qw, qx, qy, qz, x, y, z):
    """A body frame vector in world axes."""
    tx, ty, tz = 2.0 * (qy * z - qz * y), 2.0 * (qz * x - qx * z), 2.0 * (qx * y - qy * x)
    return x + qw * tx + qy * tz - qz * ty, y + qw * ty + qz * tx - qx * tz, z + qw * tz + qx * ty - qy * tx


@scalar
def to_body(qw, qx, qy, qz, x, y, z):
    """A world vector in body axes."""
    return to_world(qw, -qx, -qy, -qz, x, y, z)

"""Impact with friction between two rigid bodies at one point, as compiled scalar functions.

The law is Chatterjee and Ruina's (Journal of Applied Mechanics 65, 1998), without tangential restitution: exact restitution
and Coulomb's bound for any inertia, and no impact adds energy. For a ball on flat ground it is the familiar one: the normal
impulse that reverses the approach, and a tangential impulse that stops the sliding or is friction times the normal one.

An inertia tensor is a tuple (xx, yy, zz, xy, xz, yz), a vector a tuple (x, y, z).
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit

_fast = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def impulse(inv_mass_a, inv_inertia_a, r_a, v_a, w_a, inv_mass_b, inv_inertia_b, r_b, v_b, w_b, n, e, mu, rest):
    """Impulse (x, y, z) in N s on body a at the point of contact; body b gets its opposite. 0 where they separate.

    Args:
        inv_mass_a, inv_mass_b: 1/kg; 0 for what nothing moves.
        inv_inertia_a, inv_inertia_b: 1/(kg m^2), world axes, about the centre of mass (`turned`, `uniform`).
        r_a, r_b: m, world axes, from the centre of mass to the point of contact.
        v_a, v_b: m/s, world, of the centres of mass.
        w_a, w_b: rad/s, world axes.
        n: unit normal, world axes, out of b and into a.
        e: restitution in [0, 1]: the normal velocity of the two points at the contact becomes -e times what it was.
        mu: Coulomb friction: the tangential impulse is at most mu times the normal one.
        rest: m/s; an approach slower than this has e = 0, so that bodies come to rest.

    With K the matrix that turns an impulse into a change of relative velocity, P1 the impulse along n that stops the approach
    and P2 the one that stops all relative motion, the impulse is (1 + e) P1 + s (P2 - P1), s the largest in [0, 1] that
    respects the bound on friction. P2 - P1 does not change the normal velocity, and K makes it orthogonal to P1. What sticks
    at the end of compression (s = 1) may slide again after it where restitution along n turns the bodies; a ball does not.
    """
    ux, uy, uz = _velocity(r_a, v_a, w_a)
    bx, by, bz = _velocity(r_b, v_b, w_b)
    ux, uy, uz = ux - bx, uy - by, uz - bz
    nx, ny, nz = n
    speed = ux * nx + uy * ny + uz * nz
    if not speed < 0.0 or not inv_mass_a + inv_mass_b > 0.0:
        return 0.0, 0.0, 0.0
    if -speed < rest:
        e = 0.0
    a0, a1, a2, a3, a4, a5 = _mobility(inv_mass_a, inv_inertia_a, r_a)
    b0, b1, b2, b3, b4, b5 = _mobility(inv_mass_b, inv_inertia_b, r_b)
    k = (a0 + b0, a1 + b1, a2 + b2, a3 + b3, a4 + b4, a5 + b5)
    kx, ky, kz = _times(k, n)
    stop = -speed / (nx * kx + ny * ky + nz * kz)  # P1 = stop * n
    if not mu > 0.0:
        j = (1.0 + e) * stop
        return j * nx, j * ny, j * nz
    px, py, pz = _solve(k, (-ux, -uy, -uz))
    dx, dy, dz = px - stop * nx, py - stop * ny, pz - stop * nz
    along = dx * nx + dy * ny + dz * nz
    tx, ty, tz = dx - along * nx, dy - along * ny, dz - along * nz
    sideways = math.sqrt(tx * tx + ty * ty + tz * tz)
    s = 1.0
    most = mu * (1.0 + e) * stop
    if sideways > most + mu * along:
        s = most / (sideways - mu * along)
    j = (1.0 + e) * stop
    return j * nx + s * dx, j * ny + s * dy, j * nz + s * dz


@_fast
def kick(inv_inertia, r, j):
    """Change (x, y, z) of the angular velocity in rad/s, world axes, by an impulse j (N s) at r (m) from the centre of mass."""
    return _times(inv_inertia, _cross(r, j))


@_fast
def turned(inertia, qw, qx, qy, qz):
    """A tensor (6 numbers) given in body axes, in world axes; the quaternion is of unit length, body to world."""
    xx, yy, zz, xy, xz, yz = inertia
    a0, a1, a2 = 1.0 - 2.0 * (qy * qy + qz * qz), 2.0 * (qx * qy - qw * qz), 2.0 * (qx * qz + qw * qy)
    b0, b1, b2 = 2.0 * (qx * qy + qw * qz), 1.0 - 2.0 * (qx * qx + qz * qz), 2.0 * (qy * qz - qw * qx)
    c0, c1, c2 = 2.0 * (qx * qz - qw * qy), 2.0 * (qy * qz + qw * qx), 1.0 - 2.0 * (qx * qx + qy * qy)
    ax, ay, az = a0 * xx + a1 * xy + a2 * xz, a0 * xy + a1 * yy + a2 * yz, a0 * xz + a1 * yz + a2 * zz
    bx, by, bz = b0 * xx + b1 * xy + b2 * xz, b0 * xy + b1 * yy + b2 * yz, b0 * xz + b1 * yz + b2 * zz
    cx, cy, cz = c0 * xx + c1 * xy + c2 * xz, c0 * xy + c1 * yy + c2 * yz, c0 * xz + c1 * yz + c2 * zz
    return (
        ax * a0 + ay * a1 + az * a2,
        bx * b0 + by * b1 + bz * b2,
        cx * c0 + cy * c1 + cz * c2,
        ax * b0 + ay * b1 + az * b2,
        ax * c0 + ay * c1 + az * c2,
        bx * c0 + by * c1 + bz * c2,
    )


@_fast
def uniform(inertia):
    """The tensor (6 numbers) of a body, such as a ball, whose moments about all axes are `inertia`."""
    return inertia, inertia, inertia, 0.0, 0.0, 0.0


@_fast
def _velocity(r, v, w):
    x, y, z = _cross(w, r)
    return v[0] + x, v[1] + y, v[2] + z


@_fast
def _mobility(inv_mass, i, r):
    """Matrix (6 numbers) from an impulse at r to the change of velocity there: 1/m - [r] I^-1 [r]."""
    x, y, z = r
    xx, yy, zz, xy, xz, yz = i
    # columns of I^-1 [r], where [r] c = r x c, as far as they are needed
    ay, az = yy * z - yz * y, yz * z - zz * y
    bx, by, bz = xz * x - xx * z, yz * x - xy * z, zz * x - xz * z
    cx, cy, cz = xx * y - xy * x, xy * y - yy * x, xz * y - yz * x
    return (
        inv_mass + z * ay - y * az,
        inv_mass + x * bz - z * bx,
        inv_mass + y * cx - x * cy,
        z * by - y * bz,
        z * cy - y * cz,
        x * cz - z * cx,
    )


@_fast
def _cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@_fast
def _times(m, v):
    x, y, z = v
    return m[0] * x + m[3] * y + m[4] * z, m[3] * x + m[1] * y + m[5] * z, m[4] * x + m[5] * y + m[2] * z


@_fast
def _solve(m, v):
    """Solution of a positive definite system by Cholesky's decomposition."""
    a = math.sqrt(m[0])
    b, c = m[3] / a, m[4] / a
    d = math.sqrt(m[1] - b * b)
    f = (m[5] - b * c) / d
    g = math.sqrt(m[2] - c * c - f * f)
    x = v[0] / a
    y = (v[1] - b * x) / d
    z = (v[2] - c * x - f * y) / g
    z = z / g
    y = (y - f * z) / d
    return (x - b * y - c * z) / a, y, z

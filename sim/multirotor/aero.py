"""Aerodynamic and electrical effects on multirotors and balls, as compiled scalar functions without memory.

Scalars in, scalars or tuples out, SI units. Constants are float32, so that a function computes in the type of its
arguments, float32 or float64 (the battery in float64). `drag`,
`gyroscopic` and `ground_effect` have neither branches nor transcendental functions: a loop over lanes that calls them
becomes vector code.

Downwash functions give the force on a lower drone in N, along the wake, which is minus the upper drone's thrust axis:

    dx, dy, dz   m, world, from the upper drone to the lower one
    ax, ay, az   unit vector, world, of the upper drone's thrust
    thrust       N, of all rotors of the upper drone

It is 0 where the other drone is not downstream, and finite at every separation, 0 included.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

_fast = njit(cache=True, nogil=True, error_model="numpy", inline="always")

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)

GROUND_EFFECT_LIMIT = np.float32(4 / 15)
"""Largest gain of thrust near ground, as a share: what gym-pybullet-drones' lower bound on the height amounts to
(_groundEffect in BaseAviary.py: k (r / 4h)^2 at h = r/4 sqrt(15 k / 4)). Cheeseman and Bennett's own r/h = 2 gives 1/3."""
_FLAT = np.float32(1e-12)  # m^2, squared height below which the effect has long saturated; keeps the quotient finite

VOLLEYBOTS_KR, VOLLEYBOTS_KZ = np.float32(2.0), np.float32(0.3)  # 1 and 1/m, downwash in OmniDrones' multirotor.py
_VOLLEYBOTS_NEAREST = np.float32(0.01)  # m
_NARROWEST = np.float32(1e-3)  # m, width of gym-pybullet-drones' wake where theirs is 0

JET_DRAG = np.float32(1.704)
"""Drag coefficient of a drone in another's wake, on the area of its rotor discs; with the next, see `downwash_jet`."""
JET_SPREAD = np.float32(0.150)
"""Growth of the wake's width (standard deviation of its speed) along it, m/m."""


@_fast
def drag(vx, vy, vz, speed_sum, bx, by, bz, rx, ry, rz):
    """Force (fx, fy, fz) in N, body frame: F_i = -(b_i + r_i * speed_sum) v_i.

    Args:
        vx, vy, vz: m/s, body frame, velocity relative to the air.
        speed_sum: rad/s, sum of the rotors' speeds.
        bx, by, bz: kg/s, linear drag of the body.
        rx, ry, rz: kg, drag of a rotor for each m/s and rad/s (RotorPy's k_d, k_d, k_z: rotorpy 3.0.0).
    """
    return -(bx + rx * speed_sum) * vx, -(by + ry * speed_sum) * vy, -(bz + rz * speed_sum) * vz


@_fast
def gyroscopic(wx, wy, h):
    """Torque (tx, ty) in N m on the body, -w x h e_z, of rotors with net angular momentum h (kg m^2/s) along body z.

    Args:
        wx, wy: rad/s, body frame.
        h: sum of rotor inertia times signed speed; a rotor whose reaction torque on the body is positive turns negatively.
    """
    return -wy * h, wx * h


@_fast
def ground_effect(height, radius, gain):
    """Factor >= 1 on a rotor's thrust at a height over ground.

    1 + gain (radius / 4 height)^2 (Cheeseman and Bennett, ARC R&M 3021, 1955, to first order at gain 1; more for several
    rotors), limited smoothly to 1 + GROUND_EFFECT_LIMIT. It falls monotonically, has a continuous slope at all heights, and
    is constant below the ground. gym-pybullet-drones has the same with a corner: the two differ by at most an eighth of
    the limit, 0.033, at the corner, and nowhere outside the heights of 0.816 to 1.414 times the corner's.

    Args:
        height: m, of the rotor over ground; may be 0 or negative.
        radius: m, of the rotor.
        gain: 1; 0 switches the effect off.
    """
    above = max(height, _ZERO)
    quarter = _HALF * _HALF * radius
    share = gain * quarter * quarter / max(above * above, _FLAT)
    near = max(_HALF * GROUND_EFFECT_LIMIT - abs(share - GROUND_EFFECT_LIMIT), _ZERO)  # > 0 where the corner is rounded
    return _ONE + min(share, GROUND_EFFECT_LIMIT) - near * near / (_TWO * GROUND_EFFECT_LIMIT)


@_fast
def _cylindrical(dx, dy, dz, ax, ay, az):
    """Distance along the wake (m, negative upstream) and squared distance from its axis (m^2)."""
    along = -(dx * ax + dy * ay + dz * az)
    return along, max(dx * dx + dy * dy + dz * dz - along * along, _ZERO)


@_fast
def downwash_jet(dx, dy, dz, ax, ay, az, thrust, width_upper, width_lower):
    """Force in N on a drone in the wake of another: a turbulent jet that keeps the momentum which the rotors give it.

    The speed in the wake is u exp(-r^2 / 2 s^2) with s = width_upper + JET_SPREAD z; it starts as the 2 v_induced of
    momentum theory, and rho pi s^2 u^2 = thrust at every z. The dynamic pressure, integrated over a lower drone of area
    2 pi width_lower^2, gives

        F = JET_DRAG thrust width_lower^2 / W exp(-r^2 / W)   with W = s^2 + 2 width_lower^2,

    and sets in over the first width_upper of the way. It is never more than JET_DRAG / 2 of the thrust. The two constants are
    a least squares fit to 10, 8, 6, 4 g at 0.2, 0.3, 0.4, 0.5 m between Crazyflies of 34 g (Neural-Swarm, arXiv 2003.02992;
    aerodynamics/downwash.py of QuadSwarm, arXiv 2306.09537), which it meets within 0.6 g; the drag contains what the lower
    rotors lose by their inflow.

    Args:
        width_upper, width_lower: m, > 0, DroneParameters.wake_width of the two.
    """
    along, off2 = _cylindrical(dx, dy, dz, ax, ay, az)
    z = max(along, _ZERO)
    s = width_upper + JET_SPREAD * z
    w = s * s + _TWO * width_lower * width_lower
    onset = min(z / width_upper, _ONE)
    return onset * JET_DRAG * max(thrust, _ZERO) * width_lower * width_lower / w * math.exp(-off2 / w)


@_fast
def downwash_volleybots(dx, dy, dz, ax, ay, az, thrust):
    """Force in N as in VolleyBots and OmniDrones: thrust exp(-(kr r / z)^2 / 2) / (1 + kz z)^2.

    Below z = 1 cm the width stays what it is there, so that the axis itself is no special case.
    """
    along, off2 = _cylindrical(dx, dy, dz, ax, ay, az)
    z = max(along, _VOLLEYBOTS_NEAREST)
    decay = _ONE + VOLLEYBOTS_KZ * z
    force = max(thrust, _ZERO) * math.exp(-_HALF * VOLLEYBOTS_KR * VOLLEYBOTS_KR * off2 / (z * z)) / (decay * decay)
    return force if along > _ZERO else _ZERO


@_fast
def downwash_pybullet_drones(dx, dy, dz, ax, ay, az, thrust, radius, dw1, dw2, dw3):
    """Force in N as in gym-pybullet-drones (`_downwash` in BaseAviary.py): a exp(-(r / b)^2 / 2), a = dw1 (radius / 4z)^2,
    b = dw2 z + dw3; but at most the upper drone's thrust, which is all the momentum that its wake carries.

    Theirs has no such bound: below a Crazyflie in hover it is 3 x the weight at 0.3 m, and larger still nearby. Where theirs
    is below the thrust the two are equal, with its artefacts: for their constants the wake narrows to nothing at 0.6875 m
    (here to 1 mm) and is wider again nearer by. It acts along the wake; theirs along the lower drone's own axis.

    Args:
        radius: m, of the upper drone's rotors.
        dw1, dw2, dw3: N, 1, m.
    """
    along, off2 = _cylindrical(dx, dy, dz, ax, ay, az)
    z = max(along, _HALF * _HALF * _HALF * radius)
    ratio = _HALF * _HALF * radius / z
    width = dw2 * z + dw3
    force = dw1 * ratio * ratio * math.exp(-_HALF * off2 / max(width * width, _NARROWEST * _NARROWEST))
    return min(force, max(thrust, _ZERO)) if along > _ZERO else _ZERO


@_fast
def open_circuit_voltage(charge):
    """V of one lithium polymer cell at a state of charge in [0, 1]: 4.10 V full, 3.8 V at half, 2.65 V empty.

    Chen and Rincon-Mora, "Accurate electrical battery model", IEEE Transactions on Energy Conversion 21(2), 2006.
    """
    s = min(max(charge, _ZERO), _ONE)
    return -1.031 * math.exp(-35.0 * s) + 3.685 + s * (0.2156 + s * (-0.1178 + s * 0.3201))


@_fast
def terminal_voltage(charge, power, cells, resistance):
    """V of a pack that gives `power` W, and at least half the open voltage: a resistance lets no more power out.

    Args:
        charge: state of charge in [0, 1].
        cells: in series.
        resistance: ohm, of the pack and its wires.
    """
    open_circuit = cells * open_circuit_voltage(charge)
    root = math.sqrt(max(open_circuit * open_circuit - 4.0 * resistance * power, 0.0))
    return 0.5 * (open_circuit + root)


@_fast
def battery(charge, power, dt, capacity, cells, resistance, reference):
    """One step of a battery: (state of charge, factor on the rotors' speed commands).

    Args:
        charge: state of charge in [0, 1]; it stays at 0 when used up.
        power: W, electric, drawn during dt (see DroneParameters.battery).
        dt: s.
        capacity: C, > 0.
        cells, resistance: as in `terminal_voltage`.
        reference: V, at which the rotors reach their full speed; above it their controllers hold them to it: factor <= 1.
    """
    voltage = terminal_voltage(charge, power, cells, resistance)
    return max(charge - power / voltage * dt / capacity, 0.0), min(voltage / reference, 1.0)


@_fast
def ball_acceleration(vx, vy, vz, wx, wy, wz, k_drag, k_lift):
    """Acceleration (ax, ay, az) in m/s^2 of a ball by the air: -k_drag |v| v + k_lift w x v.

    Args:
        vx, vy, vz: m/s, world, relative to the air.
        wx, wy, wz: rad/s, world.
        k_drag: 1/m, rho Cd pi r^2 / 2m.
        k_lift: 1, of the Magnus force, rho pi r^3 / 2m times the slope of the lift coefficient (see effects.ball_constants).
    """
    k = -k_drag * math.sqrt(vx * vx + vy * vy + vz * vz)
    return (
        k * vx + k_lift * (wy * vz - wz * vy),
        k * vy + k_lift * (wz * vx - wx * vz),
        k * vz + k_lift * (wx * vy - wy * vx),
    )

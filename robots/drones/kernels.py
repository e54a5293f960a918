"""Loops of the onboard controller and the rotors over all drones, for engines that do not have them inside.

The `rotor` engine runs both in its own kernel; on others `Drones` calls these between physics steps, or ahead for the K
steps of a control step where nothing depends on the state. What they compute is in rookery.sim.multirotor.cascade.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.cascade import (
    ATTITUDE,
    FAST,
    MEMORY,
    MOTORS,
    POSITION,
    RATES,
    VELOCITY,
    clip,
    follow,
    scalar,
)
from rookery.sim.multirotor.cascade import cascade as _cascade
from rookery.sim.multirotor.cascade import speed_for_thrust as _speed_for_thrust

__all__ = ["ATTITUDE", "MEMORY_SIZE", "MOTORS", "POSITION", "RATES", "VELOCITY", "cascade", "fly", "rotor_schedule"]

MEMORY_SIZE = MEMORY

# columns of a rotor's parameters: factors on the thrust and torque curves, and the lags in s
THRUST_SCALE = 0
TORQUE_SCALE = 1
TAU_UP = 2
TAU_DOWN = 3

_loop = njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)


@scalar
def _decay(dt, tau):
    """The share that is left of a first-order lag after a step; nothing where there is no lag."""
    return math.exp(-dt / tau) if tau > 0.0 else 0.0


@scalar
def _rotors(u, command, p, k, half, out):
    """One step of rotor lag; out gets the four thrusts (N) and the reaction torque about body z (N m) in its middle.

    Args:
        p: [4, 4] parameters of each rotor.
        half: s, half of the step.
    """
    torque = 0.0
    for m in range(4):
        wanted = clip(command[m], 0.0, 1.0)
        up = _decay(half, p[m, TAU_UP])
        down = _decay(half, p[m, TAU_DOWN])
        v = follow(u[m], wanted, up, down)
        u[m] = follow(v, wanted, up, down)
        c = at.THRUST_CURVE
        out[m] = p[m, THRUST_SCALE] * (k[c] + v * (k[c + 1] + v * k[c + 2]))
        c = at.TORQUE_CURVE
        torque += p[m, TORQUE_SCALE] * (k[at.DIRECTIONS + m] * (k[c] + v * (k[c + 1] + v * k[c + 2])))
    out[4] = torque


@_loop
def cascade(level, to, state, setpoint, memory, constants, dt):
    """Take the setpoints of all drones from one level to another.

    Args:
        level, to: levels of the cascade, see rookery.sim.multirotor.cascade.
        state: [D, 13], see Bodies.state; D counts drones in all worlds.
        setpoint: [D, 4], overwritten.
        memory: [D, MEMORY_SIZE] integrals and previous values, zero at the start of an episode.
        constants: [layout.TYPE] of the drone.
        dt: s since the last call.
    """
    x, c, m = state.reshape(-1), setpoint.reshape(-1), memory.reshape(-1)
    for d in range(state.shape[0]):
        _cascade(level, to, x, 13 * d, m, MEMORY * d, c, 4 * d, 1, constants, dt)


@_loop
def fly(level, state, setpoint, memory, constants, dt, u, rotor, out):
    """One physics step of all drones' onboard controllers and rotors.

    Args:
        setpoint: [D, 4] at `level`; left as it is.
        u: [D, 4] rotor speeds, advanced by dt.
        rotor: [D, 4, 4] parameters of each rotor.
        out: [D, 5] thrusts (N) and reaction torque (N m).
        Others as in `cascade`.
    """
    sp = np.empty(4)
    x, m = state.reshape(-1), memory.reshape(-1)
    for d in range(state.shape[0]):
        for i in range(4):
            sp[i] = setpoint[d, i]
        _cascade(level, MOTORS, x, 13 * d, m, MEMORY * d, sp, 0, 1, constants, dt)
        _rotors(u[d], sp, rotor[d], constants, 0.5 * dt, out[d])


@_loop
def rotor_schedule(thrust, dt, constants, u, rotor, out):
    """Thrusts of the K coming physics steps for per-rotor thrust commands: nothing in it depends on the state.

    Args:
        thrust: [N, R, A, 4] commanded thrust in N, with R = 1 (held) or R = K rows.
        dt: s, physics step.
        constants: [layout.TYPE] of the drone.
        u: [N, A, 4] rotor speeds, advanced by K steps.
        rotor: [N, A, 4, 4] parameters of each rotor.
        out: [N, K, A, 5].
    """
    command = np.empty(4)
    c0, c1, c2 = constants[at.THRUST_CURVE], constants[at.THRUST_CURVE + 1], constants[at.THRUST_CURVE + 2]
    for n in range(out.shape[0]):
        for a in range(out.shape[2]):
            for k in range(out.shape[1]):
                if k < thrust.shape[1]:
                    for m in range(4):
                        command[m] = _speed_for_thrust(thrust[n, k, a, m], c0, c1, c2)
                _rotors(u[n, a], command, rotor[n, a], constants, 0.5 * dt, out[n, k, a])

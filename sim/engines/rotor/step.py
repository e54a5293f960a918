"""K physics steps of a range of blocks of worlds, compiled: control, rotors, wakes, flight, contacts.

Blocks do not touch each other's memory, so ranges run on threads side by side, and results do not depend on how many.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import numpy as np
from numba import njit

from rookery.sim.engines.rotor.contacts import collide, near_something
from rookery.sim.engines.rotor.movers import move
from rookery.sim.engines.rotor.vectors import inlined
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.aero import battery
from rookery.sim.multirotor.cascade import (
    ATTITUDE,
    DIRECT,
    FAST,
    POSITION,
    RATES,
    VELOCITY,
    attitude_to_rates,
    integrate_yaw,
    position_to_velocity,
    rates_to_motors,
    velocity_to_rates,
)
from rookery.sim.multirotor.flight import ball, rigid, rotors, rotors_onwards
from rookery.sim.multirotor.layout import CHARGE, LANES, MOTOR, SPEED, THRUST
from rookery.sim.multirotor.wakes import NO_WAKE, wakes
from rookery.sim.multirotor.wind import NORMALS, blow

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)


@_kernel
def advance(start, stop, steps, dt, bodies, varied, worlds, types, drones, pilot, air, touching):
    """Advance the blocks start ... stop - 1 by `steps` physics steps of dt s, in place.

    Args:
        bodies, varied, worlds, types: see layout.
        drones: A, how many of the bodies are drones.
        pilot: (levels [A], rows [A], commands [K, blocks, A, 5 * LANES], memory [blocks, A, MEMORY * LANES]): of each drone the
            level of the cascade at which it is commanded and how many rows of commands it has, 1 (held) or `steps`.
        air: (wake model, whether batteries sag, [1] whether gusts blow, what `wind.blow` takes: states and coefficients of the
            gusts [blocks, ...], keys and counters of random streams [blocks, LANES]).
        touching: what `contacts.collide` takes.
    """
    limit = np.ones((max(drones, 1), LANES))
    before = np.empty((bodies.shape[1], 10 * LANES))
    hot = np.empty(LANES, np.int64)
    places = np.empty((max(drones, 1), 6 * LANES))
    scratch = limit, before, hot, places, np.empty(NORMALS * LANES)
    _fly(start, stop, steps, dt, bodies, varied, worlds, types, drones, pilot, air, touching, scratch)


@inlined
def _fly(start, stop, steps, dt, bodies, varied, worlds, types, drones, pilot, air, touching, scratch):
    """`advance` with its memory as an argument: a function of its own gets quicker code from the compiler.

    Args:
        scratch: ([A, LANES] ones; [bodies, 10 * LANES], [LANES] int64, [A, 6 * LANES] and [NORMALS * LANES], overwritten).
    """
    levels, rows, commands, memory = pilot
    limit, before, hot, places, normals = scratch
    wake, sag, gusty, gust, filters, keys, counters = air
    count = bodies.shape[1]
    flying = count - touching[11].shape[0]
    for block in range(start, stop):
        state = bodies[block]
        p = varied[block]
        w = worlds[block]
        first = block * LANES
        if sag:
            for a in range(drones):
                _drain(state[a], types[a], steps * dt, limit[a])
        if gusty[0]:
            blow(gust[block], filters[block], keys[block], counters[block], w, normals)
        for step in range(steps):
            for b in range(count):
                copy(before[b], 0, state[b], 10)
            for a in range(drones):
                row = min(step, rows[a] - 1)
                _steer(levels[a], state[a], commands[row, block, a], memory[block, a], types[a], dt)
                if levels[a] != DIRECT:
                    for i in range(LANES):
                        rotors(state[a], i, p[a], i, types[a], limit[a], i)
            if wake != NO_WAKE:
                wakes(wake, state, types, drones, 0.5 * dt, places)
            for a in range(drones):
                _move(levels[a], state[a], p[a], w, types[a], limit[a], dt)
            for b in range(drones, flying):
                for i in range(LANES):
                    ball(state[b], i, p[b], i, w, i, dt)
            move(state, flying, dt)
            if near_something(before, state, p, w, types, drones, touching, hot):
                collide(first, step, dt, before, state, p, w, types, drones, touching, hot)


@inlined
def _move(level, d, p, w, k, limit, dt):
    """One drone in a block through a step, with the rotor speeds of its middle, and its rotors on to its end."""
    for i in range(LANES):
        rigid(d, i, p, i, w, i, k, dt)
    if level != DIRECT:
        for i in range(LANES):
            rotors_onwards(d, i, p, i, limit, i)


@inlined
def copy(to, first, row, fields):
    """The first fields of a row to the fields `first`, first + 1, ... of another. One loop over all that lies side by side is
    quickest."""
    for f in range(fields * LANES):
        to[first * LANES + f] = row[f]


@inlined
def _steer(level, d, c, m, k, dt):
    """Motor commands of one drone in a block from its setpoint; DIRECT commands are thrusts themselves."""
    if level == DIRECT:
        copy(d, THRUST, c, 5)
        return
    copy(d, MOTOR, c, 4)
    if level < RATES:
        return
    if level >= POSITION:
        for i in range(LANES):
            position_to_velocity(d, i, d, MOTOR * LANES + i, LANES, k)
    if level >= VELOCITY:
        for i in range(LANES):
            velocity_to_rates(d, i, m, i, d, MOTOR * LANES + i, LANES, k, dt)
    elif level >= ATTITUDE:
        for i in range(LANES):
            attitude_to_rates(d, i, m, i, d, MOTOR * LANES + i, LANES, k, dt)
    if k[at.YAW_INTEGRATED] > 0.0:
        for i in range(LANES):
            integrate_yaw(d, i, m, i, d, MOTOR * LANES + i, LANES, k, dt)
    for i in range(LANES):
        rates_to_motors(d, i, m, i, d, MOTOR * LANES + i, LANES, k, dt)


@_kernel
def _drain(d, k, seconds, limit):
    """Charge used in the coming control step, and how far the voltage lets rotors follow their commands in it."""
    if k[at.REFERENCE] <= 0.0:
        return
    q = at.TORQUE_CURVE
    for i in range(LANES):
        power = k[at.IDLE]
        for m in range(4):
            u = d[(SPEED + m) * LANES + i]
            power += abs(k[q] + u * (k[q + 1] + u * k[q + 2])) * u * k[at.TOP_SPEED] / k[at.EFFICIENCY]
        charge, factor = battery(
            d[CHARGE * LANES + i], power, seconds, k[at.CAPACITY], k[at.CELLS], k[at.RESISTANCE], k[at.REFERENCE]
        )
        d[CHARGE * LANES + i] = charge
        limit[i] = factor

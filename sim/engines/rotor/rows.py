"""Between the engine's lanes (see layout) and the rows that views read and write."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

from numba import njit
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.cascade import MOTORS, speed_for_thrust
from rookery.sim.multirotor.layout import CHARGE, LANES, MOTOR, POS, QUAT, RATE, SPEED, STATE, THRUST_CURVE, VEL


def expect(values: Tensor, wanted: tuple[int, ...], what: str) -> None:
    """Compiled loops do not check bounds: raises RookeryError where a tensor is not [*wanted]."""
    if tuple(values.shape) != wanted:
        raise RookeryError(f"{what} must be {list(wanted)}, got {list(values.shape)}.")


_loop = njit(cache=True, nogil=True, error_model="numpy")
_inside = njit(nogil=True, error_model="numpy", forceinline=True)

_source = getattr(speed_for_thrust, "py_func", speed_for_thrust)  # under NUMBA_DISABLE_JIT it is the function itself
_speed_for_thrust = _inside(_source)
"""`cascade.speed_for_thrust` in exact IEEE arithmetic. Here the length of loops depends on the number of worlds, so that vector
code or its scalar remainder may reach a world. Under `FAST` these round differently; in exact arithmetic they agree on every
processor. The physics steps (see step) always run whole blocks, and may be `FAST`."""


@_loop
def gather(lanes, members, first, out):
    """Fields first, first + 1, ... of some bodies: lanes [blocks, bodies, F * LANES] to out [N, len(members), fields]."""
    n, _, fields = out.shape
    for block in range((n + LANES - 1) // LANES):
        here = min(LANES, n - block * LANES)
        for j in range(len(members)):
            row = lanes[block, members[j]]
            for f in range(fields):
                for i in range(here):
                    out[block * LANES + i, j, f] = row[(first + f) * LANES + i]


@_loop
def gather_worlds(lanes, members, first, ids, out):
    """`gather` for the worlds `ids` alone; the other rows of `out` stay."""
    for n in ids:
        for j in range(len(members)):
            row = lanes[n // LANES, members[j]]
            for f in range(out.shape[2]):
                out[n, j, f] = row[(first + f) * LANES + n % LANES]


@_loop
def scatter(lanes, members, first, ids, values):
    """The reverse for the worlds `ids` [n]: values [n, len(members), fields]."""
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        for j in range(len(members)):
            row = lanes[block, members[j]]
            for f in range(values.shape[2]):
                row[(first + f) * LANES + i] = values[r, j, f]


@_loop
def command(lanes, levels, rows, members, values, mid, half, level, types):
    """Commands ``mid + half * values`` at a level of the cascade into lanes [rows, blocks, drones, C' * LANES] with C' >= C.

    At the level of motors they are thrusts in N, kept as the rotor speeds that give them.

    Args:
        levels, rows: [drones] of each drone, written.
        values: [N, rows, len(members), C].
        mid, half: [C], of the type of `values`.
        types: see layout.
    """
    n, count, _, size = values.shape
    for j in range(len(members)):
        levels[members[j]] = level
        rows[members[j]] = count
    for r in range(count):
        for block in range((n + LANES - 1) // LANES):
            here = min(LANES, n - block * LANES)
            for j in range(len(members)):
                row = lanes[r, block, members[j]]
                for f in range(size):
                    for i in range(here):
                        row[f * LANES + i] = mid[f] + half[f] * values[block * LANES + i, r, j, f]
                if level == MOTORS:
                    k = types[members[j]]
                    c0, c1, c2 = k[THRUST_CURVE], k[THRUST_CURVE + 1], k[THRUST_CURVE + 2]
                    for f in range(size):
                        for i in range(f * LANES, f * LANES + here):
                            row[i] = _speed_for_thrust(row[i], c0, c1, c2)


@_loop
def hold_last(lanes, rows):
    """Commands of several rows (see `command`) give way to their last one."""
    for a in range(len(rows)):
        last = rows[a] - 1
        rows[a] = 1
        if last > 0:
            lanes[0, :, a] = lanes[last, :, a]


@_loop
def _look(rows, drones, limit, out):
    for i in range(len(out)):
        for b in range(rows.shape[0]):
            for f in range(STATE):
                if not abs(rows[b, f * LANES + i]) <= limit:
                    out[i] = True
            if b < drones:
                for f in range(MOTOR, MOTOR + 4):
                    if rows[b, f * LANES + i] != rows[b, f * LANES + i]:
                        out[i] = True


@_loop
def diverged(lanes, drones, limit, out):
    """True where any world diverged; out [N] bool says which, and is left as it is where none did.

    A world has diverged when a number of a body's state is not finite or larger than `limit`, or a drone's motor command is
    NaN.
    """
    found = False
    for block in range(lanes.shape[0]):
        wrong = 0
        for b in range(lanes.shape[1]):
            row = lanes[block, b]
            for f in range(STATE * LANES):  # most blocks are sound, and this loop is quick
                wrong += not abs(row[f]) <= limit
            if b < drones:
                for f in range(MOTOR * LANES, (MOTOR + 4) * LANES):
                    wrong += row[f] != row[f]
        if wrong:
            here = out[block * LANES : (block + 1) * LANES]
            _look(lanes[block], drones, limit, here)
            found = found or here.any()
    return found


@_loop
def put_state(lanes, members, ids, values):
    """States [n, len(members), 13] (see Bodies.state) with their quaternions brought to unit length."""
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        for j in range(len(members)):
            row = lanes[block, members[j]]
            v = values[r, j]
            w, x, y, z = float(v[3]), float(v[4]), float(v[5]), float(v[6])
            norm = (w * w + x * x + y * y + z * z) ** 0.5
            for f in range(3):
                row[(POS + f) * LANES + i] = v[f]
                row[(VEL + f) * LANES + i] = v[7 + f]
                row[(RATE + f) * LANES + i] = v[10 + f]
            row[QUAT * LANES + i] = w / norm
            row[(QUAT + 1) * LANES + i] = x / norm
            row[(QUAT + 2) * LANES + i] = y / norm
            row[(QUAT + 3) * LANES + i] = z / norm


@_loop
def start(lanes, memory, members, ids, speed, charge):
    """New flights: rotor speeds [n, len(members), 4], or [1, ...] for all, an empty controller, and what batteries hold in the
    worlds [N], or [1] in all."""
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        u = speed[min(r, len(speed) - 1)]
        held = charge[min(ids[r], len(charge) - 1)]
        for j in range(len(members)):
            row = lanes[block, members[j]]
            for m in range(4):
                row[(SPEED + m) * LANES + i] = u[j, m]
            row[CHARGE * LANES + i] = held
            _clear(memory[block, members[j]], i)


@_loop
def reset(lanes, memory, commands, impulse, when, at_start, ids):
    """Put worlds back to the start: bodies at rest at at_start [bodies, 13], empty controllers, no commands, no contacts."""
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        for b in range(lanes.shape[1]):
            row = lanes[block, b]
            _clear(row, i)
            for f in range(STATE):
                row[f * LANES + i] = at_start[b, f]
            row[CHARGE * LANES + i] = 1.0
        for a in range(memory.shape[1]):
            _clear(memory[block, a], i)
            for k in range(commands.shape[0]):
                _clear(commands[k, block, a], i)
        if ids[r] < len(impulse):
            impulse[ids[r], :] = 0.0
            when[ids[r], :] = math.inf


@_inside
def _clear(row, i):
    """All fields of lane i to zero."""
    for f in range(len(row) // LANES):
        row[f * LANES + i] = 0.0

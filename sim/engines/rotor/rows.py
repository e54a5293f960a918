"""Between the engine's lanes (see layout) and the rows that views read and write."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

from numba import njit
from torch import Tensor

from rookery.sim.engines.rotor.cascade import speed_for_thrust
from rookery.sim.engines.rotor.layout import LANES, MOTOR, POS, QUAT, RATE, STATE, THRUST_CURVE, VEL
from rookery.sim.errors import RookeryError


def expect(values: Tensor, wanted: tuple[int, ...], what: str) -> None:
    """Compiled loops do not check bounds: raises RookeryError where a tensor is not [*wanted]."""
    if tuple(values.shape) != wanted:
        raise RookeryError(f"{what} must be {list(wanted)}, got {list(values.shape)}.")


_loop = njit(cache=True, nogil=True, error_model="numpy")

_source = getattr(speed_for_thrust, "py_func", speed_for_thrust)  # under NUMBA_DISABLE_JIT it is the function itself
_speed_for_thrust = njit(nogil=True, error_model="numpy", forceinline=True)(_source)
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
def command(lanes, members, values):
    """Commands [N, rows, len(members), C] into lanes [rows, blocks, drones, C' * LANES] with C' >= C."""
    n, rows, _, size = values.shape
    for r in range(rows):
        for block in range((n + LANES - 1) // LANES):
            here = min(LANES, n - block * LANES)
            for j in range(len(members)):
                row = lanes[r, block, members[j]]
                for f in range(size):
                    for i in range(here):
                        row[f * LANES + i] = values[block * LANES + i, r, j, f]


@_loop
def command_thrusts(lanes, members, values, types):
    """Thrust commands [N, rows, len(members), 4] in N, as the rotor speeds that give them, into lanes as `command`."""
    n, rows, _, _ = values.shape
    for r in range(rows):
        for block in range((n + LANES - 1) // LANES):
            here = min(LANES, n - block * LANES)
            for j in range(len(members)):
                row = lanes[r, block, members[j]]
                k = types[members[j]]
                c0, c1, c2 = k[THRUST_CURVE], k[THRUST_CURVE + 1], k[THRUST_CURVE + 2]
                for f in range(4):
                    for i in range(here):
                        row[f * LANES + i] = _speed_for_thrust(values[block * LANES + i, r, j, f], c0, c1, c2)


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
    """Whether any world diverged; out [N] bool says which.

    A world has diverged when a number of a body's state is not finite or larger than `limit`, or a drone's motor command is
    NaN.
    """
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
            _look(lanes[block], drones, limit, out[block * LANES : (block + 1) * LANES])
    return out.any()


@_loop
def put_state(lanes, members, ids, values):
    """States [n, len(members), 13] (see Bodies.state) with their quaternions brought to unit length."""
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        for j in range(len(members)):
            row = lanes[block, members[j]]
            v = values[r, j]
            norm = (v[3] * v[3] + v[4] * v[4] + v[5] * v[5] + v[6] * v[6]) ** 0.5
            for f in range(3):
                row[(POS + f) * LANES + i] = v[f]
                row[(VEL + f) * LANES + i] = v[7 + f]
                row[(RATE + f) * LANES + i] = v[10 + f]
            for f in range(4):
                row[(QUAT + f) * LANES + i] = v[3 + f] / norm

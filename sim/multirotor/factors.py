"""Factors on the constants of multirotors, world by world: what randomization draws."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled function from the arrays that it is given; annotations would say less.
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.effects import Effects
from rookery.sim.multirotor.layout import LANES
from rookery.sim.multirotor.parameters import DroneParameters

ROTORS = 4
FACTORS = {
    "mass": 0, "inertia": 1, "thrust": 2, "torque": 6, "lag": 10, "drag": 14, "ground": 15, "load": 16, "com_x": 17,
    "com_y": 18,
}  # fmt: skip
"""Rows of factors on mass (kg); moments of inertia (kg m^2); thrust and reaction torque of each rotor at a given speed; time
constants of each rotor; drag of body and rotors; ground effect. And of a load (kg) under the middle of the body, and the place
of the centre of mass (m, body frame)."""
PER_ROTOR = ("thrust", "torque", "lag")
PARTS = tuple((name, m) for name in FACTORS for m in range(4 if name in PER_ROTOR else 1))
"""The rows in their order, by name and rotor."""
FACTOR_ROWS = 19
_MASS_ROW, _INERTIA_ROW, _THRUST_ROW, _TORQUE_ROW, _LAG_ROW = 0, 1, 2, 6, 10
_DRAG_ROW, _GROUND_ROW, _LOAD_ROW, _COM_ROW = 14, 15, 16, 17

# the row of a drone's own values: mass; principal moments, and their axes row by row; rotor lags in s; drag of body and rotors
_MASS = 0
_MOMENTS = 1
_AXES = 4
_TAU_UP = 13
_TAU_DOWN = 14
_BODY_DRAG = 15
_ROTOR_DRAG = 18
_GROUND = 21
_LOAD_PLACE = 22  # m below the origin
_ROW = 23

_loop = njit(cache=True, nogil=True, error_model="numpy")


def own_values(
    drones: Sequence[DroneParameters], mass: np.ndarray, moments: np.ndarray, axes: np.ndarray, effects: Effects
) -> NDArray[np.float64]:
    """[A, ...] what the factors of `write` multiply; effects that are switched off have zeros.

    Args:
        drones: the types of A drones.
        mass: [A] kg.
        moments: [A, 3] kg m^2, principal.
        axes: [A, 3, 3], their axes as columns, body frame.
        effects: of the scene.
    """
    rows = [
        [
            m, *j, *turn.ravel(), *(tau * effects.rotor_lag for tau in (d.tau_up, d.tau_down)),
            *(b * effects.body_drag for b in d.body_drag), *(r * effects.rotor_drag for r in d.rotor_drag),
            d.ground_effect_gain * effects.ground_effect, 0.5 * d.body_height,
        ]
        for d, m, j, turn in zip(drones, mass, moments, axes[: len(drones)], strict=False)
    ]  # fmt: skip
    return np.array(rows).reshape(len(drones), _ROW)


def check(values: Mapping[str, NDArray[np.float32]], n: int) -> None:
    """Refuse factors that multirotors do not have.

    Raises:
        RookeryError: an unknown name, or values that are not [n], or [4, n] of the rotors.
    """
    for name, v in values.items():
        if name not in FACTORS:
            raise unknown("factor of a multirotor", name, FACTORS)
        each = name in PER_ROTOR
        if v.shape != (n,) and not (each and v.shape == (ROTORS, n)):
            raise RookeryError(
                f"factors on {name} must be [{n}]{f' or [{ROTORS}, {n}]' if each else ''}, got {list(v.shape)}."
            )


@_loop
def write(varied, members, ids, rows, table, own, dt):
    """Multiply the own values of some drones in the worlds `ids` [n].

    Args:
        varied: see layout.
        members: indices of the drones.
        rows: [FACTOR_ROWS] where each factor stands in the table; -1 for one that stays as it is.
        table: [W, n] float32.
        own: see `own_values`.
        dt: s, physics step.
    """
    inertial = rows[_MASS_ROW] >= 0 or rows[_INERTIA_ROW] >= 0 or rows[_LOAD_ROW] >= 0
    centre = rows[_COM_ROW] >= 0 or rows[_COM_ROW + 1] >= 0
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        for a in members:
            row = varied[block, a]
            k = own[a]
            if inertial:
                _write_mass(row, i, k, rows, table, r)
            if centre:
                for f in range(2):
                    if rows[_COM_ROW + f] >= 0:
                        row[(at.COM + f) * LANES + i] = table[rows[_COM_ROW + f], r]
            for m in range(ROTORS):
                if rows[_THRUST_ROW] >= 0:
                    row[(at.THRUST_FACTOR + m) * LANES + i] = table[rows[_THRUST_ROW + m], r]
                if rows[_TORQUE_ROW] >= 0:
                    row[(at.TORQUE_FACTOR + m) * LANES + i] = table[rows[_TORQUE_ROW + m], r]
                if rows[_LAG_ROW] >= 0:
                    lag = table[rows[_LAG_ROW + m], r]
                    row[(at.RISE + m) * LANES + i] = math.exp(-0.5 * dt / (k[_TAU_UP] * lag))
                    row[(at.FALL + m) * LANES + i] = math.exp(-0.5 * dt / (k[_TAU_DOWN] * lag))
            if rows[_DRAG_ROW] >= 0:
                for f in range(3):
                    row[(at.BODY_DRAG + f) * LANES + i] = table[rows[_DRAG_ROW], r] * k[_BODY_DRAG + f]
                    row[(at.ROTOR_DRAG + f) * LANES + i] = table[rows[_DRAG_ROW], r] * k[_ROTOR_DRAG + f]
            if rows[_GROUND_ROW] >= 0:
                row[at.GROUND_GAIN * LANES + i] = table[rows[_GROUND_ROW], r] * k[_GROUND]


@_loop
def _write_mass(row, i, k, rows, table, r):
    """Mass and inertia of lane i: the drone's own, and a load that hangs under the middle of its body.

    The inertia is about the common centre of mass, m_1 m_2 / (m_1 + m_2) h^2 more than the drone's for a load h below it.
    """
    if rows[_MASS_ROW] >= 0:
        row[at.MASS_FACTOR * LANES + i] = table[rows[_MASS_ROW], r]
    if rows[_INERTIA_ROW] >= 0:
        row[at.INERTIA_FACTOR * LANES + i] = table[rows[_INERTIA_ROW], r]
    if rows[_LOAD_ROW] >= 0:
        row[at.LOAD * LANES + i] = table[rows[_LOAD_ROW], r]
    load = row[at.LOAD * LANES + i]
    body = float(np.float32(k[_MASS]) * np.float32(row[at.MASS_FACTOR * LANES + i]))
    row[at.MASS * LANES + i] = body + load
    row[at.INV_MASS * LANES + i] = 1.0 / (body + load)
    if rows[_INERTIA_ROW] >= 0 or rows[_LOAD_ROW] >= 0 or load > 0.0:
        added = body * load / (body + load) * k[_LOAD_PLACE] ** 2
        _write_inertia(row, i, k, row[at.INERTIA_FACTOR * LANES + i], added)


@_loop
def _write_inertia(row, i, k, factor, added):
    """Inertia and its inverse of lane i, about the axes that the drone's own inertia has, with `added` about x and y."""
    full = np.zeros(6)
    for part in range(6):
        a, b = (part, part) if part < 3 else ((0, 1) if part == 3 else ((0, 2) if part == 4 else (1, 2)))
        inverse = 0.0
        for j in range(3):
            moment = float(np.float32(k[_MOMENTS + j]) * np.float32(factor))
            share = k[_AXES + 3 * a + j] * k[_AXES + 3 * b + j]
            full[part] += share * moment
            inverse += share / moment
        row[(at.INV_INERTIA + part) * LANES + i] = inverse
    if added > 0.0:
        full[0] += added
        full[1] += added
        xx, yy, zz, xy, xz, yz = full
        minors = np.array(
            [
                yy * zz - yz * yz,
                xx * zz - xz * xz,
                xx * yy - xy * xy,
                xz * yz - xy * zz,
                xy * yz - xz * yy,
                xy * xz - xx * yz,
            ]
        )
        determinant = xx * minors[0] + xy * minors[3] + xz * minors[4]
        for part in range(6):
            row[(at.INV_INERTIA + part) * LANES + i] = minors[part] / determinant
    for part in range(6):
        row[(at.INERTIA + part) * LANES + i] = full[part]

"""Factors on the constants of multirotors, world by world: what randomization draws."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled function from the arrays that it is given; annotations would say less.
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rookery.sim.engines.rotor import layout as at
from rookery.sim.engines.rotor.effects import Effects
from rookery.sim.engines.rotor.layout import LANES
from rookery.sim.engines.rotor.parameters import DroneParameters
from rookery.sim.errors import RookeryError, unknown

FACTORS = ("mass", "inertia", "thrust", "torque", "lag", "drag")
"""Mass (kg); moments of inertia (kg m^2); rotor thrust and reaction torque at a given speed; time constants of the rotors;
drag of body and rotors."""

# the row of a drone's own values: mass; principal moments, and their axes row by row; rotor lags in s; drag of body and rotors
_MASS = 0
_MOMENTS = 1
_AXES = 4
_TAU_UP = 13
_TAU_DOWN = 14
_BODY_DRAG = 15
_ROTOR_DRAG = 18
_ROW = 21

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
        ]
        for d, m, j, turn in zip(drones, mass, moments, axes[: len(drones)], strict=False)
    ]  # fmt: skip
    return np.array(rows).reshape(len(drones), _ROW)


def gather(factors: Mapping[str, np.ndarray], n: int, out: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Factors [n] by name into their rows of `out` [len(FACTORS), at least n]; [len(FACTORS)] bool which rows these are.

    Raises:
        RookeryError: an unknown name, or values that are not [n].
    """
    which = np.zeros(len(FACTORS), np.bool_)
    for name, values in factors.items():
        if name not in FACTORS:
            raise unknown("factor of a multirotor", name, FACTORS)
        if values.shape != (n,):
            raise RookeryError(f"factors on {name} must be [{n}], got {list(values.shape)}.")
        row = FACTORS.index(name)
        which[row] = True
        out[row, :n] = values
    return which


@_loop
def write(varied, members, ids, which, factors, own, dt):
    """Multiply the own values of some drones in the worlds `ids` [n].

    Args:
        varied: see layout.
        members: indices of the drones.
        which: [len(FACTORS)] bool: which of them to write; the others keep what they have.
        factors: [len(FACTORS), at least n].
        own: see `own_values`.
        dt: s, physics step.
    """
    mass, inertia, thrust = which[0], which[1], which[2]
    torque, lag, drag = which[3], which[4], which[5]
    for r in range(len(ids)):
        block = ids[r] // LANES
        i = ids[r] % LANES
        for a in members:
            row = varied[block, a]
            k = own[a]
            if mass:
                m = float(np.float32(k[_MASS]) * np.float32(factors[0, r]))
                row[at.MASS * LANES + i] = m
                row[at.INV_MASS * LANES + i] = 1.0 / m
            if inertia:
                _write_inertia(row, i, k, factors[1, r])
            if thrust:
                row[at.THRUST_FACTOR * LANES + i] = factors[2, r]
            if torque:
                row[at.TORQUE_FACTOR * LANES + i] = factors[3, r]
            if lag:
                row[at.RISE * LANES + i] = math.exp(-0.5 * dt / (k[_TAU_UP] * factors[4, r]))
                row[at.FALL * LANES + i] = math.exp(-0.5 * dt / (k[_TAU_DOWN] * factors[4, r]))
            if drag:
                for f in range(3):
                    row[(at.BODY_DRAG + f) * LANES + i] = factors[5, r] * k[_BODY_DRAG + f]
                    row[(at.ROTOR_DRAG + f) * LANES + i] = factors[5, r] * k[_ROTOR_DRAG + f]


@_loop
def _write_inertia(row, i, k, factor):
    """Inertia and its inverse of lane i, about the axes that the drone's own inertia has."""
    for part in range(6):
        a, b = (part, part) if part < 3 else ((0, 1) if part == 3 else ((0, 2) if part == 4 else (1, 2)))
        full = 0.0
        inverse = 0.0
        for j in range(3):
            moment = float(np.float32(k[_MOMENTS + j]) * np.float32(factor))
            share = k[_AXES + 3 * a + j] * k[_AXES + 3 * b + j]
            full += share * moment
            inverse += share / moment
        row[(at.INERTIA + part) * LANES + i] = full
        row[(at.INV_INERTIA + part) * LANES + i] = inverse

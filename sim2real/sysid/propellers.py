"""Thrust and torque of a propeller from a static test on a stand (RCbenchmark's CSV files): linear least squares.

A propeller gives thrust k w^2 at a speed of w rad/s, and reaction torque likewise. Against the command u in 0 to 1 the thrust
is t0 + t1 u + t2 u^2, as DroneParameters.thrust_curve has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.sysid.table import Table

Array = NDArray[np.float64]
THRUST, TORQUE, PULSE = "Thrust (gf)", "Torque (N·m)", "ESC signal (µs)"
OPTICAL, ELECTRICAL = "Motor Optical Speed (RPM)", "Motor Electrical Speed (RPM)"
LEAST_STEPS = 5


@dataclass(frozen=True)
class Coefficient:
    """Coefficient k of y = k w^2.

    Args:
        value: k. low, high: its interval of 95 %. r2: share of the variance of y that it explains.
    """

    value: float
    low: float
    high: float
    r2: float


@dataclass(frozen=True)
class Propeller:
    """Result of a test.

    Args:
        source: the file. steps: that were measured.
        thrust: N s^2/rad^2; torque: N m s^2/rad^2, None where the stand does not measure it.
        curve: N, t0, t1, t2 of the thrust against the command. curve_error: N, root mean square.
        top_speed: rad/s, fastest that was measured. notes: in sentences.
    """

    source: str
    steps: int
    thrust: Coefficient
    torque: Coefficient | None
    curve: tuple[float, float, float]
    curve_error: float
    top_speed: float
    notes: tuple[str, ...]

    def text(self) -> list[str]:
        """Lines for a terminal."""
        out = [f"{self.source}: {self.steps} steps up to {self.top_speed:.0f} rad/s"]
        for name, unit, k in (("thrust", "N s^2/rad^2", self.thrust), ("torque", "N m s^2/rad^2", self.torque)):
            if k is not None:
                out.append(f"  {name} {k.value:.4g} {unit} ({k.low:.4g} to {k.high:.4g}), R^2 {k.r2:.4f}")
        t0, t1, t2 = self.curve
        out.append(
            f"  thrust_curve = ({t0:.4g}, {t1:.4g}, {t2:.4g})  # N, of the command in 0 to 1; error {self.curve_error:.2g} N"
        )
        return out + [f"  note: {note}" for note in self.notes]


def is_propeller(table: Table) -> bool:
    """True for a file of a thrust stand."""
    return THRUST in table.columns


def propeller(table: Table, pole_pairs: int | None) -> Propeller:
    """Coefficients of a propeller.

    Args:
        table: of an RCbenchmark file.
        pole_pairs: of the motor, by which its electrical speed is divided; None where the stand's program has done so. (Of the
            files of StrawsonDesign's motor_propeller_testing, 15,000 RPM at 7.4 V are the motor's own.)

    Raises:
        RookeryError: something is missing or wrong.
    """
    if pole_pairs is not None and not 1 <= pole_pairs <= 50:
        raise RookeryError(f"a motor has 1 to 50 pole pairs, got {pole_pairs}: change --pole-pairs.")
    columns = table.columns
    optical = columns.get(OPTICAL)
    notes = []
    if optical is not None and np.nanmax(optical) > 0.0:
        speed = optical
    elif ELECTRICAL in columns:
        speed = columns[ELECTRICAL] / (1 if pole_pairs is None else pole_pairs)
        if pole_pairs is None:
            notes.append(
                "the speed is measured electrically; it counts as the motor's, as the stand's program writes it."
            )
    else:
        raise RookeryError(f"{table.source} has no speeds ({OPTICAL} or {ELECTRICAL}), and thrust follows from them.")
    w = speed * 2.0 * math.pi / 60.0
    force = 1e-3 * GRAVITY * columns[THRUST]
    turning = np.isfinite(w) & np.isfinite(force) & (w > 0.1 * np.nanmax(w))
    if turning.sum() < LEAST_STEPS:
        raise RookeryError(f"{table.source} has {int(turning.sum())} steps in which it turns, and needs {LEAST_STEPS}.")
    if np.median(force[turning]) < 0.0:
        notes.append("thrusts are negative, so the stand was mounted the other way round: their signs were changed.")
        force = -force
    torque = columns.get(TORQUE)
    known = None if torque is None else coefficient(w[turning], np.abs(torque[turning]))
    if known is None:
        notes.append(
            "the stand measured no torque: the reaction torque is not visible here; nor are lags, since steps are static."
        )
    curve, error = _curve(columns, force, table.source)
    return Propeller(
        table.source, int(turning.sum()), coefficient(w[turning], force[turning]), known, curve, error, float(w[turning].max()),
        tuple(notes),
    )  # fmt: skip


def coefficient(w: Array, y: Array) -> Coefficient:
    """k of y = k w^2 by least squares, with its interval."""
    square = w**2
    power = float(square @ square)
    k = float(square @ y) / power
    left = y - k * square
    spread = math.sqrt(float(left @ left) / (len(y) - 1) / power) * float(student.ppf(0.975, len(y) - 1))
    r2 = 1.0 - float(left @ left) / float(((y - y.mean()) ** 2).sum())
    return Coefficient(k, k - spread, k + spread, r2)


def _curve(columns: Mapping[str, Any], force: Array, source: str) -> tuple[tuple[float, float, float], float]:
    if PULSE not in columns:
        raise RookeryError(f"{source} has no {PULSE!r}, which the thrust curve is against.")
    u = np.clip((columns[PULSE] - 1000.0) / 1000.0, 0.0, 1.0)
    there = np.isfinite(u) & np.isfinite(force)
    table = np.stack((np.ones(int(there.sum())), u[there], u[there] ** 2), axis=1)
    found, *_ = np.linalg.lstsq(table, force[there], rcond=None)
    error = float(np.sqrt(((table @ found - force[there]) ** 2).mean()))
    return (float(found[0]), float(found[1]), float(found[2])), error

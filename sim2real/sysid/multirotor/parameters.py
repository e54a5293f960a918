"""Parameters of a multirotor, and the constants of the compiled equations that a candidate has."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import unknown
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim2real.sysid.problem import FitParameter

Array = NDArray[np.float64]
ROTORS = ("rotor_1", "rotor_2", "rotor_3", "rotor_4")
SUMMARIES = {
    "thrust": "thrust of the rotors, times the model's",
    "thrust_linear": "share of the full thrust that grows with the rotors' speed; the rest grows with its square",
    "torque": "reaction torque of the rotors, times the model's",
    "tau_up": "time constant of rising speeds",
    "tau_down": "time constant of falling speeds",
    "drag": "linear drag of the body, by axis",
    "inertia": "moments of inertia, times the model's, by axis",
    "com_x": "centre of mass, forward",
    "com_y": "centre of mass, left",
    "delay": "from a command in the log to the motors",
}
"""Quantities by name; mass is weighed, and stays as the model has it."""


def rotor_parameters(drone: DroneParameters, fit: Collection[str] | None = None) -> tuple[FitParameter, ...]:
    """Parameters of a multirotor that are identified.

    Args:
        drone: its model.
        fit: quantities; None for all.

    Raises:
        RookeryError: an unknown quantity.
    """
    for name in fit or ():
        if name not in SUMMARIES:
            raise unknown("quantity", name, SUMMARIES)
    _, t1, t2 = drone.thrust_curve
    arm = max(math.hypot(x, y) for x, y, _ in drone.rotor_positions)
    drag = 0.1 * drone.mass
    out = [
        FitParameter("thrust", "", "1", 1.0, 0.2, 4.0, 0.05, None, ROTORS),
        FitParameter("thrust_linear", "", "1", t1 / (t1 + t2), 0.0, 0.95, 0.1, None, ROTORS),
        FitParameter("torque", "", "1", 1.0, 0.05, 10.0, 0.1, 0.3, ROTORS),
        FitParameter("tau_up", "", "s", drone.tau_up, 0.002, 0.5, 0.01, None, ROTORS),
        FitParameter("tau_down", "", "s", drone.tau_down, 0.002, 0.5, 0.01, None, ROTORS),
        *(
            FitParameter("drag", axis, "kg/s", drone.body_drag[i], 0.0, 20.0 * drag, drag, None, (axis,))
            for i, axis in enumerate("xyz")
        ),
        *(FitParameter("inertia", axis, "1", 1.0, 0.1, 10.0, 0.1, 0.5, (axis,)) for axis in "xyz"),
        FitParameter("com_x", "", "m", 0.0, -0.3 * arm, 0.3 * arm, 0.02 * arm),
        FitParameter("com_y", "", "m", 0.0, -0.3 * arm, 0.3 * arm, 0.02 * arm),
        FitParameter("delay", "", "s", 0.0, 0.0, 0.15, 0.004),
    ]
    return tuple(p for p in out if fit is None or p.quantity in fit)


class MultirotorConstants:
    """Constants of candidates for the compiled equations.

    Args:
        drone: the model.
        parameters: that are identified.
        dt: s, physics step.
    """

    def __init__(self, drone: DroneParameters, parameters: tuple[FitParameter, ...], dt: float) -> None:
        self._drone = drone
        self._columns = {p.name: i for i, p in enumerate(parameters)}
        self._nominal = {p.name: p.nominal for p in rotor_parameters(drone)}
        self._dt = dt

    def value(self, points: Array, name: str) -> Array:
        """[K] of a parameter, for candidates [K, n]."""
        column = self._columns.get(name)
        return np.full(len(points), self._nominal[name]) if column is None else points[:, column]

    def of(self, points: Array) -> tuple[Array, Array]:
        """[K, layout.TYPE] and [K, layout.VARIED]."""
        d, k = self._drone, len(points)
        types = np.tile(np.array(at.type_row(d), float), (k, 1))
        t0, t1, t2 = d.thrust_curve
        share = self.value(points, "thrust_linear")
        types[:, at.THRUST_CURVE] = t0
        types[:, at.THRUST_CURVE + 1] = (t1 + t2) * share
        types[:, at.THRUST_CURVE + 2] = (t1 + t2) * (1.0 - share)
        varied = np.zeros((k, at.VARIED))
        varied[:, at.MASS], varied[:, at.INV_MASS] = d.mass, 1.0 / d.mass
        for i, axis in enumerate("xyz"):
            moment = d.inertia[i] * self.value(points, f"inertia:{axis}")
            varied[:, at.INERTIA + i], varied[:, at.INV_INERTIA + i] = moment, 1.0 / moment
            varied[:, at.BODY_DRAG + i] = self.value(points, f"drag:{axis}")
            varied[:, at.ROTOR_DRAG + i] = d.rotor_drag[i]
        for m in range(4):
            varied[:, at.THRUST_FACTOR + m] = self.value(points, "thrust")
            varied[:, at.TORQUE_FACTOR + m] = self.value(points, "torque")
            varied[:, at.RISE + m] = np.exp(-0.5 * self._dt / self.value(points, "tau_up"))
            varied[:, at.FALL + m] = np.exp(-0.5 * self._dt / self.value(points, "tau_down"))
        varied[:, at.SPIN] = d.rotor_inertia * d.max_rotor_speed
        varied[:, at.FULL_SPEED] = d.max_rotor_speed
        varied[:, at.COM] = self.value(points, "com_x")
        varied[:, at.COM + 1] = self.value(points, "com_y")
        return types, varied

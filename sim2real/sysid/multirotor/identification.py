"""Identification of a multirotor: fit, judge on the log and on others, report."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.logs import MultirotorLog
from rookery.sim2real.sysid.multirotor.parameters import rotor_parameters
from rookery.sim2real.sysid.multirotor.problem import CHANNELS, FlightProblem
from rookery.sim2real.sysid.plots import Signal
from rookery.sim2real.sysid.problem import FitParameter
from rookery.sim2real.sysid.report import FitReport

Array = NDArray[np.float64]
Say = Callable[[str], None]
PROFILED = ("delay", "tau_up", "tau_down")
"""Quantities that trade off, and whose intervals are profiled by default."""
KINDS = tuple(dict.fromkeys(name.split()[0] for name in CHANNELS))


def identify_multirotor(
    drone: DroneParameters, log: MultirotorLog, *, fit: Collection[str] | None = None, each: Collection[str] | None = None,
    profiled: Collection[str] = PROFILED, hold_out: float = 0.0, others: Sequence[MultirotorLog] = (),
    say: Say = lambda text: None,
) -> FitReport:  # fmt: skip
    """Parameters of a multirotor from a flight; arguments and errors as `identify_joints` has them, without `each`."""
    if each is not None:
        raise RookeryError("--each is for joints: rotors of a multirotor share their numbers.")
    parameters = rotor_parameters(drone, fit)
    cut = len(log.time) - round(hold_out * len(log.time))
    fitted = log.part(0, cut)
    found = identify(FlightProblem(drone, fitted, parameters), profiled, say)
    x = found.fit.x
    errors = {log.source: judge(drone, fitted, parameters, x)}
    if cut < len(log.time):
        errors[f"{log.source}, last {100 * hold_out:.0f} %, not fitted"] = judge(
            drone, log.part(cut, len(log.time)), parameters, x
        )
    for other in others:
        errors[f"{other.source}, not fitted"] = judge(drone, other, parameters, x)
    seconds = float(fitted.time[-1] - fitted.time[0])
    return FitReport(drone.name, "multirotor", log.source, seconds, len(fitted.time), found, errors, log.notes)


def all_parameters(drone: DroneParameters) -> tuple[FitParameter, ...]:
    """All that a multirotor has."""
    return rotor_parameters(drone)


def judge(
    drone: DroneParameters, log: MultirotorLog, parameters: tuple[FitParameter, ...], x: Array
) -> dict[str, dict[str, float]]:
    """Root mean square errors over windows, of the nominal and the identified model: m, m/s, rad, rad/s."""
    problem = FlightProblem(drone, log, parameters)
    out = {}
    for name, at in (("nominal", problem.start), ("identified", x)):
        squares = (problem.residuals(at[None])[0].reshape(-1, len(CHANNELS)) ** 2).mean(axis=0)
        out[name] = {k: math.sqrt(float(squares[[c.startswith(k) for c in CHANNELS]].mean())) for k in KINDS}
    return out


def signals(drone: DroneParameters, log: MultirotorLog, parameters: tuple[FitParameter, ...], x: Array) -> list[Signal]:
    """Curves of velocities and rates, which begin at the measured ones in each window."""
    problem = FlightProblem(drone, log, parameters)
    nominal, identified = problem.predict(np.vstack((problem.start, x)))
    out = []
    for name, unit, first, measured in (("velocity", "m/s", 7, log.velocity), ("rate", "rad/s", 10, log.rate)):
        for i, axis in enumerate("xyz"):
            curves = {
                "logged": measured[problem.samples, i], "nominal": nominal[:, first + i], "identified": identified[:, first + i]
            }  # fmt: skip
            out.append(Signal(f"{name} {axis}", unit, log.time[problem.samples], curves))
    return out

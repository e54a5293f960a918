"""Identification of a jointed robot: fit, judge on the log and on others, report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.jointed.parameters import QUANTITIES, WHOLE, Values, joint_parameters
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.replay import LogReplay, check_follows, replay
from rookery.sim2real.sysid.jointed.robot import JointedRobot
from rookery.sim2real.sysid.jointed.slowness import slow_note
from rookery.sim2real.sysid.logs import JointLog
from rookery.sim2real.sysid.plots import Signal
from rookery.sim2real.sysid.problem import FitParameter
from rookery.sim2real.sysid.report import FitReport

Array = NDArray[np.float64]
Say = Callable[[str], None]
PROFILED = ("delay", "armature")
"""Quantities that trade off, and whose intervals are profiled by default."""


def identify_joints(
    robot: JointedRobot, log: JointLog, *, fit: Collection[str] | None = None, each: Collection[str] | None = None,
    profiled: Collection[str] = PROFILED, hold_out: float = 0.0, others: Sequence[JointLog] = (),
    say: Say = lambda text: None,
) -> FitReport:  # fmt: skip
    """Parameters of a robot's joints and drives from a log.

    Args:
        robot: the model.
        log: of its joints.
        fit, each: see joint_parameters.
        profiled: quantities with profiled intervals.
        hold_out: share at the log's end that is not fitted, and judged by itself.
        others: logs that are not fitted, and judged; a torque bias belongs to the robot and the day that it was identified on.
        say: told how far it is.

    Raises:
        RookeryError: the log identifies nothing, or is not of this robot.
    """
    parameters = joint_parameters(robot, fit, each)
    cut = len(log.time) - round(hold_out * len(log.time))
    fitted = log.part(0, cut)
    check_follows(replay(robot, fitted, (), np.zeros(0)), log.source)
    found = identify(JointProblem(robot, fitted, parameters), profiled, say)
    errors = {log.source: judge(robot, fitted, parameters, found.fit.x)}
    if cut < len(log.time):
        whole = [replay(robot, log, of, x) for of, x in _models(parameters, found.fit.x)]
        late = [_after(r, float(log.time[cut])) for r in whole]
        errors[f"{log.source}, last {100 * hold_out:.0f} %, not fitted"] = {
            name: r.errors for name, r in zip(("nominal", "identified"), late, strict=True)
        }
    for other in others:
        errors[f"{other.source}, not fitted"] = judge(robot, other, parameters, found.fit.x)
    seconds = float(fitted.time[-1] - fitted.time[0])
    notes = (*log.notes, *_slowness(robot, fitted, parameters, found.fit.x))
    return FitReport(robot.name, robot.family, log.source, seconds, len(fitted.time), found, errors, notes)


def judge(
    robot: JointedRobot, log: JointLog, parameters: tuple[FitParameter, ...], x: Array
) -> dict[str, dict[str, float]]:
    """Errors of the nominal and the identified model when they replay a log, rad."""
    return {
        name: replay(robot, log, of, at).errors
        for name, (of, at) in zip(("nominal", "identified"), _models(parameters, x), strict=True)
    }


def signals(robot: JointedRobot, log: JointLog, parameters: tuple[FitParameter, ...], x: Array) -> list[Signal]:
    """Curves of each joint."""
    nominal, identified = (replay(robot, log, of, at) for of, at in _models(parameters, x))
    return [
        Signal(name, "rad", nominal.time, {
            "logged": nominal.measured[:, i], "nominal": nominal.predicted[:, i], "identified": identified.predicted[:, i],
        })
        for i, name in enumerate(robot.joints)
    ]  # fmt: skip


def all_parameters(robot: JointedRobot) -> tuple[FitParameter, ...]:
    """Those by kind and those by joint, for reports of either."""
    apart = [name for name in QUANTITIES if name not in WHOLE]
    both = (*joint_parameters(robot, each=apart), *joint_parameters(robot, each=()))
    return tuple({p.name: p for p in both}.values())


def _slowness(robot: JointedRobot, log: JointLog, parameters: tuple[FitParameter, ...], x: Array) -> list[str]:
    fitted = [name for name in ("armature", "damping") if any(p.quantity == name for p in parameters)]
    values = Values(robot, parameters).of(x[None])
    note = slow_note(log, " and ".join(fitted), values["armature"][0], values["friction"][0]) if fitted else None
    return [] if note is None else [note]


def _models(parameters: tuple[FitParameter, ...], x: Array) -> list[tuple[tuple[FitParameter, ...], Array]]:
    return [((), np.zeros(0)), (parameters, x)]


def _after(r: LogReplay, time: float) -> LogReplay:
    late = r.time >= time
    return LogReplay(r.time[late], r.predicted[late], r.measured[late], r.names, r.kinds)

"""A log of joints, simulated again from its beginning to its end, and how far that is from what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.robot import JointedRobot
from rookery.sim2real.sysid.logs import JointLog
from rookery.sim2real.sysid.problem import Parameter

Array = NDArray[np.float64]
HOPELESS_RAD = 0.5
"""rad, root mean square error of a joint at which a model and a log do not belong together."""


@dataclass(frozen=True)
class Replay:
    """Predicted and measured angles.

    Args:
        time: [S] s. predicted, measured: [S, J] rad.
        names, kinds: of the joints, and of the groups of equal ones.
    """

    time: Array
    predicted: Array
    measured: Array
    names: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def errors(self) -> dict[str, float]:
        """Root mean square errors in rad: "all", and of each kind of joint."""
        squares = ((self.predicted - self.measured) ** 2).mean(axis=0)
        out = {"all": math.sqrt(float(squares.mean()))}
        for kind in dict.fromkeys(self.kinds):
            chosen = [k == kind for k in self.kinds]
            out[kind] = math.sqrt(float(squares[chosen].mean()))
        return out


def replay(robot: JointedRobot, log: JointLog, parameters: tuple[Parameter, ...], x: Array) -> Replay:
    """Open-loop simulation of a log's commands from its first sample (after each gap anew), with parameters x [n]."""
    problem = JointProblem(robot, log, parameters, window=math.inf)
    return Replay(
        log.time[problem.samples], problem.predict(x[None])[0], log.position[problem.samples], robot.joints, robot.kinds
    )


def check_follows(nominal: Replay, source: str) -> None:
    """Refuse a log that a model cannot follow at all.

    Raises:
        RookeryError: an error beyond HOPELESS_RAD.
    """
    error = np.sqrt(((nominal.predicted - nominal.measured) ** 2).mean(axis=0))
    worst = int(np.nan_to_num(error, nan=np.inf).argmax())
    if not error[worst] <= HOPELESS_RAD:
        raise RookeryError(
            f"{source}: the model errs by {error[worst]:.2g} rad at {nominal.names[worst]}, so it is not of this robot, or the "
            "order of the joints, their signs, units or gains are others."
        )

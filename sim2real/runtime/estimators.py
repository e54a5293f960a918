"""Estimators by name, for `rookery fly --estimator`: ours, none, or a class in a file of the user's own.

class Truth:                                   # my_estimator.py
    quantities = {"velocity": "as motion capture has it"}
    def __init__(self, robot, joints): ...
    def update(self, values, measured): return {"velocity": ...}

rookery fly walk --link unitree://eth0 --estimator my_estimator.py:Truth
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rookery.robots.quadrupeds.model import QuadrupedModel
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import is_in_file, object_in_file, unknown_name
from rookery.sim2real.runtime.estimation import BaseEstimator, LegOdometry
from rookery.sim2real.runtime.reading import Array

EstimatorMaker = Callable[[QuadrupedModel, tuple[str, ...]], BaseEstimator]
"""Makes an estimator for a robot and the names of its joints in the readings' order."""
VECTOR = 3
"""Numbers of a place and a velocity, and of what an estimator has never told."""


class NoEstimator:
    """Adds nothing: the robot's own measurements are all that there is."""

    quantities: Mapping[str, str] = {}

    def __init__(self, robot: QuadrupedModel, joints: tuple[str, ...]) -> None:
        pass

    def update(self, values: Mapping[str, Array], measured: float) -> dict[str, Array]:
        """See BaseEstimator."""
        return {}


DEFAULT = "leg-odometry"
ESTIMATORS: dict[str, EstimatorMaker] = {DEFAULT: LegOdometry, "none": NoEstimator}
"""By the name that the command line takes."""


class NamedEstimator:
    """An estimator that never stops the thread which asks it: where it fails, what it adds is NaN from then on, and a policy
    that observes it ends by the safety filter's `command`.

    Args:
        name: that is shown and logged.
        estimator: the estimator.

    Attributes:
        quantities: see BaseEstimator.
    """

    def __init__(self, name: str, estimator: BaseEstimator) -> None:
        self.name = name
        self.quantities: Mapping[str, str] = dict(estimator.quantities)
        self._estimator = estimator
        self._sizes: dict[str, int] = {name: VECTOR for name in ("position", "velocity") if name in self.quantities}
        self._failed = False

    def update(self, values: Mapping[str, Array], measured: float) -> dict[str, Array]:
        """See BaseEstimator; only of the quantities that it says it adds."""
        if not self._failed:
            try:
                told = self._estimator.update(values, measured)
                out = {name: np.array(told[name], np.float32, ndmin=1) for name in self.quantities}
                wrong = [n for n, value in out.items() if value.size != self._sizes.setdefault(n, value.size)]
                if wrong:
                    raise ValueError(f"{wrong[0]} has {out[wrong[0]].size} values, not {self._sizes[wrong[0]]}")
                return out
            except Exception:  # of somebody else's code
                self._failed = True
                traceback.print_exc()
        return {name: np.full(self._sizes.get(name, VECTOR), np.nan, np.float32) for name in self.quantities}


@dataclass(frozen=True)
class EstimatorChoice:
    """An estimator that was chosen, not yet made for a robot.

    Args:
        name: as it was chosen.
        make: its class.
    """

    name: str = DEFAULT
    make: EstimatorMaker = LegOdometry

    def made(self, robot: QuadrupedModel, joints: tuple[str, ...]) -> NamedEstimator:
        """The estimator for a robot.

        Raises:
            RookeryError: it cannot be made, or lacks a member of BaseEstimator.
        """
        try:
            estimator = self.make(robot, joints)
        except RookeryError:
            raise
        except Exception as e:  # of somebody else's code
            traceback.print_exc()
            raise RookeryError(
                f"the estimator {self.name} cannot be made ({type(e).__name__}: {e}): give it an __init__ that takes the "
                "robot and the names of its joints."
            ) from e
        quantities = getattr(estimator, "quantities", None)
        if not isinstance(quantities, Mapping) or not all(isinstance(w, str) for kv in quantities.items() for w in kv):
            raise self._lacks("quantities, a dict of names of what it adds and a word of how good each is")
        if not callable(getattr(estimator, "update", None)):
            raise self._lacks("update(values, measured), which returns a dict of them")
        return NamedEstimator(self.name, estimator)

    def _lacks(self, member: str) -> RookeryError:
        return RookeryError(f"the estimator {self.name} lacks {member}: add it, as docs/fly.md shows.")


def find_estimator(name: str) -> EstimatorChoice:
    """The estimator of a name, also as ``my_estimator.py:Class``.

    Raises:
        RookeryError: an unknown name, or a file that fails to run.
    """
    if not is_in_file(name):
        if name not in ESTIMATORS:
            raise unknown_name("estimator", name, ESTIMATORS)
        return EstimatorChoice(name, ESTIMATORS[name])
    found = object_in_file(name)
    if not isinstance(found, type):
        raise RookeryError(f"{name} is no estimator: give a class with `quantities` and `update` (docs/fly.md).")
    return EstimatorChoice(name, found)

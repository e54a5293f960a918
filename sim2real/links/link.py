"""The interface of all links, and a vehicle's report about itself."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.reading import Reading

if TYPE_CHECKING:
    from rookery.sim2real.runtime.estimators import EstimatorChoice


@dataclass(frozen=True)
class Identity:
    """A vehicle's report about itself, before it is armed.

    Args:
        family: "multirotor", "joints" or "arm".
        name: what it calls itself.
        kinds: action kinds that it takes over this link, such as ("ctbr", "attitude").
        quantities: names of what it measures.
        rate: Hz, the highest at which it takes commands.
        joints: their names in its order; empty for a multirotor.
        firmware: its version, "" where it tells none.
        estimated: of its quantities, those that the link's estimator adds, with a word of how good they are.
        estimator: that estimator's name, "" where there is none.
    """

    family: str
    name: str
    kinds: tuple[str, ...]
    quantities: tuple[str, ...]
    rate: float
    joints: tuple[str, ...] = ()
    firmware: str = ""
    estimated: Mapping[str, str] = field(default_factory=dict)
    estimator: str = ""


class Link(abc.ABC):
    """A connection to one vehicle. `read` and `write` never block; several threads may call the methods.

    Attributes:
        url: as the user gave it.
        heard: s, the runtime's clock when anything last arrived; minus infinity before.
    """

    url: str = ""
    heard: float = -np.inf

    @property
    def success(self) -> bool | None:
        """True where the vehicle's task is done; None where it cannot tell."""
        return None

    def estimate_by(self, choice: EstimatorChoice) -> None:
        """Take another estimator, before `open`.

        Raises:
            RookeryError: this link has none, or the chosen one cannot be made.
        """
        raise RookeryError(
            f"{self.url} has nothing to estimate: only walking robots have an estimator (unitree://, and --dry-run of their "
            "bundles); leave --estimator out."
        )

    def statistics(self) -> Mapping[str, float]:
        """Figures of the connection by name, such as packets that were lost; {} where it keeps none."""
        return {}

    @abc.abstractmethod
    def open(self, timeout_s: float = 10.0) -> Identity:
        """Find the vehicle, and ask who it is.

        Raises:
            RookeryError: nobody answers, something else does, or the port is taken.
        """

    @abc.abstractmethod
    def read(self) -> Reading | None:
        """The newest measurements; None before the first."""

    @abc.abstractmethod
    def arm(self) -> None:
        """Ask that motors may turn; `Reading.armed` says when they may."""

    @abc.abstractmethod
    def disarm(self) -> None:
        """Ask that motors stop."""

    @abc.abstractmethod
    def engage(self) -> None:
        """Ask the vehicle to follow this link's set-points. Called in every step until `engaged`."""

    @property
    @abc.abstractmethod
    def engaged(self) -> bool:
        """True while it follows this link's set-points."""

    def begin(self) -> None:
        """The policy begins: its first command follows."""

    def end(self) -> None:
        """The policy has ended, and `success` is known where it can be."""

    @abc.abstractmethod
    def write(self, kind: str, command: ArrayLike) -> None:
        """Send the command of a policy.

        Args:
            kind: action kind.
            command: in the units and frames of the contract's action.
        """

    @abc.abstractmethod
    def react(self, reaction: str) -> None:
        """Bring the vehicle to a safe state; called in every step until it is there.

        Args:
            reaction: one of rookery.sim2real.runtime.settings.REACTIONS.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Leave the vehicle as it is, and free the port."""

    def go_to(self, position: ArrayLike, yaw: float) -> None:
        """A multirotor's set-point for entry and exit: m and rad, world."""
        raise NotImplementedError(f"{type(self).__name__} has no position set-points")

    def hold_joints(self, position: ArrayLike, stiffness: ArrayLike, damping: ArrayLike) -> None:
        """A jointed robot's set-point for entry and exit: rad, N m/rad and N m s/rad, in the contract's order."""
        raise NotImplementedError(f"{type(self).__name__} has no joint set-points")

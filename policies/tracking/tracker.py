"""The interface of trackers of training runs."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["Opened", "RunTracker", "TrackedRun", "flat", "named"]


@dataclass(frozen=True)
class TrackedRun:
    """A run, as trackers get to know it.

    Args:
        folder: of the run.
        steps: control steps made before; rows past them, of a run that was killed, are made again, alike.
        task, algorithm: names.
        settings: JSON values of all settings, nested.
        provenance: of the contract: seed, command, commit, machine, date, engine.
    """

    folder: Path
    steps: int = 0
    task: str = ""
    algorithm: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The task and the folder's name."""
        return f"{self.task} {self.folder.resolve().name}".strip()


@dataclass(frozen=True)
class Opened:
    """A run that a tracker has begun or goes on with.

    Args:
        state: texts by which `RunTracker.open` finds the run again; kept in the run folder.
        place: of the run, for people, such as its address; "" says nothing.
    """

    state: dict[str, str] = field(default_factory=dict)
    place: str = ""


class RunTracker(abc.ABC):
    """Takes the figures of one training run to where people look at them. A new instance is made for each run.

    All methods are called from one thread of the tracker's own, so that one that waits for a network holds up no training. What
    they raise is shown as one sentence, and the tracker gets nothing more of the run; training goes on.

    Attributes:
        needs: module that must be installed; "" for none.
        extra: name of Rookery's extra that has it.
    """

    needs: ClassVar[str] = ""
    extra: ClassVar[str] = ""

    @abc.abstractmethod
    def open(self, run: TrackedRun, state: Mapping[str, str]) -> Opened:
        """Begin a run, or go on with the one of `state`, which is empty for a new one."""

    @abc.abstractmethod
    def log(self, row: Mapping[str, float], steps: int) -> None:
        """Figures by name, such as ``"return/drone"``, after so many control steps."""

    @abc.abstractmethod
    def evaluated(self, figures: Mapping[str, float], steps: int) -> None:
        """Figures of an evaluation of the policy of so many control steps."""

    @abc.abstractmethod
    def video(self, file: Path, name: str, steps: int) -> None:
        """A video, .mp4 or .gif, of the policy of so many control steps."""

    @abc.abstractmethod
    def close(self, ended: str) -> None:
        """Write what is left.

        Args:
            ended: "finished", "interrupted" or "failed"; "" where the run itself goes on.
        """


def named(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a log row by names that have a group: "iteration" as "run/iteration"."""
    numbers = {k: float(v) for k, v in row.items() if k != "steps" and isinstance(v, (int, float))}
    return {k if "/" in k else f"run/{k}": v for k, v in numbers.items()}


def flat(values: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Nested values with one name for each: {"ppo": {"gamma": 0.99}} as {"ppo.gamma": 0.99}."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{inside}{name}.")
        else:
            out[f"{inside}{name}"] = value
    return out

"""The plan of a sweep: what all of its trials are made from."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.experiments.settings import RunSettings
from rookery.experiments.sweep.space import Point, SweepSpace
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_json
from rookery.sim.values import convert, from_values

__all__ = ["FILE", "SAMPLERS", "SCHEDULERS", "SweepPlan", "read_plan"]

FILE = "sweep.json"
"""Plan of a sweep, in its folder."""
SCHEDULERS = ("asha", "pbt", "none")
SAMPLERS = ("random", "grid", "optuna")


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """Everything that a sweep is made from.

    Args:
        base: settings of all trials.
        space: over them.
        samples: number of trials; a grid has its own.
        scheduler: "asha" stops the worse trials early (Li et al. 2020, arXiv 1810.05934), "pbt" lets them take over the
            checkpoints and changed settings of the better ones (Jaderberg et al. 2017, arXiv 1711.09846), "none" runs all.
        sampler: "random", "grid" or "optuna" (a tree-structured Parzen estimator; Akiba et al. 2019, arXiv 1907.10902).
        metric: see `rookery.experiments.sweep.objective`.
        minimize: less is better.
        seed: of the points.
        cwd: folder in which relative paths of the settings begin.

    Raises:
        RookeryError: settings that do not fit together.
    """

    base: RunSettings
    space: SweepSpace
    samples: int = 16
    scheduler: str = "asha"
    sampler: str = "random"
    metric: str = "auto"
    minimize: bool = False
    seed: int = 0
    cwd: str = dataclasses.field(default_factory=os.getcwd)

    def __post_init__(self) -> None:
        for option, name, known in (("scheduler", self.scheduler, SCHEDULERS), ("sampler", self.sampler, SAMPLERS)):
            if name not in known:
                raise unknown(f"--{option}", name, known)
        if self.samples < 1:
            raise RookeryError(f"--samples must be at least 1, got {self.samples}.")
        if self.scheduler == "pbt":
            if self.sampler == "optuna":
                raise RookeryError("--scheduler pbt changes settings itself: leave out --sampler optuna.")
            if self.samples < 2 and self.sampler != "grid":
                raise RookeryError("--scheduler pbt is for a population: give --samples 4 or more.")
            self._check_population()

    def _check_population(self) -> None:
        """Refuse what cannot change while a policy learns."""
        own = self.base.algorithm
        config = self.base.to_values()[own]
        for name, dimension in self.space.dimensions.items():
            table, _, setting = name.partition(".")
            numbers = dimension.corners()
            real = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in numbers)
            if not real or not (
                table == "train_overrides" or (table == own and isinstance(config.get(setting), float))
            ):
                raise RookeryError(
                    f"--scheduler pbt changes numbers of [{own}] and [train_overrides] while a policy learns, and {name} is "
                    "none: leave it out of the space, or take --scheduler asha."
                )

    def points(self) -> list[Point]:
        """The points of the trials; of optuna none, which chooses them one after the other."""
        if self.sampler == "grid":
            return self.space.grid()
        if self.sampler == "optuna":
            return []
        generator = random.Random(self.seed)
        return [self.space.draw(generator) for _ in range(self.samples)]

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.space.grid()) if self.sampler == "grid" else self.samples

    def texts(self) -> list[str]:
        """All texts among the settings, of which some may name programs in files: a task, trackers or networks."""
        return list(_texts_in([self.base.to_values(), self.space.to_values()]))

    def to_values(self) -> dict[str, Any]:
        """JSON values."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return plain | {"base": self.base.to_values(), "space": self.space.to_values()}


def read_plan(folder: Path) -> SweepPlan:
    """The plan of a sweep.

    Raises:
        RookeryError: there is none in the folder, or it is damaged.
    """
    try:
        values = convert(read_json(folder / FILE), dict[str, Any], FILE)
        base = RunSettings.from_values(convert(values.get("base"), dict[str, Any], "base"))
        if not base.task:
            raise RookeryError("base names no task: give one.")
        space = SweepSpace.from_values(convert(values.get("space"), dict[str, Any], "space"))
        return from_values(SweepPlan, values | {"base": base, "space": space}, f"value of {FILE}")
    except (OSError, ValueError, RookeryError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).removesuffix(".")
        raise RookeryError(
            f"{folder} is no folder of a sweep ({reason}): give one that `rookery sweep` made, or put back its {FILE}."
        ) from error


def _texts_in(value: Any) -> Iterator[str]:
    """All texts in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)

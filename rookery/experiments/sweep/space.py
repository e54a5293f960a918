"""The space of a sweep: which settings differ between its trials, and over what.

A TOML file with the tables of settings.toml; a setting that differs has a table of its own in place of a value::

    randomize = "none"                                       # the same in all trials

    [ppo]
    learning_rate = {low = 1e-4, high = 1e-2, log = true}    # any number between
    epochs = {low = 2, high = 8}                             # whole numbers, as both bounds are
    gamma = {values = [0.98, 0.99, 0.995]}                   # one of these

    [randomization.mass]                                     # ranges, as a file for --randomize has them
    low = 0.8
    high = {low = 1.0, high = 1.5}
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.experiments.algorithm import check_inputs
from rookery.experiments.settings import RunSettings, read_table, to_toml
from rookery.making import full_config
from rookery.sim.config import merge
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.files import replace
from rookery.sim.randomization.ranges import PRESETS
from rookery.sim.values import convert

__all__ = ["Point", "SweepSpace", "SweptChoice", "SweptInterval", "read_space"]

Point = dict[str, Any]
"""A value for each setting that differs, by its dotted name."""
RANGES = "randomization"
"""Table of ranges."""
NOT_SWEPT = ("algorithm", "randomize")
"""Settings that are the same in all trials."""
GIVEN = {"task": "given to the command", "runner.total_steps": "given by --steps", "shards": "one process each"}
"""Settings that no space has, not even with one value, and what they are: the schedulers count in the steps of all trials."""
OF_LEARNING = ("runner", "seed", "device")
"""Settings that change neither the worlds nor the inputs of a training."""
MOST_POINTS = 10_000
"""Of a grid."""


@dataclass(frozen=True)
class SweptInterval:
    """Any number, or whole number, from `low` to `high`; with `log` its logarithm is drawn evenly."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """True where both bounds are whole numbers, and so are the values."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def corners(self) -> tuple[float, ...]:
        """The values by which the setting is checked."""
        return self.low, self.high

    def holds(self, value: Any) -> bool:
        """True for a number inside, or off by the rounding of a logarithm."""
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        return self.low <= value <= self.high or any(math.isclose(value, end) for end in self.corners())

    def draw(self, generator: random.Random) -> float:
        """A value."""
        if self.whole and not self.log:
            return generator.randint(int(self.low), int(self.high))
        if not self.log:
            return generator.uniform(self.low, self.high)
        value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        return round(value) if self.whole else min(max(value, self.low), self.high)


@dataclass(frozen=True)
class SweptChoice:
    """One of some values."""

    values: tuple[Any, ...]

    def corners(self) -> tuple[Any, ...]:
        """The values by which the setting is checked."""
        return self.values

    def holds(self, value: Any) -> bool:
        """True for one of the values, of the same type: true is not 1."""
        return any(type(v) is type(value) and v == value for v in self.values)

    def draw(self, generator: random.Random) -> Any:
        """A value."""
        return generator.choice(self.values)


@dataclass(frozen=True)
class SweepSpace:
    """Settings of a sweep's trials.

    Args:
        dimensions: by dotted name, in the order of the file.
        fixed: nested values that all trials have, over the base.
    """

    dimensions: dict[str, SweptInterval | SweptChoice]
    fixed: dict[str, Any] = field(default_factory=dict)

    def draw(self, generator: random.Random) -> Point:
        """A point at random."""
        return {name: dimension.draw(generator) for name, dimension in self.dimensions.items()}

    def grid(self) -> list[Point]:
        """All points of the grid.

        Raises:
            RookeryError: an interval, which has no end of points, or too many.
        """
        for name, dimension in self.dimensions.items():
            if isinstance(dimension, SweptInterval):
                raise RookeryError(
                    f"--sampler grid takes values, and {name} is an interval: give {name} = {{values = [...]}}."
                )
        values = [d.values for d in self.dimensions.values() if isinstance(d, SweptChoice)]
        if math.prod(map(len, values)) > MOST_POINTS:
            raise RookeryError(
                f"the grid has {math.prod(map(len, values))} points: give fewer values, or --sampler random."
            )
        return [dict(zip(self.dimensions, point, strict=True)) for point in itertools.product(*values)]

    def settings(self, base: RunSettings, point: Point, ranges: Path) -> RunSettings:
        """The settings of a trial.

        Args:
            base: what the space leaves as it is.
            point: a value for each dimension; those that are left out stay as in the base.
            ranges: file for the trial's ranges, which is written where the space has some.

        Raises:
            RookeryError: a setting that does not exist, or a value that it does not take.
        """
        values = dict(self.fixed)
        for name, value in point.items():
            values = merge(values, _nested(name.split("."), value))
        tables = values.pop(RANGES, {})
        known = base.to_values()
        for name in values:
            if name not in known:
                raise unknown("setting", name, [*known, RANGES])
        for name in values.keys() & {"task_config", "train_overrides", "fixed", "weights"}:
            values[name] = merge(getattr(base, name), values[name])
        settings = RunSettings.from_values(values, base)
        if tables:
            settings = dataclasses.replace(settings, randomize=_write_ranges(settings.randomize, tables, ranges))
        settings.check()
        return settings

    def check(self, base: RunSettings, scratch: Path) -> None:
        """Refuse a space with a setting or a value that does not exist, before anything starts: each end and each value, with
        the first ones of the other settings.

        Args:
            base: as of `settings`.
            scratch: folder for files of ranges.

        Raises:
            RookeryError: naming it.
        """
        first = {name: dimension.corners()[0] for name, dimension in self.dimensions.items()}
        others = [(name, value) for name, d in self.dimensions.items() for value in d.corners()[1:]]
        for name, value in [("", None), *others]:
            settings = self.settings(base, first | ({name: value} if name else {}), scratch / "checked.toml")
            full_config(settings.task, settings.training_config)
            table = name.split(".")[0]
            of_learning = table in OF_LEARNING or (table == settings.algorithm and isinstance(value, (int, float)))
            if not of_learning:  # else it is checked by now
                check_inputs(settings)

    def to_values(self) -> dict[str, Any]:
        """JSON values."""
        kinds = {name: dataclasses.asdict(d) for name, d in self.dimensions.items()}
        return {"dimensions": kinds, "fixed": self.fixed}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> SweepSpace:
        """The space of JSON values.

        Raises:
            RookeryError: values of another form.
        """
        tables = convert(values.get("dimensions"), dict[str, dict[str, Any]], "space.dimensions")
        if not tables:
            raise RookeryError("space.dimensions has no setting that differs between trials: give one.")
        fixed = convert(values.get("fixed"), dict[str, Any], "space.fixed")
        return cls({name: _dimension(name, table) for name, table in tables.items()}, fixed)

    def holds(self, point: Point) -> bool:
        """True for a point with a value of every setting that differs, inside its bounds or of its list, and nothing else."""
        return point.keys() == self.dimensions.keys() and all(d.holds(point[n]) for n, d in self.dimensions.items())


def read_space(file: Path) -> SweepSpace:
    """The space in a TOML file.

    Raises:
        RookeryError: it cannot be read, or has no setting that differs.
    """
    dimensions: dict[str, SweptInterval | SweptChoice] = {}
    fixed: dict[str, Any] = {}
    for path, value in _leaves(read_table(file, "space"), ()):
        name = ".".join(path)
        for given, what in GIVEN.items():
            if f"{name}.".startswith(f"{given}."):
                raise RookeryError(f"{file}: {given} is the same in all trials of a sweep, {what}: leave it out.")
        if isinstance(value, Mapping):
            if path[0] in NOT_SWEPT:
                raise RookeryError(f"{file}: {name} is the same in all trials of a sweep: give it one value.")
            dimensions[name] = _dimension(name, value)
        else:
            fixed = merge(fixed, _nested(list(path), value))
    if not dimensions:
        raise RookeryError(
            f"{file} has no setting that differs between trials: give one, such as [ppo] gamma = {{values = [0.98, 0.99]}}."
        )
    return SweepSpace(dimensions, fixed)


def _leaves(table: Mapping[str, Any], inside: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Settings with their values, or with the tables of those that differ."""
    for name, value in table.items():
        path = (*inside, name)
        if isinstance(value, Mapping) and not _differs(value, path):
            yield from _leaves(value, path)
        else:
            yield path, value


def _differs(table: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """True for the table of a setting that differs. A range of the randomization has a low and a high, too: it is a table of
    settings."""
    if path[0] == RANGES and len(path) < 3:
        return False
    bounds = [table.get(name) for name in ("low", "high")]
    return "values" in table or any(isinstance(b, (int, float)) for b in bounds)


def _dimension(name: str, table: Mapping[str, Any]) -> SweptInterval | SweptChoice:
    """A setting's table.

    Raises:
        RookeryError: it is none.
    """
    for key in table:
        if key not in ("low", "high", "log", "values"):
            raise unknown(f"key of {name}", key, ("low", "high", "log", "values"))
    if "values" in table:
        values = table["values"]
        if not isinstance(values, (list, tuple)) or not values or len(table) > 1:
            raise RookeryError(
                f"{name} needs its values alone, {name} = {{values = [0.98, 0.99]}}, got {dict(table)!r}."
            )
        if tables := [v for v in values if isinstance(v, Mapping)]:
            raise RookeryError(
                f"{name} needs values that are no tables, got {dict(table)!r}: give each setting in them a table of its own, "
                f"such as [{name}] {next(iter(tables[0]), 'NAME')} = {{values = [...]}}."
            )
        return SweptChoice(tuple(tuple(v) if isinstance(v, list) else v for v in values))
    low, high, log = table.get("low"), table.get("high"), table.get("log", False)
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) for x in (low, high))
    if not numbers or not isinstance(log, bool) or not low < high or (log and not low > 0):  # type: ignore[operator]
        rule = "low < high, and above 0 with log = true"
        raise RookeryError(
            f"{name} needs two numbers, {name} = {{low = 1e-4, high = 1e-2}}, {rule}, got {dict(table)!r}."
        )
    assert low is not None and high is not None
    return SweptInterval(low, high, log)


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    """{"a": {"b": value}} for ("a", "b")."""
    return {path[0]: value if len(path) == 1 else _nested(path[1:], value)}


def _write_ranges(base: str, tables: Mapping[str, Any], file: Path) -> str:
    """Write the ranges of a trial over those of the base, a preset or a file; returns the file."""
    preset = {} if base == "none" else {"extends": base}
    known = preset if base in PRESETS else read_table(Path(base), "randomization file")
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, to_toml(merge(known, dict(tables))).encode())
    return str(file.resolve())

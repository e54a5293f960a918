"""Distributions of randomized parameters. Each distribution is a function of one uniform number, its quantile function, so
that a draw takes one number of a world's stream whatever the distribution.

In a TOML file::

    [mass]                                          [friction]
    low = 0.9                                       distribution = "log_uniform"
    high = 1.1                                      low = 0.3
                                                    high = 1.6
    ["motor_strength:FL_*"]                         [observation_delay]
    distribution = "normal"                         distribution = "choice"
    mean = 1.0                                      values = [0.0, 0.02, 0.04]
    std = 0.05                                      weights = [2, 1, 1]
    each = true                                     on = "startup"

A parameter with components (rotors, joints) gets one number for all of them, or with ``each = true`` one for each.
``name:pattern`` varies the components whose names match the shell pattern; the others keep their nominal value.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.values import convert

UNIFORM, LOG_UNIFORM, NORMAL, CHOICE = range(4)
"""Numbers of the distributions in the kernels."""

STANDARD = NormalDist()


@dataclass(frozen=True)
class Range:
    """Uniform in [low, high]; the base of the other distributions.

    Args:
        low, high: least and greatest value.
        on: drawn for each world at its first episode ("startup") or at every one ("reset").
        each: draw one number for each component of the parameter, instead of one for all.
    """

    low: float
    high: float
    on: str = "reset"
    each: bool = False

    name: ClassVar[str] = "uniform"
    code: ClassVar[int] = UNIFORM

    def problem(self) -> str:
        """The fault in it, as the end of a sentence; "" for nothing."""
        return "" if self.low <= self.high else f"low must be at most high, got {self.low:g} and {self.high:g}"

    def within(self, low: float, high: float) -> Range:
        """This distribution where a parameter takes values from `low` to `high`."""
        return self

    def constants(self) -> tuple[float, float]:
        """The two numbers a, b of the quantile function in the kernel, see kernels.quantile."""
        return self.low, self.high - self.low

    def table(self) -> tuple[tuple[float, float], ...]:
        """Discrete values, each with the probability of it or an earlier one."""
        return ()


@dataclass(frozen=True)
class Held(Range):
    """One value in all worlds from the start, which the user has fixed: low is high."""

    on: str = "startup"


@dataclass(frozen=True)
class LogUniform(Range):
    """Uniform in the logarithm: x and 1/x times the middle are equally likely."""

    name: ClassVar[str] = "log_uniform"
    code: ClassVar[int] = LOG_UNIFORM

    def problem(self) -> str:
        return super().problem() or ("" if self.low > 0.0 else f"low must be above 0, got {self.low:g}")

    def constants(self) -> tuple[float, float]:
        return math.log(self.low), math.log(self.high / self.low)


@dataclass(frozen=True)
class Normal(Range):
    """Normal, truncated to [low, high]: without them, to what the parameter accepts.

    Args:
        mean, std: of the normal distribution before it is truncated.
    """

    low: float = -math.inf
    high: float = math.inf
    on: str = "reset"
    each: bool = False
    mean: float = 0.0
    std: float = 1.0

    name: ClassVar[str] = "normal"
    code: ClassVar[int] = NORMAL

    def problem(self) -> str:
        if not (math.isfinite(self.mean) and 0.0 <= self.std < math.inf):
            return f"std must be 0 or more and the mean finite, got {self.std:g} and {self.mean:g}"
        if not self.low <= self.mean <= self.high:
            return f"the mean {self.mean:g} must lie between low {self.low:g} and high {self.high:g}"
        return super().problem()

    def within(self, low: float, high: float) -> Normal:
        least = low if self.low == -math.inf else self.low
        return dataclasses.replace(self, low=least, high=high if self.high == math.inf else self.high)

    def constants(self) -> tuple[float, float]:
        return self.mean, self.std

    def probabilities(self) -> tuple[float, float]:
        """Shares of the untruncated values up to `low`, and between `low` and `high`."""
        if self.std == 0.0:
            return 0.0, 1.0
        below = STANDARD.cdf((self.low - self.mean) / self.std)
        return below, STANDARD.cdf((self.high - self.mean) / self.std) - below


@dataclass(frozen=True)
class Choice(Range):
    """One of some values.

    Args:
        values: that can be drawn.
        weights: how likely each is, relative to the others; empty for equally likely.
    """

    low: float = dataclasses.field(default=math.nan, init=False)
    high: float = dataclasses.field(default=math.nan, init=False)
    on: str = "reset"
    each: bool = False
    values: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    name: ClassVar[str] = "choice"
    code: ClassVar[int] = CHOICE

    def __post_init__(self) -> None:
        if self.values:
            object.__setattr__(self, "low", min(self.values))
            object.__setattr__(self, "high", max(self.values))

    def problem(self) -> str:
        if not self.values:
            return "values must name at least one number"
        if self.weights and len(self.weights) != len(self.values):
            return f"weights must be as many as values, got {len(self.weights)} and {len(self.values)}"
        if self.weights and not (min(self.weights) >= 0.0 and 0.0 < sum(self.weights) < math.inf):
            return "weights must be 0 or more, and one of them above 0"
        return super().problem()

    def table(self) -> tuple[tuple[float, float], ...]:
        weights = self.weights or (1.0,) * len(self.values)
        total = sum(weights)
        up_to = [sum(weights[: i + 1]) / total for i in range(len(weights))]
        return tuple(zip(self.values, up_to, strict=True))


DISTRIBUTIONS: dict[str, type[Range]] = {d.name: d for d in (Range, LogUniform, Normal, Choice)}
"""By name in TOML files."""
_LISTS = ("values", "weights")


def from_table(where: str, table: object) -> Range:
    """A distribution from the values of a TOML table.

    Args:
        where: the table's place, for messages.
        table: its values.

    Raises:
        RookeryError: a value that is missing, unknown or of a wrong type, or numbers that make no distribution.
    """
    if not isinstance(table, dict):
        raise RookeryError(f'{where} takes low, high and on = "reset" or "startup", got {table!r}.')
    name = table.get("distribution", Range.name)
    if name not in DISTRIBUTIONS:
        raise unknown(f"distribution of {where}", str(name), DISTRIBUTIONS)
    cls = DISTRIBUTIONS[name]
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    needed = {"normal": {"mean", "std"}, "choice": {"values"}}.get(name, {"low", "high"})
    given = {k: v for k, v in table.items() if k != "distribution"}
    if not needed <= given.keys() or given.keys() - fields.keys():
        free = [k for k in fields if k not in {*needed, "on", "each"}]
        may = f", and may have {', '.join(free)}" if free else ""
        wanted = ", ".join(k for k in fields if k in needed)
        raise RookeryError(f'{where} takes {wanted}, on = "reset" or "startup", each = true or false{may}.')
    if given.get("on", "reset") not in ("reset", "startup"):
        raise RookeryError(f'{where} on must be "reset" or "startup", got {given["on"]!r}.')
    kinds = {"on": str, "each": bool} | dict.fromkeys(_LISTS, tuple[float, ...])
    made = cls(**{k: convert(v, kinds.get(k, float), f"{where} {k}") for k, v in given.items()})
    if problem := made.problem():
        raise RookeryError(f"{where} {problem}.")
    return made

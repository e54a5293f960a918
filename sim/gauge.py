"""Gauges: the quantities that decide about success, as people watch them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

_UNIT = re.compile(r"(?:N m|[kM]?(?:m|s|rad|g|N|W|J|Hz|bit))(?:/s)?(?=, )")
"""How a metric's definition begins: "m/s, mean over ..."."""


@dataclass(frozen=True)
class Gauge:
    """A quantity now and where it has to get to.

    Args:
        name: in words, such as "distance".
        value: now.
        limit: what success asks for.
        unit: of both; "" for counts and shares.
        at_most: success asks for `limit` or less; otherwise for `limit` or more.
    """

    name: str
    value: float
    limit: float
    unit: str = ""
    at_most: bool = True

    @classmethod
    def of_metric(cls, metric: str, value: float, limit: float, definition: str, at_most: bool) -> Gauge:
        """The gauge of a metric, with its name for people and the unit that its definition begins with."""
        name, unit = labeled(metric, definition)
        return cls(name, value, limit, unit, at_most)

    @property
    def met(self) -> bool:
        """True where the value is where success asks for it; in single precision, as tasks judge."""
        value, limit = np.float32(self.value), np.float32(self.limit)
        return bool(value <= limit if self.at_most else value >= limit)

    def __str__(self) -> str:
        """For example "distance 0.031 m of at most 0.050 m"."""
        places = 0 if self.unit == "" and float(self.limit).is_integer() and float(self.value).is_integer() else 3
        places = min(places, 1) if abs(self.limit) >= 10.0 else places
        value, limit = (
            f"{round(v, places) + 0.0:.{places}f} {self.unit}".rstrip() for v in (self.value, self.limit)
        )  # no -0
        return f"{self.name} {value} of at {'most' if self.at_most else 'least'} {limit}"


def labeled(metric: str, definition: str) -> tuple[str, str]:
    """A metric's name for people, without an ending that repeats the unit, and its unit; "" for none."""
    found = _UNIT.match(definition)
    unit = found.group() if found else ""
    ending = f"_{unit.partition('/')[0].lower()}"
    return (metric.removesuffix(ending) if unit else metric).replace("_", " "), unit

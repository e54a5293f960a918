"""Limits of commands: what the policy was trained with, by its contract. What an operator or a link asks beyond is held there,
by safety.c as in the C++ program."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from rookery.sim.specs import CommandRange
from rookery.sim2real.runtime.reading import Array


class CommandLimits:
    """Holds one vehicle's commands within their ranges.

    Args:
        library: of `load_filter`.
        ranges: of the contract's group, by quantity.

    Attributes:
        ranges: those in force.
    """

    def __init__(self, library: ctypes.CDLL, ranges: Mapping[str, CommandRange]) -> None:
        self.ranges: dict[str, CommandRange] = {}
        self._library = library
        self._ends: dict[str, tuple[Array, Array]] = {}
        self._places: dict[str, tuple[int, int]] = {}  # of the ends in memory
        for name, span in ranges.items():
            self.replace(name, span)

    def replace(self, name: str, span: CommandRange) -> None:
        """Put another range in force, such as an operator's own."""
        self.ranges[name] = span
        low, high = np.array(span.low, np.float32), np.array(span.high, np.float32)
        self._ends[name] = low, high
        self._places[name] = low.ctypes.data, high.ctypes.data

    def hold(self, values: dict[str, Array]) -> list[str]:
        """Hold commands within their ranges.

        Args:
            values: all quantities by name; commands that are changed are replaced by new arrays. A place whose origin is not
                among them is left as it is.

        Returns:
            Names of those that were changed.
        """
        changed = []
        for name, (low, high) in self._places.items():
            asked, about = values.get(name), values.get(self.ranges[name].relative_to)
            if asked is None or (self.ranges[name].relative_to and about is None):
                continue
            held = np.array(asked, np.float32)
            origin = None if about is None else np.ascontiguousarray(about, np.float32)
            size = self._ends[name][0].size
            if held.size != size or (origin is not None and origin.size != size):  # the controller refuses it
                continue
            where = None if origin is None else origin.ctypes.data
            if self._library.safety_hold(held.ctypes.data, low, high, where, held.size):
                values[name] = held
                changed.append(name)
        return changed


def range_text(span: CommandRange) -> str:
    """Such as "-1 to 1, -0.4 to 0.4 from position"."""
    ends = ", ".join(f"{low:g} to {high:g}" for low, high in zip(span.low, span.high, strict=True))
    return f"{ends} from {span.relative_to}" if span.relative_to else ends

"""Values of several parameters at once, by name for Python and as rows of one table for compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Parts = tuple[tuple[str, int], ...]
"""Components of parameters: name and number; of one without components number 0."""


class Places:
    """Places of parameters' values in a table.

    Args:
        of: by name, the rows of its components, or the row of one without components.
    """

    def __init__(self, of: dict[str, slice | int]) -> None:
        self.of = of
        self._found: dict[Parts, NDArray[np.int64]] = {}

    def rows(self, parts: Parts) -> NDArray[np.int64]:
        """The row of each of these components, -1 for one that is not in the table; a parameter with one row for all its
        components has it for each."""
        found = self._found.get(parts)
        if found is None:
            found = np.full(len(parts), -1, np.int64)
            for k, (name, part) in enumerate(parts):
                if name in self.of:
                    place = self.of[name]
                    found[k] = place.start + part if isinstance(place, slice) else place
            self._found[parts] = found
        return found


class Batch(Mapping[str, NDArray[np.float32]]):
    """Values of some parameters in n worlds: by name [n], or [S, n] of one with S components. Not to be kept.

    Attributes:
        places: of the parameters in `table`.
        table: [W, n] float32, contiguous.
    """

    __slots__ = ("places", "table")

    def __init__(self, places: Places, table: NDArray[np.float32]) -> None:
        self.places = places
        self.table = table

    @classmethod
    def of(cls, values: Mapping[str, NDArray[np.float32]]) -> Batch:
        """From values by name, [n] or [S, n]."""
        places: dict[str, slice | int] = {}
        first = 0
        for name, v in values.items():
            rows = 1 if v.ndim == 1 else len(v)
            places[name] = first if v.ndim == 1 else slice(first, first + rows)
            first += rows
        return cls(Places(places), np.ascontiguousarray(np.vstack(list(values.values())), np.float32))

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.table[self.places.of[name]]
        return row

    def __contains__(self, name: object) -> bool:
        return name in self.places.of

    def __iter__(self) -> Iterator[str]:
        return iter(self.places.of)

    def __len__(self) -> int:
        return len(self.places.of)

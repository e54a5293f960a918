"""Named columns of one array, as tensors that are made when somebody reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Columns(Mapping[str, Tensor]):
    """A mapping from names to tensors [m], which share the memory of `values`.

    Making a tensor takes a microsecond, and most of what is known of ended episodes is never looked at.

    Args:
        names: of the columns.
        values: [len(names), m], contiguous, not written elsewhere.
    """

    def __init__(self, names: Sequence[str], values: NDArray[np.float32]) -> None:
        self._names = names
        self._values = values

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return torch.from_numpy(self._values[self._names.index(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def array(self) -> NDArray[np.float32]:
        """[len(names), m], not to be written."""
        return self._values

    def __repr__(self) -> str:
        return repr(dict(self))

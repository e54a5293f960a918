"""Which worlds' bodies have been written since a view read them, so that it reads no others again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rookery.sim.engines.rotor import rows

MOST = 16
"""Changes of some worlds that are remembered; after more of them views read all worlds."""


class Changes:
    """Changes that have been written to the bodies of N worlds.

    Args:
        num_envs: N.

    Attributes:
        version: counts the changes.
    """

    def __init__(self, num_envs: int) -> None:
        self.version = 0
        self._num_envs = num_envs
        self._all = 0  # the version of the last change of all worlds
        self._some: list[NDArray[np.int64]] = []  # the changes after it

    def note(self, ids: NDArray[np.int64] | None) -> None:
        """The worlds `ids` have been written; None for all."""
        self.version += 1
        if ids is None or len(ids) >= self._num_envs or len(self._some) == MOST:
            self._some.clear()
            self._all = self.version
        else:
            self._some.append(ids.copy())

    def read(
        self, version: int, lanes: NDArray[np.float64], members: NDArray[np.int64], first: int, out: NDArray[np.float32]
    ) -> int:
        """Write the fields first, first + 1, ... of some bodies into out [N, len(members), fields], in the worlds that have
        changed since `version`.

        Returns:
            the present version.
        """
        if version < self._all:
            rows.gather(lanes, members, first, out)
        elif version < self.version:
            for ids in self._some[version - self._all :]:
                rows.gather_worlds(lanes, members, first, ids, out)
        return self.version

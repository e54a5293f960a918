"""Friction that differs from place to place on the floor, under feet whose places are known at every control step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.random import Streams
from rookery.sim.randomization import patch_kernels as kernels
from rookery.sim.randomization.batch import Batch
from rookery.sim.randomization.parameters import BatchWrite, Parameter
from rookery.sim.world import Params


class FrictionPatches(Buffers):
    """Sliding friction of feet on a floor of square patches; a BatchWriter.

    A foot has its own friction, times what the floor has where it stands: 1 + spread u, u uniform in [-1, 1] for each patch of
    each world and episode.

    Args:
        params: of the world.
        feet: names of F geoms.
        names: what components of parameters are called.
        rng: the worlds' random streams; a patch's number does not depend on what else is drawn, and draws nothing.
        typical: least and greatest friction that is typical.
    """

    own: Tensor
    spread: Tensor
    in_force: Tensor

    def __init__(
        self, params: Params, feet: Sequence[str], names: tuple[str, ...], rng: Streams, typical: tuple[float, float]
    ) -> None:
        super().__init__()
        self._params = params
        self._feet = tuple(feet)
        self._names = names
        self._rng = rng
        self._typical = typical
        self._nominal = params.nominal("friction", feet)
        n = rng.num_envs
        self.buffer("own", n, len(names)).copy_(self._nominal[:, 0])
        self.buffer("spread", n)
        self.buffer("in_force", n, len(names)).copy_(self.own)
        self._arrays = self.own.numpy(), self.spread.numpy(), self.in_force.numpy()
        self._changed = np.zeros(n, np.int64)
        self._on = False

    def parameters(self) -> dict[str, Parameter]:
        """`friction` and `friction_patches`."""
        return {
            "friction": Parameter(
                "sliding friction of the feet", "1", float(self._nominal[0, 0]), 0.05, 3.0, BatchWrite(self, "friction"),
                self._names, self._typical,
            ),
            "friction_patches": Parameter(
                f"by which share friction differs between patches of the floor of {kernels.PATCH:g} m", "1", 0.0, 0.0, 0.9,
                BatchWrite(self, "spread"), (), (0.0, 0.3),
            ),
        }  # fmt: skip

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        """See BatchWriter; the parameters are "friction", [n] or [F, n], and "spread"."""
        own, spread, _ = self._arrays
        if "friction" in values:
            own[ids] = np.atleast_2d(values["friction"]).T
        if "spread" in values:
            spread[ids] = values["spread"]
            self._on = bool(spread.any())
        self._set(ids, own[ids])

    def begin(self, ids: Tensor) -> None:
        """Episodes begin in the worlds `ids`: the feet stand nowhere yet."""
        if self._on:
            where = ids.numpy()
            self._set(where, self._arrays[0][where])

    def update(self, places: Tensor) -> None:
        """Give the feet at `places` [N, F, 3] m, world, the friction of the patches where they are."""
        if not self._on:
            return
        count = kernels.friction(self._rng.keys, self._rng.counters, places.numpy(), *self._arrays, self._changed)
        if count:
            ids = self._changed[:count].copy()
            self._set(ids, self._arrays[2][ids])

    def _set(self, ids: NDArray[np.int64], friction: NDArray[np.float32]) -> None:
        """Friction [n, F] of the worlds `ids`."""
        self._arrays[2][ids] = friction
        values = self._nominal.repeat(len(ids), 1, 1)
        values[:, :, 0] = torch.from_numpy(friction)
        self._params.set("friction", self._feet, values, torch.from_numpy(ids))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._on = bool(self.spread.any())

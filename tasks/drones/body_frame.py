"""Vectors as drones see them, in body axes."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_not

import numpy as np
import torch
from torch import Tensor

from rookery.sim.arrays import array
from rookery.tasks.drones import kernels


class BodyFrame:
    """Observation terms in the body frames of A drones in N worlds.

    Args:
        num_envs: N.
        num_drones: A.
    """

    def __init__(self, num_envs: int, num_drones: int) -> None:
        self._shape = num_envs, num_drones
        self._all = np.arange(num_envs)
        self._own = {name: torch.zeros(*self._shape, 3) for name in ("up", "linear_velocity", "angular_velocity")}
        self._own_arrays = tuple(t.numpy() for t in self._own.values())
        self._terms: dict[str, Tensor] = {}
        self._layout: tuple[tuple[str, int, bool], ...] | None = None
        self._names: tuple[str, ...] = ()
        self._last: list[Tensor] = []  # what `_given` are the arrays of, by `_names`

    def observe(
        self, state: Tensor, points: Mapping[str, Tensor], vectors: Mapping[str, Tensor], worlds: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The terms "up", "linear_velocity" and "angular_velocity" and the given ones, valid until the next call.

        Args:
            state: [N, A, 13], see Bodies.state.
            points: [N, A, 3 k] m, world: k points in a row, seen from the drone.
            vectors: [N, A, 3 k], world axes.
            worlds: [m] int64, whose terms are made anew while the others' stay as they are; None for all.
        """
        given = {**points, **vectors}
        names = *points, "", *vectors
        if names != self._names or any(map(is_not, given.values(), self._last)):
            layout = tuple((name, v.shape[-1], name in points) for name, v in given.items())
            if layout != self._layout:
                self._bind(layout)
                worlds = None
            self._given = tuple([v.contiguous().numpy() for v in given.values()]) or self._turned
            # copies do not follow what is written to the tensors
            follow = all(v.is_contiguous() for v in given.values())
            self._names, self._last = names if follow else (), list(given.values())
        where = self._all if worlds is None else array(worlds)
        up, velocity, rates = self._own_arrays
        kernels.to_body(where, array(state), self._given, self._are_points, up, velocity, rates, self._turned)
        return self._terms.copy()

    def _bind(self, layout: tuple[tuple[str, int, bool], ...]) -> None:
        turned = {name: torch.zeros(*self._shape, size) for name, size, _ in layout}
        self._terms = {**self._own, **turned}
        # compiled loops take no empty tuple: an array of no vectors stands for it
        self._turned = tuple(t.numpy() for t in turned.values()) or (np.zeros((*self._shape, 0), np.float32),)
        self._are_points = np.array([is_point for *_, is_point in layout] or [False])
        self._layout = layout

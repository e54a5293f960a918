"""Saved states and other tensors of worlds that are divided into shards, put together and taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

FAILURES = "world.failures"
"""The one entry of a saved state that is a sum over worlds."""

State = dict[str, Tensor]


class ShardStates:
    """States of shards as one state of all their worlds.

    Args:
        single: shapes of the state of one world: the axis along which a shard's entry is longer is the worlds'.
        slices: worlds of each shard.
    """

    def __init__(self, single: Mapping[str, torch.Size], slices: Sequence[slice]) -> None:
        self._single = single
        self._slices = slices
        self._num_envs = slices[-1].stop

    def __len__(self) -> int:
        """Number of shards."""
        return len(self._slices)

    def _axis(self, name: str, shape: torch.Size) -> int | None:
        """The worlds' axis of an entry of a state of more than one world; None where it has none."""
        own = self._single.get(name)
        if own is None or len(own) != len(shape):
            raise ValueError(f"the saved state has {name!r}: it is of another task or version.")
        return next((i for i, (a, b) in enumerate(zip(own, shape, strict=True)) if a != b), None)

    def join(self, parts: Sequence[State]) -> State:
        """The state of all worlds."""
        out = {}
        for name, first in parts[0].items():
            axis = self._axis(name, first.shape)
            if axis is not None:
                out[name] = torch.cat([p[name] for p in parts], dim=axis)
            else:
                out[name] = torch.stack([p[name] for p in parts]).sum(0) if name == FAILURES else first
        return out

    def split(self, state: State) -> list[State]:
        """Each shard's part of a state of all worlds.

        Raises:
            ValueError: it is of another number of worlds, or holds a name that this environment does not.
        """
        axes = {name: self._axis(name, value.shape) for name, value in state.items()}
        for name, axis in axes.items():
            if axis is not None and state[name].shape[axis] != self._num_envs:
                raise ValueError(
                    f"saved {name!r} is of {state[name].shape[axis]} worlds, needed {self._num_envs}: it is of another "
                    "number of worlds."
                )
        parts = [{name: _rows(value, axes[name], at) for name, value in state.items()} for at in self._slices]
        for own in parts[1:]:
            if FAILURES in own:
                own[FAILURES] = torch.zeros_like(own[FAILURES])
        return parts

    def align(self, states: Sequence[State]) -> list[State]:
        """The shards' states with what is not of single worlds, such as a counter of steps, as shard 0 has it."""
        common = {k: v for k, v in states[0].items() if k != FAILURES and self._axis(k, v.shape) is None}
        return [state | common for state in states]


def join_worlds(parts: Sequence[Any]) -> Any:
    """Nested dicts of tensors [n, ...] of some worlds each as one of all of them."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    return {k: join_worlds([p[k] for p in parts]) for k in first}


def _rows(value: Tensor, axis: int | None, at: slice) -> Tensor:
    """Some worlds' part of an entry of a state."""
    return value if axis is None else value.narrow(axis, at.start, at.stop - at.start).contiguous()

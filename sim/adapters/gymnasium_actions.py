"""Action spaces of Gymnasium as `ActionSpec`, and actions of Rookery as Gymnasium's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete

__all__ = ["ActionMap"]


class ActionMap:
    """One agent's action space: a Box of a bounded vector, Discrete, MultiDiscrete, or a Tuple or Dict of such, nested or not.

    Numbers in [-1, 1] are scaled to the Box; the index 0 of a choice is the space's `start`.

    Args:
        space: of one environment.
        task_id: for messages.

    Attributes:
        spec: the action, with the components of all parts in their order, choices first.

    Raises:
        RookeryError: another space, or a Box without limits.
    """

    def __init__(self, space: spaces.Space[Any], task_id: str) -> None:
        self._space = space
        choices: list[Discrete] = []
        names: list[str] = []
        low: list[float] = []
        high: list[float] = []
        for name, leaf in _leaves(space, ""):
            if isinstance(leaf, spaces.Discrete):
                choices.append(_choice(name or "choice", int(leaf.n), int(leaf.start)))
            elif isinstance(leaf, spaces.MultiDiscrete) and leaf.nvec.ndim == 1:
                starts = np.broadcast_to(leaf.start, leaf.nvec.shape)
                prefix = f"{name}_" if name else "choice_"
                choices += [
                    _choice(f"{prefix}{i}", int(n), int(s))
                    for i, (n, s) in enumerate(zip(leaf.nvec, starts, strict=True))
                ]
            elif isinstance(leaf, spaces.Box) and len(leaf.shape) == 1:
                if not leaf.is_bounded():
                    raise RookeryError(
                        f"{task_id} has actions without limits, {leaf}: give it some by gymnasium.wrappers.TransformAction, "
                        "since policies act from -1 to 1."
                    )
                prefix = f"{name}_" if name else "a"
                names += [f"{prefix}{i}" for i in range(leaf.shape[0])]
                low += leaf.low.tolist()
                high += leaf.high.tolist()
            else:
                raise RookeryError(
                    f"{task_id} has the actions {leaf}: choose an environment with vectors of numbers, choices, or a Tuple or "
                    "Dict of them."
                )
        size = len(names)
        numbers = tuple(names), tuple(low), tuple(high), ("1",) * size, (0.0,) * size
        self.spec = ActionSpec("gym", *numbers, choices=tuple(choices))

    def batch(self, action: Tensor) -> Any:
        """Actions [N, D] as a vector environment takes them."""
        rows = action.numpy().astype(np.float64)
        count = len(self.spec.choices)
        self._choices, self._numbers = iter(rows[:, :count].T), iter(rows[:, count:].clip(-1.0, 1.0).T)
        return self._made(self._space)

    def _made(self, space: spaces.Space[Any]) -> Any:
        """The next components as an action of this part."""
        if isinstance(space, spaces.Dict):
            return {name: self._made(part) for name, part in space.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(self._made(part) for part in space)
        if isinstance(space, spaces.Discrete):
            return next(self._choices).astype(space.dtype) + space.start
        if isinstance(space, spaces.MultiDiscrete):
            return np.stack([next(self._choices) for _ in space.nvec], 1).astype(space.dtype) + space.start
        assert isinstance(space, spaces.Box)
        unit = np.stack([next(self._numbers) for _ in range(space.shape[0])], 1)
        return (space.low + (unit + 1.0) * 0.5 * (space.high - space.low)).astype(space.dtype)


def _leaves(space: spaces.Space[Any], name: str) -> Iterator[tuple[str, spaces.Space[Any]]]:
    """The parts of a space that are no Tuple and no Dict, with their paths as names."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts: Iterable[tuple[Any, spaces.Space[Any]]] = (
            space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        )
        for key, part in parts:
            yield from _leaves(part, f"{name}_{key}" if name else f"{key}")
    else:
        yield name, space


def _choice(name: str, options: int, start: int) -> Discrete:
    return Discrete(name, tuple(str(start + i) for i in range(options)))

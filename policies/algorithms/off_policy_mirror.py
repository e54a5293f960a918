"""The `mirror` of off-policy algorithms: every other transition of a batch as it would look in a mirror."""

from __future__ import annotations

import torch

from rookery.policies.storage.transitions import Transitions
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group, joined

__all__ = ["BatchMirror"]


class BatchMirror:
    """Mirror images by a group's mirror of its transitions.

    Args:
        group: its declaration.
        device: of the transitions.

    Raises:
        RookeryError: the group has no mirror.
    """

    def __init__(self, group: Group, device: torch.device) -> None:
        if group.mirror is None:
            raise RookeryError("mirror is for robots whose task declares their left-right symmetry: leave it out here.")
        vectors = joined([group.mirror.observation] * group.history), group.mirror.action
        signed = [torch.tensor(v, device=device) for v in vectors]
        # Of observations and of actions: which component [D] comes to each place, and its sign [D].
        self._observation, self._action = ((v.abs() - 1, v.sign().float()) for v in signed)

    def turn(self, batch: Transitions) -> None:
        """Mirror every other transition, in place."""
        half = slice(None, None, 2)
        for vectors, (place, sign) in (
            (batch.observation, self._observation),
            (batch.next_observation, self._observation),
            (batch.action, self._action),
        ):
            vectors[half] = vectors[half][:, place] * sign

"""Transitions that gradient steps of off-policy learning take from a replay memory."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

__all__ = ["Sequences", "Transitions"]


@dataclass(frozen=True)
class Sequences:
    """Arrays that networks with memory take beside the transitions [T S] of S sequences, which stand step by step.

    Args:
        first: [T S] bool, the observation is the first of an episode.
        state: [S, M] of the memories, before the first step of the burn-in.
        before: [K S, O], observations of the burn-in; K may be 0.
        before_first: [K S] bool, likewise the first of an episode.
    """

    first: Tensor
    state: Tensor
    before: Tensor
    before_first: Tensor


@dataclass(frozen=True)
class Transitions:
    """B transitions of single agents, of one step or of several in a row.

    Args:
        observation, next_observation: [B, O], before the first and after the last step; the latter means nothing where
            `terminated`.
        action: [B, D], of the first step.
        reward: [B], discounted sum over the steps.
        discount: [B], by which what follows counts: gamma to the number of control steps.
        terminated: [B] bool, nothing follows: the episode terminated, or the agent dropped out of it.
        active: [B] bool, the agent took part in the first step; the others are not to be learnt from.
        state, next_state: [B, S] of the environment, with the observations; S is 0 where it is not kept.
        importance: [B], by which the critics' faults count, see `Priorities.weights`; None for 1 everywhere.
        sequences: how the transitions follow each other, for networks with memory; None where they do not.
    """

    observation: Tensor
    action: Tensor
    reward: Tensor
    next_observation: Tensor
    discount: Tensor
    terminated: Tensor
    active: Tensor
    state: Tensor
    next_state: Tensor
    importance: Tensor | None = None
    sequences: Sequences | None = None

    def joined(self, other: Transitions) -> Transitions:
        """These and others in one batch, without importance and sequences."""
        names = [f.name for f in fields(self) if f.name not in ("importance", "sequences")]
        whole: dict[str, Any] = {name: torch.cat((getattr(self, name), getattr(other, name))) for name in names}
        return Transitions(**whole)

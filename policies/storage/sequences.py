"""Transitions that follow each other, for networks with memory: the states that they were collected with are stored beside them
(R2D2, Kapturowski et al. 2019, section 3)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rookery.policies.storage.replay import Replay
from rookery.policies.storage.transitions import Sequences, Transitions

__all__ = ["take_sequences"]


def take_sequences(replay: Replay, number: Tensor, gamma: float, steps: int, burn_in: int) -> Transitions:
    """Transitions of S sequences, [steps S], step by step: rows 0 to S - 1 are the first of all sequences.

    Args:
        replay: with states of memories, `memories` above 0.
        number: [S] of the first transition of each, or of its burn-in, see `Replay.draw`.
        gamma: discount per control step.
        steps: T, transitions of a sequence.
        burn_in: K, control steps before them whose observations are given alone.
    """
    worlds, agents = replay.reward.shape[1:]
    slots = len(replay.reward)
    each = torch.arange(burn_in + steps, device=number.device).unsqueeze(1)
    numbers = (number + each * worlds * agents) % (slots * worlds * agents)  # [K + T, S]
    slot, world, agent = numbers // (worlds * agents), numbers // agents % worlds, numbers % agents
    ended = replay.terminated[slot, world] | replay.truncated[slot, world]
    # The state before a window's first observation is zero already where an episode begins there.
    first = torch.cat((torch.zeros_like(ended[:1]), ended[:-1]))
    return replace(
        replay.take(numbers[burn_in:].flatten(), gamma),
        sequences=Sequences(
            first[burn_in:].flatten(),
            replay.memory[slot[0], world[0], agent[0]],
            replay.observed(slot[:burn_in], world[:burn_in], agent[:burn_in]).flatten(0, 1),
            first[:burn_in].flatten(),
        ),
    )

"""Left-right symmetry for PPO: half of the samples of each epoch are learnt from as if seen in a mirror.

Mittal et al., "Symmetry Considerations for Learning Task Symmetric Robot Policies" (ICRA 2024, arXiv 2403.04359), add a
mirrored copy of every sample, with the probability of the original action; the policy starts near symmetry and is kept there.
Here a sample is mirrored or not, anew in every epoch: the same expectation at half of their cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.storage.rollout import Samples
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group


class SampleMirror:
    """Mirrors samples of one group.

    Args:
        spec: the group, with its `mirror`.
        state_size: S, components of a central critic's state, which stand before the observation; 0 for none.
        actor_inputs: newest components of the observation that the policy's network gets.
        device: of the samples.

    Raises:
        RookeryError: the group declares no mirror, or none of its state.
    """

    def __init__(self, spec: Group, state_size: int, actor_inputs: int, device: torch.device) -> None:
        mirror = spec.mirror
        if mirror is None:
            raise RookeryError("mirror needs a task that declares its left-right symmetry: leave it out.")
        if state_size and len(mirror.state) != state_size:
            raise RookeryError(
                f"the mirror of the state has {len(mirror.state)} components and the state {state_size}: declare all "
                'of them, or use critic="own".'
            )
        frames = _repeated(mirror.observation, spec.history)
        state = mirror.state if state_size else ()
        newest = actor_inputs // spec.frame_size
        self.actor_input = _columns(_repeated(mirror.observation, newest), device)
        self.critic_input = _columns(state + _shifted(frames, state_size), device)
        self.action = _columns(mirror.action, device)

    def apply(self, samples: Samples) -> None:
        """Mirror every second row, in place. Rows are shuffled, so that it is another half each time."""
        critic_input = samples.critic_input
        _mirror(samples.actor_input, *self.actor_input)
        if critic_input is not samples.actor_input:
            _mirror(critic_input, *self.critic_input)
        _mirror(samples.action, *self.action)


def _repeated(frame: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The mirror of `count` frames in a row."""
    return tuple(i for k in range(count) for i in _shifted(frame, k * len(frame)))


def _shifted(vector: tuple[int, ...], by: int) -> tuple[int, ...]:
    return tuple(i + by if i > 0 else i - by for i in vector)


def _columns(vector: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Column to take and its sign, by place."""
    signed = torch.tensor(vector, device=device)
    return signed.abs() - 1, signed.sign().float()


def _mirror(rows: Tensor, columns: Tensor, signs: Tensor) -> None:
    half = rows[:, ::2]
    half.copy_(half[..., columns].mul_(signs))

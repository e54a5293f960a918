"""PPO's `mirror`: the symmetry of a group's policy and critic, from the mirror that its task declares."""

from __future__ import annotations

import torch

from rookery.policies.nn.symmetry import Symmetry
from rookery.policies.stages.perceptron import Perceptron
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group, Signed, joined


def symmetry_of(
    spec: Group, state_size: int, actor: Perceptron, critic: Perceptron, device: torch.device
) -> Symmetry | None:
    """The exchange by a mirror of the weights of a group's networks; None where the group declares no mirror.

    Args:
        spec: the group, with its `mirror`.
        state_size: S, components of a central critic's state, which stand before the observation; 0 for none.
        actor, critic: perceptrons.
        device: of the weights.

    Raises:
        RookeryError: the mirror lacks the state, or layers have an odd width.
    """
    mirror = spec.mirror
    if mirror is None:
        return None
    if state_size and len(mirror.state) != state_size:
        raise RookeryError(
            f"the mirror of the state has {len(mirror.state)} components and the state {state_size}: declare all of "
            'them, or use critic="own".'
        )
    frames = actor.inputs // spec.frame_size
    state: list[Signed] = [mirror.state] if state_size else []
    return Symmetry(
        actor.sizes,
        critic.sizes,
        joined([mirror.observation] * frames),
        joined([*state, *[mirror.observation] * spec.history]),
        mirror.action,
        device,
    )

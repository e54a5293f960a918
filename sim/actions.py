"""Checks of the actions that an environment is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.env import Env

__all__ = ["check_actions", "check_shapes", "not_finite"]


def check_shapes(env: Env, actions: dict[str, Tensor] | Tensor) -> dict[str, Tensor]:
    """Actions by group, as `Env.step` takes them; their values are not looked at.

    Raises:
        RookeryError: actions of wrong groups, shape or type.
    """
    if isinstance(actions, Tensor):
        actions = dict.fromkeys(env.groups, actions) if len(env.groups) == 1 else {"?": actions}
    if not isinstance(actions, dict) or actions.keys() != env.groups.keys():
        got = list(actions) if isinstance(actions, dict) else type(actions).__name__
        raise RookeryError(f"actions must be a dict of tensors for the groups {list(env.groups)}, got {got}.")
    for g, a in actions.items():
        want = (env.num_envs, env.groups[g].count, env.groups[g].action.size)
        if not isinstance(a, Tensor) or not a.is_floating_point():
            kind = a.dtype if isinstance(a, Tensor) else type(a).__name__
            raise RookeryError(
                f"actions of {g!r} must be a float tensor, got {kind}: use torch.as_tensor(...).float()."
            )
        if a.device.type != torch.device(env.device).type or a.layout != torch.strided:
            raise RookeryError(
                f"actions of {g!r} must be an ordinary tensor on {torch.device(env.device).type!r}, got one on "
                f"{a.device.type!r} with layout {a.layout}: give actions.to({torch.device(env.device).type!r})."
            )
        if a.shape != want:
            raise RookeryError(
                f"actions of {g!r} must have shape {want} (worlds, agents, components), got {tuple(a.shape)}."
            )
    return actions


def not_finite(group: str, world: int) -> RookeryError:
    """What is said of actions with NaN or infinity."""
    return RookeryError(f"actions of {group!r} contain NaN or infinity, first in world {world}: check the policy.")


def check_actions(env: Env, actions: dict[str, Tensor] | Tensor) -> dict[str, Tensor]:
    """Actions by group, as `Env.step` takes them.

    Raises:
        RookeryError: actions of wrong groups, shape or type, or with NaN.
    """
    actions = check_shapes(env, actions)
    for g, a in actions.items():
        if not torch.isfinite(a.sum()):  # one pass; a NaN or infinity anywhere survives the sum
            finite = torch.isfinite(a).flatten(1).all(1)
            if not finite.all():
                raise not_finite(g, int(finite.logical_not().nonzero()[0]))
    return actions

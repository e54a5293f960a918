"""Checks of the actions that an environment is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.sim.errors import Diverged, RookeryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rookery.sim.env import Env
    from rookery.sim.specs import ActionSpec, Group

__all__ = [
    "check_actions",
    "check_choices",
    "check_masks",
    "check_shapes",
    "keep_choices",
    "not_finite",
    "require_no_choices",
    "require_numbers",
]


def check_shapes(env: Env, actions: dict[str, Tensor] | Tensor) -> dict[str, Tensor]:
    """Actions by group, as `Env.step` takes them, without the graph that gave them; their values are not looked at.

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
        if not isinstance(a, Tensor):
            raise RookeryError(
                f"actions of {g!r} must be a float tensor, got {type(a).__name__}: use torch.as_tensor(...).float()."
            )
        elsewhere = a.device != env.device and a.device.type != torch.device(env.device).type
        if elsewhere or a.layout is not torch.strided or a.is_nested or not a.is_floating_point():
            raise _no_ordinary_tensor(g, a, torch.device(env.device).type if elsewhere else "")
        if a.shape != want:
            raise RookeryError(
                f"actions of {g!r} must have shape {want} (worlds, agents, components), got {tuple(a.shape)}."
            )
    return {g: a.detach() for g, a in actions.items()} if any(a.requires_grad for a in actions.values()) else actions


def _no_ordinary_tensor(group: str, actions: Tensor, device: str) -> RookeryError:
    """The error for actions that are no dense tensor of floats, or not on the device, "" where they are: with an expression
    that makes one of them."""
    strided = actions.layout is torch.strided and not actions.is_nested
    got = [
        "" if actions.is_floating_point() else str(actions.dtype),
        "" if strided else "one that is nested" if actions.is_nested else f"one with layout {actions.layout}",
        f"one on {actions.device.type!r}" if device else "",
    ]
    kind = "an ordinary tensor" if device or not strided else "a float tensor"
    on = f" on {device!r}" if device else ""
    start = f"actions of {group!r} must be {kind}{on}, got {', '.join(filter(None, got))}"
    if actions.is_meta:
        return RookeryError(f"{start}, which has no values: compute them on {device!r}.")
    way = "torch.nested.to_padded_tensor(actions, 0.0)" if actions.is_nested else "actions"
    way += "" if strided or actions.is_nested else ".to_dense()"
    way += ".dequantize()" if actions.is_quantized else ".real" if actions.is_complex() else ""
    way += "" if actions.is_floating_point() or actions.is_quantized or actions.is_complex() else ".float()"
    return RookeryError(f"{start}: give {way}{f'.to({device!r})' if device else ''}.")


def not_finite(group: str, world: int, observed: Mapping[str, Tensor] = {}, first: int = 0) -> RookeryError:
    """The error for actions with NaN or infinity; `observed` are the terms [N, A, d] that they answer: one may be why.

    Args:
        world: index of the first with such an action, counted from 0; `first` is added to it, the number of that world of
            index 0 in a larger environment.
    """
    for name, value in observed.items():
        if not torch.isfinite(value).all():
            where = first + int((~torch.isfinite(value)).flatten(1).any(1).nonzero()[0])
            return RookeryError(
                f"the observation {name!r} of {group!r} is NaN or infinite, first in world {where}: look for a division by "
                "zero in the task."
            )
    return Diverged(f"actions of {group!r} contain NaN or infinity, first in world {first + world}: check the policy.")


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
        check_choices(g, env.groups[g].action, a)
    return actions


def check_choices(group: str, spec: ActionSpec, action: Tensor) -> None:
    """Refuse actions [..., D] whose discrete components are no indices of options.

    Raises:
        RookeryError: which, and what is allowed.
    """
    for k, choice in enumerate(spec.choices):
        index = action[..., k]
        wrong = (index != index.floor()) | (index < 0) | (index >= len(choice.options))
        if wrong.any():
            raise RookeryError(
                f"{choice.name!r} of {group!r} is the index of an option, 0 to {len(choice.options) - 1} "
                f"({', '.join(choice.options)}), got {float(index[wrong][0]):g}."
            )


def keep_choices(group: str, spec: ActionSpec, action: Tensor, clipped: Tensor) -> None:
    """Put the indices of actions [..., D] into the same actions clipped to [-1, 1].

    Raises:
        RookeryError: see `check_choices`.
    """
    if count := len(spec.choices):
        check_choices(group, spec, action)
        clipped[..., :count] = action[..., :count]


def check_masks(task: str, groups: Mapping[str, Group], masks: Mapping[str, Tensor], worlds: int) -> None:
    """Refuse masks that are not [N, A, C] bool for each group whose action is masked.

    Raises:
        RookeryError: naming the group, and what was given.
    """
    for name, group in groups.items():
        if not group.action.masked:
            continue
        shape = (worlds, group.count, group.action.options)
        mask = masks.get(name)
        if mask is None:
            had = ", ".join(map(repr, masks)) or "none"
            raise RookeryError(
                f"{task}: action_mask() has no mask of {name!r} (it has {had}): give it a bool tensor {shape}."
            )
        if mask.shape != shape or mask.dtype is not torch.bool:
            given = f"{str(mask.dtype).removeprefix('torch.')} {tuple(mask.shape)}"
            raise RookeryError(f"{task}: action_mask() must give {name!r} a bool tensor {shape}, got {given}.")


def require_no_choices(action: ActionSpec, who: str, way_out: str) -> None:
    """Refuse an action with discrete components.

    Args:
        action: of a group whose name does not matter.
        who: as in `require_numbers`.
        way_out: end of the message.

    Raises:
        RookeryError: it chooses.
    """
    if action.choices:
        name, options = action.choices[0].name, ", ".join(action.choices[0].options)
        raise RookeryError(f"{who} continuous actions, and this one chooses its {name!r} among {options}: {way_out}.")


def require_numbers(groups: Mapping[str, Group], who: str, way_out: str = "PPO learns such tasks") -> None:
    """Refuse groups whose actions have discrete components.

    Args:
        groups: by name.
        who: what takes continuous actions alone, the subject of the message: "SAC learns".
        way_out: its end.

    Raises:
        RookeryError: a group chooses.
    """
    for name, group in groups.items():
        if group.action.choices:
            raise RookeryError(
                f"{who} continuous actions, and group {name!r} chooses its {group.action.choices[0].name!r} among "
                f"{', '.join(group.action.choices[0].options)}: {way_out}."
            )

"""Events of a control step, as ``info["events"]`` has them, for the agents of one group; and as a robot is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rookery.sim.terms import Above, Below, Expression, Previous, Quantity, Where

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.env import Env

__all__ = ["counted", "events_now", "falling_below", "happening", "told_event"]


def counted(env: Env, group: str) -> slice:
    """Places of a group's agents among all of them, counted through."""
    first = 0
    for name, spec in env.groups.items():
        if name == group:
            break
        first += spec.count
    return slice(first, first + env.groups[group].count)


def happening(events: Mapping[str, Tensor], names: Sequence[str], agents: slice) -> Tensor | None:
    """[N, A, E] bool: which of E events happened to the agents; None where none of them is told of, as after a reset.

    Args:
        events: {name: [N], or [N, A] of all agents}.
        names: of those that count; one that is not told of did not happen.
        agents: whose.
    """
    told = [events[name] for name in names if name in events]
    if not told:
        return None
    out = told[0].new_zeros(len(told[0]), agents.stop - agents.start, len(names))
    for k, name in enumerate(names):
        if name in events:
            x = events[name]
            out[..., k] = x.unsqueeze(1) if x.dim() == 1 else x[:, agents]
    return out


def events_now(env: Env, group: str, names: Sequence[str]) -> Tensor:
    """[N, A, E] bool: which events have happened to a group's agents in the latest control step of an environment."""
    import torch  # contracts, which are read without it, tell of events too

    found = happening(env.latest_events, names, counted(env, group))
    if found is not None:
        return found
    return torch.zeros(env.num_envs, env.groups[group].count, len(names), dtype=torch.bool, device=env.device)


def told_event(name: str, meaning: str = "") -> Quantity:
    """An event that a robot does not find out itself: a number that whoever knows of it sets to 1 for one control step.

    Args:
        name: of the event.
        meaning: a sentence.
    """
    return Quantity(f"event {name}", 1, doc=meaning)


def falling_below(value: Expression, limit: float) -> Expression:
    """The event that a value [1] comes below a limit of its unit from one control step to the next, as an expression."""
    return Where(Below(value, limit), Above(Previous(value), limit), "0 where it was so a step before")

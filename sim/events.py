"""Events of a control step, as ``info["events"]`` has them, for the agents of one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.env import Env

__all__ = ["counted", "happening"]


def counted(env: Env, group: str) -> slice:
    """Places of a group's agents among all of them, counted through."""
    first = 0
    for name, spec in env.groups.items():
        if name == group:
            break
        first += spec.count
    return slice(first, first + env.groups[group].count)


def happening(events: Mapping[str, Tensor], names: Sequence[str], agents: slice) -> Tensor | None:
    """[N, A] bool, or [N, 1]: one of the events happened to the agents; None where none is told of.

    Args:
        events: {name: [N], or [N, A] of all agents}.
        names: of those that count.
        agents: whose.
    """
    out = None
    for name in names:
        if name in events:
            own = events[name].unsqueeze(1) if events[name].dim() == 1 else events[name][:, agents]
            out = own if out is None else out | own
    return out

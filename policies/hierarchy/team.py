"""One high level for a team: the hierarchy of one agent, with one decision for all agents, from what all of them observe.

observations of agents 0, 1 --+--------------------------------------------+--each: its observation and decision--skill--+
                              +--decide: skills 0, 1, numbers 0, numbers 1--+                                              |
                                                                                    actions of agents 0, 1 <---------------+
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rookery.policies.stages.decide import Each
from rookery.sim.specs import ActionSpec, Group

if TYPE_CHECKING:
    from rookery.policies.hierarchy.hierarchy import Hierarchy

__all__ = ["of_team"]


def of_team(own: Hierarchy, agents: int) -> Hierarchy:
    """The hierarchy of a team of `agents`, each of which has the skills of `own`.

    The high level observes the newest values of the terms, of all agents. It decides for all of them at a time, when a decision
    is due for one.
    """
    size, chosen = own.group.observation_size, len(own.high.action.choices)
    numbers = len(own.high.action.names)
    first = agents * size  # place of the decision in the row
    parts = tuple(
        (
            (i * size, (i + 1) * size),
            *[(first + i, first + i + 1)] * chosen,
            *[(first + agents * chosen + i * numbers, first + agents * chosen + (i + 1) * numbers)] * (numbers > 0),
        )
        for i in range(agents)
    )
    newest = own.seen
    if newest == ((0, size),):
        newest = ((size - own.group.frame_size, size),)
    seen = tuple((i * size + a, i * size + b) for i in range(agents) for a, b in newest)
    if seen == tuple((i * size, (i + 1) * size) for i in range(agents)):
        seen = ((0, first),)
    lower = (Each(first + agents * (chosen + numbers), parts, own.lower),)
    return replace(own, high=_high(own.high, agents), seen=seen, lower=lower, agents=agents)


def _high(own: Group, agents: int) -> Group:
    """The group that observes and commands, one for each team."""
    terms = tuple(replace(term, name=f"{i}.{term.name}") for i in range(agents) for term in own.observation)
    spec = own.action
    action = ActionSpec(
        spec.kind,
        tuple(f"{i}.{name}" for i in range(agents) for name in spec.names),
        spec.low * agents,
        spec.high * agents,
        spec.units * agents,
        spec.neutral * agents,
        tuple(replace(choice, name=f"{i}.{choice.name}") for i in range(agents) for choice in spec.choices),
        spec.masked,
        tuple(option if option < 0 else option + i * spec.options for i in range(agents) for option in spec.read_by),
    )
    return replace(own, count=own.count // agents, observation=terms, history=1, action=action)

"""Which agents learn which weights: sets of agents, by group, team or name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rookery.sim.env import Env
from rookery.sim.errors import RookeryError, unknown

__all__ = ["WeightSet", "weight_sets"]


@dataclass(frozen=True)
class WeightSet:
    """Agents of one group that learn together.

    Args:
        group: its name.
        agents: indices in the group, in order.
        whole: the group has no other agents.
    """

    group: str
    agents: tuple[int, ...]
    whole: bool


def weight_sets(env: Env, given: Iterable[str]) -> dict[str, WeightSet]:
    """Sets by name: those that are given, and for each group the agents that no set names, under the group's name.

    Args:
        env: with its groups and teams.
        given: each "NAME=AGENTS"; agents are names of agents (`<group>_<i>`), groups or teams, separated by commas.

    Raises:
        RookeryError: a text of another form, an unknown name, an agent in two sets, a set of two groups, or two sets of one
            name.
    """
    taken: dict[tuple[str, int], str] = {}
    out: dict[str, WeightSet] = {}
    for text in given:
        name, _, listed = text.partition("=")
        if not name.strip() or not listed.strip():
            raise RookeryError(f"policies names sets as NAME=AGENTS, such as attack=near_0,near_1, got {text!r}.")
        name = name.strip()
        agents = [agent for part in listed.split(",") for agent in _agents(env, part.strip())]
        for agent in agents:
            if agent in taken:
                raise RookeryError(
                    f"{agent[0]}_{agent[1]} is in the sets {taken[agent]!r} and {name!r}: leave it in one."
                )
            taken[agent] = name
        groups = list(dict.fromkeys(group for group, _ in agents))
        if len(groups) > 1:
            raise RookeryError(
                f"the set {name!r} has agents of the groups {' and '.join(groups)}, which observe and act otherwise: give each "
                "group sets of its own."
            )
        if name in out:
            raise RookeryError(f"policies names the set {name!r} twice: give each a name of its own.")
        out[name] = _set(env, groups[0], (i for _, i in agents))
    for group, spec in env.groups.items():
        others = [i for i in range(spec.count) if (group, i) not in taken]
        if others and group in out:
            raise RookeryError(
                f"the set {group!r} has the name of a group whose other agents learn too: give another name."
            )
        if others:
            out[group] = _set(env, group, others)
    return out


def _set(env: Env, group: str, agents: Iterable[int]) -> WeightSet:
    own = tuple(sorted(agents))
    return WeightSet(group, own, len(own) == env.groups[group].count)


def _agents(env: Env, name: str) -> list[tuple[str, int]]:
    """(group, index) of the agents that a name stands for."""
    each = {f"{g}_{i}": (g, i) for g, spec in env.groups.items() for i in range(spec.count)}
    if name in env.groups:
        return [(name, i) for i in range(env.groups[name].count)]
    if name in env.teams:
        return [(g, i) for g, indices in env.teams[name].items() for i in indices]
    if name in each:
        return [each[name]]
    raise unknown(f"agent, group or team of {env.task_id}", name, [*env.groups, *env.teams, *each])

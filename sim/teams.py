"""The teams of an environment's groups, for policies that act for a team as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.env import Env

__all__ = ["gathered", "team_agents", "teamwork"]


def team_agents(env: Env, group: str) -> Tensor:
    """[T, a] int64, the agents of a group by team; all of them are one where the environment has no teams.

    Raises:
        RookeryError: teams of several groups, of different sizes, or of one agent.
    """
    count = env.groups[group].count
    names = [name for name, team in env.teams.items() if team.get(group)]
    for name in names:
        others = [g for g, agents in env.teams[name].items() if agents and g != group]
        if others:
            raise RookeryError(
                f"the team {name!r} of {env.task_id} has agents of the groups {group} and {', '.join(others)}: one decision is "
                "for agents of one group, so leave central out."
            )
    teams = [list(env.teams[name][group]) for name in names] or [list(range(count))]
    sizes = sorted({len(team) for team in teams})
    if len(sizes) > 1 or sum(map(len, teams)) != count:
        raise RookeryError(
            f"the teams of {env.task_id} have {' and '.join(map(str, sizes))} of the {count} agents of {group!r}: one decision "
            "is for teams of one size, so leave central out."
        )
    if sizes == [1]:
        raise RookeryError(f"a team of {env.task_id} has one agent, which decides for itself: leave central out.")
    return torch.tensor(teams, dtype=torch.int64, device=env.device)


def gathered(values: Tensor, teams: Tensor) -> Tensor:
    """Rows [N, T, a D] of teams [T, a], the agents' one after the other, of rows [N, A, D]."""
    return values[:, teams].flatten(2)


def teamwork(values: Tensor, teams: Tensor) -> Tensor:
    """The other way round: rows [N, A, D] of agents, of rows [N, T, a D] of teams [T, a]."""
    own = values.reshape(len(values), teams.numel(), -1)
    return own[:, teams.flatten().argsort()]

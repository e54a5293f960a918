"""The other side of a game: the task's controller, for a policy that brings its opponent would choose its own exam."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


class OpposingTeams:
    """Agents of all teams but the first, for which the task's controller acts.

    Args:
        env: with `teams`.

    Attributes:
        teams: names of theirs.

    Raises:
        RookeryError: the task has no controller.
    """

    def __init__(self, env: Env) -> None:
        first, *others = env.teams
        pilot = env.controller()
        if pilot is None:
            raise RookeryError(
                f"{env.task_id} is a game without a classical controller, so that nobody plays against team {first}: compare "
                "its policies by `rookery match`."
            )
        self.teams = tuple(others)
        self._pilot = pilot
        own = {group: set(agents) for group, agents in env.teams[first].items()}
        self._own = {
            group: torch.tensor([i in own.get(group, ()) for i in range(spec.count)])[:, None]
            for group, spec in env.groups.items()
        }

    def judged(self, actions: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Actions {group: [N, A, D]} of the first team's agents alone, [N, a, D]."""
        return {group: values[:, self._own[group][:, 0]] for group, values in actions.items()}

    def __call__(self, obs: dict[str, Tensor], actions: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Actions of a policy, with the controller's in the place of its opponents'."""
        theirs = self._pilot(obs)
        return {group: torch.where(self._own[group], values, theirs[group]) for group, values in actions.items()}

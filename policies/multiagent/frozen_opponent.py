"""Frozen opponents: the learner plays one team of a match, fixed policies or controllers all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rookery.policies.multiagent.population import Population
from rookery.policies.policy import Policy
from rookery.policies.training.evaluate import act_with
from rookery.sim.actions import check_actions
from rookery.sim.buffers import check_tensors, under
from rookery.sim.deployment import Deployment
from rookery.sim.env import Act, Env, StepResult
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group

Rows = dict[str, Tensor]


class FrozenOpponentEnv(EnvWrapper):
    """An Env with the agents of one team only; the others are part of the world.

    Observations, rewards, `active` and returns of episodes are those of the learner's agents. Reward terms of episodes, metrics
    and the central state stay those of the match. ``info["episode"]`` has in addition "opponent" [m] int64, which of several
    was played against.

    Args:
        env: with `teams`.
        opponents: from observations {group: [N, A, O]} of all agents to actions of all agents; those of other teams are used.
            Of several, one is drawn for each world and each episode (see `Population`).
        team: the learner's.
        weights: how likely each opponent is drawn; None for all alike.
        seed: of those draws.

    Attributes:
        population: the opponents.

    Raises:
        RookeryError: the environment has no such team, or a vector reward; no opponents, or weights that do not fit.
    """

    def __init__(
        self, env: Env, opponents: Act | Sequence[Act], team: str, weights: Sequence[float] | None = None, seed: int = 0
    ) -> None:
        super().__init__(env)
        if team not in env.teams:
            raise unknown(f"team of {env.task_id}", team, env.teams)
        if env.objectives:
            raise RookeryError(f"{env.task_id} has a vector reward: give weights of its objectives.")
        self.population = Population(env, opponents if isinstance(opponents, Sequence) else [opponents], weights, seed)
        self.team = team
        agents = {g: list(env.teams[team].get(g, ())) for g in env.groups}
        self._own = {g: torch.tensor(a, dtype=torch.int64, device=env.device) for g, a in agents.items() if a}
        self.groups = {g: replace(s, count=len(agents[g])) for g, s in env.groups.items() if agents[g]}
        first = 0
        counted = []
        for g, s in env.groups.items():
            counted += [first + i for i in agents[g]]
            first += s.count
        self._counted = torch.tensor(counted, device=env.device)
        self.teams = {}
        self._obs = {g: torch.zeros(env.num_envs, s.count, s.observation_size) for g, s in env.groups.items()}
        self._returns = {g: torch.zeros(env.num_envs, s.count, device=env.device) for g, s in self.groups.items()}

    def reset(self, seed: int | None = None) -> tuple[Rows, dict[str, Any]]:
        self._obs, info = self.env.reset(seed)
        self.population.reset(seed)
        for total in self._returns.values():
            total.zero_()
        return self._mine(self._obs), info

    def step(self, actions: Rows | Tensor) -> StepResult:
        own = check_actions(self, actions)
        every = self.population(self._obs)
        for g, agents in self._own.items():
            every[g][:, agents] = own[g].detach().to(every[g])
        self._obs, reward, terminated, truncated, info = self.env.step(every)
        rewards = self._mine(reward)
        for g, total in self._returns.items():
            total += rewards[g]
        if "final_observation" in info:
            info["final_observation"] = self._mine(info["final_observation"])
        if isinstance(info.get("elapsed"), dict):
            info["elapsed"] = self._mine(info["elapsed"])
        if "final_active" in info:
            info["final_active"] = self._mine(info["final_active"])
        if "events" in info:
            info["events"] = self._of_mine(info["events"])
        if "episode" in info:
            ids = info["episode"]["ids"]
            returns = {g: total[ids].mean(1) for g, total in self._returns.items()}
            played = self.population.assignment[ids.cpu()]
            info["episode"] = {**info["episode"], "return": returns, "opponent": played}
            self.population.draw(ids)
            for total in self._returns.values():
                total[ids] = 0.0
        return self._mine(self._obs), rewards, terminated, truncated, info

    @property
    def latest_events(self) -> Rows:  # type: ignore[override]
        return self._of_mine(self.env.latest_events)

    def _of_mine(self, events: Mapping[str, Tensor]) -> Rows:
        """Events of worlds, and those of the learner's agents."""
        return {k: v if v.dim() == 1 else v[:, self._counted] for k, v in events.items()}

    def _mine(self, values: Rows) -> Rows:
        """The learner's agents of those groups that have values."""
        return {g: values[g][:, agents] for g, agents in self._own.items() if g in values}

    @property
    def active(self) -> Rows | None:
        active = self.env.active
        return None if active is None else self._mine(active)

    @property
    def action_mask(self) -> Rows | None:
        masks = self.env.action_mask
        return None if masks is None else self._mine(masks)

    @property
    def privileged_targets(self) -> Rows | None:
        targets = self.env.privileged_targets
        return None if targets is None else self._mine(targets)

    def observation_set(self, name: str) -> Rows:
        return self._mine(self.env.observation_set(name))

    def controller(self) -> Act | None:
        """The task's classical controller for the learner's agents."""
        act = self.env.controller()
        return None if act is None else lambda obs: self._mine(act(self._obs))

    def deployment(self) -> Deployment:
        known = self.env.deployment()
        return replace(known, actuation={g: a for g, a in known.actuation.items() if g in self.groups})

    def state_dict(self) -> Rows:
        return self.env.state_dict() | self._own_state()

    def _own_state(self) -> Rows:
        own = {f"opponent.observation.{g}": x.cpu().clone() for g, x in self._obs.items()}
        own |= {f"opponent.{name}": x for name, x in self.population.state_dict().items()}
        return own | {f"opponent.return.{g}": x.cpu().clone() for g, x in self._returns.items()}

    def check_state_dict(self, state: Rows) -> None:
        check_tensors(self._own_state(), state)
        self.env.check_state_dict(_without_opponent(state))

    def load_state_dict(self, state: Rows) -> None:
        self.check_state_dict(state)
        for prefix, into in (("opponent.observation.", self._obs), ("opponent.return.", self._returns)):
            for g in into:
                into[g] = state[prefix + g].to(self.device).clone()
        self.population.load_state_dict(under("opponent", state))
        self.env.load_state_dict(_without_opponent(state))


def _without_opponent(state: Rows) -> Rows:
    """The wrapped environment's part of a state."""
    return {k: v for k, v in state.items() if not k.startswith("opponent.")}


def frozen_opponent(
    env: Env, policies: dict[str, Policy] | None, groups: Mapping[str, Group] | None, team: str
) -> FrozenOpponentEnv:
    """`FrozenOpponentEnv` from a stored policy, or from the classical controller, see rookery.making."""
    if policies is not None:
        return FrozenOpponentEnv(env, act_with(policies, env), team)
    controller = env.controller()
    if controller is None:
        raise RookeryError(
            f"{env.task_id} has no classical controller: give the opponent's run by the config value frozen."
        )
    return FrozenOpponentEnv(env, controller, team)

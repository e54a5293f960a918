"""Frozen opponents: the learner plays one team of a match, fixed policies or controllers all others.

With the team "either" it plays both sides evenly, which is for games that look the same from both:

episode of a world   0  1  2  3          worlds 0, 2, 4 ... begin as the first team, the others as the second;
world 0              a  b  a  b          each world changes sides with every episode
world 1              b  a  b  a
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rookery.policies.multiagent.match import check_wins
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
EITHER = "either"
"""In place of a team's name: both sides, evenly."""


class FrozenOpponentEnv(EnvWrapper):
    """An Env with the agents of one team only; the others are part of the world.

    Observations, rewards, `active` and returns of episodes are those of the learner's agents, and "success" is that it wins,
    where the match measures who does. Reward terms of episodes, other metrics and the central state stay those of the match;
    with the team "either" the state ends with the side, 0 or 1. ``info["episode"]`` has in addition "opponent" [m] int64, which
    of several was played against, and "side" [m] int64, the learner's among the teams.

    Args:
        env: with `teams`.
        opponents: from observations {group: [N, A, O]} of all agents to actions of all agents; those of other teams are used.
            Of several, one is drawn for each world and each episode (see `Population`).
        team: the learner's, or "either".
        weights: how likely each opponent is drawn; None for all alike.
        seed: of those draws.

    Attributes:
        population: the opponents.
        side: [N] int64, the learner's team among the environment's teams.

    Raises:
        RookeryError: the environment has no such team, teams that are not alike, or a vector reward; no opponents, or weights
            that do not fit.
    """

    def __init__(
        self, env: Env, opponents: Act | Sequence[Act], team: str, weights: Sequence[float] | None = None, seed: int = 0
    ) -> None:
        super().__init__(env)
        if team not in (*env.teams, EITHER) or not env.teams:
            raise unknown(f"team of {env.task_id}", team, (*env.teams, EITHER) if _are_alike(env) else env.teams)
        if env.objectives:
            raise RookeryError(f"{env.task_id} has a vector reward: give weights of its objectives.")
        self.population = Population(env, opponents if isinstance(opponents, Sequence) else [opponents], weights, seed)
        self.team = team
        self._names = tuple(env.teams)
        self._roster(_alike(env) if team == EITHER else [team])
        self._worlds = torch.arange(env.num_envs, device=env.device)
        self.side = torch.full_like(self._worlds, 0 if team == EITHER else self._names.index(team))
        self._choose_sides()
        self.state_size = env.state_size + (1 if team == EITHER and env.state_size else 0)
        self.teams = {}
        self._obs = {g: torch.zeros(env.num_envs, s.count, s.observation_size) for g, s in env.groups.items()}
        self._returns = {g: torch.zeros(env.num_envs, s.count, device=env.device) for g, s in self.groups.items()}

    def _roster(self, teams: Sequence[str]) -> None:
        """Note the learner's agents as each of the teams that it plays: by group [T, a], and all groups counted through."""
        env = self.env
        agents = {g: [list(env.teams[team].get(g, ())) for team in teams] for g in env.groups}
        self._own = {g: torch.tensor(a, dtype=torch.int64, device=env.device) for g, a in agents.items() if a[0]}
        self.groups = {g: replace(env.groups[g], count=own.shape[1]) for g, own in self._own.items()}
        first = 0
        counted: list[list[int]] = [[] for _ in teams]
        for g, s in env.groups.items():
            for own, more in zip(counted, agents[g], strict=True):
                own += [first + i for i in more]
            first += s.count
        self._counted = torch.tensor(counted, device=env.device)

    def _choose_sides(self) -> None:
        """Begin with as many worlds on either side."""
        if self.team == EITHER:
            self.side = self._worlds % 2

    def reset(self, seed: int | None = None) -> tuple[Rows, dict[str, Any]]:
        self._obs, info = self.env.reset(seed)
        self.population.reset(seed)
        self._choose_sides()
        for total in self._returns.values():
            total.zero_()
        return self._mine(self._obs), info

    def step(self, actions: Rows | Tensor) -> StepResult:
        own = check_actions(self, actions)
        every = self.population(self._obs)
        for g, agents in self._own.items():
            if g not in every:  # of a group that is all the learner's, opponents need not say anything
                every[g] = torch.zeros(self.num_envs, self.env.groups[g].count, self.groups[g].action.size)
            every[g][self._where(agents)] = own[g].detach().to(every[g])
        self._obs, reward, terminated, truncated, info = self.env.step(every)
        rewards = self._mine(reward)
        for g, total in self._returns.items():
            total += rewards[g]
        for name in ("final_observation", "final_active"):
            if name in info:
                info[name] = self._mine(info[name])
        if isinstance(info.get("elapsed"), dict):
            info["elapsed"] = self._mine(info["elapsed"])
        if "final_state" in info:
            info["final_state"] = self._sided(info["final_state"])
        if "events" in info:
            info["events"] = self._of_mine(info["events"])
        if "episode" in info:
            info["episode"] = self._ended(info["episode"])
        return self._mine(self._obs), rewards, terminated, truncated, info

    def _ended(self, episode: dict[str, Any]) -> dict[str, Any]:
        """The learner's figures of episodes that ended, after which the next opponents and sides are there."""
        ids = episode["ids"]
        returns = {g: total[ids].mean(1) for g, total in self._returns.items()}
        played, side = self.population.assignment[ids.cpu()], self.side[ids]
        metrics = self._own_success(episode["metrics"], side)
        if metrics is not episode["metrics"]:
            check_wins(self.task_id, self._names, episode["metrics"], episode["cause"] <= len(self.causes))
            lost = _wins(episode["metrics"], self._names, 1 - side)
            points = 0.5 * (1.0 + metrics["success"] - lost)
            whole = ~episode["cut"] if "cut" in episode else slice(None)
            self.population.record(played[whole], points[whole])
        self.population.draw(ids)
        if self.team == EITHER:
            self.side[ids] = 1 - side
        for total in self._returns.values():
            total[ids] = 0.0
        return {**episode, "return": returns, "opponent": played, "side": side, "metrics": metrics}

    def _own_success(self, metrics: Rows, side: Tensor) -> Rows:
        """Metrics [m] in which success is that the learner won, where there are two teams and their wins are measured."""
        if len(self._names) != 2 or not {f"{name}_wins" for name in self._names} <= set(metrics):
            return metrics
        return {**metrics, "success": _wins(metrics, self._names, side)}

    def metrics(self) -> Rows:
        return self._own_success(self.env.metrics(), self.side)

    def _where(self, agents: Tensor) -> Any:
        """Index of the learner's agents [T, a] in tensors [N, A, ...]."""
        return (slice(None), agents[0]) if len(agents) == 1 else (self._worlds[:, None], agents[self.side])

    @property
    def latest_events(self) -> Rows:  # type: ignore[override]
        return self._of_mine(self.env.latest_events)

    def _of_mine(self, events: Mapping[str, Tensor]) -> Rows:
        """Events of worlds, and those of the learner's agents."""
        counted = self._where(self._counted)
        return {k: v if v.dim() == 1 else v[counted] for k, v in events.items()}

    def _mine(self, values: Rows) -> Rows:
        """The learner's agents of those groups that have values."""
        return {g: values[g][self._where(agents)] for g, agents in self._own.items() if g in values}

    def _sided(self, state: Tensor) -> Tensor:
        """A central state [N, S] with the side behind it, where that changes."""
        return state if self.state_size == self.env.state_size else torch.cat((state, self.side[:, None].to(state)), 1)

    @property
    def state(self) -> Tensor:
        return self._sided(self.env.state)

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
        own |= {"opponent.side": self.side.cpu().clone()}
        return own | {f"opponent.return.{g}": x.cpu().clone() for g, x in self._returns.items()}

    def check_state_dict(self, state: Rows) -> None:
        check_tensors(self._own_state(), state)
        self.env.check_state_dict(_without_opponent(state))

    def load_state_dict(self, state: Rows) -> None:
        self.check_state_dict(state)
        for prefix, into in (("opponent.observation.", self._obs), ("opponent.return.", self._returns)):
            for g in into:
                into[g] = state[prefix + g].to(self.device).clone()
        self.side = state["opponent.side"].to(self.device).clone()
        self.population.load_state_dict(under("opponent", state))
        self.env.load_state_dict(_without_opponent(state))


def _alike(env: Env) -> list[str]:
    """The names of two teams of which the learner may play either.

    Raises:
        RookeryError: not two teams, or of other groups or numbers of agents.
    """
    if not _are_alike(env):
        raise RookeryError(
            f"the teams of {env.task_id} differ, so nobody plays either of them: choose one of {', '.join(env.teams)}."
        )
    return list(env.teams)


def _are_alike(env: Env) -> bool:
    """True where there are two teams of the same groups and numbers of agents."""
    sizes = [{g: len(agents) for g, agents in team.items() if agents} for team in env.teams.values()]
    return len(sizes) == 2 and sizes[0] == sizes[1]


def _wins(metrics: Rows, teams: Sequence[str], side: Tensor) -> Tensor:
    """[m] 1 where the team of an index won; `side` [m] or one for all worlds."""
    first, second = (metrics[f"{team}_wins"] for team in teams)
    return torch.where(side.to(first.device) == 0, first, second)


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

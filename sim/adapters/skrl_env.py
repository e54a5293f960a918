"""skrl's `Wrapper` over an Env: tensors [R, ...], one row an agent; and its `MultiAgentEnvWrapper`: [N, ...] of each agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from skrl.envs.wrappers.torch import MultiAgentEnvWrapper, Wrapper
from torch import Tensor

from rookery.sim.actions import require_numbers
from rookery.sim.adapters.agents import AgentEnds, agent_names, final_states
from rookery.sim.adapters.frames import Frames
from rookery.sim.adapters.rows import AgentRows, episode_means, reshaped, row_actions
from rookery.sim.adapters.seeding import seed_for
from rookery.sim.adapters.spaces import action_space, number_space, observation_space, one_number
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

ByAgent = dict[str, Tensor]


class _Copied:
    """Copies and pickles of both adapters. skrl's classes keep the wrapped environment twice, and look for every
    attribute in it, so that a copy is made by the constructor.
    """

    _options: dict[str, Any]
    """Arguments of the constructor."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_env", "_unwrapped")}
        return _made, (type(self), self.__dict__["_env"], self._options), kept


def _made(cls: Any, env: Env, options: dict[str, Any]) -> Any:
    return cls(env, **options)


class SkrlEnv(_Copied, Wrapper):
    """R rows of an Env with one agent group.

    An episode that ends begins anew in the same step; ``infos["final_observation"]`` [R, O] has the last observations
    of those that ended, with `states` ``infos["final_state"]`` [R, S] the last states, and ``infos["episode"]`` means over
    them. skrl bootstraps at time limits (``time_limit_bootstrap=True``) and fills replay memories with what `step`
    returns, which is the first observation of the new episode: `use_final_observations` gives its agents the last one of
    the old.

    Args:
        env: stepped and closed from now on.
        render_mode: None, "rgb_array" or "human" (a window).
            skrl's trainers call `render` at every step unless they are told ``headless=True``.
        states: give critics the state of the world [S] (`state`); without it they see what the policy does.

    Raises:
        RookeryError: several groups, a vector reward, masks, or actions of choices and numbers.
    """

    def __init__(self, env: Env, *, states: bool = False, render_mode: str | None = None) -> None:
        super().__init__(env)
        self._rows = AgentRows(env, "skrl", choices=True)
        self._frames = Frames(env, render_mode)
        self._device = env.device
        self._states = states
        self._options = {"states": states, "render_mode": render_mode}
        self.render_mode = render_mode
        self._last: Tensor | None = None
        self._observation_space = observation_space(self._rows.group)
        self._action_space = action_space(self._rows.group)
        self._state_space = Box(-np.inf, np.inf, (env.state_size,), dtype=np.float32) if states else None

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """The first call begins episodes; later ones only observe, since episodes begin by themselves."""
        if self._last is None:
            self._last = self._rows.reset()
        return self._last, {}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """One control step with actions [R, D], clipped to [-1, 1]; of choices indices of options, [R, K].

        Returns:
            observations [R, O], rewards [R, 1], terminated [R, 1], truncated [R, 1], infos.

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        done = self._rows.step(actions)
        self._last = done.observation
        infos: dict[str, Any] = {}
        if done.final is not None:
            infos["final_observation"] = done.final
            if self._states:
                infos["final_state"] = self._rows.final_state(done)
            infos["episode"] = as_tensors(episode_means(done.info))
        column = self._rows.num, 1
        ends = reshaped(done.terminated, column), reshaped(done.truncated, column)
        return done.observation, reshaped(done.reward, column), *ends, infos

    def state(self) -> Tensor | None:
        """[R, S] the state of the world now; None without `states`."""
        return self._rows.state() if self._states else None

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """World 0 as uint8 [H, W, 3]; None without the mode "rgb_array"."""
        return self._frames.render()

    def close(self) -> None:
        """Free the renderer and the engine."""
        self._frames.close()
        self._rows.env.close()

    @property
    def num_envs(self) -> int:
        """R."""
        return self._rows.num

    @property
    def num_agents(self) -> int:
        """1: every row is an agent of its own."""
        return 1

    @property
    def observation_space(self) -> Box:
        """Box of [O]."""
        return self._observation_space

    @property
    def action_space(self) -> Space[Any]:
        """Box of [D] in [-1, 1]; of choices Discrete or MultiDiscrete."""
        return self._action_space

    @property
    def state_space(self) -> Box | None:
        """Box of [S]; None without `states`."""
        return self._state_space


class SkrlMultiAgentEnv(_Copied, MultiAgentEnvWrapper):
    """N worlds of an Env for skrl's IPPO and MAPPO. Agents of all groups are called ``<group>_<i>``, such as ``drone_0``.

    An episode ends for all agents together and begins anew in the same step; ``infos["final_observation"]`` {agent: [N, O]}
    has the last observations, with `states` ``infos["final_state"]`` {agent: [N, S]} the last states, of the worlds whose
    episode ended, and ``infos["episode"]`` means over them. `use_final_observations` gives them to skrl's agents. An agent
    that drops out is terminated from then on, with reward 0, until the episode ends.

    Args:
        env: stepped and closed from now on.
        states: give critics the state of the world [S], the same one to all agents (`state`): MAPPO needs it.
        render_mode: None, "rgb_array" or "human" (a window); see `SkrlEnv`.

    Raises:
        RookeryError: a vector reward.
    """

    def __init__(self, env: Env, *, states: bool = False, render_mode: str | None = None) -> None:
        one_number(env)
        require_numbers(env.groups, "skrl takes")
        super().__init__(env)
        self.env = env
        self.render_mode = render_mode
        self._frames = Frames(env, render_mode)
        self._where = agent_names(env)
        self._ends = AgentEnds(env)
        self._states = states
        self._options = {"states": states, "render_mode": render_mode}
        self._last: ByAgent | None = None
        self._observation_spaces = {name: observation_space(env.groups[g]) for name, (g, _) in self._where.items()}
        self._action_spaces = {name: number_space(env.groups[g]) for name, (g, _) in self._where.items()}
        space = Box(-np.inf, np.inf, (env.state_size,), dtype=np.float32) if states else None
        self._state_spaces = dict.fromkeys(self._where, space)

    def reset(self) -> tuple[ByAgent, dict[str, Any]]:
        """The first call begins episodes; later ones only observe, since episodes begin by themselves."""
        if self._last is None:
            self._last = self._by_agent(self.env.reset(seed_for(self.env, None))[0])
            self._ends.reset()
        return self._last, {}

    def step(self, actions: Mapping[str, Tensor]) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, dict[str, Any]]:
        """One control step.

        Args:
            actions: [N, D] of every agent, clipped to [-1, 1].

        Returns:
            by agent: observations [N, O], rewards [N, 1], terminated [N, 1], truncated [N, 1]; infos.

        Raises:
            RookeryError: an agent has no action, or one of another shape or with NaN.
        """
        obs, reward, terminated, truncated, info = self.env.step(self._actions(actions))
        ends = self._ends.step(terminated, truncated, info)
        self._last = self._by_agent(obs)
        infos: dict[str, Any] = {}
        if "episode" in info:
            infos["final_observation"] = self._by_agent(info["final_observation"])
            infos["episode"] = as_tensors(episode_means(info))
            if self._states:
                final = final_states(self.env, info["final_state"], terminated | truncated)
                infos["final_state"] = dict.fromkeys(self._where, final)
        rewards = self._by_agent({name: value[..., None] for name, value in reward.items()})
        over, late = (self._by_agent({name: pair[k] for name, pair in ends.items()}) for k in (0, 1))
        return self._last, rewards, over, late, infos

    def _by_agent(self, by_group: dict[str, Tensor]) -> ByAgent:
        return {name: by_group[g][:, i] for name, (g, i) in self._where.items()}

    def _actions(self, actions: Mapping[str, Tensor]) -> dict[str, Tensor]:
        missing = [name for name in self._where if name not in actions]
        if missing:
            raise RookeryError(f"every agent needs an action, {missing} have none.")
        out = {}
        for g, group in self.env.groups.items():
            shape = self.env.num_envs, group.action.size
            rows = (row_actions(actions[f"{g}_{i}"], shape, self.env.device) for i in range(group.count))
            out[g] = torch.stack(tuple(rows), 1)
        return out

    def state(self) -> dict[str, Tensor | None]:
        """By agent [N, S], the state of the world now; None without `states`."""
        return dict.fromkeys(self._where, self.env.state.clone() if self._states else None)

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """World 0 as uint8 [H, W, 3]; None without the mode "rgb_array"."""
        return self._frames.render()

    def close(self) -> None:
        """Free the renderer and the engine."""
        self._frames.close()
        self.env.close()

    @property
    def num_envs(self) -> int:
        """N."""
        return self.env.num_envs

    @property
    def agents(self) -> list[str]:
        """All of them: those that drop out stay, terminated."""
        return list(self._where)

    @property
    def possible_agents(self) -> list[str]:
        """Names of the agents."""
        return list(self._where)

    @property
    def observation_spaces(self) -> dict[str, Box]:
        """Box of [O] of each agent."""
        return self._observation_spaces

    @property
    def action_spaces(self) -> dict[str, Box]:
        """Box of [D] in [-1, 1] of each agent."""
        return self._action_spaces

    @property
    def state_spaces(self) -> dict[str, Any]:
        """Box of [S] of each agent; None without `states`."""
        return self._state_spaces


def as_tensors(values: dict[str, float]) -> dict[str, Tensor]:
    """Numbers as skrl's trainers log them."""
    return {name: torch.tensor(value) for name, value in values.items()}


def use_final_observations(agent: Any) -> Any:
    """Let an agent of skrl record the last observation and state of an episode that ended where it would record the first
    ones of the next: values at time limits and replayed transitions are right then. Returns the agent.

    Args:
        agent: any of `skrl.agents.torch` in a `SkrlEnv`, or of `skrl.multi_agents.torch` in a `SkrlMultiAgentEnv`, before
            training.
    """
    record = agent.record_transition

    def record_transition(*, next_observations: Any, next_states: Any, infos: Any, **rest: Any) -> None:
        last = infos.get("final_observation", next_observations)
        last_state = infos.get("final_state", next_states)
        record(next_observations=last, next_states=last_state, infos=infos, **rest)

    agent.record_transition = record_transition
    return agent

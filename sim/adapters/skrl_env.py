"""skrl's `Wrapper` over an Env: tensors [R, ...], one row an agent."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from skrl.envs.wrappers.torch import Wrapper
from torch import Tensor

from rookery.sim.adapters.frames import Frames
from rookery.sim.adapters.lazy import LazyDict
from rookery.sim.adapters.rows import Rows, episode_means, reshaped
from rookery.sim.adapters.spaces import action_space, observation_space
from rookery.sim.env import Env


class SkrlEnv(Wrapper):
    """R rows of an Env with one agent group.

    An episode that ends begins anew in the same step; ``infos["final_observation"]`` [R, O] has the last observations
    of those that ended, and ``infos["episode"]`` means over them. skrl bootstraps at time limits
    (``time_limit_bootstrap=True``) and fills replay
    memories with what `step` returns, which is the first observation of the new episode: `use_final_observations` gives
    its agents the last one of the old.

    Args:
        env: stepped and closed from now on.
        render_mode: None, "rgb_array" or "human" (a window).
            skrl's trainers call `render` at every step unless they are told ``headless=True``.
        states: give critics the state of the world [S] (`state`); without it they see what the policy does.

    Raises:
        RookeryError: several groups, or a vector reward.
    """

    def __init__(self, env: Env, *, states: bool = False, render_mode: str | None = None) -> None:
        super().__init__(env)
        self._rows = Rows(env, "skrl")
        self._frames = Frames(env, render_mode)
        self._device = env.device
        self._states = states
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
        """One control step with actions [R, D], clipped to [-1, 1].

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
            infos["episode"] = LazyDict(partial(as_tensors, episode_means(done.info)))
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
    def action_space(self) -> Box:
        """Box of [D] in [-1, 1]."""
        return self._action_space

    @property
    def state_space(self) -> Box | None:
        """Box of [S]; None without `states`."""
        return self._state_space


def as_tensors(values: dict[str, float]) -> dict[str, Tensor]:
    """Numbers as skrl's trainers log them."""
    return {name: torch.tensor(value) for name, value in values.items()}


def use_final_observations(agent: Any) -> Any:
    """Let an agent of skrl record the last observation of an episode that ended where it would record the first of the
    next one: values at time limits and replayed transitions are right then. Returns the agent.

    Args:
        agent: any agent of `skrl.agents.torch`, before training, in a `SkrlEnv` without `states`.
    """
    record = agent.record_transition

    def record_transition(*, next_observations: Tensor, infos: Any, **rest: Any) -> None:
        last = infos.get("final_observation", next_observations)
        record(next_observations=last, infos=infos, **rest)

    agent.record_transition = record_transition
    return agent

"""rsl_rl's `VecEnv` over an Env: TensorDicts of observation groups, one row an agent."""

from __future__ import annotations

import math
from typing import Any

import rsl_rl.env
import torch
from tensordict import TensorDict
from torch import Tensor

from rookery.sim.adapters.rows import AgentRows, RowStep, either, episode_means
from rookery.sim.adapters.tensordicts import tensor_dict
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


class RslRlEnv(rsl_rl.env.VecEnv):
    """R rows of an Env with one agent group, for `rsl_rl.runners.OnPolicyRunner`.

    Observation groups are "policy" [R, O], and "critic" where the agents declare such an observation set. An episode
    that ends begins anew in the same step; ``extras["time_outs"]`` [R] says which ended by the time limit,
    ``extras["final_observation"]`` [R, O] has the last observations of those that ended, and ``extras["log"]`` means
    over them.

    rsl_rl takes the value of the observation before the last step for that after it when it bootstraps at a time limit.

    Args:
        env: reset, stepped and closed from now on.
        cfg: what the runner's logger stores.
        reward_scale: factor on rewards. rsl_rl lets values change by 0.2 in an update, in units of the reward, so that returns
            should be of the order of 1: 0.02 for a reward of 1 in each of 100 steps a second.

    Attributes:
        num_envs, num_actions, max_episode_length, device: R, D, control steps, torch device.

    Raises:
        RookeryError: several groups, a vector reward, or a scale that is not above 0.
    """

    def __init__(self, env: Env, cfg: dict[str, Any] | None = None, reward_scale: float = 1.0) -> None:
        if not 0.0 < reward_scale < math.inf:
            raise RookeryError(f"reward_scale is {reward_scale}: give a number above 0.")
        self.env = env
        self.reward_scale = reward_scale
        self._rows = AgentRows(env, "rsl_rl")
        self.num_envs = self._rows.num
        self.num_actions = self._rows.action_size
        self.max_episode_length = env.max_episode_steps
        self.device = env.device
        self.cfg = cfg or {"task": env.task_id}
        self._length = torch.zeros(self.num_envs, dtype=torch.long, device=env.device)
        self._clock = self._length.numpy()
        self._size = torch.Size([self.num_envs])
        self._last = self._observed(self._rows.reset())

    @property
    def episode_length_buf(self) -> Tensor:  # type: ignore[override]
        """[R] int64 control steps into the episode. Setting it to anything but zeros spreads the worlds' clocks evenly,
        which is what rsl_rl sets it for."""
        return self._length

    @episode_length_buf.setter
    def episode_length_buf(self, value: Tensor) -> None:
        if bool((value != 0).any()):
            self.env.stagger()
            worlds = torch.arange(self.env.num_envs, device=self.device)
            value = self._rows.spread(worlds * self.env.max_episode_steps // self.env.num_envs)
        self._length.copy_(value)

    def get_observations(self) -> TensorDict:
        """The observations now."""
        return self._last

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """One control step with actions [R, D], clipped to [-1, 1].

        Returns:
            observations, scaled rewards [R], dones [R] bool, extras.

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        with torch.inference_mode(False):  # the runner's mode would make tensors that nothing else may write to
            done = self._rows.step(actions.clone() if actions.is_inference() else actions)
            ended = either(done.terminated, done.truncated)
            self._clock += 1
            self._clock *= ~ended.numpy()
            if self.reward_scale != 1.0:
                done.reward.mul_(self.reward_scale)
            self._last = self._observed(done.observation)
            return self._last, done.reward, ended, self._extras(done)

    def _observed(self, observation: Tensor) -> TensorDict:
        groups = {"policy": observation}
        if self._rows.privileged:
            groups["critic"] = self._rows.critic()
        return tensor_dict(groups, self._size)

    def _extras(self, done: RowStep) -> dict[str, Any]:
        extras: dict[str, Any] = {"time_outs": done.truncated}
        if done.final is not None:
            extras["final_observation"] = done.final
            # by names that rsl_rl's logger writes as they are; it knows those of an iteration's first table alone
            if means := episode_means(done.info):
                extras["log"] = {f"/{name}": value for name, value in means.items()}
        return extras

    def close(self) -> None:
        """Free the engine."""
        self.env.close()

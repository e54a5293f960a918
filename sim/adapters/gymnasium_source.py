"""A gymnasium environment as a VecEnv, so that trainers can be tried on problems whose results are well known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term

GROUP = "agent"


class GymVecEnv:
    """N copies of a gymnasium environment with box observations and actions, one agent each, on the CPU.

    Has the interface of `sim.vec_env.VecEnv`; actions in [-1, 1] are scaled to the action space. Gymnasium environments
    cannot be saved exactly: after `load_state_dict` new episodes begin.

    Args:
        name: gymnasium id, such as "Pendulum-v1".
        num_envs: N.
        seed: of the episodes.

    Raises:
        RookeryError: its spaces are not boxes.
    """

    control_dt = 1.0
    active = None
    objectives = ()

    def __init__(self, name: str, num_envs: int, seed: int = 0) -> None:
        self._env = gymnasium.make_vec(
            name,
            num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        )
        obs = self._env.single_observation_space
        act = self._env.single_action_space
        if (
            not isinstance(obs, gymnasium.spaces.Box)
            or not isinstance(act, gymnasium.spaces.Box)
            or len(obs.shape) != 1
        ):
            raise RookeryError(f"{name} has {obs} and {act}: choose an environment with vectors of numbers for both.")
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.task_id = f"gym/{name}"
        self.task = SimpleNamespace(causes=("terminated",))
        self.world = None
        self.max_episode_steps = (self._env.spec.max_episode_steps if self._env.spec else None) or 1000
        self.state_size = obs.shape[0]
        self._low = act.low
        self._high = act.high
        size = act.shape[0]
        action = ActionSpec(
            "gym",
            tuple(f"a{i}" for i in range(size)),
            tuple(act.low.tolist()),
            tuple(act.high.tolist()),
            ("1",) * size,
            (0.0,) * size,
        )
        self.groups = {GROUP: Group(1, (Term("observation", obs.shape[0]),), action)}
        self._seed = seed
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs, np.int64)
        self.state = torch.zeros(num_envs, self.state_size)

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """First observations, as VecEnv.reset."""
        obs, _ = self._env.reset(seed=self._seed if seed is None else seed)
        self._return[:] = 0.0
        self._length[:] = 0
        return self._see(obs), {}

    def step(
        self, actions: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        """One step of every copy, as VecEnv.step."""
        unit = actions[GROUP][:, 0].clamp(-1.0, 1.0).numpy().astype(np.float64)
        scaled = self._low + (unit + 1.0) * 0.5 * (self._high - self._low)
        obs, reward, terminated, truncated, given = self._env.step(scaled.astype(np.float32))
        self._return += reward
        self._length += 1
        info: dict[str, Any] = {}
        ids = np.flatnonzero(terminated | truncated)
        if len(ids):
            final = np.array(obs, np.float32)
            final[ids] = np.stack([given["final_obs"][i] for i in ids])
            info["final_observation"] = {GROUP: torch.from_numpy(final).unsqueeze(1)}
            info["final_state"] = torch.from_numpy(final)
            info["episode"] = {
                "ids": torch.from_numpy(ids),
                "return": {GROUP: torch.from_numpy(self._return[ids])},
                "length": torch.from_numpy(self._length[ids]),
                "metrics": {},
                "cause": torch.from_numpy(terminated[ids].astype(np.int64)),
                "reward_terms": {},
            }
            self._return[ids] = 0.0
            self._length[ids] = 0
        rewards = {GROUP: torch.from_numpy(reward.astype(np.float32)).unsqueeze(1)}
        return self._see(obs), rewards, torch.from_numpy(terminated), torch.from_numpy(truncated), info

    def stagger(self) -> None:
        """Nothing: gymnasium's clocks cannot be set."""

    def state_dict(self) -> dict[str, Tensor]:
        """Empty; see the class."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """New episodes."""
        self.reset()

    def close(self) -> None:
        """Free the environment."""
        self._env.close()

    def _see(self, obs: np.ndarray) -> dict[str, Tensor]:
        self.state = torch.from_numpy(np.array(obs, np.float32))
        return {GROUP: self.state.unsqueeze(1)}

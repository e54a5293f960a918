"""A gymnasium environment as an Env, so that trainers can be tried on problems whose results are well known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import Tensor

from rookery.sim.actions import check_actions
from rookery.sim.adapters.gymnasium_actions import ActionMap
from rookery.sim.adapters.seeding import unsigned
from rookery.sim.engines import check_seed
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import own
from rookery.sim.specs import Group, Term

GROUP = "agent"


class GymnasiumSource(Env):
    """N copies of a gymnasium environment with box observations, one agent each, on the CPU; see Env.

    Actions are numbers, choices or both, see `ActionMap`. Gymnasium environments cannot be saved exactly: after
    `load_state_dict` new episodes begin.

    Args:
        env: vector environment that resets in the same step (`AutoresetMode.SAME_STEP`); it is stepped and closed from now on.
        task_id: for messages and records.
        seed: of the episodes; None takes one from the operating system.

    Raises:
        RookeryError: observations are no vectors, actions of no kind that is known or without limits, or it resets otherwise.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, task_id: str = "gym", seed: int | None = None) -> None:
        self._env = env
        obs = env.single_observation_space
        if not isinstance(obs, gymnasium.spaces.Box) or len(obs.shape) != 1:
            raise RookeryError(
                f"{task_id} has the observations {obs}: choose an environment with vectors of numbers for them."
            )
        self._map = ActionMap(env.single_action_space, task_id)
        if env.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
            raise RookeryError(
                f"{task_id} resets by {env.metadata.get('autoreset_mode')}: make it with AutoresetMode.SAME_STEP."
            )
        self.num_envs = env.num_envs
        self.device = torch.device("cpu")
        self.control_dt = 1.0
        self.task_id = task_id
        self.causes = ("terminated",)
        self.max_episode_steps = (env.spec.max_episode_steps if env.spec else None) or 1000
        self.state_size = obs.shape[0]
        term = Term("observation", own("the environment's observation", obs.shape[0]))
        self.groups = {GROUP: Group(1, (term,), self._map.spec)}
        self._seed = None if seed is None else check_seed(seed)
        self._return = np.zeros(self.num_envs)
        self._length = np.zeros(self.num_envs, np.int64)
        self._last = torch.zeros(self.num_envs, self.state_size)

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        seed = self._seed if seed is None else check_seed(seed)
        self._seed = None  # later episodes go on with the stream
        obs, _ = self._env.reset(seed=self._seeds(seed))
        self._return[:] = 0.0
        self._length[:] = 0
        return self._observation(obs), {}

    def _seeds(self, seed: int | None) -> Any:
        """A seed for each environment that no other seed gives any: Gymnasium counts on from a single number, so that
        neighboring seeds would share all episodes but one environment's."""
        first = unsigned(seed)
        if first is None or not isinstance(self._env, (SyncVectorEnv, AsyncVectorEnv)):
            return first
        others = np.random.SeedSequence(first).generate_state(self.num_envs - 1, np.uint64)
        return [first, *others.tolist()]

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        chosen = self._map.batch(check_actions(self, actions)[GROUP][:, 0])
        obs, reward, terminated, truncated, infos = self._env.step(chosen)
        self._return += reward
        self._length += 1
        info: dict[str, Any] = {}
        ids = np.flatnonzero(terminated | truncated)
        if len(ids):
            final = np.array(obs, np.float32)
            final[ids] = np.stack([infos["final_obs"][i] for i in ids])
            info["final_observation"] = {GROUP: torch.from_numpy(final).unsqueeze(1)}
            info["final_state"] = torch.from_numpy(final)
            info["episode"] = self._episode(ids, terminated)
        rewards = {GROUP: torch.from_numpy(reward.astype(np.float32)).unsqueeze(1)}
        ends = torch.tensor(terminated), torch.tensor(truncated)  # copies: a vector environment may reuse its arrays
        return self._observation(obs), rewards, *ends, info

    def _episode(self, ids: np.ndarray, terminated: np.ndarray) -> dict[str, Any]:
        out = {
            "ids": torch.from_numpy(ids),
            "return": {GROUP: torch.from_numpy(self._return[ids])},
            "length": torch.from_numpy(self._length[ids]),
            "metrics": {},
            "cause": torch.from_numpy(terminated[ids].astype(np.int64)),
            "reward_terms": {},
        }
        self._return[ids] = 0.0
        self._length[ids] = 0
        return out

    @property
    def episode_start(self) -> Tensor:
        return torch.from_numpy(self._length == 0)

    @property
    def state(self) -> Tensor:
        return self._last

    def state_dict(self) -> dict[str, Tensor]:
        """Empty; see the class."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Begin new episodes; see the class."""
        self.reset()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As any object, with a copy of the environments, which say themselves whether they can be copied."""
        return object.__reduce_ex__(self, protocol)

    def close(self) -> None:
        self._env.close()

    def _observation(self, obs: np.ndarray) -> dict[str, Tensor]:
        self._last = torch.from_numpy(np.array(obs, np.float32))
        return {GROUP: self._last.unsqueeze(1)}


def make_gymnasium(name: str, num_envs: int, seed: int | None = None) -> GymnasiumSource:
    """N copies of a registered gymnasium environment.

    Args:
        name: gymnasium id, such as "Pendulum-v1".
        num_envs: N.
        seed: of the episodes; None takes one from the operating system.

    Raises:
        RookeryError: see `GymnasiumSource`.
    """
    vector_kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
    env = gymnasium.make_vec(name, num_envs, vectorization_mode="sync", vector_kwargs=vector_kwargs)
    return GymnasiumSource(env, f"gym/{name}", seed)

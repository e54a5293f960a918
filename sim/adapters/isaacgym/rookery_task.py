"""A task of Rookery behind the interface of a VecTask."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.sim.adapters.frames import Frames
from rookery.sim.adapters.isaacgym.checks import chosen_indices
from rookery.sim.adapters.isaacgym.env import VecTaskBase, VecTaskStep, clamped
from rookery.sim.adapters.rows import AgentRows, RowStep, episode_means, row_actions
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


class RookeryVecTask(VecTaskBase):
    """N rows of an Env with one agent group: agent a of world w is row w * A + a.

    `obs_buf`, `rew_buf`, `reset_buf` and `timeout_buf` are new tensors after every step, the same as `step` returns: they may
    be kept.

    An episode that ends begins anew in the same step: where ``reset_buf`` is 1 the observation is the first one of the
    new episode, ``progress_buf`` is 0, and ``extras["final_observation"]`` [N, O] has the last one of the old episode.
    ``extras["episode"]`` holds means over the episodes that ended. States are the group's observation set "critic"; of
    a task without one they are the state of the world where ``cfg["env"]["asymmetric_observations"]`` is true, and none
    otherwise.

    Args:
        env: stepped and closed from now on.
        config: of ``config["env"]`` clipObservations, clipActions and asymmetric_observations are read; the sizes and
            the control rate are the task's.
        options: the other arguments of VecTaskBase by name.

    Raises:
        RookeryError: several groups, a vector reward, or a value of the config that does not fit the task.
    """

    def __init__(self, env: Env, config: dict[str, Any], **options: Any) -> None:
        self._rows = rows = AgentRows(env, "VecTask")
        self.env = env
        section = dict(config.get("env", {}))
        own = {
            "numEnvs": rows.num,
            "numObservations": rows.observation_size,
            "numActions": rows.action_size,
            "numStates": self._states_size(bool(section.get("asymmetric_observations", False))),
            "controlFrequencyInv": 1,
            "numAgents": 1,
        }
        for name, value in own.items():
            if name != "numEnvs" and section.get(name, value) != value:
                raise RookeryError(
                    f'cfg["env"]["{name}"] is {section[name]} and {env.task_id} has {value}: leave it out.'
                )
        super().__init__(config | {"env": section | own}, **options)
        self.agents_per_world = rows.count
        self.dt = env.control_dt
        self.max_episode_length = env.max_episode_steps
        self._frames = Frames(env)
        self.allocate_buffers()
        self._begin(None)

    def _states_size(self, asymmetric: bool) -> int:
        if self._rows.privileged:
            return self._rows.critic_size()
        return self.env.state_size if asymmetric else 0

    def _begin(self, seed: int | None) -> None:
        self.obs_buf = self._rows.reset(seed)
        self.reset_buf = torch.zeros_like(self.reset_buf)
        self.progress_buf.zero_()
        self._read_states()

    def _read_states(self) -> None:
        if self.num_states > 0:
            self.states_buf.copy_(self._rows.critic() if self._rows.privileged else self._rows.state())

    def step(self, actions: Tensor) -> VecTaskStep:
        """One control step.

        Args:
            actions: [N, D], clipped to `clip_actions` and to [-1, 1].

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        if self.clip_actions < 1.0:  # the Env itself clips to 1
            actions = row_actions(actions, (self.num_environments, self.num_actions), self.device).clamp(
                -self.clip_actions, self.clip_actions
            )
        done = self._rows.step(actions)
        ended = done.terminated.numpy() | done.truncated.numpy()
        self.obs_buf = done.observation
        self.rew_buf = done.reward
        self.timeout_buf = torch.from_numpy(done.truncated.numpy().astype(np.int64))
        self.reset_buf = torch.from_numpy(ended.astype(np.int64))
        clock = self.progress_buf.numpy()
        clock += 1
        clock *= ~ended
        self._read_states()
        self.control_steps += 1
        self.extras = self._extras(done)
        return self._given(done.observation), self._out(done.reward), self._out(self.reset_buf), self.extras

    def _extras(self, done: RowStep) -> dict[str, Any]:
        extras: dict[str, Any] = {"time_outs": self._out(done.truncated)}
        if done.final is not None:
            extras["final_observation"] = self._out(clamped(done.final, self.clip_obs))
            if means := episode_means(done.info):  # trainers take the names of the first table
                extras["episode"] = means
        if (active := self.env.active) is not None:
            extras["active"] = self._out(active[self._rows.name].flatten().clone())
        return extras

    def reset_done(self) -> tuple[dict[str, Tensor], Tensor]:
        """The observations, and the indices of the rows whose episode ended in the last step, which have begun anew."""
        return self._observations(), self.reset_buf.nonzero(as_tuple=False).flatten()

    def reset_idx(self, env_ids: Tensor) -> None:
        """Begin new episodes in all environments.

        Raises:
            RookeryError: `env_ids` are only some of them, or there is no such environment.
        """
        chosen = chosen_indices("reset_idx", env_ids, None, self.num_environments)
        if len(chosen.unique()) != self.num_environments:
            raise RookeryError(
                f"{self.env.task_id} begins episodes by itself when others end: reset_idx takes all {self.num_environments} "
                f"environments, got {len(chosen.unique())}."
            )
        self._begin(None)

    def seed(self, seed: int) -> None:
        """Start all random streams anew and begin new episodes."""
        self._begin(seed)

    def get_env_state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, by name, exactly."""
        return self.env.state_dict() | {
            "vec_task.obs_buf": self.obs_buf.clone(),
            "vec_task.progress_buf": self.progress_buf.clone(),
        }

    def set_env_state(self, env_state: dict[str, Tensor] | None) -> None:
        """Continue from `get_env_state`; None changes nothing.

        Raises:
            ValueError, RookeryError: it is of another task or number of worlds.
        """
        if env_state is None:
            return
        own = {k: v for k, v in env_state.items() if k.startswith("vec_task.")}
        self.env.load_state_dict({k: v for k, v in env_state.items() if k not in own})
        self.obs_buf = own["vec_task.obs_buf"].clone()
        self.progress_buf.copy_(own["vec_task.progress_buf"])
        self._read_states()

    def render(self, mode: str = "rgb_array") -> Any:
        return self._frames.world(0) if mode == "rgb_array" else None

    def close(self) -> None:
        self._frames.close()
        self.env.close()

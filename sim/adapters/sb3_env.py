"""Stable-Baselines3's `VecEnv` over an Env: NumPy in and out, one row an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from rookery.sim.adapters.frames import RENDER_MODES, Frames, check_mode
from rookery.sim.adapters.rows import AgentRows
from rookery.sim.adapters.spaces import Array, action_space, episode_columns, observation_space
from rookery.sim.engines import check_seed
from rookery.sim.env import Env

Indices = None | int | Sequence[int]


class Sb3VecEnv(VecEnv):
    """R rows of an Env with one agent group.

    An episode that ends begins anew in the same step. Its row of the infos then has "terminal_observation" [O],
    "TimeLimit.truncated", and "episode": {"r": return, "l": length}, with the task's metrics beside them.

    Args:
        env: stepped and closed from now on.
        render_mode: None or "rgb_array".

    Raises:
        RookeryError: several groups, a vector reward, or an unknown render mode.
    """

    def __init__(self, env: Env, *, render_mode: str | None = None) -> None:
        self.env = env
        self._rows = rows = AgentRows(env, "Stable-Baselines3", choices=True)
        self.render_mode = check_mode(render_mode)
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": round(1.0 / env.control_dt)}
        self._frames = Frames(env)
        self._actions: Any = None
        self._seed: int | None = None
        super().__init__(rows.num, observation_space(rows.group), action_space(rows.group))

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Start all random streams anew at the next `reset`; None lets them go on.

        Raises:
            RookeryError: no whole number of at most 64 bits.
        """
        self._seed = None if seed is None else check_seed(seed)
        return [seed] * self.num_envs

    def reset(self) -> Array:
        """New episodes in all worlds; [R, O]."""
        obs = self._rows.reset(self._seed)
        self._seed = None
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        return obs.numpy()

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Keep actions [R, D], or [R] of a single choice, for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, NDArray[np.bool_], list[dict[str, Any]]]:
        """One control step.

        Returns:
            observations [R, O], rewards [R], dones [R], infos of length R.

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        done = self._rows.step(self._actions)
        late = done.truncated.numpy()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.final is not None:
            self._note_ends(infos, done.final.numpy(), late, done.info)
        return done.observation.numpy(), done.reward.numpy(), done.terminated.numpy() | late, infos

    def _note_ends(
        self, infos: list[dict[str, Any]], final: Array, late: NDArray[np.bool_], info: dict[str, Any]
    ) -> None:
        columns = {name: column.tolist() for name, column in episode_columns(self.env, info["episode"]).items()}
        columns = {"r": columns.pop("return"), "l": columns.pop("length")} | columns
        count = self._rows.count
        for world, values in zip(info["episode"]["ids"].tolist(), zip(*columns.values(), strict=True), strict=True):
            episode = dict(zip(columns, values, strict=True)) | {"t": 0.0}
            for i in range(world * count, (world + 1) * count):
                infos[i] = {
                    "terminal_observation": final[i],
                    "TimeLimit.truncated": bool(late[i]),
                    "episode": dict(episode),
                }
            self._frames.cut(world)

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A picture of every world, uint8 [H, W, 3]; None of each without a render mode."""
        if self.render_mode is None:
            return [None] * self.num_envs
        return [self._frames.world(i) for i in range(self.env.num_envs)]

    def close(self) -> None:
        """Free the renderers and the engine."""
        self._frames.close()
        self.env.close()

    # What SB3 asks single environments for: all rows share this object

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """The attribute of this object, for each row."""
        return [getattr(self, attr_name)] * len(self._chosen(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set the attribute of this object."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the Env once; its result for each row."""
        return [getattr(self.env, method_name)(*method_args, **method_kwargs)] * len(self._chosen(indices))

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """False for each row: there are no gymnasium wrappers."""
        return [False] * len(self._chosen(indices))

    def _chosen(self, indices: Indices) -> list[int]:
        return list(self._get_indices(indices))

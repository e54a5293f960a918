"""`gymnasium.vector.VectorEnv` over a Env: NumPy in and out, auto-reset in the same step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.adapters.frames import RENDER_MODES, Frames
from rookery.sim.adapters.rows import reshaped
from rookery.sim.adapters.seeding import seed_for, unsigned
from rookery.sim.adapters.spaces import (
    Array,
    action_of,
    action_space,
    episode_columns,
    masks_of,
    observation_space,
    one_number,
    only_group,
)
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

Flags = NDArray[np.bool_]


class VectorEnv(gymnasium.vector.VectorEnv):
    """N worlds of a task with one agent group.

    Episodes that end begin anew in the same step (``AutoresetMode.SAME_STEP``): the observation returned is the new
    episode's first, ``info["final_obs"][i]`` the old one's last, and ``info["final_info"]`` has its return, length,
    cause and metrics, each [N] with a mask under the name with an underscore before it, as Gymnasium's own vector
    environments give them. Observations [N, O] and rewards [N] are float32.

    Args:
        env: what is wrapped.
        joint: take several agents as one that sees and commands all of them: [N, A * O], [N, A * D], mean reward.
        tensors: give torch tensors in place of NumPy arrays, infos aside; actions may be either.
        render_mode: None; "rgb_array": `render` gives N pictures; "human": a window shows world 0 at every reset and step.

    Raises:
        RookeryError: several groups, or several agents without `joint`, a vector reward, an unknown render mode, or
            "human" without a screen.
    """

    def __init__(self, env: Env, *, joint: bool = False, tensors: bool = False, render_mode: str | None = None) -> None:
        one_number(env)
        self.env = env
        self.tensors = tensors
        self.num_envs = env.num_envs
        self._name, self.group = only_group(env, joint)
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": list(RENDER_MODES),
            "render_fps": round(1.0 / env.control_dt),
        }
        self.autoreset_mode = AutoresetMode.SAME_STEP  # TorchRL reads the attribute
        self._frames = Frames(env, render_mode)
        self.render_mode = render_mode
        self.single_observation_space = observation_space(self.group, self.group.count)
        self.single_action_space = action_space(self.group, self.group.count)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin new episodes in all worlds.

        Args:
            seed: one number; every world has a random stream of its own that follows from it. None lets them go on; an
                environment that has been given no seed begins with one from the operating system, `np_random_seed`.
            options: none are known.

        Raises:
            RookeryError: a list of seeds, or a reset of some worlds only.
        """
        if isinstance(seed, (list, tuple, np.ndarray)):
            raise RookeryError("reset takes one seed for all worlds, each gets its own stream: pass an int.")
        if options and "reset_mask" in options:
            raise RookeryError("worlds begin anew by themselves when their episode ends: leave reset_mask out.")
        seed = seed_for(self.env, seed)
        super().reset(seed=unsigned(seed))
        obs, _ = self.env.reset(seed)
        self._frames.show()
        return self._flat(obs), self._masks()

    def step(self, actions: Any) -> tuple[Array, Array, Flags, Flags, dict[str, Any]]:
        """Advance all worlds by one control step.

        Args:
            actions: [N, D] in [-1, 1], or of the action space of choices.

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        n, a = self.num_envs, self.group.count
        action = action_of(actions, self.group.action, (n,), a)
        obs, rewards, terminated, truncated, info = self.env.step({self._name: action})
        reward = rewards[self._name]
        out = (self._ended(info) if "episode" in info else {}) | self._masks()
        self._frames.show()
        return (
            self._flat(obs),
            self._given(reward.mean(1) if a > 1 else reward, n),
            self._given(terminated, n),
            self._given(truncated, n),
            out,
        )

    def _masks(self) -> dict[str, Any]:
        """{"action_mask": [N, A * C] int8} of a masked action: the options allowed now."""
        if not self.group.action.masked:
            return {}
        masks = masks_of(self.env, self._name).reshape(self.num_envs, -1)
        return {"action_mask": masks, "_action_mask": np.ones(self.num_envs, np.bool_)}

    def _flat(self, obs: dict[str, Tensor]) -> Any:
        return self._given(obs[self._name], self.num_envs, -1)

    def _given(self, tensor: Tensor, *shape: int) -> Any:
        """In another shape and without a copy: what an Env returns is never written to again."""
        return reshaped(tensor, shape) if self.tensors else tensor.numpy().reshape(shape)

    def _ended(self, info: dict[str, Any]) -> dict[str, Any]:
        episode = info["episode"]
        ids = episode["ids"].numpy()
        ended = np.zeros(self.num_envs, np.bool_)
        ended[ids] = True
        final = np.empty(self.num_envs, dtype=object)  # of None
        rows: Any = info["final_observation"][self._name].numpy().reshape(self.num_envs, -1)[ids]
        if self.tensors:
            rows = torch.from_numpy(rows)
        for i, row in zip(ids.tolist(), rows, strict=True):
            final[i] = row
            self._frames.cut(i)
        told = self._told(episode, ids, ended)
        return {"final_obs": final, "_final_obs": ended, "final_info": told, "_final_info": ended}

    def _told(self, episode: dict[str, Any], ids: NDArray[np.int64], ended: Flags) -> dict[str, Any]:
        """The columns of `episode_columns` with zeros where no episode ended, and `ended` as the mask of each."""
        columns = episode_columns(self.env, episode)
        floats = [name for name, column in columns.items() if column.dtype == np.float64]
        block = np.zeros((len(floats), self.num_envs))  # at once, since each of ten columns takes 3 us by itself
        block[:, ids] = [columns[name] for name in floats]
        spread = dict(zip(floats, block, strict=True))
        infos: dict[str, Any] = {}
        for name, column in columns.items():
            if name not in spread:
                spread[name] = np.zeros(self.num_envs, column.dtype)
                spread[name][ids] = column
            infos[name] = spread[name]
            infos[f"_{name}"] = ended
        return infos

    def render(self) -> tuple[Any, ...] | None:
        """A picture of every world, uint8 [H, W, 3] each; None without the mode "rgb_array"."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self._frames.world(i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the renderers and the engine."""
        self._frames.close()
        self.env.close()

"""`gymnasium.vector.VectorEnv` over a Env: NumPy in and out, auto-reset in the same step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rookery.sim.adapters.frames import RENDER_MODES, Frames, check_mode
from rookery.sim.adapters.spaces import (
    Array,
    action_space,
    action_tensor,
    array,
    episode_summary,
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
        render_mode: None or "rgb_array": `render` then gives N pictures.

    Raises:
        RookeryError: several groups, or several agents without `joint`, a vector reward, or an unknown render mode.
    """

    def __init__(self, env: Env, *, joint: bool = False, render_mode: str | None = None) -> None:
        one_number(env)
        self.env = env
        self.num_envs = env.num_envs
        self._name, self.group = only_group(env, joint)
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": list(RENDER_MODES),
            "render_fps": round(1.0 / env.control_dt),
        }
        self.render_mode = check_mode(render_mode)
        self.single_observation_space = observation_space(self.group, self.group.count)
        self.single_action_space = action_space(self.group, self.group.count)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._frames = Frames(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin new episodes in all worlds.

        Args:
            seed: one number; every world has a random stream of its own that follows from it.
            options: none are known.

        Raises:
            RookeryError: a list of seeds, or a reset of some worlds only.
        """
        if seed is not None and not isinstance(seed, (int, np.integer)):
            raise RookeryError("reset takes one seed for all worlds, each gets its own stream: pass an int.")
        if options and "reset_mask" in options:
            raise RookeryError("worlds begin anew by themselves when their episode ends: leave reset_mask out.")
        super().reset(seed=seed)
        obs, _ = self.env.reset(seed)
        return self._flat(obs), {}

    def step(self, actions: Any) -> tuple[Array, Array, Flags, Flags, dict[str, Any]]:
        """Advance all worlds by one control step.

        Args:
            actions: [N, D] in [-1, 1].

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        n, a, d = self.num_envs, self.group.count, self.group.action.size
        action = action_tensor(actions, (n, a * d), (n, a, d))
        obs, reward, terminated, truncated, info = self.env.step({self._name: action})
        out = self._ended(info) if "episode" in info else {}
        return (
            self._flat(obs),
            array(reward[self._name].mean(1)),
            terminated.numpy().copy(),
            truncated.numpy().copy(),
            out,
        )

    def _flat(self, obs: dict[str, Any]) -> Array:
        return array(obs[self._name].flatten(1))

    def _ended(self, info: dict[str, Any]) -> dict[str, Any]:
        final = self._flat(info["final_observation"])
        infos = dict[str, Any]()
        for row, i in enumerate(info["episode"]["ids"].tolist()):
            summary = episode_summary(self.env, info, row)
            infos = self._add_info(infos, {"final_obs": final[i], "final_info": summary}, i)
            self._frames.cut(i)
        return infos

    def render(self) -> tuple[Any, ...] | None:
        """A picture of every world, uint8 [H, W, 3] each; None without a render mode."""
        if self.render_mode is None:
            return None
        return tuple(self._frames.world(i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the renderers and the engine."""
        self._frames.close()
        self.env.close()

"""`gymnasium.Env` over an Env of one world."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.adapters.frames import RENDER_MODES, Frames
from rookery.sim.adapters.seeding import seed_for, unsigned
from rookery.sim.adapters.spaces import (
    Array,
    action_of,
    action_space,
    array,
    episode_summary,
    masks_of,
    observation_space,
    one_number,
    only_group,
)
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


class SingleEnv(gymnasium.Env):
    """One world of a task with one agent group.

    The step that ends an episode returns that episode's last observation; ``info`` then has its return, length, cause
    and metrics. `reset` begins the next one. Where options of choices are not allowed at all times, ``info["action_mask"]``
    says which are, in the state of the observation.

    Args:
        env: what is wrapped, with num_envs == 1.
        joint: take several agents as one that sees and commands all of them: [A * O], [A * D], mean reward.
        render_mode: None; "rgb_array"; or "human", a window that shows every reset and step.

    Raises:
        RookeryError: more than one world, several groups, several agents without `joint`, a vector reward, or
            an unknown render mode, or "human" without a screen.
    """

    def __init__(self, env: Env, *, joint: bool = False, render_mode: str | None = None) -> None:
        if env.num_envs != 1:
            raise RookeryError(f"gymnasium.Env holds one world, got num_envs={env.num_envs}: use VectorEnv.")
        one_number(env)
        self.env = env
        self._name, self.group = only_group(env, joint)
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": round(1.0 / env.control_dt)}
        self._last_masks: dict[str, Any] = {}  # of the episode that ended last
        self._listen()
        self._frames = Frames(env, render_mode, last=True)
        self.render_mode = render_mode
        self.observation_space = observation_space(self.group, self.group.count)
        self.action_space = action_space(self.group, self.group.count)
        self._running = False
        self._next: Array | None = None  # first observation of an episode that the Env has begun by itself

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin a new episode.

        Args:
            seed: starts the world's random stream anew; None lets it go on. An environment that has been given no seed begins
                with one from the operating system, `np_random_seed`.
            options: none are known.
        """
        seed = seed_for(self.env, seed)
        super().reset(seed=unsigned(seed))
        obs = self._next
        if obs is None or seed is not None:
            obs = array(self.env.reset(seed)[0][self._name].flatten())
        self._next = None
        self._running = True
        self._frames.cut(0)
        self._frames.show()
        return obs, self._masks()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Advance by one control step.

        Args:
            action: [D] in [-1, 1], or of the action space of choices.

        Raises:
            RookeryError: the episode has ended or none was begun, or an action of another shape or with NaN.
        """
        if not self._running:
            raise RookeryError("there is no episode to step: call reset() first, and after each episode's end.")
        tensor = action_of(action, self.group.action, (), self.group.count)
        obs, reward, terminated, truncated, info = self.env.step({self._name: tensor})
        seen = array(obs[self._name].flatten())
        if "episode" in info:
            self._next = seen
            self._running = False
            seen = array(info["final_observation"][self._name].flatten())
            summary = episode_summary(self.env, info, 0) | self._last_masks
        else:
            summary = self._masks()
        self._frames.show()
        return seen, float(reward[self._name].mean()), bool(terminated[0]), bool(truncated[0]), summary

    def _masks(self) -> dict[str, Any]:
        """{"action_mask": [A * C] int8} of a masked action: the options allowed now."""
        return {"action_mask": masks_of(self.env, self._name).flatten()} if self.group.action.masked else {}

    def _listen(self) -> None:
        if self.group.action.masked:
            self.env.before_restart(self._keep_masks)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._listen()

    def _keep_masks(self, ids: Tensor) -> None:
        """Remember what was allowed where the episode ended."""
        self._last_masks = self._masks()

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """The world as uint8 [H, W, 3]; None without the mode "rgb_array". After an episode's end it shows the last state
        until `reset`."""
        return self._frames.render()

    def close(self) -> None:
        """Free the renderer and the engine."""
        self._frames.close()
        self.env.close()

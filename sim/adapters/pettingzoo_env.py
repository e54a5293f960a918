"""PettingZoo's `ParallelEnv` over an Env of one world: every agent by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pettingzoo
import torch
from gymnasium.spaces import Box, Dict, Space
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.adapters.agents import agent_names
from rookery.sim.adapters.frames import RENDER_MODES, Frames
from rookery.sim.adapters.seeding import seed_for
from rookery.sim.adapters.spaces import (
    Array,
    action_of,
    action_space,
    array,
    episode_summary,
    mask_space,
    masks_of,
    observation_space,
    reward_space,
)
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

ByAgent = dict[str, Any]


class ParallelEnv(pettingzoo.ParallelEnv):
    """One world of a task. Agents are called ``<group>_<i>``, such as ``drone_0``.

    An episode ends for all agents together; an agent that drops out earlier (see `Env.active`) is terminated then,
    gets its last observation, and the task's neutral action is taken for it until the end. Agents that take no part in an
    episode are not in `agents` from its `reset` on.

    Where options of a group's choices are not allowed at all times, an observation is a dict with "observation" and
    "action_mask", as in PettingZoo's own environments.

    A vector reward stays one: each agent's is an array [M], with `reward_space` as in MOMAland's multi-objective
    environments.

    Args:
        env: what is wrapped, with num_envs == 1.
        render_mode: None; "rgb_array"; or "human": `render` shows the world in a window.

    Raises:
        RookeryError: more than one world, or an unknown render mode.
    """

    def __init__(self, env: Env, *, render_mode: str | None = None) -> None:
        if env.num_envs != 1:
            raise RookeryError(
                f"PettingZoo's ParallelEnv holds one world, got num_envs={env.num_envs}: use Env itself."
            )
        self.env = env
        self.metadata = {
            "name": env.task_id,
            "render_modes": list(RENDER_MODES),
            "render_fps": round(1.0 / env.control_dt),
        }
        self._masked = [g for g, s in env.groups.items() if s.action.masked]
        self._last_masks: dict[str, NDArray[np.int8]] = {}  # by group, of the episode that ended last
        self._listen()
        self._frames = Frames(env, render_mode, last=True)
        self.render_mode = render_mode
        self._where = agent_names(env)
        self.possible_agents = list(self._where)
        self.agents: list[str] = []
        self.observation_spaces = {name: _observed(env.groups[g]) for name, (g, _) in self._where.items()}
        self.action_spaces = {name: action_space(env.groups[g]) for name, (g, _) in self._where.items()}
        self.reward_spaces = {name: reward_space(env) for name in self._where}
        self.state_space = Box(-np.inf, np.inf, (env.state_size,), dtype=np.float32)
        self._state = np.zeros(env.state_size, dtype=np.float32)

    def observation_space(self, agent: str) -> Box | Dict:
        """The agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """The agent's action space, always the same object."""
        return self.action_spaces[agent]

    def reward_space(self, agent: str) -> Box:
        """The space of the agent's reward, always the same object: [M], or [1] for a reward of one number."""
        return self.reward_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ByAgent, ByAgent]:
        """Begin a new episode with all agents that take part in it.

        Args:
            seed: starts the world's random stream anew; None lets it go on. An environment that has been given no seed begins
                with one from the operating system.
            options: none are known.

        Returns:
            Observations and empty infos by agent.
        """
        obs, _ = self.env.reset(seed_for(self.env, seed))
        self.agents = list(self.possible_agents)
        gone = self._gone(self.env.active)
        self.agents = [name for name in self.possible_agents if name not in gone]
        self._state = array(self.env.state[0])
        self._frames.cut(0)
        return self._by_agent(obs), {name: {} for name in self.agents}

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Advance by one control step.

        Args:
            actions: by agent, each [D] in [-1, 1], or of the action space of choices, for all live agents.

        Returns:
            By agent that was live: observation, reward (a number, or [M]), terminated, truncated, info. When the episode
            ends, info has its return (mean over agents), length, cause and metrics.

        Raises:
            RookeryError: no episode is running, or an agent's action is missing, of another shape or with NaN.
        """
        if not self.agents:
            raise RookeryError("there is no episode to step: call reset() first, and after each episode's end.")
        obs, reward, terminated, truncated, info = self.env.step(self._actions(actions))
        ended = "episode" in info
        seen = info["final_observation"] if ended else obs
        self._state = array((info["final_state"] if ended else self.env.state)[0])
        summary = episode_summary(self.env, info, 0) if ended else {}
        gone = self._gone(info.get("final_active") if ended else self.env.active)
        over = {name: bool(terminated[0]) or name in gone for name in self.agents}
        late = {name: bool(truncated[0]) and name not in gone for name in self.agents}
        given = array if self.env.objectives else float
        rewards = {name: given(reward[g][0, i]) for name, (g, i) in self._live().items()}
        observations = self._by_agent(seen, self._last_masks if ended else None)
        infos = {name: dict(summary) for name in self.agents}
        self.agents = [name for name in self.agents if not (over[name] or late[name])]
        return observations, rewards, over, late, infos

    def _live(self) -> dict[str, tuple[str, int]]:
        return {name: self._where[name] for name in self.agents}

    def _masks(self) -> dict[str, NDArray[np.int8]]:
        """By group whose action is masked, [A, C]: which options are allowed now."""
        return {g: masks_of(self.env, g)[0] for g in self._masked}

    def _listen(self) -> None:
        if self._masked:
            self.env.before_restart(self._keep_masks)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._listen()

    def _keep_masks(self, ids: Tensor) -> None:
        """Remember what was allowed where an episode ended."""
        self._last_masks = self._masks()

    def _by_agent(self, obs: dict[str, Tensor], masks: dict[str, NDArray[np.int8]] | None = None) -> ByAgent:
        """Observations of live agents, with these masks, or those of now."""
        masks = self._masks() if masks is None else masks
        out: ByAgent = {}
        for name, (g, i) in self._live().items():
            seen = array(obs[g][0, i])
            out[name] = {"observation": seen, "action_mask": masks[g][i]} if g in masks else seen
        return out

    def _gone(self, active: dict[str, Tensor] | None) -> set[str]:
        """Live agents that do not take part any more."""
        return set() if active is None else {name for name, (g, i) in self._live().items() if not active[g][0, i]}

    def _actions(self, actions: ByAgent) -> dict[str, Tensor]:
        missing = [name for name in self.agents if name not in actions]
        if missing:
            raise RookeryError(f"every live agent needs an action, {missing} have none.")
        out = {
            g: torch.tensor(s.action.rest, dtype=torch.float32).repeat(1, s.count, 1)
            for g, s in self.env.groups.items()
        }
        for name, (g, i) in self._live().items():
            out[g][0, i] = action_of(actions[name], self.env.groups[g].action, (), 1)[0, 0]
        return out

    def state(self) -> Array:
        """[S] what a central critic sees."""
        return self._state

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """The world as uint8 [H, W, 3]; None without the mode "rgb_array". After an episode's end it shows the last state
        until `reset`."""
        return self._frames.render()

    def close(self) -> None:
        """Free the renderer and the engine."""
        self._frames.close()
        self.env.close()


def _observed(group: Group) -> Box | Dict:
    """Observations of an agent, with the mask of its choices where they have one."""
    if not group.action.masked:
        return observation_space(group)
    return Dict({"observation": observation_space(group), "action_mask": mask_space(group)})

"""The base of every VecTask: sizes, spaces, devices and clips out of a config with the sections "env" and "sim"."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from rookery.sim.errors import RookeryError

Observations = dict[str, Tensor]
"""{"obs": [N, O]}, and "states" [N, S] where `num_states` is not 0."""
VecTaskStep = tuple[Observations, Tensor, Tensor, dict[str, Any]]
"""Observations, rewards [N] float32, resets [N] int64 (1 where an episode ended), extras."""


def plain(config: Any) -> dict[str, Any]:
    """A config as nested dicts that belong to the caller; OmegaConf's and others' mappings are taken too.

    Raises:
        RookeryError: it is no mapping, or one of its sections "env", "sim" and "rookery" is none.
    """
    if not isinstance(config, Mapping):
        raise RookeryError(f'cfg must be a dict such as {{"env": {{...}}, "sim": {{...}}}}, got {config!r}.')
    for name in ("env", "sim", "rookery"):
        if not isinstance(config.get(name, {}), Mapping):
            raise RookeryError(f'cfg["{name}"] must be a dict, got {config[name]!r}: leave it out for the defaults.')
    return {str(k): plain(v) if isinstance(v, Mapping) else v for k, v in config.items()}


def usable_device(sim_device: str, rl_device: str) -> str:
    """The device of what goes in and out: `rl_device` if it is here, else "cpu". What cannot be is said in one warning.

    Raises:
        RookeryError: torch does not know such a name.
    """
    moved = []
    for name, asked in (("sim_device", sim_device), ("rl_device", rl_device)):
        try:
            device = torch.device(asked)
        except (RuntimeError, TypeError) as e:
            raise RookeryError(f'{name} must be a torch device such as "cpu" or "cuda:0", got {asked!r}.') from e
        here = device.type == "cuda" and name == "rl_device" and (device.index or 0) < torch.cuda.device_count()
        if device.type != "cpu" and not here:
            moved.append(f"{name}={asked}")
    if moved:
        why = "engines run on processors" if torch.cuda.is_available() else "there is no CUDA device"
        warnings.warn(f"{' and '.join(moved)}: the cpu is used, since {why}.", RuntimeWarning, stacklevel=3)
    return "cpu" if any(m.startswith("rl") for m in moved) else str(rl_device)


class VecTaskBase(abc.ABC):
    """Attributes, buffers and methods that scripts for isaacgymenvs use.

    Args:
        config: ``config["env"]`` has numEnvs, numActions, and where they differ from the defaults numObservations (0),
            numStates (0), numAgents (1), controlFrequencyInv (1), clipObservations and clipActions (inf), renderFPS (-1).
        rl_device: of what goes in and out.
        sim_device: of the buffers, "cpu": all engines here run on processors.
        graphics_device_id: kept, not used.
        headless: kept; there is no viewer.
        virtual_screen_capture: `render` gives pictures even where no mode is asked for.
        force_render: kept, not used.

    Attributes:
        num_environments, num_agents, num_observations, num_states, num_actions: N, 1, O, S, D.
        obs_space, state_space, act_space: Box of [O], [S], [D].
        control_freq_inv: simulation steps in a control step.
        clip_obs, clip_actions: symmetric limits.
        max_episode_length: control steps.
        extras: what `step` returns last; "time_outs" [N] bool in it.
        viewer, virtual_display, enable_viewer_sync, physics_engine, first_randomization, original_props, dr_randomizations,
            last_step, last_rand_step: for tasks that read them; there is no viewer.

    Raises:
        RookeryError: a value of the config is missing or does not fit.
    """

    metadata: ClassVar[dict[str, Any]] = {"render.modes": ["human", "rgb_array"], "video.frames_per_second": 24}
    max_episode_length: int
    obs_buf: Tensor
    states_buf: Tensor
    rew_buf: Tensor
    reset_buf: Tensor
    timeout_buf: Tensor
    progress_buf: Tensor
    randomize_buf: Tensor

    def __init__(
        self,
        config: Mapping[str, Any],
        rl_device: str,
        sim_device: str,
        graphics_device_id: int = -1,
        headless: bool = True,
        virtual_screen_capture: bool = False,
        force_render: bool = False,
    ) -> None:
        self.cfg = plain(config)
        env = self.cfg.setdefault("env", {})
        self.cfg.setdefault("sim", {})
        self.device_type, self.device_id, self.device = "cpu", 0, "cpu"
        self.rl_device = rl_device
        self.headless = headless
        self.graphics_device_id = graphics_device_id
        self.virtual_screen_capture = virtual_screen_capture
        self.force_render = force_render
        self.num_environments = _count(env, "numEnvs", None, 1)
        self.num_agents = _count(env, "numAgents", 1, 1)
        self.num_observations = _count(env, "numObservations", 0, 0)
        self.num_states = _count(env, "numStates", 0, 0)
        self.num_actions = _count(env, "numActions", None, 1)
        self.control_freq_inv = _count(env, "controlFrequencyInv", 1, 1)
        self.clip_obs = _limit(env, "clipObservations")
        self.clip_actions = _limit(env, "clipActions")
        self.obs_space = Box(-np.inf, np.inf, (self.num_observations,), dtype=np.float32)
        self.state_space = Box(-np.inf, np.inf, (self.num_states,), dtype=np.float32)
        self.act_space = Box(-1.0, 1.0, (self.num_actions,), dtype=np.float32)
        self.total_train_env_frames = 0
        self.control_steps = 0
        self.render_fps = int(env.get("renderFPS", -1))
        self.last_frame_time = 0.0
        self.record_frames = False
        self.viewer: Any = None
        self.virtual_display: Any = None
        self.enable_viewer_sync = True
        self.physics_engine = self.cfg.get("physics_engine", "mujoco")
        self.first_randomization = True
        self.original_props: dict[str, Any] = {}
        self.dr_randomizations: dict[str, Any] = {}
        self.last_step = self.last_rand_step = -1
        self.extras: dict[str, Any] = {}
        self.obs_dict: Observations = {}

    def allocate_buffers(self) -> None:
        """Make the buffers: observations, states, rewards and counters of zeros, `reset_buf` of ones, so that the first step
        begins the episodes."""
        n = self.num_environments
        self.obs_buf = torch.zeros(n, self.num_observations)
        self.states_buf = torch.zeros(n, self.num_states)
        self.rew_buf = torch.zeros(n)
        self.reset_buf = torch.ones(n, dtype=torch.long)
        self.timeout_buf = torch.zeros(n, dtype=torch.long)
        self.progress_buf = torch.zeros(n, dtype=torch.long)
        self.randomize_buf = torch.zeros(n, dtype=torch.long)

    # What scripts call

    @abc.abstractmethod
    def step(self, actions: Tensor) -> VecTaskStep:
        """One control step with actions [N, D], clipped to `clip_actions`."""

    @abc.abstractmethod
    def reset_idx(self, env_ids: Tensor) -> None:
        """Begin new episodes in the environments `env_ids` [n] int64."""

    def reset(self) -> Observations:
        """The observations now. Nothing is reset: episodes begin by themselves."""
        return self._observations()

    def reset_done(self) -> tuple[Observations, Tensor]:
        """Begin new episodes where `reset_buf` is not 0; the observations, and the indices of those environments [n]."""
        ids = self.reset_buf.nonzero(as_tuple=False).flatten()
        if len(ids):
            self.reset_idx(ids)
        return self._observations(), ids

    def get_state(self) -> Tensor:
        """[N, S] states of asymmetric critics, clipped to `clip_obs`."""
        return self.states_buf.clamp(-self.clip_obs, self.clip_obs).to(self.rl_device)

    def zero_actions(self) -> Tensor:
        """[N, D] zeros."""
        return torch.zeros(self.num_environments, self.num_actions, device=self.rl_device)

    def set_train_info(self, env_frames: int, *args: Any, **kwargs: Any) -> None:
        """Keep how many frames a training has taken, in `total_train_env_frames`."""
        self.total_train_env_frames = env_frames

    # What rl_games asks a vectorized environment for (IVecEnv of rl_games/common/ivecenv.py)

    def get_env_info(self) -> dict[str, Any]:
        """The spaces, as rl_games' agents read them: "observation_space", "action_space", and "state_space" where there are
        states; one agent and one value a row."""
        info = {"observation_space": self.obs_space, "action_space": self.act_space, "agents": 1, "value_size": 1}
        return info | ({"state_space": self.state_space} if self.num_states else {})

    def get_number_of_agents(self) -> int:
        """1: every row is an agent of its own."""
        return 1

    def has_action_masks(self) -> bool:
        """False."""
        return False

    def get_env_state(self) -> Any:
        """State for a trainer's checkpoint of the environment; None for nothing."""
        return None

    def set_env_state(self, env_state: Any) -> None:
        """Continue from `get_env_state`."""

    def apply_randomizations(self, dr_params: Mapping[str, Any]) -> None:
        """Isaac Gym's own randomization, of which nothing exists here.

        Raises:
            RookeryError: `dr_params` asks for something.
        """
        if dr_params:
            raise RookeryError(
                f"apply_randomizations({', '.join(dr_params)}) has no counterpart here: write "
                f"`self.sim.world.params` in reset_idx, "
                'or give tasks of Rookery cfg={"rookery": {"randomize": "default"}}.'
            )

    def render(self, mode: str = "rgb_array") -> Any:
        """Environment 0 as uint8 [H, W, 3] for "rgb_array"; None for "human", since there is no viewer."""
        return None

    def close(self) -> None:
        """Free the engine."""

    def _observations(self) -> Observations:
        return self._given(self.obs_buf.clone())

    def _given(self, obs: Tensor) -> Observations:
        """`obs_dict` anew, of observations [N, O] that nobody writes to again."""
        self.obs_dict = {"obs": self._out(clamped(obs, self.clip_obs))}
        if self.num_states > 0:
            self.obs_dict["states"] = self.get_state()
        return self.obs_dict

    def _out(self, tensor: Tensor) -> Tensor:
        """On `rl_device`."""
        return tensor if self.rl_device == "cpu" else tensor.to(self.rl_device)

    @property
    def observation_space(self) -> Box:
        """Box of [O]."""
        return self.obs_space

    @property
    def action_space(self) -> Box:
        """Box of [D] in [-1, 1]."""
        return self.act_space

    @property
    def num_envs(self) -> int:
        """N."""
        return self.num_environments

    @property
    def num_acts(self) -> int:
        """D."""
        return self.num_actions

    @property
    def num_obs(self) -> int:
        """O."""
        return self.num_observations


def clamped(values: Tensor, limit: float) -> Tensor:
    """`values` within a symmetric limit, themselves where it is infinite."""
    return values if limit == np.inf else values.clamp(-limit, limit)


def _limit(env: dict[str, Any], name: str) -> float:
    """A symmetric limit of the config's section "env", infinity without one.

    Raises:
        RookeryError: no number of at least 0.
    """
    value = env.get(name, np.inf)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0.0:
        raise RookeryError(f'cfg["env"]["{name}"] must be a number of at least 0, got {value!r}.')
    return float(value)


def _count(env: dict[str, Any], name: str, default: int | None, least: int) -> int:
    """A whole number of the config's section "env".

    Raises:
        RookeryError: it is missing and has no default, is no whole number, or less than `least`.
    """
    value = env.get(name, default)
    if value is None:
        raise RookeryError(f'the config lacks cfg["env"]["{name}"]: give a whole number.')
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise RookeryError(f'cfg["env"]["{name}"] must be a whole number of at least {least}, got {value!r}.')
    return int(value)

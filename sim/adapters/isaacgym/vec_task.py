"""VecTask: the base of users' own tasks in the style of isaacgymenvs, on a World of this package.

A control step is, as there:

    clip the actions -> pre_physics_step -> `control_freq_inv` simulation steps -> post_physics_step -> time_outs, observations

The default `post_physics_step` counts `progress_buf`, begins new episodes where `reset_buf` asks for them, and calls
`compute_observations` and `compute_reward`. Episodes thus begin one step after `reset_buf` was set: the observation
returned with a reset is the last one of the old episode. Where physics diverged, the episode ends with a reward of 0, and not
by its time limit; the engine has put the world back to its initial state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rookery.sim.adapters.isaacgym.env import VecTaskBase, VecTaskStep
from rookery.sim.adapters.isaacgym.simulation import SimParams, Simulation, TensorApi
from rookery.sim.adapters.rows import row_actions
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

COUNTERS = ("reset_buf", "timeout_buf", "progress_buf", "randomize_buf")


class VecTask(VecTaskBase):
    """A task of the user's own: subclasses say what stands in the world, what actions do, what is observed and rewarded.

    A subclass sets ``self.max_episode_length`` before it calls ``super().__init__(...)``, as tasks of isaacgymenvs do. The
    order of values in tensors is Isaac Gym's, see `TensorApi`.

    Args:
        config, rl_device, sim_device, graphics_device_id, headless, virtual_screen_capture, force_render: see VecTaskBase; and
            ``config["sim"]`` has dt (1/60 s), substeps (2), gravity and engine ("mujoco").

    Attributes:
        sim: the Simulation that `create_sim` made.
        gym: the TensorApi.
        dt: s, a simulation step.
        actions: [N, D] of this control step, after the clip.

    Raises:
        RookeryError: a method or buffer is missing or does not fit; it names it.
    """

    sim: Simulation

    def __init__(
        self,
        config: Mapping[str, Any],
        rl_device: str = "cpu",
        sim_device: str = "cpu",
        graphics_device_id: int = -1,
        headless: bool = True,
        virtual_screen_capture: bool = False,
        force_render: bool = False,
    ) -> None:
        check_subclass(type(self))
        super().__init__(
            config, rl_device, sim_device, graphics_device_id, headless, virtual_screen_capture, force_render
        )
        self.gym = TensorApi()
        self.sim_params = SimParams.read(self.cfg["sim"])
        self.dt = self.sim_params.dt
        self._checked = False
        self._renderer: Any = None
        made = self.create_sim()
        if isinstance(made, Simulation):
            self.sim = made
        if not isinstance(self.__dict__.get("sim"), Simulation):
            raise RookeryError(
                f"{type(self).__name__}.create_sim made no simulation: let it end with self.sim = super().create_sim(scene)."
            )
        self.allocate_buffers()
        self.actions = torch.zeros(self.num_environments, self.num_actions)

    # What subclasses write

    def create_sim(self, scene: Any = None, *others: Any) -> Simulation | None:
        """Say what stands in each environment. Subclasses override it without arguments, make a Scene, and end with
        ``self.sim = super().create_sim(scene)``.

        Raises:
            RookeryError: no Scene was given, or it does not compile.
        """
        if not isinstance(scene, Scene):
            raise RookeryError(
                f"{type(self).__name__}.create_sim must call super().create_sim(scene) with a rookery.sim.scene.Scene, got "
                f"{type(scene).__name__}."
            )
        return Simulation(scene, self.num_environments, self.sim_params)

    def pre_physics_step(self, actions: Tensor) -> None:
        """Turn actions [N, D] into forces or targets, by `gym`."""
        raise NotImplementedError

    def reset_idx(self, env_ids: Tensor) -> None:
        """Begin new episodes in the environments `env_ids` [n]: write the state; zero `progress_buf` and `reset_buf`."""
        raise NotImplementedError

    def compute_observations(self) -> Any:
        """Write `obs_buf`, and `states_buf` where there are states."""
        raise NotImplementedError

    def compute_reward(self, actions: Tensor) -> None:
        """Write `rew_buf` and `reset_buf`, which is 1 where the episode ends, at `max_episode_length` too."""
        raise NotImplementedError

    def post_physics_step(self) -> None:
        """Count the step, begin episodes, observe and reward; see the module."""
        self.progress_buf += 1
        self.randomize_buf += 1
        ids = self.reset_buf.nonzero(as_tuple=False).flatten()
        if len(ids):
            self.reset_idx(ids)
        self.compute_observations()
        self.compute_reward(self.actions)

    # What is called

    def step(self, actions: Tensor) -> VecTaskStep:
        """One control step.

        Args:
            actions: [N, D], clipped to `clip_actions`.

        Raises:
            RookeryError: actions of another shape or with NaN, or a buffer that is missing or has another shape or type.
        """
        if not self._checked:
            check_buffers(self)
        tensor = row_actions(actions, (self.num_environments, self.num_actions), self.device)
        if not torch.isfinite(tensor).all():
            raise RookeryError("actions contain NaN or infinity: check the policy.")
        self.actions = tensor.clamp(-self.clip_actions, self.clip_actions)
        self.sim.failed.zero_()
        self.pre_physics_step(self.actions)
        for _ in range(self.control_freq_inv):
            self.gym.simulate(self.sim)
        self.post_physics_step()
        self.control_steps += 1
        if not self._checked:  # the subclass may have put other tensors in their places
            check_buffers(self)
            self._checked = True
        failed = self.sim.failed  # told now, begun anew in the next step as after any other end
        self.reset_buf[failed] = 1
        self.rew_buf[failed] = 0.0
        late = (self.progress_buf >= self.max_episode_length - 1) & (self.reset_buf != 0) & ~failed
        self.timeout_buf = late.long()
        self.extras["time_outs"] = late.to(self.rl_device)
        return (
            self._observations(),
            self._out(self.rew_buf.clone()),
            self._out(self.reset_buf.clone()),
            dict(self.extras),
        )

    def set_sim_params_up_axis(self, sim_params: SimParams, axis: str) -> int:
        """The index of the axis that points up, 2.

        Raises:
            RookeryError: another axis than z.
        """
        if axis != "z":
            raise RookeryError(f"z points up here, got {axis!r}.")
        return 2

    def render(self, mode: str = "rgb_array") -> Any:
        if mode != "rgb_array":
            return None
        if self._renderer is None:
            from rookery.sim.rendering.renderer import Renderer

            self._renderer = Renderer(self.sim.world.scene.compile(visual=True))
        return self._renderer.render(self.sim.world.mj_data(0))

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
        self.sim.close()


NEEDED = ("create_sim", "pre_physics_step", "reset_idx", "compute_observations", "compute_reward")


def check_subclass(cls: type[VecTask]) -> None:
    """Refuse a subclass that lacks a method.

    Raises:
        RookeryError: naming it.
    """
    given = {name: getattr(cls, name) for name in NEEDED}
    own = [name for name, method in given.items() if callable(method) and method is not getattr(VecTask, name)]
    needed: tuple[str, ...] = NEEDED
    if cls.post_physics_step is not VecTask.post_physics_step:
        needed = ("create_sim", "pre_physics_step", "reset_idx")  # the others are what the default one calls
    missing = [name for name in needed if name not in own]
    if missing:
        raise RookeryError(
            f"{cls.__name__} lacks the method {missing[0]}: a subclass of VecTask defines {', '.join(needed)}."
        )


def check_buffers(task: VecTask) -> None:
    """Refuse a task that lacks a buffer, or has one of another shape or type.

    Raises:
        RookeryError: naming it.
    """
    n = task.num_environments
    wanted: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "obs_buf": ((n, task.num_observations), torch.float32),
        "states_buf": ((n, task.num_states), torch.float32),
        "rew_buf": ((n,), torch.float32),
    }
    wanted |= dict.fromkeys(COUNTERS, ((n,), torch.long))
    who = type(task).__name__
    for name, (shape, dtype) in wanted.items():
        buffer = task.__dict__.get(name)
        if not isinstance(buffer, Tensor):
            got = "nothing" if buffer is None else type(buffer).__name__
            raise RookeryError(
                f"{who} lacks the buffer {name}: let allocate_buffers call super().allocate_buffers(), or make it there, "
                f"{list(shape)} {dtype}; got {got}."
            )
        if tuple(buffer.shape) != shape or buffer.dtype not in (dtype, torch.bool if dtype is torch.long else dtype):
            raise RookeryError(f"{who}.{name} must be {list(shape)} {dtype}, got {list(buffer.shape)} {buffer.dtype}.")
    if not isinstance(task.__dict__.get("max_episode_length"), int) or task.max_episode_length < 1:
        raise RookeryError(
            f"{who} lacks max_episode_length: set it to the control steps of an episode before super().__init__(...)."
        )

"""A VecTask as an Env, so that this package's trainers, policies and adapters take it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.sim.actions import check_actions
from rookery.sim.adapters.isaacgym.vec_task import VecTask
from rookery.sim.engines import check_seed
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import own
from rookery.sim.specs import ActionSpec, Group, Term

GROUP = "agent"


class VecTaskSource(Env):
    """The environments of a VecTask as worlds with one agent each; see Env.

    Episodes begin in the step in which they end, as everywhere in Rookery: this calls the task's `reset_idx` and
    `compute_observations` itself. A VecTask cannot be saved exactly: after `load_state_dict` new episodes begin.

    Args:
        task: stepped and closed from now on.
        task_id: for messages and records.
        seed: of torch's global generator, which tasks in the style of isaacgymenvs draw from; None leaves it alone.
    """

    def __init__(self, task: VecTask, task_id: str = "vec-task", seed: int | None = None) -> None:
        self.task = task
        self.task_id = task_id
        self.num_envs = task.num_environments
        self.device = torch.device("cpu")
        self.control_dt = task.dt * task.control_freq_inv
        self.max_episode_steps = task.max_episode_length
        self.causes = ("terminated",)
        self.headline = "return"
        size = task.num_actions
        names = tuple(f"action_{i}" for i in range(size))
        action = ActionSpec("vec_task", names, (-1.0,) * size, (1.0,) * size, ("1",) * size, (0.0,) * size)
        term = Term("observation", own("the task's obs_buf", task.num_observations), clip=task.clip_obs)
        self.groups = {GROUP: Group(1, (term,), action)}
        self.state_size = task.num_states or task.num_observations
        self._seed = seed
        self._return = torch.zeros(self.num_envs)
        self._length = torch.zeros(self.num_envs, dtype=torch.int64)

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        seed = self._seed if seed is None else check_seed(seed)
        if seed is not None:
            torch.manual_seed(seed)
            self._seed = None  # later episodes go on with the stream
        self._begin(torch.arange(self.num_envs))
        return self._observation(), {}

    def _begin(self, ids: Tensor) -> None:
        self.task.reset_idx(ids)
        self.task.reset_buf[ids] = 0
        self.task.progress_buf[ids] = 0
        self.task.compute_observations()
        self._return[ids] = 0.0
        self._length[ids] = 0

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        unit = check_actions(self, actions)[GROUP][:, 0].clamp(-1.0, 1.0)
        _, reward, reset, extras = self.task.step(unit)
        reward = reward.to("cpu").clone()
        ended = reset.to("cpu") != 0
        late = ended & extras["time_outs"].to("cpu").bool()
        self._return += reward
        self._length += 1
        info: dict[str, Any] = {}
        ids = ended.nonzero().flatten()
        if len(ids):
            final = self._observation()[GROUP]
            info["final_state"] = self.state
            info["episode"] = {
                "ids": ids,
                "return": {GROUP: self._return[ids].clone()},
                "length": self._length[ids].clone(),
                "metrics": {"return": self._return[ids].clone()},
                "cause": (~late[ids]).long(),
                "reward_terms": {},
            }
            self._begin(ids)
        obs = self._observation()
        if len(ids):  # the task observed anew: elsewhere it is what is returned
            info["final_observation"] = {GROUP: torch.where(ended[:, None, None], final, obs[GROUP])}
        return obs, {GROUP: reward[:, None]}, ended & ~late, late, info

    def _observation(self) -> dict[str, Tensor]:
        limit = self.task.clip_obs
        return {GROUP: self.task.obs_buf.clamp(-limit, limit).unsqueeze(1)}

    @property
    def episode_start(self) -> Tensor:
        return self._length == 0

    @property
    def state(self) -> Tensor:
        task = self.task
        return (task.states_buf if task.num_states else task.obs_buf).clamp(-task.clip_obs, task.clip_obs)

    def metrics(self) -> dict[str, Tensor]:
        return {"return": self._return.clone()}

    def visual_model(self, i: int = 0) -> Any:
        return self.task.sim.world.scene.compile(visual=True)

    def mj_data(self, i: int, data: Any = None) -> Any:
        return self.task.sim.world.mj_data(i, data)

    def state_dict(self) -> dict[str, Tensor]:
        """Empty; see the class."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Begin new episodes; see the class."""
        self.reset()

    def close(self) -> None:
        self.task.close()


def as_env(task: VecTask, task_id: str = "vec-task", seed: int | None = None) -> VecTaskSource:
    """`VecTaskSource`, with a message for what is no VecTask.

    Raises:
        RookeryError: it is not one of the user's own, or has no `compute_observations`, which is called once more where an
            episode begins.
    """
    if not isinstance(task, VecTask):
        raise RookeryError(
            f"expected a VecTask of your own, got {type(task).__name__}: use rookery.make for Rookery's tasks."
        )
    if type(task).compute_observations is VecTask.compute_observations:
        raise RookeryError(
            f"{type(task).__name__} lacks compute_observations, which as_env calls where an episode begins: move that part of "
            "post_physics_step there."
        )
    return VecTaskSource(task, task_id, seed)

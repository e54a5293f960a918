"""The vectorized environment: N worlds of a task, always batched, always by agent group.

A step is: check and delay the actions, let the task turn them into controls, K physics steps in the engine, rewards, ends of
episodes, observations. Where an episode ended, a new one begins in the same step; see Env.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.actions import check_masks, check_shapes, keep_choices, not_finite
from rookery.sim.arrays import array
from rookery.sim.buffers import Buffers, under
from rookery.sim.engines import check_seed
from rookery.sim.env import StepResult, TermRecorder
from rookery.sim.envs import episode_kernels
from rookery.sim.envs.clock import clock
from rookery.sim.envs.delays import ActionDelay
from rookery.sim.envs.disturbances import Disturbances
from rookery.sim.envs.episodes import EpisodeLog
from rookery.sim.envs.finite import refuse_nan, refuse_nan_at_ends
from rookery.sim.envs.observation import CleanPipeline, ObservationPipeline, check_groups
from rookery.sim.envs.parameters import env_parameters
from rookery.sim.envs.task_env import TaskEnv
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.random import Streams, numbered
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Randomization, Range
from rookery.sim.sensors.sensor import Sensors
from rookery.sim.task import Task, by_name, declared_groups
from rookery.sim.threads import one_thread_each
from rookery.sim.torch_defaults import check_default_dtype
from rookery.sim.world import World

if TYPE_CHECKING:
    import mujoco


class VecEnv(Buffers, TaskEnv):
    """N worlds of one task; see Env.

    Args:
        task: not yet set up.
        world: engine with the task's scene.
        seed: seed of all random streams.
        ranges: randomized or fixed parameters, by name (see randomization).
        optional: names in `ranges` that are left out where this task lacks them.
        typical: besides `ranges`, draw everything else that may differ, over what it typically differs by.
        task_id: registered name, for messages and records.
        first, total: of a shard of a larger environment (see ShardedEnv), the index of its first world and the number of
            worlds of all shards; 0 and N otherwise.
        starts: world i begins its episodes like world i % starts, to compare worlds; 0 for a beginning of its own.

    Attributes:
        world: the engine.
        sensors: what fills the terms that sensors give.
    """

    def __init__(
        self, task: Task, world: World, *, seed: int = 0, ranges: dict[str, Range] | None = None,
        optional: Collection[str] = (), typical: bool = False, task_id: str = "task", first: int = 0, total: int | None = None,
        starts: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.task = task
        self.world = world
        self.task_id = task_id
        self.num_envs = world.num_envs
        self.device = world.device
        self.engine = world.engine
        self.control_dt, self._k, self.max_episode_steps = clock(task, world)
        self.first = self.told_first = first
        self.total = self.num_envs if total is None else total
        uses = ("", "noise", "randomization", "disturbance")
        self._streams = [Streams(self.num_envs, seed, use, first, starts) for use in uses]
        self.rng, self._noise_rng, self._randomization_rng, disturbance_rng = self._streams
        self.buffer("steps", world.num_envs, dtype=torch.int64)
        self._steps = self.steps.numpy()
        self._ended = np.zeros(self.num_envs, np.int64)
        self._all = torch.arange(self.num_envs)
        task.world, task.steps, task.max_steps = world, self.steps, self.max_episode_steps
        task.rng, task.randomization_rng = self.rng, self._randomization_rng
        task.setup()
        self.groups = declared_groups(task, task_id)
        self.sensors = Sensors(world, self.groups, self._randomization_rng)
        self.teams = task.teams()
        self.objectives, self.causes = tuple(task.objectives), tuple(task.causes)
        self.event_names = tuple(task.event_definitions)
        self.headline = task.headline
        self._make_pipelines()
        self.disturbances = Disturbances(world, task.disturbed_bodies, self.control_dt, disturbance_rng)
        drawing = world.num_envs, self._randomization_rng, optional, typical
        self.randomization = Randomization(self._parameters(), ranges or {}, *drawing)
        self._log = EpisodeLog(task, self.groups, self.num_envs)
        parts = {"task": task, "sensors": self.sensors, "rng": self.rng, "noise_rng": self._noise_rng}
        parts |= {"randomization_rng": self._randomization_rng, "randomization": self.randomization}
        for name, part in (parts | {"disturbances": self.disturbances, "log": self._log}).items():
            self.child(name, part)
        self._ready = self._closed = False
        self._process = os.getpid()
        self._record: TermRecorder | None = None
        self._terms: dict[str, dict[str, Tensor]] = {}
        self.state_size = sum(s.count * s.frame_size for s in self.groups.values())
        self._first()
        self._seed(seed)

    steps: Tensor

    def _make_pipelines(self) -> None:
        n = self.num_envs
        self._pipelines: dict[str, ObservationPipeline] = {}
        self._sets: dict[str, dict[str, CleanPipeline]] = {}
        self._delays: dict[str, ActionDelay] = {}
        for g, s in self.groups.items():
            neutral = torch.tensor(s.action.rest, dtype=torch.float32)
            self._pipelines[g] = observed = ObservationPipeline(s, n, self.control_dt, self._noise_rng, self._k)
            self._sets[g] = {name: CleanPipeline(o, n, s.count) for name, o in s.sets().items()}
            self._delays[g] = ActionDelay(
                n, s.count, s.action.size, self._k, self.world.dt, neutral, self._noise_rng, observed, self.task.delays_controls
            )  # fmt: skip
            self.child(f"observation.{g}", self._pipelines[g])
            for name, clean in self._sets[g].items():
                self.child(f"observation.{g}.{name}", clean)
            self.child(f"action_delay.{g}", self._delays[g])
        # sets with a history take every step, the others are made when they are read
        self._clean = [(g, clean) for g, sets in self._sets.items() for clean in sets.values() if clean.history > 1]

    def _first(self) -> None:
        """Check the declarations against real tensors, once, before anybody trains on them."""
        self.world.reset()
        self.task.reset(self._all)
        self.world.forward()
        check_groups(self.task_id, self.groups, self.num_envs, self.observe_terms(), self.task.observe_privileged())
        if (state := self.task.state()) is not None:
            self.state_size = state.shape[1]
        check_masks(self.task_id, self.groups, self.task.action_mask() or {}, self.num_envs)

    def _parameters(self) -> dict[str, Parameter]:
        numbers = numbered(self.first, self.num_envs, self.rng.starts)
        own = env_parameters(self.world, tuple(self._pipelines.values()), tuple(self._delays.values()), numbers)
        return self.task.parameters() | self.sensors.parameters() | own | self.disturbances.parameters()

    @one_thread_each
    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._check_open()
        if seed is not None:
            self._seed(check_seed(seed))
            self.seeded = True
        self._begin(self._all)
        self.latest_events, self._terms = {}, self.observe_terms()
        if self._record is not None:
            self._record("observation", self._terms)
        self._ready = True
        self._push_sets(self._all)
        obs = {g: torch.empty(self.num_envs, s.count, s.observation_size) for g, s in self.groups.items()}
        for g, p in self._pipelines.items():
            p.restart(self._all, self._terms[g], obs[g])
        return obs, {}

    def observe_terms(self) -> dict[str, dict[str, Tensor]]:
        """By group and term, raw values [N, A, d] now: what the task observes and what sensors give."""
        observed = by_name(self.task, "observe", self.task.observe())
        return self.sensors.fill(observed) if self.sensors.on else observed

    def _seed(self, seed: int) -> None:
        for streams in self._streams:
            streams.seed(seed)
        self.world.seed(seed, self.rng.starts, self.first)
        self.randomization.drawn.zero_()

    def _begin(self, ids: Tensor) -> None:
        where = array(ids)
        self.rng.begin_episode(ids)
        self.world.reset(ids)
        self._steps[where] = 0
        self.randomization.draw(ids)
        self._noise_rng.begin_episode(ids)
        self.task.reset(ids)
        for d in self._delays.values():
            d.reset(where)
        self.disturbances.reset(where)
        self.world.forward(ids)
        self._log.reset(where)

    def stagger(self) -> None:
        self.steps.copy_((self._all + self.first) * self.max_episode_steps // self.total)
        self._log.cut.copy_(self.steps > 0)

    @one_thread_each
    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        self._check_open()
        if not self._ready:
            raise RookeryError("call reset() before the first step().")
        self._apply(check_shapes(self, actions))
        self.disturbances.act()
        self.world.step(self._k)
        self._steps += 1
        self.task.advance()
        terms = self.task.rewards()
        reward = self._log.add(terms)
        cause = self.task.terminated()
        if self.world.failed.numel():
            self._diverged(self.world.failed, reward, cause)
        self._log.refuse_nan(terms, reward, self.told_first)
        terminated, truncated, ended = self._ends(cause)
        self._terms = self.observe_terms()
        if self._record is not None:
            self._record("reward", terms)
            self._record("observation", self._terms)
        obs = {g: p.push(self._terms[g]) for g, p in self._pipelines.items()}
        self._push_sets(None)
        info: dict[str, Any] = {"events": self.task.events()} if self.event_names else {}
        self.latest_events = info.get("events", {})
        if ended:
            obs, summary = self._finish(self._ended[:ended].copy(), obs, cause)
            info |= summary
        return obs, reward, terminated, truncated, info

    def _apply(self, actions: dict[str, Tensor]) -> None:
        """Clip and delay the actions and let the task turn them into controls."""
        given = {}
        for g, delay in self._delays.items():
            given[g], wrong = delay.clip(actions[g])
            if wrong >= 0:
                raise not_finite(g, wrong, self._terms.get(g, {}), self.told_first)
            keep_choices(g, self.groups[g].action, actions[g], given[g])
        self.task.given = self.task.controls(given)
        in_force = {g: delay.push(given[g]) for g, delay in self._delays.items()}
        self.task.late = {g: delay.now for g, delay in self._delays.items() if delay.on}
        self.task.apply(self.task.controls(in_force))

    def _ends(self, cause: Tensor) -> tuple[Tensor, Tensor, int]:
        """terminated and truncated, [N] bool, and how many episodes end: the first ones of `_ended`."""
        terminated, truncated = np.empty(self.num_envs, np.bool_), np.empty(self.num_envs, np.bool_)
        cut = episode_kernels.NO_CUTS if (cut := self.task.truncated()) is None else cut.contiguous().numpy()
        if cause.dtype is not torch.int64 or not cause.is_contiguous():
            cause = cause.long().contiguous()
        count = episode_kernels.ends(
            self._steps, self.max_episode_steps, cause.numpy(), cut, terminated, truncated, self._ended
        )
        return torch.from_numpy(terminated), torch.from_numpy(truncated), count

    def _finish(
        self, where: NDArray[np.int64], obs: dict[str, Tensor], cause: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        ids = torch.from_numpy(where)
        refuse_nan_at_ends(obs, ids, self._terms, self.told_first)
        info: dict[str, Any] = {"final_observation": obs, "final_state": self._state(where)}
        if (active := self.task.active()) is not None:
            info["final_active"] = {g: mask.clone() for g, mask in active.items()}
        episode = self._log.finish(where, self._steps[where], cause.numpy()[where], self.told_first)
        info["episode"] = episode | {"parameters": self.randomization.of(where)}
        self.randomization.curriculum.learn(info["episode"])
        for call in self._at_ends:
            call(ids)
        self._begin(ids)
        self._terms = self.observe_terms()
        fresh = {g: o.clone() for g, o in obs.items()}
        for g, p in self._pipelines.items():
            p.restart(ids, self._terms[g], fresh[g])
        self._push_sets(ids)
        return fresh, info

    def _diverged(self, ids: Tensor, reward: dict[str, Tensor], cause: Tensor) -> None:
        """The engine put these worlds back because their physics blew up: end their episodes, keep NaN out of learning."""
        cause[ids] = len(self.task.causes) + 1
        for r in reward.values():
            r[ids] = 0.0

    @property
    def episode_start(self) -> Tensor:
        return self.steps == 0

    @property
    def state(self) -> Tensor:
        """[N, S] input of a central critic now: the task's own state, or all noise-free observations side by side."""
        return self._state(None)

    def _state(self, ids: NDArray[np.int64] | None) -> Tensor:
        """`state`; where worlds `ids` are given, the other rows may be zero."""
        if (own := self.task.state()) is not None:
            return refuse_nan("state for a central critic", own, self.told_first)
        out = (torch.empty if ids is None else torch.zeros)(self.num_envs, self.state_size)
        first = 0
        for g, p in self._pipelines.items():
            p.write_clean(self._terms[g], out, first, ids)
            first += p.count * p.frame_size
        return out

    def observation_set(self, name: str) -> dict[str, Tensor]:
        for g, sets in self._sets.items():
            if name not in sets:
                raise unknown(f"observation set of group {g!r} of {self.task_id}", name, sets)
        values = self._all_terms()
        return {g: sets[name].read(values[g]) for g, sets in self._sets.items()}

    def _all_terms(self) -> dict[str, dict[str, Tensor]]:
        privileged = self.task.observe_privileged()
        return {g: {**privileged.get(g, {}), **terms} for g, terms in self._terms.items()}

    def _push_sets(self, ids: Tensor | None) -> None:
        """Take a control step into the sets that have a history, or the first one of new episodes in the worlds `ids`."""
        if not self._clean:
            return
        values = self._all_terms()
        for g, clean in self._clean:
            clean.push(values[g]) if ids is None else clean.restart(ids, values[g])

    def record_terms(self, record: TermRecorder | None) -> None:
        self._record = record

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        data = self.world.mj_data(i, data)
        data.time = int(self.steps[i]) * self.control_dt  # not all engines have a clock
        return data

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {f"world.{k}": v for k, v in self.world.snapshot().items()}

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        super().check_state_dict(state)
        self.world.check_snapshot(under("world", state))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.world.restore(under("world", state))
        self.task.late = {g: delay.now for g, delay in self._delays.items() if delay.on}
        self._terms = self.observe_terms()
        self._ready = True

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.world.close()

    def _check_open(self) -> None:
        """Refuse a closed environment, one whose engine's threads stayed in another process, and doubles by default."""
        if self._closed:
            raise RookeryError("this environment is closed: make a new one.")
        if os.getpid() != self._process:
            raise RookeryError("this environment was made before a fork: make it in the process that steps it.")
        check_default_dtype()

"""ShardedEnv: the worlds of one task divided among processes, one a core.

Why processes: a VecEnv runs one thread of Python beside the threads of its engine, and that thread is what many cores wait
for. Threads cannot share it: Python's global lock is held for most of what a step does outside the physics. With 256 worlds of
table-pick-place on two cores, a step took 6.4 ms in one VecEnv, 8.2 ms in two with a thread each, and 11.5 ms in four.

With 10 worlds in 3 shards

    world         0  1  2  3 | 4  5  6 | 7  8  9
    process       0          | 1       | 2

Each shard is a VecEnv of its own whose random streams are those of its worlds in the whole environment, so it gives, bit for
bit, what one VecEnv of all worlds gives, and their saved states are interchangeable.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.sim.actions import check_actions
from rookery.sim.deployment import Deployment
from rookery.sim.engines import check_seed, find_engine
from rookery.sim.env import Act, AtEnds, Env, StepResult, TermRecorder
from rookery.sim.envs.shard_history import History
from rookery.sim.envs.shard_messages import SharedStep, memory_file
from rookery.sim.envs.shard_pool import Request, ShardPool
from rookery.sim.envs.shard_sizes import check_shards, divided
from rookery.sim.envs.shard_states import ShardStates, join_worlds
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import ProcessLost, RookeryError

if TYPE_CHECKING:
    import mujoco

CHANGES = ("reset", "step", "stagger", "load_state_dict")
"""Calls that change the worlds."""


class ShardedEnv(Env):
    """N worlds of one task in S processes; see Env.

    Args:
        make: a function of a module, which every process imports: ``make(num_envs=, first=, total=, **arguments)`` gives a
            VecEnv of the worlds from `first` on.
        arguments: the others of its arguments.
        num_envs: N.
        shards: S, at least 2; each has 2 worlds or more.

    Attributes:
        one: an environment of one such world in this process, for what does not depend on the worlds' states.

    Raises:
        RookeryError: too few worlds, or a task or engine whose worlds cannot be divided.
    """

    def __init__(self, make: Callable[..., VecEnv], arguments: dict[str, Any], num_envs: int, shards: int) -> None:
        check_shards(num_envs, shards)
        self.num_envs = num_envs
        self.shards = shards
        self._owner = os.getpid()
        self._make = make, arguments
        self._slices = divided(num_envs, shards)
        self._file = memory_file()
        self._pool = ShardPool(shards, self._file)
        self._close = weakref.finalize(self, _end, self._pool, self._file)
        self._ready = False
        self._torn = ""  # the call that was not made in all worlds
        self._record: TermRecorder | None = None
        self._has_controller = False
        self._history: History | None = None
        self._loss = ""
        try:
            self._describe(make(num_envs=1, first=0, total=1, **arguments))
            layout = SharedStep(self.groups, num_envs, len(self.objectives), None)
            os.ftruncate(self._file, layout.size)
            self._shared = SharedStep(self.groups, num_envs, len(self.objectives), self._file)
            self._make_shards()
        except BaseException:
            self._close()
            raise

    def _describe(self, one: VecEnv) -> None:
        divisible = find_engine(one.engine).shardable
        if not (divisible and one.task.shardable):
            what = f"{one.task_id} with this config" if divisible else f"the engine {one.engine!r}"
            raise RookeryError(f"the worlds of {what} cannot be divided among processes: leave out shards.")
        self.one = one
        self.task_id = one.task_id
        self.groups = one.groups
        self.teams = one.teams
        self.device = one.device
        self.control_dt = one.control_dt
        self.max_episode_steps = one.max_episode_steps
        self.state_size = one.state_size
        self.objectives = one.objectives
        self.causes = one.causes
        self.event_names = one.event_names
        self.headline = one.headline
        self.engine = one.engine

    def _make_shards(self, only: int | None = None) -> None:
        """Have the processes, or only one, make their environments."""
        make, arguments = self._make
        requests: list[Request | None] = []
        for i, at in enumerate(self._slices):
            worlds = {"num_envs": at.stop - at.start, "first": at.start, "total": self.num_envs}
            requests.append(("make", make, worlds | arguments, self.num_envs) if only in (None, i) else None)
        self._pool.call(requests)

    # Calls

    def _call(self, name: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard's ShardServer."""
        return self._call_parts([(name, *arguments)] * self.shards)

    def _call_parts(self, requests: list[Request]) -> list[Any]:
        """Call the same method of every shard's ShardServer, with each shard's own arguments.

        A call that changes the worlds and ends in an exception may have changed some: nothing is let through then until a
        reset or a whole state.
        """
        name = requests[0][0]
        self._check_open(name)
        changes = name in CHANGES
        was_torn = self._torn
        if name == "reset" and was_torn:
            self._align()
        if changes:
            self._torn = name
        replies = self._made(requests)
        if not changes:
            return replies
        if self._history is not None:
            self._history.add(requests, self._shared.actions if name == "step" else None)
        self._torn = ""
        if self._history is not None and (was_torn or self._history.is_long):
            self._history.begin(self._made([("state_dict",)] * self.shards))
        return replies

    def _align(self) -> None:
        """Give all shards the counters of shard 0, which are the same in all but when some made a step more. What they point
        at is of each world, and the reset that follows makes it anew."""
        aligned = self._states.align(self._made([("state_dict",)] * self.shards))
        self._made([("load_state_dict", state) for state in aligned])

    def _made(self, requests: Sequence[Request | None]) -> list[Any]:
        """The replies to a call, from a new process too where one is lost and `survive_loss` was called."""
        try:
            return self._pool.call(requests)
        except ProcessLost as lost:
            if self._history is None or self._loss:
                self._close()
                raise
            self._loss = str(lost)
            try:
                self._replace()
                return self._pool.call(requests)
            except ProcessLost as again:
                self._close()
                raise ProcessLost(f"{lost} It was replaced, and then {again}") from again
            except BaseException:
                self._close()
                raise

    def _replace(self) -> None:
        """A new process in place of the lost one, and all where they were before the call that failed."""
        assert self._history is not None
        actions = {g: a.clone() for g, a in self._shared.actions.items()}
        self._make_shards(only=self._pool.replace())
        self._history.repeat(self._pool, self._shared.actions)
        for g, a in actions.items():
            self._shared.actions[g].copy_(a)
        self._pool.call([("record_terms", self._record is not None)] * self.shards)
        if self._has_controller:
            self._pool.call([("controller",)] * self.shards)

    def survive_loss(self) -> None:
        """As `Env.survive_loss`. The processes' states are taken every few steps, and the calls since then repeated."""
        if self._history is None:
            states = self._call("state_dict")
            self._history = History(states)

    @property
    def loss(self) -> str:
        return self._loss

    def _check_open(self, name: str = "") -> None:
        """Refuse a closed environment, one of another process, whose questions would mix with ours, and one in which a call was
        not made in all worlds."""
        if not self._close.alive:
            raise RookeryError("this environment is closed: make a new one.")
        if os.getpid() != self._owner:
            raise RookeryError(
                "this environment was made before a fork and belongs to that process: make it in this one, or start processes "
                'by multiprocessing\'s "spawn".'
            )
        if self._torn and name not in ("reset", "load_state_dict", "check_state_dict"):
            raise RookeryError(
                f"{self._torn}() was interrupted or failed, and some worlds may have made it: call reset() or "
                "load_state_dict() before anything else."
            )

    def _call_one(self, world: int, name: str) -> Any:
        """Call a method of the shard that has this world, with its index there."""
        self._check_open()
        for i, at in enumerate(self._slices):
            if at.start <= world < at.stop:
                requests: list[Request | None] = [None] * self.shards
                requests[i] = (name, world - at.start)
                return self._made(requests)[i]
        raise RookeryError(f"there is no world {world}: this environment has 0 to {self.num_envs - 1}.")

    # The loop

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        seed = None if seed is None else check_seed(seed)
        self.seeded |= seed is not None
        self._play(self._call("reset", seed))
        self.latest_events = {}
        self._ready = True
        return {g: o.clone() for g, o in self._shared.observations.items()}, {}

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        if not self._ready:
            raise RookeryError("call reset() before the first step().")
        for g, a in check_actions(self, actions).items():
            self._shared.actions[g].copy_(a)
        replies = self._call("step")
        self._play(replies)
        obs = {g: o.clone() for g, o in self._shared.observations.items()}
        reward = {g: r.clone() for g, r in self._shared.rewards.items()}
        info: dict[str, Any] = {}
        if self.event_names:
            info["events"] = join_worlds([r["events"] for r in replies])
        self.latest_events = info.get("events", {})
        if any("episode" in r for r in replies):
            info |= self._ended(replies, obs)
        return obs, reward, self._shared.terminated.clone(), self._shared.truncated.clone(), info

    def _ended(self, replies: list[dict[str, Any]], obs: dict[str, Tensor]) -> dict[str, Any]:
        """final_observation, final_state, final_active and episode of all worlds."""
        ended = []
        for r, at in zip(replies, self._slices, strict=True):
            if "episode" in r:
                r["episode"]["ids"] += at.start
                ended.append(r)
        episode = join_worlds([r["episode"] for r in ended])
        ids = episode["ids"]
        final = {g: o.clone() for g, o in obs.items()}
        for g, o in join_worlds([r["final_observation"] for r in ended]).items():
            final[g][ids] = o
        state = torch.zeros(self.num_envs, self.state_size)
        state[ids] = torch.cat([r["final_state"] for r in ended])
        out = {"final_observation": final, "final_state": state, "episode": episode}
        if "final_active" in ended[0]:
            masks = join_worlds([r["final_active"] for r in ended]).items()
            out["final_active"] = {g: m.new_ones(self.num_envs, m.shape[1]).index_copy(0, ids, m) for g, m in masks}
        return out

    def _play(self, replies: list[dict[str, Any]]) -> None:
        """Hand on the terms that shards recorded."""
        if self._record is not None:
            for same in zip(*(r.get("records", ()) for r in replies), strict=True):
                self._record(same[0][0], join_worlds([terms for _, terms in same]))

    def stagger(self) -> None:
        self._call("stagger")

    # What trainers read beside the loop

    @property
    def episode_start(self) -> Tensor:
        return torch.cat(self._call("episode_start"))

    @property
    def state(self) -> Tensor:
        return torch.cat(self._call("state"))

    @property
    def active(self) -> dict[str, Tensor] | None:
        return self._read("active")

    @property
    def action_mask(self) -> dict[str, Tensor] | None:
        return self._read("action_mask")

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        return self._read("privileged_targets")

    @property
    def reveal_future_mask(self) -> Tensor | None:
        return self._read("reveal_future_mask")

    def _read(self, name: str) -> Any:
        parts = self._call(name)
        return None if parts[0] is None else join_worlds(parts)

    def observation_set(self, name: str) -> dict[str, Tensor]:
        out: dict[str, Tensor] = join_worlds(self._call("observation_set", name))
        return out

    # What evaluation, video and contracts read

    def metrics(self) -> dict[str, Tensor]:
        out: dict[str, Tensor] = join_worlds(self._call("metrics"))
        return out

    def controller(self) -> Act | None:
        if not all(self._call("controller")):
            return None

        self._has_controller = True

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            parts: list[Request] = [("act", {g: o[at] for g, o in obs.items()}) for at in self._slices]
            out: dict[str, Tensor] = join_worlds(self._call_parts(parts))
            return out

        return act

    def deployment(self) -> Deployment:
        return self.one.deployment()

    def event_log(self, i: int) -> list[str]:
        out: list[str] = self._call_one(i, "event_log")
        return out

    def record_terms(self, record: TermRecorder | None) -> None:
        self._record = record
        self._call("record_terms", record is not None)

    def before_restart(self, call: AtEnds) -> Callable[[], None]:
        raise RookeryError("these worlds begin anew in other processes: make the environment with shards=1.")

    def visual_model(self, i: int = 0) -> mujoco.MjModel:
        return self.one.visual_model()

    def mj_data(self, i: int, data: mujoco.MjData | None = None) -> mujoco.MjData:
        world = self.one.world
        world.restore(self._call_one(i, "snapshot_of"))
        return world.mj_data(0, data)

    def markers(self, i: int) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = self._call_one(i, "markers")
        return out

    @property
    def camera(self) -> Any:
        return self.one.camera

    # Keeping

    @cached_property
    def _states(self) -> ShardStates:
        self.one.reset(0)
        return ShardStates({k: v.shape for k, v in self.one.state_dict().items()}, self._slices)

    def state_dict(self) -> dict[str, Tensor]:
        """As `Env.state_dict`: that of one VecEnv of all worlds."""
        return self._states.join(self._call("state_dict"))

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        self._check_open("check_state_dict")
        self._send_parts("check_state_dict", state)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.check_state_dict(state)
        self._send_parts("load_state_dict", state)
        self._ready = True

    def _send_parts(self, call: str, state: dict[str, Tensor]) -> None:
        self._call_parts([(call, own) for own in self._states.split(state)])

    def close(self) -> None:
        self._close()
        self.one.close()


def _end(pool: ShardPool, file: int) -> None:
    """End the processes, and let go of the shared memory's file."""
    try:
        pool.end()
    finally:
        os.close(file)

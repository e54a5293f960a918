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
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import cached_property
from multiprocessing.connection import Connection
from socket import socketpair
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.sim.actions import check_actions
from rookery.sim.deployment import Deployment
from rookery.sim.env import Act, Env, StepResult, TermRecorder
from rookery.sim.envs.shard_messages import SharedStep, receive, send, shared_file
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    import mujoco

PATIENCE_S = 5.0
"""Time that a process has to end, s, before it is killed."""
FAILURES = "world.failures"
"""The one entry of a saved state that is a sum over worlds."""


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
        self._connections: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._owner = os.getpid()
        self._file = shared_file()
        sizes = [num_envs // shards + (i < num_envs % shards) for i in range(shards)]
        ends = torch.tensor(sizes).cumsum(0).tolist()
        self._slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._close = weakref.finalize(self, _end, self._connections, self._processes)
        for _ in range(shards):
            self._start()
        try:
            self._describe(make(num_envs=1, first=0, total=1, **arguments))
            self._make_shards(make, arguments)
        except BaseException:
            self._close()
            raise
        self._ready = False
        self._record: TermRecorder | None = None

    def _start(self) -> None:
        """Start a process, which imports what it needs while this one goes on."""
        ours, theirs = socketpair()
        with theirs:
            descriptors = theirs.fileno(), self._file
            command = [sys.executable, "-m", "rookery.sim.envs.shard_process", *map(str, descriptors)]
            threads = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            process = subprocess.Popen(command, pass_fds=descriptors, env=os.environ | threads)
        self._processes.append(process)
        self._connections.append(Connection(ours.detach()))

    def _describe(self, one: VecEnv) -> None:
        if one.engine != "mujoco" or not one.task.shardable:
            what = f"the engine {one.engine!r}" if one.engine != "mujoco" else f"{one.task_id} with this config"
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

    def _make_shards(self, make: Callable[..., VecEnv], arguments: dict[str, Any]) -> None:
        layout = SharedStep(self.groups, self.num_envs, len(self.objectives), None)
        os.ftruncate(self._file, layout.size)
        for connection, at in zip(self._connections, self._slices, strict=True):
            own = {"num_envs": at.stop - at.start, "first": at.start, "total": self.num_envs, **arguments}
            send(connection, (make, own, self.num_envs))
        self._shared = SharedStep(self.groups, self.num_envs, len(self.objectives), self._file)
        self._replies()

    # Calls

    def _replies(self) -> list[Any]:
        """Every shard's reply; an error in one is raised when all have answered."""
        replies = []
        for i, connection in enumerate(self._connections):
            try:
                replies.append(receive(connection))
            except (EOFError, ConnectionResetError):
                raise RookeryError(
                    f"the process of shard {i} ended unexpectedly: memory may have run out; use fewer shards or worlds."
                ) from None
        for good, reply in replies:
            if not good:
                kind, text = reply
                raise {"RookeryError": RookeryError, "ValueError": ValueError}.get(kind, RuntimeError)(text)
        return [reply for _, reply in replies]

    def _call(self, name: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard's ShardServer."""
        self._check_open()
        for connection in self._connections:
            send(connection, (name, *arguments))
        return self._replies()

    def _check_open(self) -> None:
        """Refuse a closed environment, and one of another process, whose questions would mix with ours."""
        if not self._close.alive:
            raise RookeryError("this environment is closed: make a new one.")
        if os.getpid() != self._owner:
            raise RookeryError(
                "this environment was made before a fork and belongs to that process: make it in this one, or start processes "
                'by multiprocessing\'s "spawn".'
            )

    def _call_one(self, world: int, name: str) -> Any:
        """Call a method of the shard that has this world, with its index there."""
        self._check_open()
        for connection, at in zip(self._connections, self._slices, strict=True):
            if at.start <= world < at.stop:
                send(connection, (name, world - at.start))
                good, reply = receive(connection)
                if not good:
                    raise RuntimeError(reply[1])
                return reply
        raise RookeryError(f"there is no world {world}: this environment has 0 to {self.num_envs - 1}.")

    # The loop

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._play(self._call("reset", seed))
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
            info["events"] = _joined([r["events"] for r in replies])
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
        episode = _joined([r["episode"] for r in ended])
        ids = episode["ids"]
        final = {g: o.clone() for g, o in obs.items()}
        for g, o in _joined([r["final_observation"] for r in ended]).items():
            final[g][ids] = o
        state = torch.zeros(self.num_envs, self.state_size)
        state[ids] = torch.cat([r["final_state"] for r in ended])
        out = {"final_observation": final, "final_state": state, "episode": episode}
        if "final_active" in ended[0]:
            masks = _joined([r["final_active"] for r in ended])
            out["final_active"] = {g: m.new_ones(self.num_envs, m.shape[1]) for g, m in masks.items()}
            for g, mask in masks.items():
                out["final_active"][g][ids] = mask
        return out

    def _play(self, replies: list[dict[str, Any]]) -> None:
        """Hand on the terms that shards recorded."""
        if self._record is not None:
            for same in zip(*(r.get("records", ()) for r in replies), strict=True):
                self._record(same[0][0], _joined([terms for _, terms in same]))

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
        return None if parts[0] is None else _joined(parts)

    def observation_set(self, name: str) -> dict[str, Tensor]:
        out: dict[str, Tensor] = _joined(self._call("observation_set", name))
        return out

    # What evaluation, video and contracts read

    def metrics(self) -> dict[str, Tensor]:
        out: dict[str, Tensor] = _joined(self._call("metrics"))
        return out

    def controller(self) -> Act | None:
        if not all(self._call("controller")):
            return None

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            self._check_open()
            for connection, at in zip(self._connections, self._slices, strict=True):
                send(connection, ("act", {g: o[at] for g, o in obs.items()}))
            out: dict[str, Tensor] = _joined(self._replies())
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
    def _shapes(self) -> dict[str, torch.Size]:
        """Shapes of the state of one world: the axis along which a shard's entry is longer is the worlds'."""
        self.one.reset(0)
        return {k: v.shape for k, v in self.one.state_dict().items()}

    def _axis(self, name: str, shape: torch.Size) -> int | None:
        """The worlds' axis of an entry of a state of more than one world; None where it has none."""
        own = self._shapes.get(name)
        if own is None or len(own) != len(shape):
            raise ValueError(f"the saved state has {name!r}: it is of another task or version.")
        return next((i for i, (a, b) in enumerate(zip(own, shape, strict=True)) if a != b), None)

    def state_dict(self) -> dict[str, Tensor]:
        """As `Env.state_dict`: that of one VecEnv of all worlds."""
        parts = self._call("state_dict")
        out = {}
        for name, first in parts[0].items():
            axis = self._axis(name, first.shape)
            if axis is not None:
                out[name] = torch.cat([p[name] for p in parts], dim=axis)
            else:
                out[name] = torch.stack([p[name] for p in parts]).sum(0) if name == FAILURES else first
        return out

    def _parts(self, state: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Each shard's part of a saved state.

        Raises:
            ValueError: it is of another number of worlds, or holds a name that this environment does not.
        """
        axes = {name: self._axis(name, value.shape) for name, value in state.items()}
        for name, axis in axes.items():
            if axis is not None and state[name].shape[axis] != self.num_envs:
                raise ValueError(
                    f"saved {name!r} is of {state[name].shape[axis]} worlds, needed {self.num_envs}: it is of another "
                    "number of worlds."
                )
        parts = [{name: _rows(value, axes[name], at) for name, value in state.items()} for at in self._slices]
        for own in parts[1:]:
            if FAILURES in own:
                own[FAILURES] = torch.zeros_like(own[FAILURES])
        return parts

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        self._check_open()
        self._send_parts("check_state_dict", state)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.check_state_dict(state)
        self._send_parts("load_state_dict", state)
        self._ready = True

    def _send_parts(self, call: str, state: dict[str, Tensor]) -> None:
        for connection, own in zip(self._connections, self._parts(state), strict=True):
            send(connection, (call, own))
        self._replies()

    def close(self) -> None:
        self._close()
        self.one.close()


def check_shards(num_envs: int, shards: int) -> None:
    """Refuse a number of shards that these worlds cannot be divided into.

    Raises:
        RookeryError: not a whole number of at least 1, or fewer than 2 worlds in a shard.
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise RookeryError(f'shards must be "auto" or a whole number of at least 1, got {shards!r}.')
    if shards > 1 and num_envs < 2 * shards:
        raise RookeryError(
            f"a shard needs at least 2 worlds, got {num_envs} worlds in {shards} shards: use fewer shards."
        )


def _rows(value: Tensor, axis: int | None, at: slice) -> Tensor:
    """Some worlds' part of an entry of a state."""
    return value if axis is None else value.narrow(axis, at.start, at.stop - at.start).contiguous()


def _joined(parts: list[Any]) -> Any:
    """Nested dicts of tensors of some worlds each as one of all of them."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts)
    return {k: _joined([p[k] for p in parts]) for k in first}


def _end(connections: list[Connection], processes: list[subprocess.Popen[bytes]]) -> None:
    """Close the connections, on which the processes end, and wait for them."""
    for connection in connections:
        connection.close()
    for process in processes:
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""The process of one shard: it makes its VecEnv and answers the calls of a ShardedEnv until that closes the connection."""

from __future__ import annotations

import contextlib
import os
import socket
import traceback
from typing import Any

import torch
from torch import Tensor

from rookery.sim.compiling import compiling_s
from rookery.sim.env import Act
from rookery.sim.envs.shard_messages import REPLY, Failure, ShardChannel, SharedStep
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError


class ShardServer:
    """Calls of a ShardedEnv on one shard, each a method that gives what is sent back.

    Args:
        env: the shard.
        memory: of all shards.
    """

    def __init__(self, env: VecEnv, memory: SharedStep) -> None:
        self.env = env
        at = slice(env.first, env.first + env.num_envs)
        self._actions = {g: a[at] for g, a in memory.actions.items()}
        self._observations = {g: o[at] for g, o in memory.observations.items()}
        self._rewards = {g: r[at] for g, r in memory.rewards.items()}
        self._terminated = memory.terminated[at]
        self._truncated = memory.truncated[at]
        self._recorded: list[tuple[str, dict[str, dict[str, Tensor]]]] = []
        self._controller: Act | None = None

    def reset(self, seed: int | None) -> dict[str, Any]:
        obs, _ = self.env.reset(seed)
        for g, o in obs.items():
            self._observations[g].copy_(o)
        return self._with_records({})

    def step(self) -> dict[str, Any]:
        """Observations, rewards and ends go into shared memory; of info, the rows that ended."""
        obs, reward, terminated, truncated, info = self.env.step(self._actions)
        for g in obs:
            self._observations[g].copy_(obs[g])
            self._rewards[g].copy_(reward[g])
        self._terminated.copy_(terminated)
        self._truncated.copy_(truncated)
        out: dict[str, Any] = {"events": info["events"]} if "events" in info else {}
        if "episode" in info:
            ids = info["episode"]["ids"]
            out["episode"] = info["episode"]
            out["final_observation"] = {g: o[ids] for g, o in info["final_observation"].items()}
            out["final_state"] = info["final_state"][ids]
            if "final_active" in info:
                out["final_active"] = {g: a[ids] for g, a in info["final_active"].items()}
        return self._with_records(out)

    def _with_records(self, out: dict[str, Any]) -> dict[str, Any]:
        if self._recorded:
            out["records"] = list(self._recorded)
            self._recorded.clear()
        return out

    def record_terms(self, on: bool) -> None:
        def record(what: str, terms: dict[str, dict[str, Tensor]]) -> None:
            copied = {g: {name: t.clone() for name, t in named.items()} for g, named in terms.items()}
            self._recorded.append((what, copied))

        self._recorded.clear()
        self.env.record_terms(record if on else None)

    def stagger(self) -> None:
        self.env.stagger()

    def episode_start(self) -> Tensor:
        return self.env.episode_start

    def state(self) -> Tensor:
        return self.env.state

    def active(self) -> dict[str, Tensor] | None:
        return self.env.active

    def action_mask(self) -> dict[str, Tensor] | None:
        return self.env.action_mask

    def privileged_targets(self) -> dict[str, Tensor] | None:
        return self.env.privileged_targets

    def reveal_future_mask(self) -> Tensor | None:
        return self.env.reveal_future_mask

    def observation_set(self, name: str) -> dict[str, Tensor]:
        return self.env.observation_set(name)

    def metrics(self) -> dict[str, Tensor]:
        return self.env.metrics()

    def controller(self) -> bool:
        """Make the task's classical controller for `act`; whether it has one."""
        self._controller = self.env.controller()
        return self._controller is not None

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        assert self._controller is not None
        return self._controller(obs)

    def event_log(self, i: int) -> list[str]:
        return self.env.event_log(i)

    def markers(self, i: int) -> list[dict[str, Any]]:
        return self.env.markers(i)

    def snapshot(self) -> dict[str, Tensor]:
        return self.env.world.snapshot()

    def snapshot_of(self, i: int) -> dict[str, Tensor]:
        """Snapshot of world i alone, for a world of one copy on `mujoco`."""
        whole = self.env.world.snapshot()
        return {name: t[i : i + 1].clone() if t.dim() else t for name, t in whole.items()}

    def state_dict(self) -> dict[str, Tensor]:
        return self.env.state_dict()

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        self.env.check_state_dict(state)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.env.load_state_dict(state)


def serve(channel: ShardChannel, memory: int) -> None:
    """Make the environment that the first message describes, then answer calls (name, arguments) until the connection ends. An
    answer is the reply, and the seconds in which it was compiled."""
    server: ShardServer | None = None
    with contextlib.suppress(EOFError):
        while True:
            number, (name, *arguments) = channel.receive()
            compiled = compiling_s()
            try:
                if server is None:
                    make, own, num_envs = arguments
                    env = make(**own)
                    server = ShardServer(env, SharedStep(env.groups, num_envs, len(env.objectives), memory))
                    reply = None
                else:
                    reply = getattr(server, name)(*arguments)
            except Exception as e:
                reply = _described(e)
            channel.send(number, (reply, compiling_s() - compiled))
    if server is not None:
        server.env.close()


def _described(e: Exception) -> Failure:
    if isinstance(e, RookeryError):
        return Failure("RookeryError", str(e))
    if isinstance(e, ValueError):
        return Failure("ValueError", str(e))
    text = "".join(traceback.format_exception(e))
    return Failure(
        "MemoryError" if isinstance(e, MemoryError) or "can't allocate memory" in text else "RuntimeError", text
    )


def run(connection: int, memory: int) -> None:
    """Answer all calls, and end the process.

    Args:
        connection, memory: descriptors of the socket and of the memory of all shards.
    """
    torch.set_num_threads(1)
    serve(ShardChannel(socket.socket(fileno=connection), REPLY), memory)
    os._exit(0)

"""TorchRL's `EnvBase` over an Env: TensorDicts of R rows, one row an agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import EnvBase

from rookery.sim.adapters.rows import Rows, RowStep, either, reshaped
from rookery.sim.adapters.tensordicts import tensor_dict
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

REPLACED = frozenset({"observation", "done", "terminated", "truncated"})
"""What the next step's TensorDict has of its own; everything else in it, such as the action, is carried on."""
UNUSUAL = frozenset({"next", "_step", "_reset", "reward"})
"""Entries with which a step is TorchRL's affair, such as an actor's memory under "next"."""


class TorchRLEnv(EnvBase):
    """R rows of an Env with one agent group, with the keys "observation" [R, O], "action" [R, D], "reward" [R, 1], and "done",
    "terminated", "truncated" [R, 1].

    TorchRL takes the last observation of an episode from `step` and the first of the next one from `reset`: so does
    this, although the Env begins episodes by itself, and values at time limits are exact.

    Args:
        env: stepped and closed from now on.

    Raises:
        RookeryError: several groups, or a vector reward.
    """

    def __init__(self, env: Env) -> None:
        rows = Rows(env, "TorchRL")
        n = rows.num
        super().__init__(device=env.device, batch_size=torch.Size([n]))
        self._rows = rows
        self._first: Tensor | None = None  # [R, O] what `step` observed, of new episodes where old ones ended
        self._ended = torch.zeros(n, dtype=torch.bool, device=env.device)
        self._next_seed: int | None = None
        limits: dict[str, Any] = {"device": env.device, "dtype": torch.float32}
        self.observation_spec = Composite(
            observation=Unbounded((n, rows.observation_size), **limits), shape=(n,), device=env.device
        )
        self.action_spec = Bounded(-1.0, 1.0, (n, rows.action_size), **limits)
        self.reward_spec = Unbounded((n, 1), **limits)
        flags = {name: Binary(shape=(n, 1), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags, shape=(n,), device=env.device)
        self._column = n, 1

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Begin episodes: in all worlds, or, where "_reset" says so, in those whose episode has just ended.

        Raises:
            RookeryError: "_reset" asks for others.
        """
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or self._first is None or bool(mask.all() and not self._ended.all()):
            self._first = self._rows.reset(self._next_seed)
            self._next_seed = None
        elif bool((mask.view(-1) & ~self._ended).any()):
            raise RookeryError(
                f"{self._rows.env.task_id} begins episodes when others end: reset all worlds, or those that are done."
            )
        self._ended = torch.zeros_like(self._ended)  # the old one is what `step` returned
        return tensor_dict(self._begun(self._first), self.batch_size)

    def _begun(self, observation: Tensor) -> dict[str, Tensor]:
        no = (torch.from_numpy(np.zeros(self._column, np.bool_)) for _ in range(3))
        return {"observation": observation} | dict(zip(("done", "terminated", "truncated"), no, strict=True))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._stepped(self._rows.step(tensordict.get("action")))

    def _stepped(self, done: RowStep) -> TensorDictBase:
        self._first = done.observation
        self._ended = either(done.terminated, done.truncated)
        values = {
            "observation": done.observation if done.final is None else done.final,
            "reward": reshaped(done.reward, self._column),
            "done": reshaped(self._ended, self._column),
            "terminated": reshaped(done.terminated, self._column),
            "truncated": reshaped(done.truncated, self._column),
        }
        return tensor_dict(values, self.batch_size)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """As `EnvBase.step_and_maybe_reset`, which collectors and rollouts call.

        TorchRL's own looks for partial steps, nested keys and resets, for as long as half a step of 1,024 worlds of
        drone-hover: it is called only where the TensorDict has something of that kind.
        """
        entries = dict(tensordict.items())
        if not UNUSUAL.isdisjoint(entries) or tensordict.shape != self.batch_size or tensordict.is_locked:
            return super().step_and_maybe_reset(tensordict)
        done = self._rows.step(tensordict.get("action"))
        tensordict.set("next", self._stepped(done))
        carried = {name: value for name, value in entries.items() if name not in REPLACED}
        return tensordict, tensor_dict(carried | self._begun(done.observation), self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        """Start all random streams anew at the next reset of all worlds."""
        self._next_seed = seed
        self._first = None

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Free the engine."""
        if not self.is_closed:
            self._rows.env.close()
        super().close(raise_if_closed=raise_if_closed)

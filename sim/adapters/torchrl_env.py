"""TorchRL's `EnvBase` over an Env: TensorDicts of R rows, one row an agent; or of N worlds, with one of [N, A] a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from rookery.sim.actions import require_numbers
from rookery.sim.adapters.agents import AgentEnds, agent_names, final_states
from rookery.sim.adapters.rows import AgentRows, RowStep, either, reshaped
from rookery.sim.adapters.seeding import seed_for
from rookery.sim.adapters.spaces import one_number
from rookery.sim.adapters.tensordicts import tensor_dict
from rookery.sim.engines import check_seed
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec

REPLACED = frozenset({"observation", "done", "terminated", "truncated"})
"""What the next step's TensorDict has of its own; everything else in it, such as the action, is carried on."""
FLAGS = ("done", "terminated", "truncated")
UNUSUAL = frozenset({"next", "_step", "_reset", "reward"})
"""Entries with which a step is TorchRL's affair, such as an actor's memory under "next"."""


class AutoResetEnv(EnvBase):
    """The base of the adapters for TorchRL. TorchRL takes the last observation of an episode from `step` and the first of the
    next one from `reset`: so do they, although an Env begins episodes by itself, and values at time limits are exact.

    Args:
        env: stepped and closed from now on.
        size: rows of the batch.
    """

    def __init__(self, env: Env, size: int) -> None:
        super().__init__(device=env.device, batch_size=torch.Size([size]))
        self.is_closed = False  # TorchRL begins with True, and `close` would free nothing
        self._env = env
        self._first: dict[str, Any] | None = None  # what `step` observed, of new episodes where old ones ended
        self._ended = torch.zeros(size, dtype=torch.bool, device=env.device)
        self._next_seed: int | None = None
        self._column = size, 1

    def _restart(self, seed: int | None) -> dict[str, Any]:
        """Begin episodes in all worlds; the entries that observe them."""
        raise NotImplementedError

    def _begun(self, first: dict[str, Any]) -> dict[str, Any]:
        """Entries of `first`, with those that say that nothing has ended."""
        no = (torch.from_numpy(np.zeros(self._column, np.bool_)) for _ in FLAGS)
        return first | dict(zip(FLAGS, no, strict=True))

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Begin episodes: in all worlds, or, where "_reset" says so, in those whose episode has just ended.

        Raises:
            RookeryError: "_reset" asks for others.
        """
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or self._first is None or bool(mask.all() and not self._ended.all()):
            self._first = self._restart(self._next_seed)
            self._next_seed = None
        elif bool((mask.view(-1) & ~self._ended).any()):
            raise RookeryError(
                f"{self._env.task_id} begins episodes when others end: reset all worlds, or those that are done."
            )
        self._ended = torch.zeros_like(self._ended)  # the old one is what `step` returned
        return tensor_dict(self._begun(self._first), self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        """Start all random streams anew at the next reset of all worlds."""
        self._next_seed = None if seed is None else check_seed(seed)
        self._first = None

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Free the engine."""
        if not self.is_closed:
            self._env.close()
        super().close(raise_if_closed=raise_if_closed)


def _action_spec(action: ActionSpec, rows: int, device: torch.device | str) -> TensorSpec:
    """Numbers in [-1, 1], or indices of options, of as many rows."""
    sizes = [len(c.options) for c in action.choices]
    if len(sizes) > 1:
        return MultiCategorical(sizes, (rows, len(sizes)), device=device)
    if sizes:
        return Categorical(sizes[0], (rows,), device=device)
    return Bounded(-1.0, 1.0, (rows, action.size), device=device, dtype=torch.float32)


class TorchRLEnv(AutoResetEnv):
    """R rows of an Env with one agent group, with the keys "observation" [R, O], "action" [R, D], "reward" [R, 1], and "done",
    "terminated", "truncated" [R, 1]. Of a choice "action" is [R] int64, of several [R, K].

    Args:
        env: stepped and closed from now on.

    Raises:
        RookeryError: several groups, a vector reward, masks, or actions of choices and numbers.
    """

    def __init__(self, env: Env) -> None:
        rows = AgentRows(env, "TorchRL", choices=True)
        n = rows.num
        super().__init__(env, n)
        self._rows = rows
        limits: dict[str, Any] = {"device": env.device, "dtype": torch.float32}
        self.observation_spec = Composite(
            observation=Unbounded((n, rows.observation_size), **limits), shape=(n,), device=env.device
        )
        self.action_spec = _action_spec(rows.group.action, n, env.device)
        self.reward_spec = Unbounded((n, 1), **limits)
        flags = {name: Binary(shape=(n, 1), dtype=torch.bool) for name in FLAGS}
        self.done_spec = Composite(flags, shape=(n,), device=env.device)

    def _restart(self, seed: int | None) -> dict[str, Any]:
        return {"observation": self._rows.reset(seed)}

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._stepped(self._rows.step(tensordict.get("action")))

    def _stepped(self, done: RowStep) -> TensorDictBase:
        self._first = {"observation": done.observation}
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
        return tensordict, tensor_dict(carried | self._begun({"observation": done.observation}), self.batch_size)


class TorchRLMultiAgentEnv(AutoResetEnv):
    """N worlds of an Env. Entries of group g lie under its name: (g, "observation") [N, A, O], (g, "action") [N, A, D],
    (g, "reward") [N, A, 1] and (g, "done"), (g, "terminated"), (g, "truncated") [N, A, 1]; those of the worlds beside them:
    "done", "terminated", "truncated" [N, 1] and, with `states`, "state" [N, S].

    These are the keys of TorchRL's own `PettingZooWrapper`. An agent that drops out is terminated from then on, with reward
    0, until the episode of its world ends.

    Args:
        env: stepped and closed from now on.
        states: give critics the state of the world.

    Attributes:
        group_map: names ``<group>_<i>`` of the agents by group.

    Raises:
        RookeryError: a vector reward.
    """

    def __init__(self, env: Env, *, states: bool = False) -> None:
        one_number(env)
        require_numbers(env.groups, "TorchRL takes")
        n = env.num_envs
        super().__init__(env, n)
        self._states = states
        self._ends = AgentEnds(env)
        names = agent_names(env)
        self.group_map = {g: [name for name, (of, _) in names.items() if of == g] for g in env.groups}
        self._make_specs()

    def _make_specs(self) -> None:
        n, device = self._env.num_envs, self._env.device
        limits: dict[str, Any] = {"device": device, "dtype": torch.float32}
        observed, action, reward, done = (Composite(shape=(n,), device=device) for _ in range(4))
        for flag in FLAGS:
            done[flag] = Binary(shape=(n, 1), dtype=torch.bool, device=device)
        if self._states:
            observed["state"] = Unbounded((n, self._env.state_size), **limits)
        for name, group in self._env.groups.items():
            size = n, group.count
            whole: dict[str, Any] = {"shape": size, "device": device}
            observed[name] = Composite(observation=Unbounded((*size, group.observation_size), **limits), **whole)
            action[name] = Composite(action=Bounded(-1.0, 1.0, (*size, group.action.size), **limits), **whole)
            reward[name] = Composite(reward=Unbounded((*size, 1), **limits), **whole)
            flags = {flag: Binary(shape=(*size, 1), dtype=torch.bool, device=device) for flag in FLAGS}
            done[name] = Composite(flags, **whole)
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = observed, action, reward, done

    def _restart(self, seed: int | None) -> dict[str, Any]:
        obs = self._env.reset(seed_for(self._env, seed))[0]
        self._ends.reset()
        return self._observed(obs, self._env.state.clone() if self._states else None)

    def _observed(self, obs: dict[str, Tensor], state: Tensor | None) -> dict[str, Any]:
        groups: dict[str, Any] = {name: {"observation": value} for name, value in obs.items()}
        return groups if state is None else groups | {"state": state}

    def _begun(self, first: dict[str, Any]) -> dict[str, Any]:
        out = super()._begun(first)
        for name in self.group_map:
            flags = {flag: torch.zeros(*first[name]["observation"].shape[:2], 1, dtype=torch.bool) for flag in FLAGS}
            out[name] = self._of_group(first[name] | flags)
        return out

    def _of_group(self, entries: dict[str, Tensor]) -> TensorDict:
        return tensor_dict(entries, next(iter(entries.values())).shape[:2])

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, terminated, truncated, info = self._env.step(
            {name: tensordict.get((name, "action")) for name in self.group_map}
        )
        ends = self._ends.step(terminated, truncated, info)
        self._ended = either(terminated, truncated)
        state = self._env.state.clone() if self._states else None
        self._first = self._observed(obs, state)
        final = state
        if state is not None and "final_state" in info:
            final = final_states(self._env, info["final_state"], self._ended)
        out = self._observed(info.get("final_observation", obs), final)
        for name, (over, late) in ends.items():
            flags = {"done": over | late, "terminated": over, "truncated": late}
            out[name] = self._of_group(out[name] | {"reward": reward[name][..., None]} | flags)
        worlds = {"done": self._ended, "terminated": terminated, "truncated": truncated}
        out |= {flag: reshaped(value, self._column) for flag, value in worlds.items()}
        return tensor_dict(out, self.batch_size)

"""The agents of an Env as rows of one batch, for libraries that know nothing but independent agents.

Agent a of world w is row w * A + a. The rows of a world end together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.sim.actions import require_numbers
from rookery.sim.adapters.agents import final_states
from rookery.sim.adapters.seeding import seed_for
from rookery.sim.adapters.spaces import one_number, plain, table
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


class RowStep(NamedTuple):
    """Results of a control step, by row: new tensors, see `Env.step`."""

    observation: Tensor
    """[R, O], the first one of the new episode where one ended."""
    reward: Tensor
    """[R] float32."""
    terminated: Tensor
    """[R] bool."""
    truncated: Tensor
    """[R] bool."""
    final: Tensor | None
    """[R, O], the last observation of an episode where one ended, `observation` elsewhere; None where none did."""
    info: dict[str, Any]
    """The Env's own."""


class AgentRows:
    """One agent group of an Env as R = N * A rows.

    Args:
        env: with one agent group and rewards of one number.
        library: whose interface needs rows, for messages.
        choices: take actions of choices alone, too, without masks.

    Raises:
        RookeryError: several groups, a vector reward, or actions that the library does not know.
    """

    def __init__(self, env: Env, library: str, choices: bool = False) -> None:
        one_number(env)
        if choices:
            _refuse_masks_and_mixtures(env, library)
        else:
            require_numbers(env.groups, f"{library} takes")
        if len(env.groups) != 1:
            raise RookeryError(
                f"{env.task_id!r} has the groups {list(env.groups)} and {library} knows one: use rookery.ParallelEnv, or "
                "rookery.make itself."
            )
        self.env = env
        ((self.name, self.group),) = env.groups.items()
        self.count = self.group.count
        self.num = env.num_envs * self.count
        self.observation_size = self.group.observation_size
        self.action_size = self.group.action.size
        self.privileged = "critic" in self.group.observation_sets

    def reset(self, seed: int | None = None) -> Tensor:
        """New episodes in all worlds; [R, O]. See `seed_for`."""
        return self._flat(self.env.reset(seed_for(self.env, seed))[0])

    def step(self, actions: Any) -> RowStep:
        """Advance all worlds by one control step.

        Args:
            actions: [R, D] numbers in [-1, 1], or indices of options, on any device; of a single choice also [R].

        Raises:
            RookeryError: actions of another shape or with NaN.
        """
        if self.group.action.choices and np.shape(actions) == (self.num,):
            actions = torch.as_tensor(actions).reshape(self.num, 1)
        tensor = row_actions(actions, (self.num, self.action_size), self.env.device)
        by_group = {self.name: reshaped(tensor, (self.env.num_envs, self.count, self.action_size))}
        obs, reward, terminated, truncated, info = self.env.step(by_group)
        final = self._flat(info["final_observation"]) if "final_observation" in info else None
        ends = self.spread(terminated), self.spread(truncated)
        return RowStep(self._flat(obs), reshaped(reward[self.name], (self.num,)), *ends, final, info)

    def _flat(self, by_group: dict[str, Tensor]) -> Tensor:
        return reshaped(by_group[self.name], (self.num, -1))

    def spread(self, by_world: Tensor) -> Tensor:
        """[R, ...] of what each world has, [N, ...]."""
        return by_world if self.count == 1 else by_world.repeat_interleave(self.count, 0)

    def state(self) -> Tensor:
        """[R, S] the state of the world now. A copy: a task may give a tensor that it goes on writing to."""
        state = self.env.state
        return state.clone() if self.count == 1 else self.spread(state)

    def final_state(self, done: RowStep) -> Tensor:
        """[R, S] the last state of an episode where `done` ended one, the state now elsewhere.

        Args:
            done: the last step, one that ended episodes.
        """
        ended = either(done.terminated, done.truncated)[:: self.count]
        return self.spread(final_states(self.env, done.info["final_state"], ended))

    def critic(self) -> Tensor:
        """[R, O_critic] now: the observation set "critic" of a group that declares one (`privileged`)."""
        return self._flat(self.env.observation_set("critic"))

    def critic_size(self) -> int:
        """Length of a row of `critic`; 0 where the group declares none."""
        return self.group.observation_sets["critic"].size if self.privileged else 0


def _refuse_masks_and_mixtures(env: Env, library: str) -> None:
    """Refuse actions that are neither numbers alone nor choices alone, and masks.

    Raises:
        RookeryError: with what learns such tasks.
    """
    for spec in (group.action for group in env.groups.values()):
        if spec.masked or (spec.choices and spec.names):
            what = "masks" if spec.masked else "actions of choices and numbers"
            raise RookeryError(f"{library} knows no {what}, and {env.task_id!r} has some: PPO learns such tasks.")


def reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`tensor` in another shape, without a copy where it is contiguous; for tensors without gradients.

    By NumPy: between two steps, with the caches full of physics, a view by torch takes 9 to 23 us, and this 3.
    """
    return torch.from_numpy(tensor.numpy().reshape(shape))


def either(a: Tensor, b: Tensor) -> Tensor:
    """`a | b` of two masks; see `reshaped`."""
    return torch.from_numpy(a.numpy() | b.numpy())


def row_actions(actions: Any, shape: tuple[int, int], device: torch.device | str) -> Tensor:
    """Actions [R, D] from anywhere as float32 on a device.

    Raises:
        RookeryError: another shape, or not numbers.
    """
    try:
        tensor = actions
        if not (isinstance(tensor, Tensor) and tensor.dtype is torch.float32 and tensor.device == device):
            given = plain(np.asarray(actions, np.float32)) if isinstance(actions, np.ndarray) else actions
            tensor = torch.as_tensor(given, dtype=torch.float32, device=device)
    except (TypeError, ValueError, RuntimeError) as e:
        raise RookeryError(f"actions must be numbers of shape {shape}, got {type(actions).__name__}.") from e
    if tensor.shape != shape:
        raise RookeryError(f"actions must have shape {shape}, got {tuple(tensor.shape)}.")
    return tensor.detach() if tensor.requires_grad else tensor


def episode_means(info: dict[str, Any]) -> dict[str, float]:
    """Means over the episodes that ended in a step, but those that are `cut`: return, length in control steps, and the task's
    metrics, of those that have them; {} for none."""
    if "episode" not in info:
        return {}
    episode = info["episode"]
    if "cut" in episode and episode["cut"].any():
        episode = _whole(episode)
        if not len(episode["ids"]):
            return {}
    # np.add.reduce and not ndarray.mean, which takes 6 us a call
    returns = table(episode["return"])
    length = episode["length"].numpy()
    out = {
        "return": float(np.add.reduce(returns, None)) / returns.size,
        "length": int(np.add.reduce(length)) / len(length),
    }
    if not episode["metrics"]:
        return out
    metrics = table(episode["metrics"])
    means = np.add.reduce(metrics, 1) / np.float32(len(length))
    found = dict(zip(episode["metrics"], means.tolist(), strict=True))
    if not np.isfinite(means).all():
        found = {
            k: float(np.mean(x[np.isfinite(x)])) for k, x in zip(found, metrics, strict=True) if np.isfinite(x).any()
        }
    return out | found


def _whole(episode: dict[str, Any]) -> dict[str, Any]:
    """Those episodes of a table that began at their beginning."""
    whole = ~episode["cut"]
    tables = {what: {k: v[whole] for k, v in episode[what].items()} for what in ("return", "metrics")}
    return tables | {what: episode[what][whole] for what in ("ids", "length")}

"""What the adapters share: Gymnasium spaces from declarations, arrays to actions, summaries of ended episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

Array = NDArray[np.float32]


def observation_space(group: Group, agents: int = 1) -> Box:
    """[agents * O] float32, bounded where terms are clipped."""
    limit = np.concatenate([np.full(t.size, t.clip, dtype=np.float32) for t in group.observation])
    limit = np.tile(limit, agents * group.history)
    return Box(-limit, limit, dtype=np.float32)


def action_space(group: Group, agents: int = 1) -> Box:
    """[agents * D] float32 in [-1, 1]."""
    return Box(-1.0, 1.0, (agents * group.action.size,), dtype=np.float32)


def reward_space(env: Env) -> Box:
    """[M] float32 of a vector reward, [1] of a single number; without bounds, since tasks declare none."""
    return Box(-np.inf, np.inf, (max(len(env.objectives), 1),), dtype=np.float32)


def one_number(env: Env) -> None:
    """Refuse a vector reward, for interfaces that know rewards of one number only.

    Raises:
        RookeryError: it has objectives.
    """
    if env.objectives:
        raise RookeryError(
            f"{env.task_id!r} has a vector reward ({', '.join(env.objectives)}) and Gymnasium's interface takes one number: "
            "wrap it in rookery.sim.envs.scalarize.LinearScalarization, or use rookery.sim.adapters.pettingzoo_env.ParallelEnv."
        )


def only_group(env: Env, joint: bool) -> tuple[str, Group]:
    """The environment's one group, for adapters that know a single agent.

    Raises:
        RookeryError: several groups, or several agents that are not to be taken as one.
    """
    if len(env.groups) != 1:
        raise RookeryError(
            f"{env.task_id!r} has the groups {list(env.groups)}: use rookery.sim.adapters.pettingzoo_env.ParallelEnv."
        )
    (item,) = env.groups.items()
    if item[1].count > 1 and not joint:
        raise RookeryError(
            f"{env.task_id!r} has {item[1].count} agents: use rookery.sim.adapters.pettingzoo_env.ParallelEnv, or "
            "joint=True for one agent that controls all."
        )
    return item


def action_tensor(action: Any, shape: tuple[int, ...], agents: tuple[int, int, int]) -> Tensor:
    """An action array of `shape` as the float32 tensor [N, A, D] = `agents` that Env takes.

    Raises:
        RookeryError: another shape, or not numbers.
    """
    try:
        array = np.asarray(action, dtype=np.float32)
    except (TypeError, ValueError) as e:
        raise RookeryError(
            f"an action must be an array of numbers of shape {shape}, got {type(action).__name__}."
        ) from e
    if array.shape != shape:
        raise RookeryError(f"an action must have shape {shape}, got {array.shape}.")
    return torch.from_numpy(np.array(array)).view(agents)


def array(tensor: Tensor) -> Array:
    """A copy as float32 NumPy array, since Env may reuse its tensors."""
    return np.array(tensor.numpy(), dtype=np.float32)


def episode_summary(env: Env, info: dict[str, Any], row: int) -> dict[str, Any]:
    """What is known of the episode in row `row` of ``info["episode"]``: return (mean over agents and groups; [M] of a
    vector reward), length in control steps, cause ("time limit", one of the task's causes, or "diverged"), and the task's
    metrics."""
    episode = info["episode"]
    cause = int(episode["cause"][row])
    causes = ("time limit", *env.causes, "diverged")
    returns = torch.stack([r[row] for r in episode["return"].values()])
    if env.objectives:  # by group, then by objective
        total: Any = array(returns.view(len(env.groups), -1).mean(0))
    else:
        total = float(returns.mean())
    out = {
        "return": total,
        "length": int(episode["length"][row]),
        "cause": causes[cause],
    }
    out.update({name: float(v[row]) for name, v in episode["metrics"].items()})
    return out

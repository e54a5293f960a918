"""Tools that the adapters share: Gymnasium spaces from declarations, arrays to actions, summaries of ended episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space, Tuple
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.columns import Columns
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group

Array = NDArray[np.float32]


def observation_space(group: Group, agents: int = 1) -> Box:
    """[agents * O] float32, bounded where terms are clipped."""
    limit = np.concatenate([np.full(t.size, t.clip, dtype=np.float32) for t in group.observation])
    limit = np.tile(limit, agents * group.history)
    return Box(-limit, limit, dtype=np.float32)


def number_space(group: Group, agents: int = 1) -> Box:
    """Box of the continuous components of actions, [agents * D] float32 in [-1, 1]."""
    return Box(-1.0, 1.0, (agents * len(group.action.names),), dtype=np.float32)


def action_space(group: Group, agents: int = 1) -> Space[Any]:
    """Space of actions: for continuous ones Box [agents * D] float32 in [-1, 1]; of a choice Discrete, of several (all agents')
    MultiDiscrete; of both Tuple (choices, Box)."""
    spec = group.action
    numbers = number_space(group, agents)
    if not spec.choices:
        return numbers
    sizes = [len(c.options) for c in spec.choices] * agents
    choices: Space[Any] = Discrete(sizes[0]) if len(sizes) == 1 else MultiDiscrete(sizes)
    return Tuple((choices, numbers)) if spec.names else choices


def mask_space(group: Group) -> Box:
    """[C] int8, 1 where an option is allowed, as PettingZoo's environments have it."""
    return Box(0, 1, (group.action.options,), dtype=np.int8)


def masks_of(env: Env, group: str) -> NDArray[np.int8]:
    """[N, A, C] int8: which options are allowed now to a group whose action is masked."""
    return np.array((env.action_mask or {})[group].numpy(), dtype=np.int8)


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
            f"{env.task_id!r} has a vector reward ({', '.join(env.objectives)}) and this interface takes one number: give "
            f"weights={{{env.objectives[0]!r}: 1.0, ...}} to rookery.make or gymnasium.make, or use rookery.ParallelEnv."
        )


def only_group(env: Env, joint: bool) -> tuple[str, Group]:
    """The environment's one group, for adapters that know a single agent.

    Raises:
        RookeryError: several groups, or several agents that are not to be taken as one.
    """
    if len(env.groups) != 1:
        raise RookeryError(
            f"{env.task_id!r} has the groups {list(env.groups)} and gymnasium knows one agent: use rookery.ParallelEnv."
        )
    (item,) = env.groups.items()
    if item[1].count > 1 and not joint:
        raise RookeryError(
            f"{env.task_id!r} has {item[1].count} agents: use rookery.ParallelEnv, or gymnasium.make(..., "
            f"joint=True) for one agent "
            "that controls all."
        )
    return item


def action_tensor(action: Any, shape: tuple[int, ...], agents: tuple[int, int, int]) -> Tensor:
    """An action array of `shape` as the float32 tensor [N, A, D] = `agents` that Env takes.

    Raises:
        RookeryError: another shape, or not numbers.
    """
    try:
        array = np.asarray(action.detach().cpu().numpy() if isinstance(action, Tensor) else action, dtype=np.float32)
    except (TypeError, ValueError) as e:
        raise RookeryError(
            f"an action must be an array of numbers of shape {shape}, got {type(action).__name__}."
        ) from e
    if array.shape != shape:
        raise RookeryError(f"an action must have shape {shape}, got {array.shape}.")
    return torch.from_numpy(plain(array).reshape(agents))


def plain(array: Array) -> Array:
    """An array as torch takes it, which refuses negative strides, as of `numpy.flip`, and warns of read-only ones."""
    return array if array.flags.carray else array.copy()


def action_of(action: Any, spec: ActionSpec, worlds: tuple[int, ...], agents: int) -> Tensor:
    """An action of `action_space`, or a batch of them, as the float32 tensor [N, A, D] that Env takes.

    Args:
        action: of the space.
        spec: of one agent's action.
        worlds: (N,) of a batch, () of a single one.
        agents: A.

    Raises:
        RookeryError: another shape, not numbers, or no pair of choices and numbers where there are both.
    """
    n = worlds[0] if worlds else 1
    parts = []
    numbers = action
    if spec.choices:
        if spec.names and not (isinstance(action, (tuple, list)) and len(action) == 2):
            raise RookeryError(f"an action must be a pair (choices, numbers), got {type(action).__name__}.")
        choices, numbers = action if spec.names else (action, None)
        count = len(spec.choices)
        shape = worlds if agents * count == 1 else (*worlds, agents * count)
        parts.append(action_tensor(choices, shape, (n, agents, count)))
    if spec.names:
        size = len(spec.names)
        parts.append(action_tensor(numbers, (*worlds, agents * size), (n, agents, size)))
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def array(tensor: Tensor) -> Array:
    """A copy as float32 NumPy array, since Env may reuse its tensors."""
    return np.array(tensor.numpy(), dtype=np.float32)


def table(columns: Mapping[str, Tensor]) -> NDArray[np.float32]:
    """[k, m] of k columns [m]."""
    if isinstance(columns, Columns):
        return columns.array
    return np.stack([c.numpy() for c in columns.values()]) if columns else np.zeros((0, 0), np.float32)


def episode_columns(env: Env, episode: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Facts about the m episodes of ``info["episode"]``, by name: return (mean over agents and groups) [m], or [m, M] of
    a vector reward; length in control steps [m]; cause ("time limit", one of the task's causes, or "diverged") [m]; the
    task's metrics [m]. Numbers are float64 and int64."""
    causes = np.array(("time limit", *env.causes, "diverged"), dtype=object)
    returns = table(episode["return"])
    if env.objectives:  # by group, then by objective
        returns = returns.reshape(len(env.groups), -1, returns.shape[-1]).transpose(0, 2, 1)
    out = {
        "return": np.add.reduce(returns, 0, dtype=np.float64) / len(returns),  # half the time of ndarray.mean
        "length": episode["length"].numpy(),
        "cause": causes[episode["cause"].numpy()],
    }
    return out | dict(zip(episode["metrics"], table(episode["metrics"]).astype(np.float64), strict=True))


def episode_summary(env: Env, info: dict[str, Any], row: int) -> dict[str, Any]:
    """The episode in row `row` of `episode_columns`: numbers, the return an array [M] of a vector reward."""
    out = {name: column[row] for name, column in episode_columns(env, info["episode"]).items()}
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in out.items()}

"""Demonstrations that were not recorded here: what the readers of other formats have in common.

They become one group ``robot`` of one agent. Its actions are in [-1, 1] here; the contract's limits say what -1 and 1 were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.policies.datasets.schema import Episode, Facts
from rookery.sim.specs import ActionSpec, Group

Describe = Callable[[str, Mapping[str, Group], float], dict[str, Any]]
"""From task id, groups and control period (s) to the contract as JSON values (`rookery.sim2real.build.describe_json`)."""
Progress = Callable[[int, int], None]
Array = NDArray[Any]

LEFT_OUT = "left_out"
"""In `recording`: what the source has and the demonstrations have not, in words."""
LONGEST_NAME = 200


def spread_of(actions: Sequence[Array]) -> tuple[Array, Array]:
    """The least and greatest value of each component, apart from each other; actions [T, D] of episodes."""
    low = np.min([x.min(0) for x in actions], 0)
    high = np.max([x.max(0) for x in actions], 0)
    still = high - low < 1e-9
    return low - still, high + still


def action_spec(kind: str, low: Array, high: Array, names: Sequence[str] | None) -> ActionSpec:
    """Actions whose values `low` and `high` stand for -1 and 1.

    Args:
        kind: of the source.
        low, high: [D].
        names: of the components; None where the source has none that are different.
    """
    size = len(low)
    own = tuple(names) if names is not None else tuple(f"action_{i}" for i in range(size))
    return ActionSpec(kind, own, tuple(low.tolist()), tuple(high.tolist()), ("1",) * size, (0.0,) * size)


def names_of(given: object, size: int) -> list[str] | None:
    """Names of a feature's components where `given` tells them: a list, or a dict of such lists; None for no such names."""
    if isinstance(given, Mapping):
        lists = [x for x in given.values() if isinstance(x, list)]
        given = [name for x in lists for name in x] if len(lists) == len(given) else None
    if not isinstance(given, list) or len(given) != size:
        return None
    right = all(isinstance(x, str) and 0 < len(x) <= LONGEST_NAME and x.isprintable() for x in given)
    return list(given) if right and len(set(given)) == size else None


def episode_of(
    i: int,
    observation: Array,
    action: Array,
    spec: ActionSpec,
    *,
    reward: Array | None = None,
    success: bool | None = None,
    terminated: bool = False,
    cause: str = "time limit",
) -> Episode:
    """Episode i of a source.

    Args:
        i: its number, which is its seed here.
        observation: [T + 1, O], the one after the last action included.
        action: [T, D] as in the source.
        spec: with the limits of the source's actions.
        reward: [T]; zeros where the source has none.
        success: whether it succeeded at any time, where that is told.
        terminated: the last state is terminal; else the recording was cut there.
        cause: of the end.
    """
    low, high = np.array(spec.low), np.array(spec.high)
    scaled = ((action - low) / (high - low) * 2.0 - 1.0).clip(-1.0, 1.0).astype(np.float32)
    length = len(action)
    rewards = np.zeros(length, np.float32) if reward is None else np.asarray(reward, np.float32).reshape(length)
    ended = torch.zeros(2, length, dtype=torch.bool)
    ended[0 if terminated else 1, -1] = True
    columns = {
        "observation.robot": torch.from_numpy(np.ascontiguousarray(observation, np.float32)).unsqueeze(1),
        "action.robot": torch.from_numpy(scaled).unsqueeze(1),
        "reward.robot": torch.from_numpy(rewards).unsqueeze(1),
        "terminated": ended[0],
        "truncated": ended[1],
    }
    return Episode(Facts(i, 0, length, success, cause, {"robot": float(rewards.sum())}, {}), columns)

"""Demonstrations as a replay memory, from which an off-policy learner takes a share of every batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.storage.replay import Replay
from rookery.sim.errors import RookeryError

__all__ = ["replay_of"]


def replay_of(data: Dataset, group: str, weights: Mapping[str, float], device: torch.device) -> Replay:
    """All transitions of a group: one world, its episodes one after another. An episode that was cut off counts as truncated.

    Args:
        data: demonstrations.
        group: name of the agent group.
        weights: of the reward terms in the training, by name, since recordings may have been made with others; empty takes the
            recorded rewards.
        device: of the memory.

    Raises:
        RookeryError: no such group, no rewards, or a reward that is a vector.
    """
    data.group(group)
    agents, size = data.columns[f"observation.{group}"].shape
    out = Replay(data.frames, 1, agents, size, data.columns[f"action.{group}"].shape[1], device)
    names = [f"{kind}.{group}" for kind in ("observation", "action")]
    optional = [f"active.{group}", "terminated", "truncated"]
    rewards = _reward_columns(data, group, weights)
    for i in range(len(data)):
        got = {k: v.to(device) for k, v in data.read(i, _known(data, [*names, *optional, *rewards])).items()}
        reward = sum((got[name] * weight for name, weight in rewards.items()), torch.zeros((), device=device))
        _add(out, group, got, reward.expand(len(got[f"action.{group}"]), agents))
    return out


def _known(data: Dataset, names: list[str]) -> list[str]:
    return [n for n in names if n in data.columns]


def _reward_columns(data: Dataset, group: str, weights: Mapping[str, float]) -> dict[str, float]:
    """Which columns make the reward, and by which weights."""
    whole = f"reward.{group}"
    if whole not in data.columns:
        raise RookeryError(
            f"{data.folder} has no rewards of group {group!r}: record demonstrations with `rookery demos record`, or clone "
            "these with --algorithm bc."
        )
    if len(data.columns[whole].shape) > 1:
        raise RookeryError(f"{data.folder} has a vector reward: record the task with one of a single number.")
    terms = {f"reward_term.{group}.{name}": weight for name, weight in weights.items()}
    known = {name: weight for name, weight in terms.items() if name in data.columns}
    return known or {whole: 1.0}


def _add(out: Replay, group: str, episode: dict[str, Tensor], reward: Tensor) -> None:
    """Store one episode."""
    observation = episode[f"observation.{group}"]
    action = episode[f"action.{group}"]
    active = episode.get(f"active.{group}")
    steps = len(action)
    last = torch.arange(steps, device=action.device) == steps - 1
    terminated = episode["terminated"]
    truncated = last & ~terminated
    for t in range(steps):
        following = min(t + 1, steps - 1)  # nobody drops out after the last step
        out.add(
            observation[t : t + 1], action[t : t + 1], reward[t : t + 1], observation[t + 1 : t + 2],
            terminated[t : t + 1], truncated[t : t + 1], observation[t + 1 : t + 2] if last[t] else None,
            None if active is None else active[t : t + 1], None if active is None else active[following : following + 1],
        )  # fmt: skip

"""Behavior cloning in two processes: observations are normalized by what both have, once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from policies_toy import ToyEnv
from together import at_once, together

from rookery.policies.datasets.dataset import Dataset, DatasetTransitions
from rookery.policies.imitation.behavior_cloning import BehaviorCloning, BehaviorCloningConfig

LENGTH = 10


class Given(Dataset):
    """Episodes of LENGTH steps with the given observations [E * LENGTH, O]."""

    def __init__(self, observation: torch.Tensor) -> None:
        self.observation = observation
        self.episodes = [SimpleNamespace(length=LENGTH)] * (len(observation) // LENGTH)  # type: ignore[list-item]

    def check_group(self, name: str, group: Any) -> None:
        pass

    def transitions(self, batch: int, episodes: Any = None, **more: Any) -> Iterator[DatasetTransitions]:
        for i in range(len(self.episodes)) if episodes is None else episodes:
            x = self.observation[i * LENGTH : (i + 1) * LENGTH]
            none = torch.zeros(len(x), dtype=torch.bool)
            yield DatasetTransitions(x, torch.zeros(len(x), 1), none.float(), x, none, none)


def test_statistics_are_those_of_both_datasets_and_of_nothing_else():
    g = torch.Generator().manual_seed(0)
    parts = [3.0 * torch.randn(40, 2, generator=g) + 1.0, 0.5 * torch.randn(60, 2, generator=g) - 4.0]
    config = BehaviorCloningConfig(hidden=(8,), validation_share=0.0)
    made = [BehaviorCloning(ToyEnv(), config, inputs={"dataset": Given(part)}) for part in parts]
    for own, part in zip(made, parts, strict=True):  # alone, each has its own
        torch.testing.assert_close(own.networks["point"].norm.mean, part.mean(0), rtol=1e-5, atol=1e-6)
    at_once(*(partial(own.share, reduction) for own, reduction in zip(made, together(2), strict=True)))
    everything = torch.cat(parts)
    for own in made:
        norm = own.networks["point"].norm
        torch.testing.assert_close(norm.mean, everything.mean(0), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(norm.std, everything.std(0, correction=0), rtol=1e-4, atol=1e-6)

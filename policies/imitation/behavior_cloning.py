"""Behaviour cloning: a policy that does in a recorded situation what was done there (Pomerleau 1988).

It needs no environment, and so learns from recordings of any origin; it never sees the states that its own mistakes lead
to. Where the expert can be asked again, `rookery.policies.imitation.dagger` does better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from rookery.policies.datasets.dataset import Dataset
from rookery.policies.imitation.regression import Regression, RegressionConfig
from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim.threads import one_thread_each


@dataclass(frozen=True)
class CloneConfig(RegressionConfig):
    """Settings of `clone`."""

    epochs: int = 50
    """How often through all transitions."""
    held_out: float = 0.1
    """Part of the episodes that is only measured on; with fewer than two episodes none is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("epochs")
        if not 0.0 <= self.held_out < 1.0:
            raise RookeryError(f"held_out is {self.held_out}: give a part from 0 to below 1.")


@torch.no_grad()
@one_thread_each
def clone(
    data: Dataset,
    config: CloneConfig | None = None,
    group: str | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Policy:
    """Regress the recorded actions of a group on its observations.

    Args:
        data: demonstrations.
        config: settings.
        group: whose; may be left out where there is one.
        progress: called after each epoch with its "epoch", "loss" (mean squared error of the actions while learning) and
            "error" (the same at its end, on the episodes held out; on all where none is).

    Returns:
        The policy.

    Raises:
        RookeryError: an unknown group.
    """
    c = config or CloneConfig()
    group = data.group(group)
    spec = data.contract["groups"][group]
    learner = Regression(sum(t["size"] * t["history"] for t in spec["observation"]), spec["action"]["neutral"], c)
    learnt, held = _split(len(data), c)
    for batch in data.transitions(c.batch, group=group, episodes=learnt, shuffle=False):
        learner.norm.record(batch.observation)
    learner.norm.commit()
    for epoch in range(c.epochs):
        losses = 0.0
        rows = 0
        for batch in data.transitions(c.batch, group=group, episodes=learnt, seed=c.seed + epoch):
            loss = learner.learn(batch.observation, batch.action, epoch / c.epochs)
            losses = losses + loss.item() * len(batch)
            rows = rows + len(batch)
        if progress is not None:
            error = measure(learner.policy(), data, group, held or learnt)
            progress({"epoch": epoch + 1, "loss": losses / rows, "error": error})
    return learner.policy()


@torch.no_grad()
def measure(policy: Policy, data: Dataset, group: str | None = None, episodes: Sequence[int] | None = None) -> float:
    """Mean squared difference between what a policy does and what was done in these episodes."""
    total = 0.0
    count = 0
    for batch in data.transitions(8192, group=group, episodes=episodes, shuffle=False):
        total += (policy(batch.observation) - batch.action).square().mean(-1).sum().item()
        count += len(batch)
    return total / max(1, count)


def _split(episodes: int, c: CloneConfig) -> tuple[list[int], list[int]]:
    """Episodes to learn from and to measure on."""
    order = torch.randperm(episodes, generator=torch.Generator().manual_seed(c.seed)).tolist()
    held = min(episodes - 1, round(c.held_out * episodes) or int(c.held_out > 0.0))
    return sorted(order[held:]), sorted(order[:held])

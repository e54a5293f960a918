"""Behaviour cloning: a policy that does in a recorded situation what was done there (Pomerleau 1988).

It needs no environment, and so learns from recordings of any origin; it never sees the states that its own mistakes lead
to. Where the expert can be asked again, `rookery.policies.distill` does better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from rookery.policies.demonstrations.dataset import Dataset
from rookery.policies.networks import MLP, Adam, parameter_count
from rookery.policies.normalizers import ObservationNorm
from rookery.policies.policy import ACTIVATIONS, Policy
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.threads import one_thread_each


@dataclass(frozen=True)
class CloneConfig:
    """Settings of `clone`."""

    epochs: int = 50
    """How often through all transitions."""
    batch: int = 2048
    """Transitions of one optimiser step."""
    held_out: float = 0.1
    """Part of the episodes that is only measured on; with fewer than two episodes none is."""
    hidden: tuple[int, ...] = (128, 64)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "elu", "relu"] = "tanh"
    """Activation after every hidden layer."""
    obs_clip: float = 10.0
    """Limit of the normalised observations."""
    learning_rate: float = 1e-3
    """Learning rate of Adam at the start; it falls linearly to a tenth."""
    max_grad_norm: float = 1.0
    """Limit of the gradient's norm."""
    seed: int = 0
    """Seed of initial weights and of the order."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise RookeryError(f"{name} is {getattr(self, name)}: give at least 1.")
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
    c, group = config or CloneConfig(), data.group(group)
    spec = data.contract["groups"][group]
    size = sum(t["size"] * t["history"] for t in spec["observation"])
    learnt, held = _split(len(data), c)
    norm = ObservationNorm(size, c.obs_clip)
    for batch in data.transitions(c.batch, group=group, episodes=learnt, shuffle=False):
        norm.record(batch.observation)
    norm.commit()
    sizes = (size, *c.hidden, len(spec["action"]["names"]))
    parameters = torch.zeros(1, parameter_count(sizes))
    gradients = torch.zeros_like(parameters)
    network = MLP(parameters, gradients, sizes, c.activation)
    network.initialize(torch.Generator().manual_seed(c.seed), 0.01, torch.tensor(spec["action"]["neutral"]))
    adam = Adam(parameters, gradients, c.max_grad_norm)
    for epoch in range(c.epochs):
        rate = torch.full((1, 1), c.learning_rate * (1.0 - 0.9 * epoch / c.epochs))
        losses, rows = 0.0, 0
        for batch in data.transitions(c.batch, group=group, episodes=learnt, seed=c.seed + epoch):
            error = network.forward(norm.normalize(batch.observation).unsqueeze(0)).sub_(batch.action)
            losses, rows = losses + error.square().mean().item() * len(batch), rows + len(batch)
            gradients.zero_()
            network.backward(error.mul_(2.0 / error[0].numel()))
            adam.step(rate)
        if progress is not None:
            policy = _policy(network, norm, sizes, c)
            progress({"epoch": epoch + 1, "loss": losses / rows, "error": measure(policy, data, group, held or learnt)})
    return _policy(network, norm, sizes, c)


@torch.no_grad()
def measure(policy: Policy, data: Dataset, group: str | None = None, episodes: Sequence[int] | None = None) -> float:
    """Mean squared difference between what a policy does and what was done in these episodes."""
    total, count = 0.0, 0
    for batch in data.transitions(8192, group=group, episodes=episodes, shuffle=False):
        total += (policy(batch.observation) - batch.action).square().mean(-1).sum().item()
        count += len(batch)
    return total / max(1, count)


def _split(episodes: int, c: CloneConfig) -> tuple[list[int], list[int]]:
    """Episodes to learn from and to measure on."""
    order = torch.randperm(episodes, generator=torch.Generator().manual_seed(c.seed)).tolist()
    held = min(episodes - 1, round(c.held_out * episodes) or int(c.held_out > 0.0))
    return sorted(order[held:]), sorted(order[:held])


def _policy(network: MLP, norm: ObservationNorm, sizes: Sequence[int], c: CloneConfig) -> Policy:
    out = Policy(sizes[0], sizes[-1], c.hidden, c.activation, c.obs_clip)
    out.mean.copy_(norm.mean)
    out.std.copy_(norm.std)
    network.write_to(out.layers, 0)
    return out.eval()

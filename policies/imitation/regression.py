"""A network that learns actions which somebody else took: what `distill` and `clone` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rookery.policies.nn.adam import Adam
from rookery.policies.nn.mlp import MLP, parameter_count
from rookery.policies.policy import ACTIVATIONS, Policy
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.sim.errors import RookeryError, unknown


@dataclass(frozen=True)
class RegressionConfig:
    """Settings of the network and of how it learns."""

    batch: int = 2048
    """Samples of one optimiser step."""
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
    """Seed of everything random."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        self.at_least_one("batch")

    def at_least_one(self, *names: str) -> None:
        """Raises RookeryError where one of these settings is below 1."""
        for name in names:
            if getattr(self, name) < 1:
                raise RookeryError(f"{name} is {getattr(self, name)}: give at least 1.")


class Regression:
    """Network, optimiser and normaliser.

    Args:
        inputs: O, length of an observation.
        neutral: [D] action that the network begins with.
        config: settings.
        device: where tensors live.

    Attributes:
        norm: of the observations; whoever has them records them.
        generator: seeded, the initial weights drawn from it.
    """

    def __init__(
        self, inputs: int, neutral: Sequence[float], config: RegressionConfig, device: str | torch.device = "cpu"
    ) -> None:
        self.config = config
        sizes = (inputs, *config.hidden, len(neutral))
        self.generator = torch.Generator().manual_seed(config.seed)
        parameters = torch.zeros(1, parameter_count(sizes), device=device)
        self._gradients = torch.zeros_like(parameters)
        self._network = MLP(parameters, self._gradients, sizes, config.activation)
        self._network.initialize(self.generator, 0.01, torch.tensor(neutral))
        self._adam = Adam(parameters, self._gradients, config.max_grad_norm)
        self.norm = ObservationNorm(inputs, config.obs_clip, device)

    def act(self, obs: Tensor) -> Tensor:
        """Actions [N, A, D] in [-1, 1] for observations [N, A, O]."""
        return self._network.forward_agents(self.norm.normalize(obs)).clamp(-1.0, 1.0)

    def learn(self, obs: Tensor, wanted: Tensor, done: float, counts: Tensor | None = None) -> Tensor:
        """One optimiser step.

        Args:
            obs, wanted: [R, O], [R, D] actions.
            done: how much of the learning is over, 0 to 1.
            counts: [R] how much each row counts; None for all alike.

        Returns:
            Mean squared error before the step, without axes.
        """
        counts = torch.ones(len(obs), device=obs.device) if counts is None else counts
        share = (counts / counts.sum().clamp(min=1.0)).unsqueeze(1)
        error = self._network.forward(self.norm.normalize(obs).unsqueeze(0)).sub_(wanted)
        loss = (error.square() * share).sum() / error.shape[-1]
        self._gradients.zero_()
        self._network.backward(error.mul_(2.0 / error.shape[-1] * share))
        self._adam.step(torch.full((1, 1), self.config.learning_rate * (1.0 - 0.9 * done), device=obs.device))
        return loss

    def policy(self) -> Policy:
        """What has been learnt so far."""
        c = self.config
        sizes = self._network.sizes
        out = Policy(sizes[0], sizes[-1], c.hidden, c.activation, c.obs_clip)
        out.mean.copy_(self.norm.mean)
        out.std.copy_(self.norm.std)
        self._network.write_to(out.layers, 0)
        return out.eval()

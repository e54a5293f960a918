"""Runs an algorithm as the runner does: collect a rollout, update."""

from __future__ import annotations

import torch

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.training.evaluate import act_with


class Drive:
    """Algorithm and environment, step by step.

    Args:
        algorithm: drawn from its own environment.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.env = algorithm.env
        self.obs = None

    def collect(self) -> None:
        """One rollout of every world."""
        if self.obs is None:
            self.obs, _ = self.env.reset()
            self.env.stagger()
        self.algorithm.begin_rollout()
        for _ in range(self.algorithm.rollout_steps):
            actions = self.algorithm.act(self.obs)
            result = self.env.step(actions)
            self.algorithm.observe(self.obs, actions, result)
            self.obs = result[0]

    def iterate(self, times: int = 1, progress: float = 0.0) -> dict[str, float]:
        """Collect and update; returns the figures of the last update."""
        for _ in range(times):
            self.collect()
            figures = self.algorithm.update(progress)
        return figures


def mean_actions(
    algorithm: Algorithm, obs: dict[str, torch.Tensor], privileged: bool = False
) -> dict[str, torch.Tensor]:
    """Actions {group: [N, A, D]} without exploration, of the policies as they are now."""
    return act_with(algorithm.policies(), algorithm.env, privileged)(obs)

"""A policy and a critic over one flat vector of weights."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.policies.nn.spec import NetworkSpec
from rookery.policies.nn.state_estimator import EstimatorWorker


class Worker:
    """One thread's part of learning: activations and gradients of its own, weights in common.

    Args:
        parameters: [G, P], of policy, critic and log_std in that order.
        actor, critic: what the networks are built from.

    Attributes:
        gradients: [G, P].
        log_std_grad: [G, 1, D] view of them.
        estimator: the thread's part of the state estimator, where there is one.
    """

    def __init__(self, parameters: Tensor, actor: NetworkSpec, critic: NetworkSpec) -> None:
        self.gradients = torch.zeros_like(parameters)
        actor_end = actor.parameter_count
        critic_end = actor_end + critic.parameter_count
        self.actor = actor.build(parameters[:, :actor_end], self.gradients[:, :actor_end])
        self.critic = critic.build(parameters[:, actor_end:critic_end], self.gradients[:, actor_end:critic_end])
        self.log_std_grad = self.gradients[:, critic_end:].unsqueeze(1)
        self.estimator: EstimatorWorker | None = None

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.gradients.zero_()
        if self.estimator is not None:
            self.estimator.gradients.zero_()

"""A policy and a critic over one flat vector of weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rookery.policies.nn.build import build, weight_count
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.nn.state_estimator import EstimatorWorker
from rookery.policies.stages.chain import Link
from rookery.policies.storage.rollout import Samples


class Worker:
    """One thread's part of learning: activations and gradients of its own, weights in common.

    Args:
        parameters: [G, P], of policy, critic and log_std in that order.
        actor, critic: the stages that learn.

    Attributes:
        gradients: [G, P].
        log_std_grad: [G, 1, D] view of them.
        estimator: the thread's part of the state estimator, where there is one.
    """

    def __init__(self, parameters: Tensor, actor: Sequence[Link], critic: Sequence[Link]) -> None:
        self.gradients = torch.zeros_like(parameters)
        actor_end = weight_count(actor)
        critic_end = actor_end + weight_count(critic)
        self.actor = build(actor, parameters[:, :actor_end], self.gradients[:, :actor_end])
        self.critic = build(critic, parameters[:, actor_end:critic_end], self.gradients[:, actor_end:critic_end])
        self.log_std_grad = self.gradients[:, critic_end:].unsqueeze(1)
        self.estimator: EstimatorWorker | None = None

    def mean_action(self, samples: Samples) -> Tensor:
        """The policy's mean action [G, R, D], before it the logits of choices, for one `actor.backward`."""
        if isinstance(self.actor, Recurrent):
            return self.actor.forward(samples.actor_input, samples.first, samples.actor_state)
        return self.actor.forward(samples.actor_input)

    def value(self, samples: Samples) -> Tensor:
        """The critic's value [G, R], for one `critic.backward`."""
        if isinstance(self.critic, Recurrent):
            return self.critic.forward(samples.critic_input, samples.first, samples.critic_state).squeeze(2)
        return self.critic.forward(samples.critic_input).squeeze(2)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.gradients.zero_()
        if self.estimator is not None:
            self.estimator.gradients.zero_()

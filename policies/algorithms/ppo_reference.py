"""A policy that PPO holds another one near to: the one that training started from, frozen.

With the standard deviations s and s0 of both, which do not depend on the observation, and their means m and m0, the divergence
of the Gaussian policy from the reference is, summed over the components of the action,

    KL(new | reference) = log(s0 / s) + (s^2 + (m - m0)^2) / (2 s0^2) - 1/2
    d/dm = (m - m0) / s0^2          d/dlog s = s^2 / s0^2 - 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.policies.nn.actor_critic import Worker
from rookery.policies.nn.network import Network
from rookery.policies.storage.rollout import Samples, moments
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.algorithms.ppo_learner import GroupLearner

__all__ = ["ReferencePolicy"]


class ReferencePolicy:
    """The frozen policy: that of a learner when it was made, or what `take` gives.

    Args:
        learner: of the policy that is held near.

    Attributes:
        parameters: [G, P], of policy, critic and log_std.
        log_std: [G, 1, D] view of them.
        divergence_now: [] mean divergence over the latest samples, before the update.

    Raises:
        RookeryError: actions with choices, or networks with memory.
    """

    def __init__(self, learner: GroupLearner) -> None:
        if learner.spec.action.choices or learner.config.memory != "none":
            raise RookeryError(
                "reference_kl_coef is for actions of numbers and policies without memory: leave it out, or the other one."
            )
        self.parameters = learner.parameters.clone()
        self._actor = Worker(self.parameters, learner.chains.actor, learner.chains.critic).actor
        numbers = len(learner.spec.action.names)
        self.log_std = self.parameters[:, self.parameters.shape[1] - numbers :].unsqueeze(1)
        self.divergence_now = torch.zeros((), device=learner.device)

    def take(self, parameters: Tensor) -> None:
        """Be the policy of these parameters [G, P] from now on."""
        self.parameters.copy_(parameters)

    def state_dict(self) -> dict[str, Tensor]:
        """Its parameters."""
        return {"parameters": self.parameters}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put them back."""
        self.take(state["parameters"])

    def compare(self, learner: GroupLearner, samples: Samples) -> None:
        """Put this policy's mean actions into samples, and note how far the learner's policy is from it."""
        samples.reference = _means(self._actor, samples.actor_input, learner.chunk)
        means = _means(learner.actor, samples.actor_input, learner.chunk)
        away = self.divergence(means, samples.reference, learner.log_std)
        self.divergence_now = moments(away, samples.active, learner.reduction)[0].mean()

    def divergence(self, means: Tensor, own: Tensor, log_std: Tensor) -> Tensor:
        """[G, R] divergence of a policy with the means `means` from this one with `own` [G, R, D].

        Args:
            means: of the other.
            own: of this one.
            log_std: [G, 1, D] of the other.
        """
        ratio = log_std - self.log_std
        squares = (2.0 * ratio).exp() + (means - own).square() * (-2.0 * self.log_std).exp()
        out: Tensor = (0.5 * (squares - 1.0) - ratio).sum(-1)
        return out

    def gradient(self, means: Tensor, own: Tensor, log_std: Tensor, weight: float | Tensor, worker: Worker) -> Tensor:
        """Derivative [G, R, D] of the weighted divergence by the means; that by log_std is added to the worker's.

        Args:
            means, own, log_std: see `divergence`.
            weight: of each row in the loss, [G, R] or one number.
            worker: whose gradient of log_std.
        """
        rows = weight.unsqueeze(2) if isinstance(weight, Tensor) else torch.full_like(means[..., :1], weight)
        worker.log_std_grad += ((2.0 * (log_std - self.log_std)).exp() - 1.0) * rows.sum(1, keepdim=True)
        return (means - own) * (-2.0 * self.log_std).exp() * rows


def _means(actor: Network, x: Tensor, chunk: int) -> Tensor:
    """[G, R, D] mean actions for inputs [G, R, K], `chunk` rows at a time."""
    return torch.cat([actor.forward(x[:, i : i + chunk]).clone() for i in range(0, x.shape[1], chunk)], 1)

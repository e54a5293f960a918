"""Auxiliary state estimator: a network that predicts from observations what a robot does not measure.

    observation, H frames, normalized --+--> estimator --> M predictions, normalized --+
                                        |                                              +--> actor --> action
                                        +--> its newest frames ------------------------+

The estimator regresses the targets that the environment declares (`Group.targets`: a velocity, the next points of a
trajectory), on the minibatches that the policy learns from but with an optimizer of its own. The policy's loss does not reach
the estimator. Where the environment reveals the future (`Env.reveal_future_mask`), the true values of the group's `future`
targets take the place of the predictions.

The idea is that of MLM's trajectory and velocity prediction (arXiv 2508.10538).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.policies.nn.adam import Adam
from rookery.policies.nn.build import build, weight_count
from rookery.policies.nn.network import Network
from rookery.policies.stages.standard import trunk
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.sim.buffers import under
from rookery.sim.env import Env
from rookery.sim.specs import Group


def known_targets(env: Env, group: str, everything: bool = False) -> Tensor | None:
    """The targets that agents of a group know now: the second argument of Policy.forward.

    Args:
        env: with `privileged_targets` and `reveal_future_mask`.
        group: its name.
        everything: all targets in every world, which no robot knows.

    Returns:
        [N, A, M], NaN where the agents depend on predictions; None when they know nothing.
    """
    spec = env.groups[group]
    mask = env.reveal_future_mask
    if not spec.targets or not (everything or (spec.future and mask is not None)):
        return None
    all_targets = env.privileged_targets
    assert all_targets is not None
    targets = all_targets[group]
    if everything:
        return targets
    assert mask is not None
    known = torch.full_like(targets, torch.nan)
    for columns in (spec.target_slices()[name] for name in spec.future):
        known[..., columns] = torch.where(mask[:, None, None], targets[..., columns], torch.nan)
    return known


@dataclass
class EstimatorWorker:
    """One thread's part of learning: activations and gradients of its own, weights in common."""

    network: Network
    gradients: Tensor

    def learn(self, critic_input: Tensor, targets: Tensor, weight: Any) -> Tensor:
        """Add the gradients of ``sum weight mean (prediction - target)^2``, the mean over components.

        Args:
            critic_input: [G, R, C], whose last O components are the normalized observation.
            targets: [G, R, M], normalized.
            weight: of each row [G, R], or one number.

        Returns:
            that loss [G].
        """
        error = self.network.forward(critic_input[..., -self.network.inputs :]).sub_(targets)
        loss: Tensor = (error.square().mean(-1) * weight).sum(1)
        error.movedim(-1, 0).mul_(2.0 / targets.shape[-1] * weight)
        self.network.backward(error)
        return loss


class StateEstimator:
    """One group's state estimator with its optimizer.

    Args:
        spec: the group's declaration, with targets.
        sets: G, independent sets of weights.
        hidden, activation: of the network.
        learning_rate, max_grad_norm: of its Adam.
        obs_clip: limit of normalized targets.
        privileged: give the actor the true values, which no robot knows, instead of predictions.
        generator: source of the initial weights, on the CPU.
        device: where everything lives.

    Attributes:
        size: M, all targets together.
        workers: one for each thread.
        scale: running statistics of the targets [M]; predictions are in their units.
    """

    def __init__(
        self,
        spec: Group,
        sets: int,
        *,
        hidden: tuple[int, ...],
        activation: str,
        learning_rate: float,
        max_grad_norm: float,
        obs_clip: float,
        privileged: bool,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.privileged = privileged
        self.size = spec.target_size
        self._stages = trunk(spec.observation_size, self.size, hidden, activation)
        self.parameters = torch.zeros(sets, weight_count(self._stages), device=device)
        self.scale = ObservationNorm(self.size, obs_clip, device)
        self.workers: list[EstimatorWorker] = []
        self.divide(1)
        self.network = self.workers[0].network
        self.network.initialize(generator, 0.1)
        self.adam = Adam(self.parameters, self.workers[0].gradients, max_grad_norm)
        self._learning_rate = torch.full((sets, 1), learning_rate, device=device)
        self._future = torch.zeros(self.size, dtype=torch.bool, device=device)
        for name in spec.future:
            self._future[spec.target_slices()[name]] = True

    def divide(self, parts: int) -> None:
        """Have so many threads share every minibatch."""
        self.workers = self.workers[:parts]
        while len(self.workers) < parts:
            gradients = torch.zeros_like(self.parameters)
            self.workers.append(EstimatorWorker(build(self._stages, self.parameters, gradients), gradients))

    def predict(self, obs: Tensor, privileged_targets: Tensor, reveal_future_mask: Tensor | None) -> Tensor:
        """The actor's input in place of the targets [N, A, M], in units of `scale`; valid until the next call.

        Args:
            obs: normalized observation [N, A, O].
            privileged_targets: true values, normalized [N, A, M]; the result if `privileged`.
            reveal_future_mask: [N] bool, worlds in which `future` targets are known; None where they never are.
        """
        if self.privileged:
            return privileged_targets
        prediction = self.network.forward_agents(obs)
        if reveal_future_mask is None:
            return prediction
        return torch.where(reveal_future_mask[:, None, None] & self._future, privileged_targets, prediction)

    def step(self) -> None:
        """One step of the optimizer on the gradients of all workers."""
        for worker in self.workers[1:]:
            self.workers[0].gradients += worker.gradients
        self.adam.step(self._learning_rate)

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimizer and statistics (not copied)."""
        return {
            "parameters": self.parameters,
            **prefixed("adam", self.adam.state_dict()),
            **prefixed("scale", self.scale.state_dict()),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put a saved state back, in place; one that does not fit raises RookeryError and changes nothing."""
        check_state(self.state_dict(), state)
        self.parameters.copy_(state["parameters"])
        self.adam.load_state_dict(under("adam", state))
        self.scale.load_state_dict(under("scale", state))

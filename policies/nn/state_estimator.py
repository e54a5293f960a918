"""What an agent cannot measure, said by a network from what it can: its velocity, the next points of a trajectory.

    observation, H frames, normalised --+--> predictor --> M values, normalised --+
                                        |                                         +--> actor --> action
                                        +--> its newest frames -------------------+

The predictor regresses the targets that the environment declares (specs.Group.targets), on the minibatches that the policy
learns from but with an optimiser of its own. The actor learns from the values it saw when it acted; its loss does not
reach the predictor. Where the agent is told the future, that takes the place of its prediction.

The idea is that of MLM's trajectory and velocity prediction (arXiv 2508.10538); facts/quadruped_arm_and_manipulation 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.nn.mlp import MLP, Adam, parameter_count
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.policies.storage.prefix import prefixed, under
from rookery.sim.env import Env
from rookery.sim.specs import Group


def told(env: Env, group: str, everything: bool = False) -> Tensor | None:
    """What the agents of a group are told now [N, A, M], NaN where they must predict: the argument of Policy.forward.

    Args:
        env: the environment, see its `privileged_targets` and `reveal_future_mask`.
        group: its name.
        everything: tell the whole truth in every world, which no robot knows.

    Returns:
        None when nothing is told.
    """
    spec = env.groups[group]
    given = env.reveal_future_mask
    if not spec.targets or not (everything or (spec.future and given is not None)):
        return None
    truth: Tensor = env.privileged_targets[group]
    if everything:
        return truth
    assert given is not None
    out = torch.full_like(truth, torch.nan)
    for at in (spec.target_slices()[name] for name in spec.future):
        out[..., at] = torch.where(given[:, None, None], truth[..., at], torch.nan)
    return out


@dataclass
class Part:
    """What one thread needs to learn from its part of a minibatch: gradients of its own, weights in common."""

    network: MLP
    gradients: Tensor

    def learn(self, critic_input: Tensor, truth: Tensor, w: Any) -> Tensor:
        """Add the gradients of ``sum w mean (prediction - truth)^2``, the mean over components; returns that loss [G].

        Args:
            critic_input: [G, R, C], whose last O components are the normalised observation.
            truth: [G, R, M], normalised.
            w: weight of each row [G, R], or one number.
        """
        error = self.network.forward(critic_input[..., -self.network.sizes[0] :]).sub_(truth)
        loss: Tensor = (error.square().mean(-1) * w).sum(1)
        error.movedim(-1, 0).mul_(2.0 / truth.shape[-1] * w)
        self.network.backward(error)
        return loss


class Predictor:
    """One group's predictor.

    Args:
        spec: the group's declaration, with targets.
        sets: G, independent sets of weights.
        config: settings.
        generator: source of the initial weights, on the CPU.
        device: where everything lives.

    Attributes:
        size: M, all targets together.
        parts: one for each thread.
        scale: running statistics of the truth [M]; the network speaks in their units.
    """

    def __init__(
        self, spec: Group, sets: int, config: PPOConfig, generator: torch.Generator, device: torch.device
    ) -> None:
        self.config = config
        self.size = spec.target_size
        self._sizes = (spec.observation_size, *config.predictor, self.size)
        self.parameters = torch.zeros(sets, parameter_count(self._sizes), device=device)
        self.scale = ObservationNorm(self.size, config.obs_clip, device)
        self.parts: list[Part] = []
        self.divide(1)
        self.network = self.parts[0].network
        self.network.initialize(generator, 0.1)
        self.adam = Adam(self.parameters, self.parts[0].gradients, config.max_grad_norm)
        self._rate = torch.full((sets, 1), config.predictor_rate, device=device)
        self._future = torch.zeros(self.size, dtype=torch.bool, device=device)
        for name in spec.future:
            self._future[spec.target_slices()[name]] = True

    def divide(self, parts: int) -> None:
        """Have so many threads share every minibatch."""
        self.parts = self.parts[:parts]
        while len(self.parts) < parts:
            gradients = torch.zeros_like(self.parameters)
            self.parts.append(Part(MLP(self.parameters, gradients, self._sizes, self.config.activation), gradients))

    def say(self, obs: Tensor, truth: Tensor, given: Tensor | None) -> Tensor:
        """What the actor is told [N, A, M], in units of `scale`; valid until the next call.

        Args:
            obs: normalised observation [N, A, O].
            truth: normalised truth [N, A, M].
            given: [N] bool, worlds in which the future is known; None where it never is.
        """
        if self.config.predictor_mode == "truth":
            return truth
        said = self.network.forward_agents(obs)
        return said if given is None else torch.where(given[:, None, None] & self._future, truth, said)

    def step(self) -> None:
        """One step of the optimiser on the gradients of all parts."""
        for part in self.parts[1:]:
            self.parts[0].gradients += part.gradients
        self.adam.step(self._rate)

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimiser and statistics (not copied)."""
        return {
            "parameters": self.parameters,
            **prefixed("adam", self.adam.state_dict()),
            **prefixed("scale", self.scale.state_dict()),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put a saved state back, in place."""
        self.parameters.copy_(state["parameters"])
        self.adam.load_state_dict(under("adam", state))
        self.scale.load_state_dict(under("scale", state))

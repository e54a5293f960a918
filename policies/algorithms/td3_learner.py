"""TD3's learner of one group: what `OffPolicyLearner` has, a deterministic policy, and a slow copy of it."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from rookery.policies.algorithms.off_policy_learner import OffPolicyLearner
from rookery.policies.algorithms.off_policy_networks import descend_with
from rookery.policies.algorithms.td3_config import TD3Config
from rookery.policies.nn.ensemble import Ensemble
from rookery.policies.storage.pixels import Pixels
from rookery.policies.training.roles import ONE, Roles
from rookery.sim.specs import Group

__all__ = ["TD3Learner"]


class TD3Learner(OffPolicyLearner):
    """Policy, critics, their targets and replay memory of one group; see OffPolicyLearner.

    Attributes:
        exploration: [N A, 1] standard deviation of the noise on each agent's actions.
    """

    FIGURES: ClassVar[tuple[str, ...]] = ("critic_loss", "policy_loss")
    NOISES: ClassVar[int] = 1
    NETWORKS: ClassVar[tuple[str, ...]] = (
        "actor", "actor_features", "actor_target", "actor_target_features", "critics", "features", "targets", "target_features",
    )  # fmt: skip
    config: TD3Config

    def __init__(
        self, group: Group, worlds: int, steps: int, config: TD3Config, initial: torch.Generator, device: torch.device,
        state_size: int = 0, codec: Pixels | None = None, roles: Roles = ONE,
    ) -> None:  # fmt: skip
        super().__init__(
            group, worlds, steps, config, initial, device, state_size, group.action.size, codec, roles
        )  # fmt: skip
        self.actor_target = Ensemble(1, self.actor.sizes, config.activation, initial).to(device).requires_grad_(False)
        self.actor_target.load_state_dict(self.actor.state_dict())
        self.actor_target_features = self.policy_features(initial, device).requires_grad_(False)
        self.actor_target_features.load_state_dict(self.actor_features.state_dict())
        self.next_features = self.actor_target_features
        first = config.exploration_noise
        last = first if config.exploration_noise_last is None else config.exploration_noise_last
        spread = torch.linspace(first, last, worlds * roles.actors, device=device).view(-1, worlds)[roles.index]
        self.exploration = spread.repeat_interleave(group.count)[:, None]

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        action = self.actor(self.features_now(obs))[0].tanh()
        return (action + self.exploration * noise).clamp(-1.0, 1.0).view(*obs.shape[:-1], -1)

    def next_action(self, next_features: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """The part of the next action in the targets reward + discount min Q'(s', a'), where a' is the target policy's action
        with clipped noise, equations 13 and 14 of the paper."""
        c = self.config
        smoothing = (noise * c.target_noise).clamp(-c.target_noise_clip, c.target_noise_clip)
        return (self.actor_target(next_features)[0].tanh() + smoothing).clamp(-1.0, 1.0), 0.0

    def policy_step(
        self, features: Tensor, seen: Tensor, weight: Tensor, noise: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Move the policy up the value; returns its loss."""
        value = self.policy_value(seen, self.actor(features)[0].tanh(), generator)
        loss = -(value * weight).sum()
        descend_with(self.optimizers["actor"], loss)
        return loss.detach()

    def move_targets(self, policy: bool) -> None:
        """The targets follow when the policy takes a step."""
        if policy:
            self.follow(self.targets, self.critics)
            self.follow(self.target_features, self.features)
            self.follow(self.actor_target, self.actor)
            self.follow(self.actor_target_features, self.actor_features)

"""SAC's learner of one group: what `OffPolicyLearner` has, a squashed Gaussian policy, and the temperature."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rookery.policies.algorithms.off_policy_learner import OffPolicyLearner, subset
from rookery.policies.algorithms.off_policy_networks import descend_with
from rookery.policies.algorithms.sac_arrays import Draws
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.nn.compiled import MAX_WIDTH_SAC, serves
from rookery.policies.nn.dropout import draw_seed
from rookery.policies.storage.pixels import Pixels
from rookery.policies.storage.replay import Replay
from rookery.policies.training.roles import ONE, Roles
from rookery.sim.specs import Group

if TYPE_CHECKING:
    from rookery.policies.algorithms.sac_compiled import CompiledSteps

__all__ = ["SACLearner", "squashed_sample"]

LOG_STD_MIN = -20.0
LOG_STD_MAX = 2.0
"""Limits of the policy's log standard deviation, as in the authors' code (github.com/rail-berkeley/softlearning)."""


class SACLearner(OffPolicyLearner):
    """Policy, critics, temperature and replay memory of one group; see OffPolicyLearner."""

    FIGURES: ClassVar[tuple[str, ...]] = ("critic_loss", "policy_loss", "entropy", "value", "temperature")
    NOISES: ClassVar[int] = 2
    NETWORKS: ClassVar[tuple[str, ...]] = (
        "actor",
        "actor_features",
        "critics",
        "features",
        "targets",
        "target_features",
    )
    config: SACConfig

    def __init__(
        self, group: Group, worlds: int, steps: int, config: SACConfig, initial: torch.Generator, device: torch.device,
        state_size: int = 0, codec: Pixels | None = None, roles: Roles = ONE,
    ) -> None:  # fmt: skip
        act = group.action.size
        super().__init__(group, worlds, steps, config, initial, device, state_size, 2 * act, codec, roles)
        self.target_entropy = -float(act) if config.target_entropy is None else config.target_entropy
        self.actor.biases[-1].data[0, 0, act:] += math.log(config.initial_std)
        self.log_temperature = torch.tensor(math.log(config.initial_temperature), device=device, requires_grad=True)
        self.optimizers["temperature"] = self.adam(self.log_temperature)
        small = config.compiled and config.in_kernel and serves(self.chains.actor, device, MAX_WIDTH_SAC)
        self.compiled = self._compile(worlds * group.count) if small else None

    def _compile(self, rows: int) -> CompiledSteps:
        from rookery.policies.algorithms.sac_compiled import CompiledSteps

        return CompiledSteps(self, rows, (LOG_STD_MIN, LOG_STD_MAX))

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        if self.compiled is not None:
            actions = self.compiled.act(obs.flatten(0, 1), noise)
        else:
            actions = self.sample(self.features_now(obs), noise)[0]
        return actions.view(*obs.shape[:-1], -1)

    def sample(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, D] of the policy, and their log-probabilities [B], for features [B, F] and normal noise [B, D]."""
        mean, log_std = self.actor(features)[0].chunk(2, -1)
        return squashed_sample(mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX), noise)

    def next_action(self, next_features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The part of the next action in the targets reward + discount (min Q'(s', a') - temperature log pi(a'|s')), equations
        2, 3 and 5 of the paper. Over several steps the entropies on the way are left out."""
        action, log_prob = self.sample(next_features, noise)
        return action, -self.log_temperature.exp() * log_prob

    def learn_from(self, demonstrations: Replay) -> None:
        super().learn_from(demonstrations)
        if self.compiled is not None:
            self.compiled.learn_from(demonstrations, self.shown)

    def learn(self, index: Tensor, noise: Tensor, generator: torch.Generator) -> Tensor:
        if self.compiled is None:
            return super().learn(index, noise, generator)
        shown, draws = self._draws(len(index), generator)
        self.made += len(index)
        if self.demonstrations is not None:
            index = torch.cat((index[:, : index.shape[1] - self.shown], shown), 1)
        critics, policy = len(index), max(int(draws.policy.sum()), 1)
        return self.compiled.learn(index, noise, draws) / torch.tensor([critics, *[policy] * (len(self.FIGURES) - 1)])

    def _draws(self, steps: int, generator: torch.Generator) -> tuple[Tensor, Draws]:
        """The numbers that torch draws in gradient steps, in the same order, at once: numbers of demonstrations [U, K], and the
        rest."""
        c = self.config
        shown = torch.zeros(steps, self.shown, dtype=torch.int64)
        chosen = np.tile(np.arange(c.target_critics), (steps, 1))
        seeds = np.zeros((steps, 3), np.int64)
        policy = (int(self.made) + 1 + np.arange(steps)) % c.policy_every == 0
        for u in range(steps):
            if self.demonstrations is not None:
                shown[u] = self.demonstrations.draw(self.shown, generator)
            if c.critic_dropout > 0.0:
                seeds[u, 0] = draw_seed(generator).item()
            if c.target_critics < c.critics:
                chosen[u] = subset(c.critics, c.target_critics, generator).numpy()
            if c.critic_dropout > 0.0:
                seeds[u, 1] = draw_seed(generator).item()
            if c.critic_dropout > 0.0 and policy[u]:
                seeds[u, 2] = draw_seed(generator).item()
        return shown, Draws(chosen, seeds, policy)

    def move_targets(self, policy: bool) -> None:
        self.follow(self.targets, self.critics)
        self.follow(self.target_features, self.features)

    def policy_step(
        self, features: Tensor, seen: Tensor, weight: Tensor, noise: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Move policy (equation 9) and temperature (18); returns their figures."""
        action, log_prob = self.sample(features, noise[1])
        temperature = self.log_temperature.detach().exp()
        value = self.policy_value(seen, action, generator)
        loss = ((temperature * log_prob - value) * weight).sum()
        descend_with(self.optimizers["actor"], loss)
        entropy = -(log_prob.detach() * weight).sum()
        descend_with(self.optimizers["temperature"], self.log_temperature.exp() * (entropy - self.target_entropy))
        return torch.stack((loss.detach(), entropy, (value.detach() * weight).sum(), temperature))

    def parts(self) -> dict[str, Tensor]:
        return super().parts() | {"log_temperature": self.log_temperature.detach()}


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """A tanh-squashed Gaussian's sample and its log-probability (appendix C of the paper).

    With u = mean + std * noise: a = tanh(u), log p(a) = log N(u) - sum log(1 - tanh(u)^2), where the last logarithm is
    written as 2 (log 2 - u - softplus(-2 u)), which is finite for every u.

    Args:
        mean, log_std, noise: [..., D]; noise is standard normal.

    Returns:
        actions [..., D] in [-1, 1] and log-probabilities [...].
    """
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    log_slope = 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
    return u.tanh(), (gaussian - log_slope).sum(-1)

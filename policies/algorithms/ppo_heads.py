"""PPO's use of the policy network's outputs: samples, probability ratios, divergences, and their gradients.

`Gaussian` is for continuous actions. `Mixed` has categorical heads before that, one for each choice of the action: the choices
and the continuous components are independent given the observation, so that log-probabilities, entropies and divergences add
up. Those of choices are exact. Components that the chosen options do not read have no part in anything (as in hybrid PPO, Fan
et al. 2019, arXiv 1903.01344): they would add their noise to the ratio.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.policies.nn.actor_critic import Worker
from rookery.policies.nn.choice_kernels import draw
from rookery.policies.nn.choices import Choices, draw_gumbel
from rookery.policies.storage.rollout import ActionDraws, Samples
from rookery.policies.training.reduction import Reduction, draw_own
from rookery.sim.specs import ActionSpec

MAX_LOG_RATIO = 20.0
"""Limit of log(p_new / p_old), so that the ratio stays finite in float32."""
HALF_LOG_2_PI_E = 0.5 * math.log(2.0 * math.pi * math.e)
"""nats, entropy of a standard normal distribution."""


class Comparison(NamedTuple):
    """A policy on samples of an older one.

    Attributes:
        log_ratio: [G, R] log(p_new / p_old) of the actions.
        z: [G, R, D_c] (action - mean) / std of the continuous components.
        z_squared: [G, R, D_c].
        log_probs: [G, R, C] of the options; None without choices.
        chosen: [G, R, K] indices of the options taken; None without choices.
        gaussian: [G, R] the continuous components' part of `log_ratio`; None without choices.
        reading: [G, R, D_c] 1 for components that have a part, else 0; None where all have.
    """

    log_ratio: Tensor
    z: Tensor
    z_squared: Tensor
    log_probs: Tensor | None = None
    chosen: Tensor | None = None
    gaussian: Tensor | None = None
    reading: Tensor | None = None


class Gaussian:
    """Independent normal distributions, whose standard deviations do not depend on the observation.

    With z = (action - mean) / std: d log p / d mean = z / std, d log p / d log std = z^2 - 1.

    Attributes:
        partial: the entropy's gradient by log_std depends on the actions, and is part of `gradient`; else it is 1.
    """

    partial = False

    def start(self, roll: ActionDraws, generator: torch.Generator, reduction: Reduction) -> None:
        """Draw the noise of a rollout."""
        draw_own(roll.noise, 1, lambda x: x.normal_(generator=generator), reduction.rank, reduction.size)

    def sample(self, roll: ActionDraws, t: int, outputs: Tensor, std: Tensor, allowed: Tensor | None) -> None:
        """Write the actions of row t, for outputs [N, A, D] of the policy's network."""
        torch.addcmul(outputs, std, roll.noise[t], out=roll.action[t])

    def log_prob(self, rows: Any, roll: ActionDraws, log_std: Tensor) -> Tensor:
        """[G, R] of the rollout's actions, without the constant; `rows` brings [..., A, k] to [G, R, k]."""
        out: Tensor = rows(roll.noise).square().sum(-1).mul_(-0.5) - log_std.sum(-1)
        return out

    def compare(self, outputs: Tensor, s: Samples, log_std: Tensor) -> Comparison:
        """Outputs [G, R, D] on samples `s`."""
        z = (s.action - outputs).mul_(torch.exp(-log_std))
        z_squared = z.square()
        log_ratio = z_squared.sum(-1).mul_(-0.5).sub_(log_std.sum(-1)).sub_(s.log_prob).clamp_(max=MAX_LOG_RATIO)
        return Comparison(log_ratio, z, z_squared)

    def gradient(
        self, seen: Comparison, by_log_prob: Tensor, weight: Any, worker: Worker, log_std: Tensor, entropy_coef: float
    ) -> Tensor:
        """d loss / d outputs [G, R, D]; that by log_std is added to the worker's. Overwrites `seen`.

        Args:
            by_log_prob: d loss / d log p [G, R, 1].
            weight: of each row in the loss, [G, R] or one number.
            entropy_coef: of the entropy that depends on the outputs, of which there is none.
        """
        out = seen.z.mul_(torch.exp(-log_std)).mul_(by_log_prob)
        by_log_std = seen.z_squared.sub_(1.0 if seen.reading is None else seen.reading).mul_(by_log_prob)
        worker.log_std_grad += by_log_std.sum(1, keepdim=True)
        return out

    def divergence(self, seen: Comparison, ratio: Tensor, s: Samples) -> Tensor:
        """Estimates [G, R] of the divergence of the new policy from the old; overwrites `ratio`."""
        return ratio.sub_(1.0).sub_(seen.log_ratio)

    def entropy(self, log_probs: Tensor | None, log_std: Tensor) -> Tensor:
        """Entropy, nats: [G, R], or [G, 1] where it is that of all rows.

        Args:
            log_probs: [G, R, C] of the options; None without choices.
            log_std: [G, 1, D_c].
        """
        return (log_std + HALF_LOG_2_PI_E).sum(-1)


class Mixed(Gaussian):
    """Choices before the continuous components, of which there may be none.

    Args:
        spec: of the action.
    """

    def __init__(self, spec: ActionSpec) -> None:
        self.choices = Choices(spec)
        self.partial = self.choices.read_by is not None
        self._sizes = np.array([len(choice.options) for choice in spec.choices], np.int64)
        self._nothing = torch.empty(0, 1, self.choices.options, dtype=torch.bool)

    def start(self, roll: ActionDraws, generator: torch.Generator, reduction: Reduction) -> None:
        super().start(roll, generator, reduction)
        assert roll.gumbel is not None
        draw_own(roll.gumbel, 1, lambda x: draw_gumbel(x, generator), reduction.rank, reduction.size)

    def sample(self, roll: ActionDraws, t: int, outputs: Tensor, std: Tensor, allowed: Tensor | None) -> None:
        assert roll.gumbel is not None and roll.choice_log_probs is not None
        if outputs.device.type == "cpu" and outputs.dtype is torch.float32:
            mask = self._nothing if allowed is None else allowed
            given = [x.flatten(0, 1).contiguous().numpy() for x in (outputs, mask, roll.gumbel[t], roll.noise[t], std)]
            written = [x[t].flatten(0, 1).numpy() for x in (roll.choice_log_probs, roll.action)]
            arguments = [*given, self._sizes, *written]
            draw(*arguments)
            return
        count, options = self.choices.count, self.choices.options
        roll.choice_log_probs[t] = log_probs = self.choices.log_probs(outputs[..., :options], allowed)
        roll.action[t, ..., :count] = self.choices.sample(log_probs, roll.gumbel[t])
        roll.action[t, ..., count:] = outputs[..., options:] + std * roll.noise[t]

    def log_prob(self, rows: Any, roll: ActionDraws, log_std: Tensor) -> Tensor:
        chosen = rows(roll.action)[..., : self.choices.count]
        reading = self.choices.reading(chosen)
        gaussian = _density(_share(rows(roll.noise), reading).square(), log_std, reading)
        return gaussian + self.choices.log_prob(rows(roll.choice_log_probs), chosen)

    def compare(self, outputs: Tensor, s: Samples, log_std: Tensor) -> Comparison:
        assert s.choice_log_probs is not None
        count, options = self.choices.count, self.choices.options
        log_probs = self.choices.log_probs(outputs[..., :options], s.choice_log_probs > -torch.inf)
        chosen = s.action[..., :count]
        before = self.choices.log_prob(s.choice_log_probs, chosen)
        reading = self.choices.reading(chosen)
        z = _share((s.action[..., count:] - outputs[..., options:]).mul_(torch.exp(-log_std)), reading)
        z_squared = z.square()
        gaussian = _density(z_squared, log_std, reading) - (s.log_prob - before)
        log_ratio = (self.choices.log_prob(log_probs, chosen) - before + gaussian).clamp_(max=MAX_LOG_RATIO)
        return Comparison(log_ratio, z, z_squared, log_probs, chosen, gaussian, reading)

    def gradient(
        self, seen: Comparison, by_log_prob: Tensor, weight: Any, worker: Worker, log_std: Tensor, entropy_coef: float
    ) -> Tensor:
        """As of `Gaussian`; the entropy of the choices has its part in it, and that of components that are read."""
        assert seen.log_probs is not None and seen.chosen is not None
        logits = self.choices.log_prob_gradient(seen.log_probs, seen.chosen) * by_log_prob
        if entropy_coef:
            weight = weight.unsqueeze(2) if isinstance(weight, Tensor) else weight
            if seen.reading is not None:
                worker.log_std_grad -= entropy_coef * (weight * seen.reading).sum(1, keepdim=True)
            logits -= entropy_coef * weight * self.choices.entropy_gradient(seen.log_probs)
        return torch.cat((logits, super().gradient(seen, by_log_prob, weight, worker, log_std, entropy_coef)), -1)

    def divergence(self, seen: Comparison, ratio: Tensor, s: Samples) -> Tensor:
        """Exact of the choices, an estimate of the rest."""
        assert seen.log_probs is not None and seen.gaussian is not None and s.choice_log_probs is not None
        exact = self.choices.divergence(s.choice_log_probs, seen.log_probs)
        return exact + (seen.gaussian.clamp(max=MAX_LOG_RATIO).exp() - 1.0 - seen.gaussian)

    def entropy(self, log_probs: Tensor | None, log_std: Tensor) -> Tensor:
        assert log_probs is not None
        gaussian = _share(log_std + HALF_LOG_2_PI_E, self.choices.read_probability(log_probs))
        return self.choices.entropy(log_probs) + gaussian.sum(-1)


def _share(values: Tensor, part: Tensor | None) -> Tensor:
    """Values of continuous components, by the part that each has; None where all have all of it."""
    return values if part is None else values * part


def _density(z_squared: Tensor, log_std: Tensor, reading: Tensor | None) -> Tensor:
    """[G, R] log-density without the constant; z^2 is 0 for components that have no part."""
    return -0.5 * z_squared.sum(-1) - _share(log_std, reading).sum(-1)


def head_of(spec: ActionSpec) -> Gaussian:
    """The head that an action needs."""
    return Mixed(spec) if spec.choices else Gaussian()

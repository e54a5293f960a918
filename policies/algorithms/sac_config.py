"""The settings of SAC, one sentence for each."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.policies.algorithms.checks import check_bounds
from rookery.policies.algorithms.off_policy_config import OffPolicyConfig


@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Settings of `SAC`. The defaults are those of the paper's table 1, with rollouts for many worlds."""

    initial_std: float = 1.0
    """Standard deviation of the policy's actions, before they are squashed, at the start of training."""
    initial_temperature: float = 1.0
    """Weight of the entropy against the reward at the start."""
    target_entropy: float | None = None
    """Entropy that the temperature aims at; none takes minus the number of action components."""
    compiled: bool = True
    """Make the gradient steps in a compiled kernel where the networks are small enough and the kernel has the settings (see
    `in_kernel`); the results are those of torch but for rounding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self, ("initial_std", "initial_temperature"), 0.0, exclude_low=True)

    @property
    def in_kernel(self) -> bool:
        """True where the compiled kernel has these gradient steps: critics are perceptrons, maybe with layer normalization and
        dropout, that give one value for the observation of a uniformly drawn transition."""
        central = self.critic == "central"
        distributional = self.atoms > 1
        constrained = self.critic_batch_norm or self.critic_unit_weights or self.critic_hypersphere
        remade = self.memory != "none" or self.encoder != "none"
        weighted = self.priority_alpha > 0.0 or self.return_limit is not None or self.weight_decay > 0.0
        other = self.mirror or self.hindsight_share > 0.0
        return not (central or distributional or constrained or remade or weighted or other)

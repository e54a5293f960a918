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
    """Make the gradient steps in a compiled kernel where the networks are small enough and the critics are plain (see
    sac_compiled.py); the results are those of torch but for rounding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self, ("initial_std", "initial_temperature"), 0.0, exclude_low=True)

    @property
    def plain(self) -> bool:
        """Whether gradient steps are those of the paper, without later additions."""
        central = self.critic == "central"
        distributional = self.atoms > 1
        normalised = self.critic_layer_norm or self.critic_batch_norm or self.critic_unit_weights
        regularised = normalised or self.critic_hypersphere or self.critic_dropout > 0.0 or self.weight_decay > 0.0
        remade = self.memory != "none" or self.encoder != "none"
        weighted = self.priority_alpha > 0.0 or self.return_limit is not None
        return (
            self.critics == 2
            and self.target_critics == 2
            and self.policy_value == "min"
            and self.policy_every == 1
            and not (central or distributional or regularised or weighted or remade or self.mirror)
        )

"""The settings of TD3, one sentence for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rookery.policies.algorithms.checks import check_bounds
from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.sim.errors import RookeryError


@dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Settings of `TD3`. The defaults are those of the authors' code (github.com/sfujim/TD3), with rollouts for many worlds."""

    learning_starts: int = 25_000
    """Control steps over all worlds in which actions are uniformly random and nothing is learnt."""
    policy_every: int = 2
    """Gradient steps of the critics for each one of the policy."""
    policy_value: Literal["min", "mean", "first"] = "first"
    """What the policy climbs: the least of the critics (SAC), their mean (REDQ and DroQ), or the first one (TD3)."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise on actions of -1 to 1."""
    exploration_noise_last: float | None = None
    """Standard deviation in the last world; those between are spread evenly (FastTD3, Seo et al. 2025, arXiv 2505.22642, draws
    from 0.001 to 0.4); none takes the same in all."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the target policy's actions, which smooths the values."""
    target_noise_clip: float = 0.5
    """Limit of that noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        noises = ("exploration_noise", "exploration_noise_last", "target_noise", "target_noise_clip")
        check_bounds(self, noises, 0.0)
        if self.exploration_noise == 0.0 and not self.exploration_noise_last:
            raise RookeryError("exploration_noise is 0 in all worlds: give some, or nothing new is ever tried.")

"""The settings of SAC, one sentence for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rookery.policies.algorithms.checks import check_bounds, check_types


@dataclass(frozen=True)
class SACConfig:
    """Settings of `SAC`. The defaults are those of the paper's table 1, with rollouts for many worlds."""

    rollout_steps: int = 64
    """Control steps that every world makes between two updates."""
    updates_per_step: float = 1.0
    """Gradient steps for each control step of all worlds together; may be below 1."""
    learning_starts: int = 1000
    """Control steps over all worlds in which actions are uniformly random and nothing is learnt."""
    batch: int = 256
    """Transitions of one gradient step."""
    buffer_size: int = 1_000_000
    """Control steps over all worlds that the replay memory holds."""
    gamma: float = 0.99
    """Discount per control step."""
    n_step: int = 1
    """Control steps in a row whose rewards are summed before the critics' estimate of the rest. More of them carry rewards back
    sooner, and depend more on the older policies that acted."""
    tau: float = 0.005
    """Share of the critics that their targets take over at each gradient step."""
    learning_rate: float = 3e-4
    """Learning rate of Adam for policy, critics and temperature, at the start where the schedule changes it."""
    schedule: Literal["fixed", "linear"] = "fixed"
    """Keep the rate, or let it fall to zero at the last step."""
    initial_std: float = 1.0
    """Standard deviation of the policy's actions, before they are squashed, at the start of training."""
    initial_temperature: float = 1.0
    """Weight of the entropy against the reward at the start."""
    target_entropy: float | None = None
    """Entropy that the temperature aims at; none takes minus the number of action components."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of the policy and the critics."""
    activation: Literal["tanh", "elu", "relu"] = "relu"
    """Activation after every hidden layer."""
    normalize_observations: bool = True
    """Bring observations to mean 0 and standard deviation 1 with running statistics, which are a part of the policy."""
    obs_clip: float = 10.0
    """Limit of the normalised observations."""
    compiled: bool = True
    """Make the gradient steps in a compiled kernel where the networks are small enough (see sac_compiled.py); the results
    are those of torch but for rounding."""

    def __post_init__(self) -> None:
        check_types(self)
        check_bounds(self, ("rollout_steps", "batch", "buffer_size", "hidden", "n_step"), 1)
        check_bounds(self, ("learning_starts",), 0)
        positive = ("updates_per_step", "tau", "learning_rate", "initial_std", "initial_temperature", "obs_clip")
        check_bounds(self, positive, 0.0, exclude_low=True)
        check_bounds(self, ("gamma", "tau"), 0.0, 1.0)

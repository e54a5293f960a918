"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv 1802.09477) for one or many worlds and agents.

Reading order, as in the paper's algorithm 1: `OffPolicy.act` and `OffPolicy.observe` collect transitions with noise on the
actions; `OffPolicy.update` makes gradient steps, each one `TD3Learner.descend`: critics, and at every second step the
policy and all targets.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rookery.policies.algorithms.off_policy import OffPolicy
from rookery.policies.algorithms.td3_config import TD3Config
from rookery.policies.algorithms.td3_learner import TD3Learner

__all__ = ["TD3", "TD3Config"]


class TD3(OffPolicy):
    """Learns one deterministic policy for each group of an environment; see OffPolicy."""

    Config: ClassVar[type] = TD3Config
    Learner: ClassVar[Any] = TD3Learner
    config: TD3Config
    learners: dict[str, TD3Learner]  # type: ignore[assignment]

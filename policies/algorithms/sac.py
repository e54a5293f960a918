"""Soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv 1812.05905) for one or many worlds and agents.

Reading order, as in the paper's algorithm 1: `OffPolicy.act` and `OffPolicy.observe` collect transitions in a replay memory;
`OffPolicy.update` makes gradient steps, each one `SACLearner.descend`: critics (equation 5), policy (equation 9), temperature
(equation 18), targets. Small networks on a CPU act and make the same steps in compiled kernels (sac_compiled.py), where the
calls of some hundred torch operations would take most of the time.

REDQ, DroQ and RLPD are this with other settings, in the same kernels: see VARIANTS in rookery.policies.algorithms.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rookery.policies.algorithms.off_policy import OffPolicy
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.algorithms.sac_learner import SACLearner

__all__ = ["SAC", "SACConfig"]


class SAC(OffPolicy):
    """Learns one stochastic policy for each group of an environment; see OffPolicy."""

    Config: ClassVar[type] = SACConfig
    Learner: ClassVar[Any] = SACLearner
    config: SACConfig
    learners: dict[str, SACLearner]  # type: ignore[assignment]

"""Learning algorithms, one file each, and their registry: a new algorithm is one file and one line below.

Importing this imports no algorithm and no torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import unknown
from rookery.sim.numba_cache import forget_stale

if TYPE_CHECKING:
    from rookery.policies.algorithms.base import Algorithm

_FOLDER = Path(__file__).parent
forget_stale(_FOLDER, _FOLDER.parent / "nn")

__all__ = ["ALGORITHMS", "AlgorithmEntry", "find_algorithm"]


@dataclass(frozen=True)
class AlgorithmEntry:
    """One line of the registry.

    Args:
        cls: "module:Class" of the Algorithm.
        config: "module:Class" of its config where that can be imported without torch; "" takes the algorithm's `Config`.
        inputs: names of what it learns from beside the environment: "teacher", "dataset".
    """

    cls: str
    config: str = ""
    inputs: tuple[str, ...] = ()

    def load(self) -> type[Algorithm]:
        """The algorithm's class."""
        return _load(self.cls)  # type: ignore[no-any-return]

    def load_config(self) -> type:
        """The dataclass of its settings."""
        return _load(self.config) if self.config else self.load().Config


ALGORITHMS = {
    "ppo": AlgorithmEntry("rookery.policies.algorithms.ppo:PPO", "rookery.policies.algorithms.ppo_config:PPOConfig"),
    "sac": AlgorithmEntry("rookery.policies.algorithms.sac:SAC", "rookery.policies.algorithms.sac_config:SACConfig"),
    "dagger": AlgorithmEntry("rookery.policies.imitation.dagger:DAgger", inputs=("teacher",)),
    "bc": AlgorithmEntry("rookery.policies.imitation.behavior_cloning:BehaviorCloning", inputs=("dataset",)),
}


def find_algorithm(name: str) -> AlgorithmEntry:
    """The entry of an algorithm.

    Raises:
        RookeryError: an unknown name, with the nearest match.
    """
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise unknown("algorithm", str(name), ALGORITHMS)
    return ALGORITHMS[name]


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)

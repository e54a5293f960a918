"""Learning algorithms, one file each, and their registry: a new algorithm is one file and one line below.

Importing this imports no algorithm and no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.numba_cache import forget_stale

if TYPE_CHECKING:
    from rookery.policies.algorithms.base import Algorithm

_FOLDER = Path(__file__).parent
forget_stale(_FOLDER, _FOLDER.parent / "nn", _FOLDER.parent / "storage", _FOLDER.parents[1] / "sim")

__all__ = ["ALGORITHMS", "VARIANTS", "AlgorithmEntry", "Variant", "base_algorithm", "find_algorithm"]


@dataclass(frozen=True)
class AlgorithmEntry:
    """One line of the registry.

    Args:
        cls: "module:Class" of the Algorithm.
        config: "module:Class" of its config where that can be imported without torch; "" takes the algorithm's `Config`.
        inputs: names of what it learns from beside the environment: "teacher", "dataset".
        optional: those that may be left out.
        run: settings of a run in place of those in a task's preset for another algorithm, with total_steps.
        shared: settings that it takes from that other algorithm, so that one can go on from the policy of the other.
        starts: whether it can start from a stored policy.
    """

    cls: str
    config: str = ""
    inputs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    starts: bool = False

    def load(self) -> type[Algorithm]:
        """The algorithm's class."""
        return _load(self.cls)  # type: ignore[no-any-return]

    def load_config(self) -> type:
        """The dataclass of its settings."""
        return _load(self.config) if self.config else self.load().Config


_OFF_POLICY = {"num_envs": 8, "total_steps": 1_000_000}  # many updates from few worlds

ALGORITHMS = {
    "ppo": AlgorithmEntry(
        "rookery.policies.algorithms.ppo:PPO", "rookery.policies.algorithms.ppo_config:PPOConfig", starts=True
    ),
    "sac": AlgorithmEntry(
        "rookery.policies.algorithms.sac:SAC",
        "rookery.policies.algorithms.sac_config:SACConfig",
        optional=("dataset",),
        run=_OFF_POLICY,
    ),
    "td3": AlgorithmEntry(
        "rookery.policies.algorithms.td3:TD3",
        "rookery.policies.algorithms.td3_config:TD3Config",
        optional=("dataset",),
        run=_OFF_POLICY,
    ),
    "dagger": AlgorithmEntry(
        "rookery.policies.imitation.dagger:DAgger",
        inputs=("teacher",),
        shared=("hidden", "activation", "learning_rate", "rollout_steps"),
        starts=True,
    ),
    "bc": AlgorithmEntry(
        "rookery.policies.imitation.behavior_cloning:BehaviorCloning",
        inputs=("dataset",),
        run={"num_envs": 1, "total_steps": 2_000_000, "randomize": "none"},  # it steps no world
        shared=("hidden", "activation", "learning_rate"),
        starts=True,
    ),
}


@dataclass(frozen=True)
class Variant:
    """An algorithm with other settings, under the name by which the field knows it.

    Args:
        algorithm: name of the algorithm.
        config: settings of it, over those of the task's preset.
        run: settings of the run likewise.
        source: where the settings are from.
        without: for what is made to learn from demonstrations, the options that give the same without; empty for the others.
    """

    algorithm: str
    config: dict[str, Any]
    run: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    without: str = ""


VARIANTS = {
    "redq": Variant(
        "sac",
        {"critics": 10, "target_critics": 2, "updates_per_step": 20.0, "policy_every": 20, "policy_value": "mean"},
        source="Chen et al. 2021, arXiv 2101.05982",
    ),
    "droq": Variant(
        "sac",
        {
            "critic_layer_norm": True, "critic_dropout": 0.01, "updates_per_step": 20.0, "policy_every": 20,
            "policy_value": "mean",
        },
        source="Hiraoka et al. 2021, arXiv 2110.02034",
    ),
    "rlpd": Variant(
        "sac",
        {
            "critics": 10, "target_critics": 2, "critic_layer_norm": True, "updates_per_step": 20.0, "policy_every": 20,
            "policy_value": "mean",
        },
        source="Ball et al. 2023, arXiv 2302.02948; with --data",
        without="--algorithm redq --critic-layer-norm",
    ),
    "fasttd3": Variant(
        "td3",
        {
            "batch": 32_768, "updates_per_step": 2.0, "rollout_steps": 16, "learning_starts": 10_240, "gamma": 0.97,
            "tau": 0.1, "atoms": 101, "weight_decay": 0.1, "policy_value": "min", "exploration_noise": 0.001,
            "exploration_noise_last": 0.4, "hidden": (512, 256, 128),
        },
        {"num_envs": 1024},
        source="Seo et al. 2025, arXiv 2505.22642; its critics are twice as wide, and its memory ten times as long",
    ),
    "fastsac": Variant(
        "sac",
        {
            "batch": 8192, "updates_per_step": 8.0, "rollout_steps": 16, "learning_starts": 10_240, "gamma": 0.97,
            "tau": 0.125, "atoms": 101, "value_low": -20.0, "value_high": 20.0, "weight_decay": 0.001, "policy_every": 4,
            "critic_layer_norm": True, "initial_temperature": 0.001, "target_entropy": 0.0, "hidden": (512, 256),
        },
        {"num_envs": 1024},
        source="Seo et al. 2025, arXiv 2512.01996 (github.com/amazon-far/holosoma); its critics are wider",
    ),
    "simbav2": Variant(
        "sac",
        {
            "critic_hypersphere": True, "atoms": 101, "value_low": -5.0, "value_high": 5.0, "return_limit": 5.0,
            "learning_rate": 1e-4, "initial_temperature": 0.01, "hidden": (256, 256),
        },
        source="Lee et al. 2025, arXiv 2502.15280; its critics are 512 wide, and its policy, here a perceptron that can be "
        "exported, is on a hypersphere too",
    ),
    "xqc": Variant(
        "sac",
        {
            "critic_batch_norm": True, "critic_unit_weights": True, "atoms": 101, "value_low": -5.0, "value_high": 5.0,
            "return_limit": 5.0, "updates_per_step": 2.0, "policy_every": 3, "initial_temperature": 0.01,
        },
        source="Palenicek et al. 2025, arXiv 2509.25174; its critics have four layers of 512, and its policy, here a "
        "perceptron that can be exported, has batch normalization too",
    ),
    "ddpg": Variant(
        "td3",
        {"critics": 1, "target_critics": 1, "policy_every": 1, "target_noise": 0.0},
        source="Lillicrap et al. 2015, arXiv 1509.02971",
    ),
}  # fmt: skip
"""`rookery train TASK --algorithm NAME` for these; settings.toml has the algorithm and its settings."""


def base_algorithm(name: str) -> str:
    """The algorithm that a variant is a setting of; other names as they are."""
    return VARIANTS[name].algorithm if isinstance(name, str) and name in VARIANTS else name


def find_algorithm(name: str) -> AlgorithmEntry:
    """The entry of an algorithm.

    Raises:
        RookeryError: an unknown name, with the nearest match, or that of a variant.
    """
    if isinstance(name, str) and name in VARIANTS:
        raise RookeryError(
            f"{name} is {VARIANTS[name].algorithm} with other settings: give it as --algorithm, or write the settings out."
        )
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise unknown("algorithm", str(name), [*ALGORITHMS, *VARIANTS])
    return ALGORITHMS[name]


def _load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)

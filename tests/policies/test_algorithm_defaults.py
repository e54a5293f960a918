"""Defaults of every algorithm: a changed one changes what stored commands mean.

They are written down in defaults.json beside this file. After a change on purpose, `python
tests/policies/test_algorithm_defaults.py` writes them anew; look at the difference, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.algorithms.td3_config import TD3Config
from rookery.policies.imitation.behavior_cloning import BehaviorCloningConfig
from rookery.policies.imitation.dagger import DAggerConfig
from rookery.sim.values import to_values

FILE = Path(__file__).parent / "defaults.json"
WRITTEN = json.loads(FILE.read_text())
CONFIGS = {cls.__name__: cls for cls in (PPOConfig, SACConfig, TD3Config, BehaviorCloningConfig, DAggerConfig)}


def defaults(name: str) -> dict[str, Any]:
    return dict(json.loads(json.dumps(to_values(CONFIGS[name]()))))


@pytest.mark.parametrize("name", CONFIGS)
def test_defaults_are_those_written_down(name):
    assert defaults(name) == WRITTEN[name]


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: defaults(name) for name in CONFIGS}, indent=1) + "\n")

"""Seeds of algorithms: Python's and NumPy's whole numbers alike, and one sentence for everything else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from policies_toy import ToyEnv

from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.sac import SAC
from rookery.policies.algorithms.td3 import TD3
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import torch_generator

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("algorithm", [PPO, SAC, TD3])
def test_numpys_seeds_are_the_same_seeds(algorithm) -> None:
    one, other = (algorithm(ToyEnv(), seed=seed).policies()["point"].state_dict() for seed in (7, np.int64(7)))
    different = algorithm(ToyEnv(), seed=8).policies()["point"].state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(not torch.equal(one[name], different[name]) for name in one)


@pytest.mark.parametrize("seed", [1.5, True, "7", None, 2**64, np.float32(1.0)])
def test_what_is_no_seed_is_a_sentence(seed) -> None:
    for make in (torch_generator, lambda s: PPO(ToyEnv(), seed=s)):
        with pytest.raises(RookeryError, match="seed must be from"):
            make(seed)


def test_no_other_place_makes_a_generator_of_a_seed() -> None:
    """Constants aside: a seed that a user gives goes through the one check."""
    given = re.compile(r"\.manual_seed\((?!check_seed\()(?!\d)")
    found = [
        f"{path.relative_to(ROOT)}:{i}"
        for package in ("sim", "robots", "tasks", "policies", "sim2real", "rookery")
        for path in (ROOT / package).rglob("*.py")
        for i, line in enumerate(path.read_text().splitlines(), 1)
        if given.search(line)
    ]
    allowed = {
        "policies/training/reduction.py",
        "rookery/isaacgym.py",
        "sim/adapters/isaacgym/source.py",
        "policies/nn/autograd.py",
        "sim/seeding.py",  # of a generator's state on another kind of device
    }
    assert {line.split(":")[0] for line in found} <= allowed, found  # those check before, or draw the seed themselves

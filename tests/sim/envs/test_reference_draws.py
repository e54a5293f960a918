"""Episodes with everything randomised against numbers that were written down: what is drawn, delays, noise, drift, pushes.

They notice what changes a number, and cannot say which number is right: that is for the tests beside this one. After a change
on purpose, `python tests/sim/envs/test_reference_draws.py` writes the file anew, or only the cases named behind it. Look at the
difference: what changes and was not meant to change is a fault.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "shared"))

from references import Recording, Reference, write

import rookery
from rookery.sim.envs.vec_env import VecEnv

FILE = Path(__file__).parent / "reference_draws.json"
N = 4
STEPS = 16
SHORT = {"episode_s": 0.11}
CASES: dict[str, dict[str, Any]] = {
    "drone-hover": {"randomize": "all", "config": SHORT},
    "drone-hover mujoco": {"randomize": "all", "engine": "mujoco"},
    "drone-hover pairs": {"randomize": "default", "starts": 2, "config": SHORT},
    "drone-formation": {"randomize": "all", "fixed": {"wind_speed": 3.0}},
    "drone-race curriculum": {"randomize": "default", "randomize_curriculum": True, "config": SHORT},
    "swarm-surround": {"randomize": "all", "weights": {"closeness": 0.5, "spread": 2.0}},
    "go2-velocity": {"randomize": "all", "config": SHORT},
    "go2-velocity pushed": {"fixed": {"friction_patches": 0.5}, "config": {"push_s": 0.08, "push_speed": 0.7}},
    "go2arm-loco-manipulation": {"randomize": "all"},
    "table-push": {"randomize": "all", "config": SHORT},
    "table-drawer-open": {"randomize": "all"},
    "hand-reorient": {"randomize": "all"},
    "volley-1v1": {"randomize": "all"},
}


def run(case: str, jolt: float = 0.0) -> Recording:
    """Record a case; the jolt is in the actions."""
    env = rookery.make(case.split(" ")[0], N, seed=3, **CASES[case])
    out = Recording()
    generator = torch.Generator().manual_seed(1)
    own = env if isinstance(env, VecEnv) else env.env
    obs, _ = env.reset()
    out.take("0", "obs", obs)
    for step in range(1, STEPS + 1):
        actions = {}
        for g, s in env.groups.items():
            u = 2.0 * torch.rand(N, s.count, s.action.size, generator=generator) - 1.0
            actions[g] = torch.tensor(s.action.neutral) + 0.3 * u + jolt * torch.sin(9.0 * u)
        obs, reward, terminated, truncated, info = env.step(actions)
        section = str(step // 6)
        out.take(section, "obs", obs)
        out.take(section, "reward", reward)
        out.take(section, "ends", terminated + 2 * truncated)
        if "episode" in info:
            out.take("last", "return", info["episode"]["return"])
            out.take("last", "parameters", info["episode"]["parameters"])
    state = own.state_dict()
    left_out = ("world.state", "world.bodies", "task.", "observation.", "log.")
    out.take("last", "state", {k: v for k, v in state.items() if not k.startswith(left_out)})
    out.take("last", "link", {k: v for k, v in state.items() if k.startswith("observation.")})
    env.close()
    return out


REFERENCE = Reference(FILE, {case: partial(run, case) for case in CASES})


@pytest.mark.parametrize("case", sorted(CASES))
def test_numbers_are_those_written_down(case):
    found = REFERENCE.differences(case)
    assert not found, "\n".join(found[:20])


def test_all_that_is_written_down_is_run():
    assert sorted(REFERENCE.written) == sorted(CASES)


def test_most_numbers_are_compared():
    assert REFERENCE.share_left_out() < 0.05


if __name__ == "__main__":
    write(FILE, REFERENCE.runs, sys.argv[1:])

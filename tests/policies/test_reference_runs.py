"""Three updates of every algorithm against numbers that were written down, figures and actions: an alarm, and no judge.

It notices what changes a number and cannot say which number is right: that is for the tests beside this one, with targets,
gradients and steps worked out by hand. After a change on purpose, `python tests/policies/test_reference_runs.py` writes the
file anew, or only the cases named behind it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "shared")]

from policies_cue import CueEnv
from policies_fake import FakeEnv
from policies_toy import ToyEnv
from references import Recording, Reference, write

from rookery.experiments.demonstrations import record, recorded_env
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.imitation.behavior_cloning import BehaviorCloning, BehaviorCloningConfig
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.teacher import ControllerTeacher

FILE = Path(__file__).parent / "reference_runs.json"
UPDATES = 3
PPO_BASE = PPOConfig(
    rollout_steps=12, epochs=2, minibatches=3, hidden=(8, 8), gamma=0.9, entropy_coef=0.01, learning_rate=2e-3
)
OFF_BASE: dict[str, Any] = {
    "rollout_steps": 4, "learning_starts": 16, "batch": 32, "buffer_size": 60, "hidden": (8, 8), "learning_rate": 3e-3,
    "tau": 0.1, "gamma": 0.9,
}  # fmt: skip
SAC_BASE = SACConfig(**OFF_BASE)
TD3_BASE = TD3Config(**OFF_BASE)
DAGGER = DAggerConfig(rollout_steps=8, teacher_share=0.5, hidden=(8,), batch=16, epochs=2, learning_rate=3e-3)
CLONING = BehaviorCloningConfig(hidden=(8,), batch=16, learning_rate=5e-3, validation_share=0.4)
DEMONSTRATIONS = {"episode_s": 0.2, "settled_s": 0.1, "start_box_m": 0.3, "success_m": 0.4}


def fake(**options: Any) -> FakeEnv:
    return FakeEnv(4, **{"agents": 2, "obs": 3, "horizon": 7, "limit": 1.6, "act": 2, **options})


def toy() -> ToyEnv:
    return ToyEnv(4, agents=2)


def ppo(make: Callable[[], Any], **settings: Any) -> PPO:
    return PPO(make(), replace(PPO_BASE, **settings), seed=3)


def sac(make: Callable[[], Any] = toy, **settings: Any) -> SAC:
    return SAC(make(), replace(SAC_BASE, **settings), seed=3)


def td3(make: Callable[[], Any] = toy, **settings: Any) -> TD3:
    return TD3(make(), replace(TD3_BASE, **settings), seed=3)


def dagger() -> DAgger:
    env = ToyEnv(4, agents=2, drop_out=True)
    return DAgger(env, DAGGER, seed=3, inputs={"teacher": ControllerTeacher(env.controller())})


@cache
def recorded() -> tempfile.TemporaryDirectory[str]:
    """Goes with the process."""
    folder = tempfile.TemporaryDirectory()
    record(Path("drone-hover"), Path(folder.name) / "hover", 5, num_envs=2, config=DEMONSTRATIONS, seed=3)
    return folder


def demonstrations() -> Dataset:
    return Dataset(Path(recorded().name) / "hover")


def cloning() -> BehaviorCloning:
    data = demonstrations()
    return BehaviorCloning(recorded_env(data), CLONING, 3, {"dataset": data})


CASES: dict[str, Callable[[], Any]] = {
    "ppo": lambda: ppo(fake),
    "ppo gru": lambda: ppo(partial(CueEnv, 6), memory="gru", memory_size=6, schedule="fixed"),
    "sac": sac,
    "td3": td3,
    "dagger": dagger,
    "cloning": cloning,
}


def run(case: str, jolt: float = 0.0) -> Recording:
    """Record a case; the jolt is in what the environment makes of the actions."""
    torch.set_num_threads(1)
    made = CASES[case]()
    out = Recording()
    env = made.env
    if made.rollout_steps:
        obs, _ = env.reset(seed=5)
        env.stagger()
    for update in range(UPDATES + (made.rollout_steps == 4)):  # those with a memory fill it first
        for _ in range(made.rollout_steps):
            actions = made.act(obs)
            out.take(f"{update}", "actions", actions)
            wave = torch.sin(1.0 + 3.0 * torch.arange(next(iter(actions.values()))[0].numel()))
            result = env.step({g: a + jolt * wave.reshape(a[0].shape) for g, a in actions.items()})
            made.observe(obs, actions, result)
            obs = result[0]
        out.take(f"{update}", "figures", made.update(0.3 * update))
    for name, policy in made.policies().items():
        x = torch.linspace(-1.0, 1.0, 5 * policy.observation_size).reshape(5, -1)
        if not policy.state_size and not policy.targets:
            out.take("end", f"policy {name}", policy(x).detach())
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

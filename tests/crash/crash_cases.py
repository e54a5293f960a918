"""One small training of each algorithm: four iterations with a checkpoint after each, of which two stay."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from policies_fake import FakeEnv
from skilled import constant, skilled

import rookery
from rookery.experiments.demonstrations import record
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.imitation.behavior_cloning import BehaviorCloning, BehaviorCloningConfig
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.teacher import Teacher
from rookery.policies.training.logging import Progress
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig

ITERATIONS = 4
KEEP = 2
WORLDS = 2
SHORT = {"episode_s": 0.1, "settled_s": 0.1}


class CountingTeacher(Teacher):
    """Pushes towards the origin, less the more often it was asked: a resume must put its count back."""

    def __init__(self, env: FakeEnv) -> None:
        self.env = env
        self.asked = torch.zeros((), dtype=torch.int64)

    def act(self, obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        self.asked += 1
        return {"point": (-self.env.x[..., :1] / self.asked).clamp(-1.0, 1.0)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"asked": self.asked}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.asked.copy_(state["asked"])


def ppo() -> Algorithm:
    """With memory: episodes go on across iterations, and so does what the networks remember."""
    config = PPOConfig(rollout_steps=2, epochs=1, minibatches=1, hidden=(4,), memory="gru", memory_size=3)
    return PPO(FakeEnv(WORLDS, horizon=7), config)


def joint() -> Algorithm:
    """A high level and two skills that learn by turns."""
    env = FakeEnv(WORLDS, horizon=7)
    group = env.groups["point"]
    config = PPOConfig(
        rollout_steps=4, epochs=1, minibatches=1, hidden=(4,), learn_skills="alternating", skill_turns=1, skill_warmup=0,
        skill_learning_rate=1e-3,
    )  # fmt: skip
    return PPO(skilled(env, {"up": constant(group, 0.5), "down": constant(group, -0.5)}, every=2), config)


def sac() -> Algorithm:
    config = SACConfig(
        rollout_steps=2, updates_per_step=0.5, learning_starts=2, batch=4, buffer_size=12, hidden=(4,), compiled=False
    )
    return SAC(FakeEnv(WORLDS, horizon=3), config)


def dagger() -> Algorithm:
    env = FakeEnv(WORLDS, horizon=7)
    config = DAggerConfig(rollout_steps=2, keep_rollouts=2, epochs=1, hidden=(4,), batch=4, teacher_share=0.8)
    return DAgger(env, config, inputs={"teacher": CountingTeacher(env)})


def bc() -> Algorithm:
    env, data, _ = _demonstrations()
    return BehaviorCloning(env, BehaviorCloningConfig(hidden=(4,), batch=8), inputs={"dataset": data})


@functools.cache
def _demonstrations() -> tuple[Any, Dataset, Any]:
    """An environment, three short episodes of it, and their folder, which is removed when the process ends."""
    place = tempfile.TemporaryDirectory(prefix="rookery-crash-")
    folder = Path(place.name) / "demos"
    record(Path("drone-hover"), folder, 3, num_envs=3, config=SHORT)
    return rookery.make("drone-hover", 1, config=SHORT), Dataset(folder), place


@dataclass(frozen=True)
class Case:
    """An algorithm's training.

    Args:
        name: of the algorithm.
        make: a new algorithm with its environment, always the same.
    """

    name: str
    make: Callable[[], Algorithm]

    @functools.cached_property
    def step(self) -> int:
        """How far one iteration moves the counter."""
        return self.make().steps_per_update

    def runner(self, folder: Path, keep: int = KEEP) -> Runner:
        config = RunnerConfig(total_steps=ITERATIONS * self.step, checkpoint_every=1, keep=keep)
        contract = {"groups": {}, "provenance": {}}
        return Runner(self.make(), config, folder, name=self.name, contract=contract)


def until(run: Runner, iteration: int) -> Progress:
    """For `run.run`: ends it after an iteration, whose settings depend on the number of steps in all."""

    def stop(row: dict[str, Any]) -> None:
        if row["iteration"] == iteration:
            run.config = dataclasses.replace(run.config, time_limit_s=1e-9)

    return stop


CASES = {made.__name__: Case(made.__name__, made) for made in (ppo, joint, sac, dagger, bc)}

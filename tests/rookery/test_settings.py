"""A task's training settings reach the trainer: total steps, rollout length and the number of worlds."""

from __future__ import annotations

import pytest

from rookery.tasks.registry import TASKS
from rookery.training import DEFAULT_NUM_ENVS, DEFAULT_STEPS, Settings, ppo_config


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_rollout_is_not_a_training(task: str) -> None:
    """The preset's rollout length once took the place of the total steps: 29 of 48 tasks stopped after one update."""
    preset = TASKS[task].training
    settings = Settings.of_task(task)
    assert settings.steps == preset.get("total_steps", DEFAULT_STEPS) >= 1_000_000
    assert settings.num_envs == preset.get("num_envs", DEFAULT_NUM_ENVS)
    assert ppo_config(settings).rollout_steps == preset.get("rollout_steps", 32) <= 128
    short = Settings.of_task(task, steps=7)
    assert short.steps == 7 and ppo_config(short) == ppo_config(settings)

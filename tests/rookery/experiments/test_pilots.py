"""What may act where somebody watches: the policy of a run, its checkpoints, a classical controller, other tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rookery.experiments.pilots import pilots, task_shows
from rookery.experiments.run_env import open_env
from rookery.experiments.runs import open_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.tasks.registry import task_names


def test_every_checkpoint_of_a_run_may_act_as_it_was_then(tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = RunSettings(
        task="drone-hover",
        num_envs=4,
        runner=RunnerConfig(total_steps=4 * 8 * 3, checkpoint_every=1),
        algorithm_config=PPOConfig(rollout_steps=8, minibatches=1, epochs=1, hidden=(8,)),
    )
    training = start(settings, run)
    then = {}
    env, act = open_env(Path("drone-hover"), 2, controller="classical")
    observation, _ = env.reset(0)
    for steps in (32, 64, 96):
        training.runner.iterate()
        training.runner.save()
        then[f"checkpoint at {steps} steps"] = act_with(open_run(run)[0], env)(observation)["drone"]
    training.runner.env.close()
    found = pilots(run, "policy", env, act)
    assert list(found) == ["policy of run", *reversed(then), "classical controller"]
    for name, actions in then.items():
        torch.testing.assert_close(found[name]()(observation)["drone"], actions)
    first, *_, last = then.values()
    assert not torch.allclose(first, last)
    assert next(iter(pilots(run, "classical", env, act))) == "classical controller"
    env.close()


def test_every_task_may_be_shown_where_something_acts_in_it() -> None:
    shows = task_shows(2, seed=0)
    assert list(shows) == task_names()
    for task, names in {
        "drone-hover": ["policy of drone-hover", "classical controller"],
        "panda-stack": ["classical controller"],
    }.items():
        env, found = shows[task]()
        assert (env.task_id, env.num_envs, list(found)) == (task, 2, names)
        env.step(found[names[0]]()(env.reset(0)[0]))
        env.close()
    with pytest.raises(RookeryError, match="no classical controller"):
        shows["hand-reorient"]()

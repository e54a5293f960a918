"""A drone training that is killed continues as if it had not been: physics, delays, randomization and learning."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from rookery.experiments.runs import open_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import resume, start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training.settings import RunnerConfig

TRAIN = ("drone-hover", "--num-envs", "48", "--steps", str(48 * 16 * 12), "--seed", "3", "--randomize", "default")
PPO = ("--rollout-steps", "16", "--epochs", "2", "--minibatches", "2", "--checkpoint-every", "1")


def rookery(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "rookery", "train", *words], stdout=subprocess.DEVNULL)


@pytest.mark.slow  # test_kill_resume.py has the same in forks, where a start takes a moment
def test_killed_and_resumed_training_is_bit_equal(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    killed = tmp_path / "killed"
    assert rookery(*TRAIN, *PPO, "--out", str(whole)).wait(120) == 0
    process = rookery(*TRAIN, *PPO, "--out", str(killed))
    deadline = time.monotonic() + 120
    while len(list(killed.glob("checkpoints/0*"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL, "the training ended before it could be killed"
    assert rookery("--resume", str(killed)).wait(120) == 0
    wanted = load_file(whole / "policy.safetensors")
    got = load_file(killed / "policy.safetensors")
    assert wanted.keys() == got.keys()
    for name, value in wanted.items():
        assert (value == got[name]).all(), f"{name} differs after the resume"
    last = sorted(p.name for p in (whole / "checkpoints").iterdir())[-1]
    ours, theirs = (load_file(run / "checkpoints" / last / "env.safetensors") for run in (whole, killed))
    assert ours.keys() == theirs.keys()
    assert all((ours[k] == theirs[k]).all() for k in ours), "the environments went apart"


def test_a_kill_between_the_first_checkpoint_and_its_policy_can_be_resumed(tmp_path: Path) -> None:
    settings = RunSettings(
        task="drone-hover",
        num_envs=4,
        runner=RunnerConfig(total_steps=4 * 8 * 2),
        algorithm_config=PPOConfig(rollout_steps=8, minibatches=1, epochs=1, hidden=(8,)),
    )
    training = start(settings, tmp_path / "run")
    training.runner.iterate()
    training.runner.save()
    training.runner.env.close()
    for file in ("contract.json", "policy.safetensors"):
        (tmp_path / "run" / file).unlink()
    assert resume(tmp_path / "run").run()["steps"] == 4 * 8 * 2
    open_run(tmp_path / "run")

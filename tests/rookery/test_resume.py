"""A drone training that is killed continues as if it had not been: physics, delays, randomisation and learning."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from safetensors.numpy import load_file

TRAIN = ("drone-hover", "--num-envs", "48", "--steps", str(48 * 16 * 12), "--seed", "3", "--randomize", "default")
PPO = ("--rollout-steps", "16", "--epochs", "2", "--minibatches", "2", "--checkpoint-every", "1")


def rookery(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "rookery", "train", *words], stdout=subprocess.DEVNULL)


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

"""What a user of SAC and TD3 can get wrong on the command line: each is one sentence, and exit code 2."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from sampled import slow_but

from rookery.cli.main import main
from rookery.cli.train_options import read
from rookery.policies.algorithms.sac import SAC
from rookery.policies.algorithms.td3 import TD3
from rookery.sim.adapters.gymnasium_source import make_gymnasium
from rookery.sim.errors import RookeryError

TINY = ["--task-config", "episode_s=0.2", "--task-config", "settled_s=0.1"]
SMALL = [
    *("--num-envs", "4", "--rollout-steps", "8", "--hidden", "8", "--batch", "8", "--learning-starts", "16"),
    *("--buffer-size", "200", "--checkpoint-every", "1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with several checkpoints, and demonstrations."""
    out = tmp_path_factory.mktemp("off-policy")
    train = ["train", "drone-hover", "--algorithm", "sac", "--steps", "128", *SMALL, *TINY, "--out", str(out / "run")]
    assert main(train) == 0
    record = [
        "demos",
        "record",
        "drone-hover",
        "--episodes",
        "2",
        "--num-envs",
        "2",
        "--out",
        str(out / "demos"),
        *TINY,
    ]
    assert main(record) == 0
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([str(w) for w in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("rookery: ") and captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("damage", slow_but(["cut short"], ["a bit", "cut short", "gone"]))
def test_a_damaged_replay_memory_is_named_with_an_older_checkpoint(damage, folder, tmp_path, capsys):
    run = Path(shutil.copytree(folder / "run", tmp_path / "run"))
    *_, older, newest = sorted(run.glob("checkpoints/[0-9]*"))
    file = newest / "algorithm.safetensors"
    data = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    else:
        data[-200] ^= 1
        file.write_bytes(data if damage == "a bit" else data[:-200])
    said = refused(capsys, "train", "--resume", run, "--steps", 256)
    assert f"checkpoint {newest} is damaged: algorithm.safetensors" in said and f"use {older} instead" in said
    assert main(["train", "--resume", str(older), "--steps", "160"]) == 0


@pytest.mark.parametrize("algorithm", slow_but(["sac"], ["sac", "td3"]))
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drone-track"], "the task is"),
        (["drone-hover", "--action", "rotor_thrust"], "the action of drone"),
        (["drone-hover", "--task-config", "control_dt=0.02"], "the control period is 0.01 in them and 0.02 there"),
        (["drone-hover", "--critic", "central"], 'use critic="own" with them'),
        (["drone-hover", "--memory", "gru", "--n-step", "1"], "memor"),
    ],
)
def test_demonstrations_of_something_else_are_refused(algorithm, words, said, folder, tmp_path, capsys):
    out = tmp_path / "run"
    own = ["--algorithm", algorithm, "--data", folder / "demos", *SMALL, "--out", out]
    tiny = TINY if words[0] == "drone-hover" else []
    assert said in refused(capsys, "train", *words, *own, *tiny)
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--updates-per-step 0", "updates_per_step is 0.0: give a number"),
        pytest.param("--updates-per-step -1", "updates_per_step is -1.0: give a number", marks=pytest.mark.slow),
        ("--num-envs 64 --buffer-size 200 --rollout-steps 8", "fewer than rollout_steps 8: give at least 512"),
        ("--buffer-size 1000000000000", "the replay memory of 1,000,000,000,000 control steps would take"),
        (
            "--memory-size 500",
            "memory_size is for networks with memory: give memory=gru too, or leave memory_size at 64",
        ),
        pytest.param("--memory-burn-in 8", "memory_burn_in is for networks with memory", marks=pytest.mark.slow),
        ("--memory-steps 8", "memory_steps is for networks with memory"),
        pytest.param("--no-critic-memory", "critic_memory is for networks with memory", marks=pytest.mark.slow),
        (
            "--steps 640 --learning-starts 1000",
            "640 steps end before the first gradient step, which is after 1,024: give",
        ),
        ("--steps 640 --learning-starts 0 --updates-per-step 0.001", "which is after 1,024: give --steps 1024 or more"),
        (
            "--demonstration-share 0.25",
            "demonstration_share is for demonstrations: give --data DIR too, or leave demonstration_share at 0.5",
        ),
        (
            "--priority-beta 0.6",
            "priority_beta is for transitions that are drawn by their error: give priority_alpha=0.6 too",
        ),
        ("--value-low -5", "value_low is for critics that predict distributions: give atoms=101 too"),
        pytest.param("--value-high 5", "value_high is for critics that predict distributions", marks=pytest.mark.slow),
        ("--picture-shift 4", "picture_shift is for networks with an encoder of pictures: give encoder=cnn too"),
        (
            "--memory gru --n-step 1 --priority-beta 0.6",
            "priority_beta is for networks without memory: give priority_beta=0.4",
        ),
        (
            "--memory gru --n-step 1 --picture-shift 4",
            "picture_shift is for networks without memory: give picture_shift=0",
        ),
        ("--demonstration-share 2", "demonstration_share is 2.0: give a number from 0 to 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(words, said, tmp_path, capsys):
    out = tmp_path / "run"
    assert said in refused(capsys, "train", "drone-hover", "--algorithm", "sac", *words.split(), "--out", out)
    assert not out.exists()


class Odd(gymnasium.Env):
    """With actions that no policy can give."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, action_space: gymnasium.Space) -> None:
        self.action_space = action_space


@pytest.fixture
def odd(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a registered gymnasium environment with the action space of the test's parameter."""
    name = "rookery-test/Odd-v0"
    gymnasium.register(name, entry_point=lambda: Odd(request.param), max_episode_steps=5)
    yield name
    gymnasium.registry.pop(name)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (gymnasium.spaces.MultiBinary(3), "choose an environment with vectors of numbers, choices, or a Tuple or Dict"),
        (
            gymnasium.spaces.Box(-1.0, 1.0, (2, 2), np.float32),
            "choose an environment with vectors of numbers, choices, ",
        ),
        (gymnasium.spaces.Box(-np.inf, 1.0, (2,), np.float32), "has actions without limits"),
    ],
    ids=["binary", "matrix", "unlimited"],
    indirect=["odd"],
)
def test_action_spaces_that_no_algorithm_can_take_are_refused(odd, said):
    with pytest.raises(RookeryError, match=said):
        make_gymnasium(odd, 1, 0)


@pytest.mark.parametrize("algorithm", [SAC, TD3])
@pytest.mark.parametrize("odd", [gymnasium.spaces.Discrete(3)], ids=["discrete"], indirect=True)
def test_choices_are_refused_by_what_learns_numbers(odd, algorithm):
    """Only PPO takes them; its own tests train it."""
    env = make_gymnasium(odd, 1, 0)
    said = f"{algorithm.__name__} learns continuous actions, .* 'choice' among .*: PPO learns such tasks"
    with pytest.raises(RookeryError, match=said):
        algorithm(env)
    env.close()


@pytest.mark.parametrize("algorithm", slow_but(["sac"], ["sac", "td3", "bc"]))
def test_a_training_goes_on_with_the_demonstrations_that_it_began_with(algorithm, folder, tmp_path, capsys):
    demos = Path(shutil.copytree(folder / "demos", tmp_path / "demos"))
    share = ("--demonstration-share", "0.25")
    small = [*("--hidden", "8", "--batch", "8"), *TINY] if algorithm == "bc" else [*SMALL, *TINY, *share]
    run = tmp_path / "run"
    train = ["train", "drone-hover", "--algorithm", algorithm, "--data", demos, "--steps", "64", *small, "--out", run]
    assert main([str(w) for w in train]) == 0
    assert main(["train", "--resume", str(run), "--steps", "96"]) == 0
    shutil.rmtree(demos)
    record = [
        "demos",
        "record",
        "drone-hover",
        "--episodes",
        "2",
        "--num-envs",
        "2",
        "--seed",
        "5",
        "--out",
        str(demos),
    ]
    assert main([*record, *TINY]) == 0
    said = refused(capsys, "train", "--resume", run, "--steps", 160)
    assert "the files that --data names have changed since" in said and "put them back as they were" in said
    shutil.rmtree(demos)
    shutil.copytree(folder / "demos", demos)
    assert main(["train", "--resume", str(run), "--steps", "160"]) == 0


def test_a_training_with_demonstrations_goes_on_from_another_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    run = tmp_path / "run"
    train = ["train", "drone-hover", "--algorithm", "sac", "--data", "demos", "--steps", "64", *SMALL, *TINY]
    assert main([*train, "--out", str(run)]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--resume", str(run), "--steps", "96"]) == 0


def test_rlpd_without_demonstrations_is_refused_with_the_way_to_have_it(folder, tmp_path, capsys):
    out = tmp_path / "run"
    said = refused(capsys, "train", "drone-hover", "--algorithm", "rlpd", "--out", out)
    assert "--algorithm rlpd learns from demonstrations: give them by --data DIR" in said
    _, _, without = said.strip().removesuffix(".").rpartition(" without them is ")
    assert not out.exists()
    demos = ["--data", str(folder / "demos")]
    same = [
        read(["drone-hover", *words], "") for words in (["--algorithm", "rlpd", *demos], [*without.split(), *demos])
    ]
    assert same[0].settings == same[1].settings

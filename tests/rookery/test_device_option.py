"""`--device`: a GPU that is not there is a sentence and leaves nothing; a resume may name another than the run has."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from rookery.cli.main import main
from rookery.cli.train_options import read
from rookery.experiments.algorithm import make_algorithm
from rookery.experiments.recipes import find_recipe
from rookery.experiments.reproduction import Reproduction
from rookery.experiments.resumed import read_resumed
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import resume, start
from rookery.experiments.workers import GLOO, NCCL, Workers, backend_of
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

SMALL = RunSettings(
    task="drone-hover",
    num_envs=4,
    runner=RunnerConfig(total_steps=64, trackers=()),
    algorithm_config=PPOConfig(rollout_steps=8, minibatches=1, epochs=1, hidden=(8,)),
)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("words", [("train", "drone-hover"), ("reproduce", "drone-hover")])
@pytest.mark.parametrize(
    ("device", "message"), [("cuda", "device cuda cannot be used"), ("gpu", "a device is cpu, cuda")]
)
def test_what_cannot_be_used_is_refused_before_anything_is_made(words, device, message, in_tmp, capsys) -> None:
    assert main([*words, "--device", device]) == 2
    assert message in capsys.readouterr().err and not list(Path().iterdir())


def test_a_run_keeps_its_device_and_a_resume_may_name_another(tmp_path, monkeypatch) -> None:
    training = start(SMALL, tmp_path / "run")
    training.runner.iterate()
    training.runner.save()
    training.close()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["device"] == "cpu"
    for call in (resume, read_resumed):
        with pytest.raises(RookeryError, match="device cuda cannot be used"):
            call(tmp_path / "run", device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert read_resumed(tmp_path / "run", device="cuda:1")[0].device == "cuda:1"
    assert read_resumed(tmp_path / "run")[0].device == "cpu"
    with pytest.raises(RookeryError, match="this machine has cuda:0 to cuda:1"):
        read_resumed(tmp_path / "run", device="cuda:2")


def test_the_words_are_read() -> None:
    new = read(["drone-hover", "--device", "cuda"], "")
    assert new is not None and new.settings.device == "cuda"
    again = read(["--resume", "runs/x", "--device", "cuda:1"], "")
    assert again is not None and again.device == "cuda:1" and again.changes == {}
    kept = read(["--resume", "runs/x"], "")
    assert kept is not None and kept.device is None


def test_a_recipe_learns_where_it_is_told_to(tmp_path, monkeypatch) -> None:
    recipe = find_recipe("drone-hover")
    assert Reproduction(recipe, tmp_path / "a").settings(recipe.stages[0]).device == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Reproduction(recipe, tmp_path / "b", device="cuda").settings(recipe.stages[0]).device == "cuda"


def test_workers_with_gpus_of_their_own_use_nccl(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = {n: backend_of(Workers(n), "cuda") for n in (1, 2, 3)}
    assert found == {1: NCCL, 2: NCCL, 3: GLOO}
    assert backend_of(Workers(2), "cpu") == backend_of(Workers(2), "cuda:0") == GLOO
    assert backend_of(Workers(2, address="auto"), "cuda") == GLOO


def test_a_learner_is_made_on_its_device() -> None:
    algorithm, _ = make_algorithm(dataclasses.replace(SMALL, device="cpu:0"), "none")
    assert algorithm.env.device == torch.device("cpu")
    algorithm.close()
    algorithm.env.close()

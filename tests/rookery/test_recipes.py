"""Recipes: every policy of the zoo is trained again at a thousandth of its length; stages that are done are not repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rookery.cli.main import main
from rookery.presets import preset
from rookery.recipes import LEAST_WORLDS, UPDATES, Reproduction, find_recipe, read_recipe, recipe_files, scaled
from rookery.runs import open_run, zoo
from rookery.sim.errors import RookeryError

SHORT = """
task = "drone-hover"
[[stages]]
name = "imitated"
algorithm = "dagger"
num_envs = 16
runner = {total_steps = 1024}
dagger = {hidden = [16, 16]}
[[stages]]
name = "trained"
init = "imitated"
num_envs = 16
runner = {total_steps = 1024}
ppo = {hidden = [16, 16], minibatches = 2, epochs = 1}
[[stages]]
kind = "low_pass"
name = "smooth"
of = "trained"
share = 0.5
"""


def bits(folder: Path) -> dict[str, torch.Tensor]:
    (policy,) = open_run(folder)[0].values()
    return dict(policy.state_dict())


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", sorted(zoo()))
def test_every_policy_of_the_zoo_is_reproduced(name, tmp_path):
    """By one command, with the network and the observation of the stored one; at a small share of its length."""
    scale = 0.0003
    assert main(["reproduce", name, "--scale", str(scale), "--out", str(tmp_path / "made")]) == 0
    (policies, contract), (stored, wanted) = open_run(tmp_path / "made"), open_run(zoo()[name])
    assert contract.task_id == wanted.task_id
    assert policies.keys() == stored.keys()
    for group, policy in policies.items():
        assert contract.groups[group].spec.observation_size == wanted.groups[group].spec.observation_size
        assert policy.chain == stored[group].chain
    steps = contract.provenance.steps
    assert steps is not None
    assert scale * find_recipe(name).total_steps <= steps
    assert contract.provenance.command is not None
    for fused in (s.name for s in find_recipe(name).stages if s.kind == "fuse"):
        made = open_run(tmp_path / "made" / fused)[1]
        assert made.latency.action.randomized is None, "of two trainings, neither with delays that this contract knows"


def test_recipes_are_of_policies_in_the_zoo():
    assert set(recipe_files()) <= set(zoo())


def test_a_task_without_a_file_is_its_preset():
    (stage,) = find_recipe("drone-formation").stages
    assert stage.values == preset("drone-formation").to_values()


@pytest.mark.parametrize(
    ("steps", "scale", "worlds"), [(3_200_000, 1e-3, 25), (3_200_000, 1.0, 512), (3_200_000, 1e-5, LEAST_WORLDS)]
)
def test_a_short_stage_has_fewer_worlds_but_some_updates(steps, scale, worlds):
    short = scaled(preset("drone-hover"), scale)
    assert short.runner.total_steps == steps * scale
    assert short.num_envs == worlds
    if worlds > LEAST_WORLDS:
        assert short.runner.total_steps >= UPDATES * worlds * short.algorithm_config.rollout_steps


def test_a_stopped_reproduction_goes_on_and_ends_with_the_same_bits(tmp_path):
    """Stopped before each stage has its first checkpoint; what is done stays as it is."""
    recipe = read_recipe(write(tmp_path, SHORT))
    Reproduction(recipe, tmp_path / "whole").run()
    stopped = []

    def stop_once(line, training):
        if line not in stopped:
            stopped.append(line)
            raise KeyboardInterrupt

    times = {}
    for _ in range(4):
        try:
            assert Reproduction(recipe, tmp_path / "parts").run(stop_once)
        except KeyboardInterrupt:
            for stage in json.loads((tmp_path / "parts" / "recipe.json").read_text())["done"]:
                file = tmp_path / "parts" / stage / "contract.json"
                assert times.setdefault(stage, file.stat().st_mtime_ns) == file.stat().st_mtime_ns
    assert len(stopped) == 3
    assert len(times) == 2
    one, other = bits(tmp_path / "whole"), bits(tmp_path / "parts")
    assert all(torch.equal(one[k], other[k]) for k in one)
    assert open_run(tmp_path / "parts")[0]["drone"].hidden == (20, 20)  # 16 and the four last actions


def test_a_stage_that_was_interrupted_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    from rookery.training import Training

    recipe = read_recipe(write(tmp_path, SHORT))
    run = Training.run
    made = []

    def interrupted(self):
        result = run(self)
        made.append(result["steps"])
        return result | {"interrupted": len(made) == 1}

    monkeypatch.setattr(Training, "run", interrupted)
    assert not Reproduction(recipe, tmp_path / "made").run()
    assert Reproduction(recipe, tmp_path / "made").run()
    assert made == [1024, 1024]  # the first had all its steps, and is not trained again


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "trained"', 'name = "imitated"', "taken"),
        ('name = "trained"', 'name = "../out"', "folder's"),
        ('init = "imitated"', 'init = "imitatd"', "imitated"),
        ('init = "imitated"', 'init = "smooth"', "smooth"),
        ('kind = "low_pass"', 'kind = "low_pas"', "low_pass"),
        ("share = 0.5", "", "share"),
        ("share = 0.5", 'share = "much"', "number"),
        ("share = 0.5", "share = 0.5\nnames = []", "actions"),
        ("share = 0.5", "share = 0.5\nactions = 3", "list of names"),
        ("num_envs = 16", "num_envs = 0", "num_envs"),
        ("epochs = 1", "epoch = 1", "epochs"),
        ('task = "drone-hover"', 'task = "drone-hovr"', "drone-hover"),
        ('task = "drone-hover"', 'tsk = "drone-hover"', "task"),
        ("[[stages]]", "[[stage]]", "stage"),
        ("[[stages]]", "[stages", "TOML"),
    ],
)  # fmt: skip
def test_a_recipe_that_is_none_is_one_sentence(tmp_path, capsys, old, new, message):
    assert main(["reproduce", str(write(tmp_path, SHORT.replace(old, new))), "--out", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_other_errors_are_one_sentence(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").touch()
    begun = tmp_path / "begun"
    begun.mkdir()
    plan = Reproduction(find_recipe("drone-hover"), begun, 0.5)
    plan._note()
    for words, message in (
        (["drone-hovr"], "drone-hover"),
        (["drone-hover", "--scale", "2"], "--scale"),
        (["drone-hover", "--scale", "0"], "--scale"),
        (["drone-hover", "--seed", str(2**70)], "seed"),
        (["drone-hover", "--out", str(taken)], "--out"),
        (["drone-hover", "--out", str(begun)], "--scale"),
        (["nowhere.toml"], "nowhere.toml"),
    ):
        assert main(["reproduce", *words]) == 2
        said = capsys.readouterr().err
        assert message in said, words
        assert said.count("\n") == 1, words
    with pytest.raises(RookeryError, match="stages"):
        read_recipe(write(tmp_path, ""))

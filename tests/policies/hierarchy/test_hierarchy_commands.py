"""A hierarchy by the command line: trained, resumed, judged, filmed, exported, started from, and as a skill of another one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.recipes import preset
from rookery.experiments.runs import open_run
from rookery.policies.training.evaluate import act_with

SKILLS = """
every = 4
[skills.lead]
policy = "hover"
shift.position_error = 0.5
[skills.rest]
policy = "hover"
finished = "norm(position_error) > 0.3"
"""
TRAIN = [
    "train",
    "drone-track",
    "--num-envs",
    "16",
    "--rollout-steps",
    "40",
    "--minibatches",
    "2",
    "--schedule",
    "fixed",
    "--json",
]


@pytest.mark.slow
def test_from_training_to_a_bundle_and_on(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hover = Path(rookery.__file__).parent.parent / "policies" / "zoo" / "drone-hover"
    (in_tmp / "hover").mkdir()
    for file in ("contract.json", "policy.safetensors"):
        (in_tmp / "hover" / file).write_bytes((hover / file).read_bytes())
    (in_tmp / "skills.toml").write_text(SKILLS)
    assert main([*TRAIN, "--skills", "skills.toml", "--steps", "2560", "--out", "whole"]) == 0
    assert main([*TRAIN, "--skills", "skills.toml", "--steps", "1280", "--out", "run"]) == 0
    # the run needs nothing of what it was made from
    (in_tmp / "skills.toml").unlink()
    (in_tmp / "hover" / "contract.json").unlink()
    assert main(["train", "--resume", "run", "--steps", "2560", "--json"]) == 0
    whole, run = (open_run(in_tmp / name)[0]["drone"].state_dict() for name in ("whole", "run"))
    assert all(torch.equal(whole[k], run[k]) for k in whole)
    assert main(["eval", "run", "--episodes", "4", "--json"]) == 0
    assert main(["play", "run", "--seconds", "0.2", "--size", "64", "48", "--out", "film.mp4"]) == 0
    assert main(["export", "run", "--out", "bundle"]) == 0
    assert main(["export", "--check", "bundle"]) == 0
    capsys.readouterr()
    contract = json.loads((in_tmp / "bundle" / "contract.json").read_text())
    assert contract["task_id"] == "drone-track"
    assert contract["groups"]["drone"]["action"]["kind"] == "ctbr"
    assert contract["groups"]["drone"]["actuation"] is not None
    # another training starts from its high level; a bundle is a skill as well, here of a third level
    again = [*TRAIN, "--config", "run/settings.toml", "--init", "run", "--steps", "1280", "--out", "again"]
    assert main([word for word in again if word != "drone-track"]) == 0
    (in_tmp / "third.toml").write_text('every = 8\n[skills.two]\npolicy = "bundle"\nshift.position_error = 0.2\n')
    assert main([*TRAIN, "--skills", "third.toml", "--steps", "640", "--out", "third"]) == 0
    policies, _ = open_run(in_tmp / "third")
    assert len(policies["drone"].chain.decisions) == 2


def test_what_each_agent_is_about(in_tmp: Path) -> None:
    (in_tmp / "skills.toml").write_text(SKILLS.replace('"hover"', '"drone-hover"'))
    assert main([*TRAIN, "--skills", "skills.toml", "--steps", "640", "--out", "run"]) == 0
    policies, _ = open_run(in_tmp / "run")
    env = rookery.make("drone-track", 2)
    act = act_with(policies, env)
    act(env.reset(0)[0])
    for world in range(2):
        (note,) = act.notes(world)
        assert note in (("drone", 0, "lead"), ("drone", 0, "rest"))


def test_the_skills_of_a_preset_can_be_left_out() -> None:
    assert preset("go2-navigate").skills == "go2-navigate"
    assert dataclasses.replace(preset("go2-navigate"), skills="none").skills is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--skills", "none.toml"], "there is no file 'none.toml' of skills"),
        (["--skills", "go2-navigat"], "did you mean 'go2-navigate'"),
        (["--skills", "go2-navigate"], "acts every 0.02 s"),
        (["--skills", "go2-navigate", "--algorithm", "sac"], "--skills FILE is for --algorithm ppo"),
        (["--learn-skills", "together"], "is for a high level above skills: give --skills FILE too"),
        (["--reference-kl-coef", "0.1"], "near to the one that training starts from: give that by --init RUN"),
    ],
)
def test_wrong_skills_end_with_a_sentence(
    words: list[str], message: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "drone-hover", "--steps", "1000", "--num-envs", "2", "--out", "run", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (in_tmp / "run").exists()

"""Trainings against a population that a file names: who plays, resumes bit for bit, folders that move, files that are wrong."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from rookery.experiments.opponents import FILE, Member, Opponents, copy_opponents, drawn_by, read_opponents
from rookery.experiments.recipes import preset
from rookery.experiments.settings import RunSettings, read_settings
from rookery.experiments.training import resume, start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import checkpoint
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

STEP = 16 * 8


def settings(total: int, opponents: Path | None, **changes: object) -> RunSettings:
    config = PPOConfig(hidden=(8,), rollout_steps=8, minibatches=1, epochs=1)
    runner = RunnerConfig(total_steps=total, checkpoint_every=1, keep=9)
    own = dataclasses.replace(
        preset("volley-1v1"), num_envs=16, runner=runner, algorithm_config=config, task_config={"episode_s": 0.3},
        opponents=None if opponents is None else str(opponents),
    )  # fmt: skip
    return dataclasses.replace(own, **changes)


def trained(total: int, out: Path, opponents: Path | None = None, **changes: object) -> Path:
    start(settings(total, opponents, **changes), out).run()
    return out


def written(folder: Path, text: str) -> Path:
    file = folder / "opponents.toml"
    file.write_text(text)
    return file


@pytest.mark.slow
def test_a_run_is_trained_against_others_and_resumed_with_the_same_bits(in_tmp: Path) -> None:
    """Resumed halfway, and from another place, since both folders were moved together."""
    trained(STEP, Path("pool/old"), seed=5)
    text = 'team = "either"\nprioritized = "squared"\nshare_of_latest = 0.2\n'
    text += 'members = [{policy = "old"}, {policy = "controller"}]\n'
    file = written(Path("pool"), text)
    whole = trained(6 * STEP, Path("pool/whole"), file)
    trained(3 * STEP, Path("pool/half"), file)
    Path("pool").rename("moved")
    half, whole = Path("moved/half"), Path("moved/whole")
    assert read_opponents(half / "opponents.toml").members[0].policy == str(half / "../old")
    resume(half, {"total_steps": 6 * STEP}).run()
    mine, its = (checkpoint.newest(f) for f in (half, whole))
    one, other = (checkpoint.read_tensors(f, checkpoint.read_state(f)) for f in (mine, its))
    for part in one:
        assert one[part].keys() == other[part].keys()
        assert all(torch.equal(one[part][k], other[part][k]) for k in one[part])
    weights = one["env"]["env/opponent.weights"]
    assert weights[1] > 0.2 and not torch.allclose(weights, torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert (one["env"]["env/opponent.games"] > 0.0).all()
    again = RunSettings.from_values(read_settings(half / "settings.toml"))
    assert Path(again.opponents) == half / "opponents.toml"


def test_the_copy_in_a_run_names_the_same_policies_from_any_place(in_tmp: Path) -> None:
    """Folders from its own, so that both may be moved together; the script and policies of the zoo by their names."""
    file = written(
        in_tmp, 'team = "near"\nmembers = [{policy = "old"}, {policy = "volley-6v6"}, {policy = "controller"}]\n'
    )
    Path("runs/new").mkdir(parents=True)
    copy_opponents(file, Path("runs/new"))
    Path("elsewhere").mkdir()
    for name in ("old", "runs"):
        Path(name).mkdir(exist_ok=True)
        Path(name).rename(Path("elsewhere") / name)
    folder, *named = [m.policy for m in read_opponents(Path("elsewhere/runs/new") / FILE).members]
    assert Path(folder).resolve() == Path("elsewhere/old").resolve()
    assert named == ["volley-6v6", "controller"]


def test_weights_follow_the_win_rates() -> None:
    pool = Opponents("near", (Member("a"), Member("b"), Member("c")), "linear", 0.4)
    assert drawn_by([0.5, 1.0, 0.75], pool) == pytest.approx([0.4, 0.0, 0.6])


def test_opponents_that_changed_stop_a_resume(in_tmp: Path) -> None:
    trained(STEP, Path("old"))
    trained(STEP, Path("other"), seed=3)
    file = written(in_tmp, 'team = "near"\nmembers = [{policy = "old"}]\n')
    trained(STEP, Path("run"), file)
    shutil.copy("other/policy.safetensors", "old/policy.safetensors")
    with pytest.raises(RookeryError, match="files that --opponents names have changed since"):
        resume(Path("run"), {"total_steps": 2 * STEP})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("members = [", "is not TOML"),
        ('team = "near"\n', "names nobody: write members = "),
        ('members = [{policy = "controller"}]\n', r"the file of opponents .*\.toml: team is missing"),
        ('team = "near"\nmembers = [{weight = 2.0}]\n', r"the file of opponents .*\.toml: a member's policy is missing"),
        ('team = "near"\nmembers = ["controller"]\n', "has no list of members"),
        ('team = "near"\nmembers = [{policy = "controller", wieght = 1}]\n', "unknown value of a member"),
        ('team = "near"\nmembers = [{policy = "controller"}, {policy = "controller"}]\n', "names controller twice"),
        ('team = "nera"\nmembers = [{policy = "controller"}]\n', "unknown team of volley-1v1 'nera': did you mean 'near'"),
        ('team = "near"\nmembers = [{policy = "nowhere"}]\n', "there is no folder '.*nowhere'"),
        ('team = "near"\nmembers = [{policy = "drone-hover"}]\n', "is a policy of drone-hover, and the match is in"),
        ('team = "near"\nprioritized = "cubed"\nmembers = [{policy = "controller"}]\n', "unknown weighting 'cubed'"),
        ('team = "near"\nshare_of_latest = 0.5\nmembers = [{policy = "controller"}]\n', "goes with prioritized"),
        ('team = "near"\nmembers = [{policy = "controller", weight = -1.0}]\n', "need numbers of at least 0"),
    ],
)  # fmt: skip
def test_files_that_are_wrong_are_one_sentence(text: str, said: str, in_tmp: Path) -> None:
    file = written(in_tmp, text)
    with pytest.raises(RookeryError, match=said):
        start(settings(STEP, file), Path("run"))
    assert not Path("run").exists()


def test_a_task_without_teams_has_no_opponents(in_tmp: Path) -> None:
    file = written(in_tmp, 'team = "near"\nmembers = [{policy = "controller"}]\n')
    with pytest.raises(RookeryError, match="unknown team of drone-hover 'near'"):
        start(settings(STEP, file, task="drone-hover"), Path("run"))

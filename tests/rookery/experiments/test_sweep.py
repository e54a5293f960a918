"""Sweeps: spaces and what is wrong with them, the objective, checkpoints that change hands, and whole sweeps by Ray Tune."""

from __future__ import annotations

import copy
import csv
import dataclasses
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rookery.cli.main import main
from rookery.cli.sweep import Args, _begun
from rookery.experiments.recipes import preset
from rookery.experiments.settings import RunSettings
from rookery.experiments.sweep import space as space_module
from rookery.experiments.sweep import tuner
from rookery.experiments.sweep.objective import objective, read_progress
from rookery.experiments.sweep.plan import FILE, SweepPlan
from rookery.experiments.sweep.space import SweepSpace, SweptChoice, SweptInterval, read_space
from rookery.experiments.sweep.sweep import SettingsSweep, open_sweep
from rookery.experiments.sweep.table import best_of, rows_of, tied, write_table
from rookery.experiments.sweep.trial import BAD, adopt, as_point, for_tune
from rookery.experiments.training import resume, start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import checkpoint
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.ranges import Range, load

TINY = """
num_envs = 8
randomize = "none"
[ppo]
rollout_steps = 8
minibatches = 1
epochs = 1
hidden = [4]
"""
RATES = "learning_rate = {low = 1e-4, high = 1e-2, log = true}\n"
STEPS = 8 * 8 * 10
SHORT = "[task_config]\nepisode_s = 0.3\nsettled_s = 0.1\n"  # so that whole episodes end in so few steps


def space_of(folder: Path, text: str) -> SweepSpace:
    (folder / "sweep.toml").write_text(text)
    return read_space(folder / "sweep.toml")


def tiny(**changes: Any) -> RunSettings:
    config = PPOConfig(rollout_steps=4, minibatches=1, epochs=1, hidden=(4,))
    runner = RunnerConfig(total_steps=4 * 4 * 6, checkpoint_every=2, trackers=())
    return dataclasses.replace(
        RunSettings(task="drone-hover", num_envs=4, runner=runner, algorithm_config=config), **changes
    )


# Spaces


def test_a_space_gives_settings(tmp_path: Path) -> None:
    space = space_of(tmp_path, TINY + "gamma = {values = [0.9, 0.99]}\n" + RATES + """
[task_config.reward]
ang_vel = {low = -0.1, high = 0.0}
[randomization.mass]
low = 0.8
high = {low = 1.0, high = 1.4}
["randomization"."thrust_coefficient:rotor_1"]
low = 0.9
high = {values = [1.05, 1.1]}
""")  # fmt: skip
    assert list(space.dimensions) == [
        "ppo.gamma", "ppo.learning_rate", "task_config.reward.ang_vel", "randomization.mass.high",
        "randomization.thrust_coefficient:rotor_1.high",
    ]  # fmt: skip
    base = preset("drone-hover")
    space.check(base, tmp_path)
    point = {
        "ppo.gamma": 0.9, "ppo.learning_rate": 2e-3, "task_config.reward.ang_vel": -0.05, "randomization.mass.high": 1.3,
        "randomization.thrust_coefficient:rotor_1.high": 1.1,
    }  # fmt: skip
    settings = space.settings(base, point, tmp_path / "ranges.toml")
    assert (settings.num_envs, settings.algorithm_config.gamma, settings.algorithm_config.hidden) == (8, 0.9, (4,))
    assert settings.task_config["reward"] == {"ang_vel": -0.05}
    assert settings.algorithm_config.clip == base.algorithm_config.clip
    assert tomllib.loads(Path(settings.randomize).read_text()) == {
        "mass": {"low": 0.8, "high": 1.3}, "thrust_coefficient:rotor_1": {"low": 0.9, "high": 1.1}
    }  # fmt: skip
    again = SweepSpace.from_values(json.loads(json.dumps(space.to_values())))
    assert again == space


@pytest.mark.parametrize("preset", ["default", "all"])
def test_ranges_of_a_space_change_those_of_the_preset(tmp_path: Path, preset: str) -> None:
    space = space_of(tmp_path, "[randomization.mass]\nlow = 0.8\nhigh = {low = 1.0, high = 1.4}")
    base = tiny(randomize=preset)
    space.check(base, tmp_path)
    drawn = load(space.settings(base, {"randomization.mass.high": 1.3}, tmp_path / "ranges.toml").randomize)
    assert drawn.preset == preset and drawn.ranges == {"mass": Range(0.8, 1.3)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ppo]\nlearning_rat = {low = 1e-4, high = 1e-2}", "unknown setting of ppo 'learning_rat': did you mean"),
        ("[ppo]\ngamma = {values = [0.9, 2.0]}", "gamma"),
        ("[ppo]\nepochs = {low = 1.5, high = 3.0}", "epochs needs a whole number"),
        ("[pop]\ngamma = {values = [0.9]}", "unknown setting 'pop': did you mean 'ppo'"),
        ("[runner]\ntotal_step = {values = [100]}", "did you mean 'total_steps'"),
        ("[task_config]\nnum_drone = {values = [1, 2]}", "did you mean 'num_drones'"),
        ("[train_overrides.reward]\nang_velo = {low = -1.0, high = 0.0}", "unknown reward term 'ang_velo'"),
        ('randomize = "none"\n[randomization.mas]\nlow = 0.9\nhigh = {low = 1.0, high = 1.1}', "unknown parameter 'mas'"),
        ('randomize = "none"\n[randomization.mass]\nlow = 0.9\nhigh = {low = 1.0, high = 9.0}', "must be a range within"),
        ("[randomization.mass]\nhigh = {low = 1.0, high = 1.1}", "takes low, high"),
        ("[ppo]\ngamma = 0.9", "has no setting that differs"),
        ("[ppo]\ngamma = {low = 0.9}", "gamma needs two numbers"),
        ("[ppo]\ngamma = {low = 0.99, high = 0.9}", "low < high"),
        ("[ppo]\nlearning_rate = {low = 0.0, high = 0.9, log = true}", "above 0 with log = true"),
        ("[ppo]\ngamma = {low = 0.9, high = 0.99, logg = true}", "unknown key of ppo.gamma 'logg': did you mean 'log'"),
        ("[ppo]\ngamma = {values = []}", "gamma needs its values alone"),
        ("[ppo]\ngamma = {values = [0.9], low = 0.1}", "gamma needs its values alone"),
        ("task = {values = ['drone-hover', 'drone-track']}", "task is the same in all trials"),
        ("[runner]\ntotal_steps = {values = [100, 200]}", "runner.total_steps is the same in all trials of a sweep, given by"),
        ("[runner]\ntotal_steps = 100\n[ppo]\ngamma = {values = [0.9]}", "runner.total_steps is the same in all trials"),
        ("shards = {values = ['1', '2']}", "shards is the same in all trials of a sweep, one process each: leave it out"),
        ("shards = '2'\n[ppo]\ngamma = {values = [0.9]}", "shards is the same in all trials"),
        ("[algorithm]\nname = 'ppo'\n[ppo]\ngamma = {values = [0.9]}", "unknown algorithm"),
        ("[fixed]\nmas = {low = 1.0, high = 2.0}", "unknown parameter 'mas': did you mean 'mass'"),
        ("[fixed]\nmas = 1.0\n[ppo]\ngamma = {values = [0.9]}", "unknown parameter 'mas': did you mean 'mass'"),
        ("[fixed]\nmass = {low = -1, high = 1.2}", "mass=-1: give a number from"),
        ("[fixed]\nmass = {low = 1.0, high = 90.0}", "mass=90: give a number from"),
        ("[weights]\na = {low = 0.0, high = 1.0}", "leave the weights of objectives out"),
        ("engine = {values = ['rotor', 'nope']}", "unknown engine 'nope'"),
        ("opponents = {values = ['none', 'x.toml']}", "cannot read the file of opponents x.toml"),
        ("init = {values = ['none', 'x']}", "there is no folder 'x'"),
        ("skills = {values = ['none', 'x']}", "unknown set of skills 'x'"),
        ("[task_config]\nepisode_s = {values = [1.0, -1.0]}", "episode_s must be from 0"),
        ("randomize = 'x.toml'\n[ppo]\ngamma = {values = [0.9]}", "cannot read the randomization file x.toml"),
        ("task = 'drone-hover'\n[ppo]\ngamma = {values = [0.9]}", "leave it out"),
        ("[train_overrides]\nreward = {values = [{ang_vel = -0.1}, {ang_vel = 0.0}]}", "a table of its own, such as [train"),
        ("[ppo\n", "is not TOML"),
    ],
)  # fmt: skip
def test_what_a_space_can_get_wrong_is_a_sentence_before_anything_starts(
    text: str, said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sweep.toml").write_text(text)
    assert main(["sweep", "drone-hover", "--space", "sweep.toml", "--out", "s"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not Path("s").exists()


def test_values_that_only_the_learner_sees_are_checked_without_worlds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long list of seeds is checked at once."""
    checked: list[RunSettings] = []
    monkeypatch.setattr(space_module, "check_inputs", checked.append)
    text = "seed = {values = [1, 2, 3, 4]}\n[ppo]\ngamma = {low = 0.9, high = 0.99}\n[fixed]\nmass = {low = 0.9, high = 1.1}"
    space_of(tmp_path, text).check(tiny(), tmp_path)
    assert [settings.fixed["mass"] for settings in checked] == [0.9, 1.1]


@given(st.integers(-5, 5), st.integers(1, 9), st.floats(1e-6, 1e-3), st.floats(1.5, 1e4), st.integers(0, 2**31))
def test_draws_are_inside_and_of_their_kind(low: int, more: int, small: float, times: float, seed: int) -> None:
    generator = random.Random(seed)
    whole = SweptInterval(low, low + more).draw(generator)
    assert isinstance(whole, int) and low <= whole <= low + more
    logged = SweptInterval(small, small * times, True).draw(generator)
    assert small <= logged <= small * times
    assert SweptChoice(((1, 2), "a")).draw(generator) in ((1, 2), "a")


def test_logarithmic_draws_are_even_over_decades() -> None:
    generator = random.Random(0)
    drawn = np.log10([SweptInterval(1e-4, 1e-2, True).draw(generator) for _ in range(4000)])
    assert np.mean(drawn < -3.0) == pytest.approx(0.5, abs=0.03)


def test_a_grid_has_every_combination_and_points_are_repeatable(tmp_path: Path) -> None:
    space = space_of(tmp_path, "seed = {values = [1, 2, 3]}\n[ppo]\ngamma = {values = [0.9, 0.99]}\n")
    points = SweepPlan(tiny(), space, sampler="grid").points()
    assert len({(p["seed"], p["ppo.gamma"]) for p in points}) == len(points) == 6
    wide = space_of(tmp_path, "[ppo]\n" + RATES)
    with pytest.raises(RookeryError, match="is an interval"):
        wide.grid()
    few, many = (SweepPlan(tiny(), wide, samples=n, seed=4).points() for n in (3, 5))
    assert many[:3] == few
    assert SweepPlan(tiny(), wide, samples=3, seed=5).points() != few


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_envs = {values = [8, 16]}", "num_envs is none"),
        ("[ppo]\nhidden = {values = [[4], [8]]}", "ppo.hidden is none"),
        ("[ppo]\nepochs = {low = 1, high = 4}", "ppo.epochs is none"),
        ("[ppo]\nshare = {values = [true, false]}", "ppo.share is none"),
        ("[task_config.reward]\nang_vel = {low = -1.0, high = 0.0}", "task_config.reward.ang_vel is none"),
    ],
)
def test_a_population_changes_numbers_alone(text: str, said: str, tmp_path: Path) -> None:
    space = space_of(tmp_path, text)
    with pytest.raises(RookeryError, match=re.escape(said)):
        SweepPlan(tiny(), space, scheduler="pbt")
    SweepPlan(tiny(), space_of(tmp_path, "[ppo]\n" + RATES), scheduler="pbt")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs TASK and --space FILE"),
        (["drone-hover"], "needs TASK and --space FILE"),
        (["drone-hoover", "--space", "sweep.toml"], "did you mean 'drone-hover'"),
        (["drone-hover", "--space", "none.toml"], "cannot read the space none.toml"),
        (["drone-hover", "--space", "sweep.toml", "--samples", "0"], "--samples must be at least 1"),
        (["drone-hover", "--space", "sweep.toml", "--scheduler", "asa"], "did you mean 'asha'"),
        (["drone-hover", "--space", "sweep.toml", "--sampler", "optunna"], "did you mean 'optuna'"),
        (["drone-hover", "--space", "sweep.toml", "--steps", "0"], "--steps needs a whole number"),
        (["drone-hover", "--space", "sweep.toml", "--concurrent", "0"], "--concurrent must be at least 1"),
        (["drone-hover", "--space", "sweep.toml", "--scheduler", "pbt", "--samples", "1"], "give --samples 4"),
        (["drone-hover", "--space", "sweep.toml", "--concurrent", "5000"], "5000 trials of 1 processors need 5000, and this"),
        (["drone-hover", "--space", "sweep.toml", "--ray", "127.0.0.1:9"], "no Ray cluster answers at 127.0.0.1:9"),
        (["drone-hover", "--space", "sweep.toml", "--tracker", "mlflo"], "unknown tracker 'mlflo': did you mean 'mlflow'"),
        (["--resume", "."], "is no folder of a sweep"),
        (["--resume", ".", "--tracker", "mlflow"], "leave out --tracker"),
        (["--resume", ".", "--seed", "3"], "leave out --seed"),
    ],
)  # fmt: skip
def test_what_the_command_can_get_wrong_is_a_sentence(
    words: list[str], said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sweep.toml").write_text(TINY + RATES)
    assert main(["sweep", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_the_trackers_of_all_trials_are_chosen_as_of_a_training(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sweep.toml").write_text(TINY + RATES)
    Path("board.py").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "state"))
    monkeypatch.setattr(SettingsSweep, "check", lambda sweep: None)
    plan = _begun(Args(task="drone-hover", space=Path("sweep.toml"), tracker=("mlflow", "board.py:Board"))).plan
    assert plan.base.runner.trackers == ("mlflow", f"{in_tmp / 'board.py'}:Board")


@pytest.mark.parametrize("out", ["afile", "afile/s", "/proc/s", "n" * 300])
def test_a_folder_that_cannot_be_made_is_refused_before_ray_starts(
    out: str, in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("afile").touch()
    started: list[Any] = []
    monkeypatch.setattr(tuner, "Cluster", lambda *order: started.append(order))
    assert main(_words(in_tmp, "--out", out)) == 2
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(RookeryError, match="cannot be written"):  # as of a sweep that goes on
        tuner.run_sweep(SettingsSweep(SweepPlan(tiny(), space_of(in_tmp, TINY + RATES)), Path(out)))
    assert not started


# The objective


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_the_objective_is_the_mean_over_the_episodes_of_the_latest_tenth(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    rows = []
    each = []  # (steps, value) of every single episode
    for i in range(count):
        row = {"steps": float(10 * (i + 1))}
        ended = generator.random(generator.integers(0, 5))
        if len(ended):
            row |= {"episodes": float(len(ended)), "metric/success": float(ended.mean())}
            each += [(row["steps"], float(e)) for e in ended]
        rows.append(row)
    steps = 10 * count
    window = [e for at, e in each if at > 0.9 * steps] or [e for at, e in each if at == max(a for a, _ in each)]
    found = objective(rows, "success", steps)
    assert found == (pytest.approx(np.mean(window)) if each else None)
    assert objective(rows[:-1], "success", steps - 10) == objective(rows, "success", steps - 10)


def test_progress_cut_short_by_a_kill_is_read(tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text("steps,return\n10,1.5\n20,\n30,2.5\n40,3.")
    assert read_progress(tmp_path) == [{"steps": 10.0, "return": 1.5}, {"steps": 20.0}, {"steps": 30.0, "return": 2.5}]
    assert read_progress(tmp_path / "none") == []
    assert objective(read_progress(tmp_path), "auto", 30) == 2.5


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("nan,1.0", []),
        ("inf,1.0", []),
        ("20,inf", [{"steps": 20.0}]),
        ("20,-1e300", [{"steps": 20.0}]),
        ("20," + "1" * 200_000, []),
        ("20,word", []),
    ],
)
def test_damaged_progress_is_left_out(line: str, left: list[dict[str, float]], tmp_path: Path) -> None:
    (tmp_path / "progress.csv").write_text(f"steps,return\n10,1.5\n{line}\n30,2.5\n")
    whole = [{"steps": 10.0, "return": 1.5}], [{"steps": 30.0, "return": 2.5}]
    assert read_progress(tmp_path) == [*whole[0], *left, *whole[1]]
    (tmp_path / "progress.csv").write_text(f"{'n' * 200_000}\n{line}\n")
    assert read_progress(tmp_path) == []


# Checkpoints that change hands


def test_a_run_goes_on_from_another_ones_checkpoint_with_settings_of_its_own(tmp_path: Path) -> None:
    donor = tiny()
    start(donor, tmp_path / "donor").run(lambda row: None)
    other = dataclasses.replace(donor.algorithm_config, learning_rate=7e-3)
    own = dataclasses.replace(donor, algorithm_config=other)
    start(own, tmp_path / "own").run(lambda row: None)
    path = checkpoint.complete(tmp_path / "donor")[0]
    given_folder = tmp_path / "given"
    shutil.copytree(path, given_folder / "checkpoints" / path.name)
    (given_folder / "progress.csv").write_bytes((tmp_path / "donor" / "progress.csv").read_bytes())
    adopt(given_folder, tmp_path / "own", own)
    (taken,) = checkpoint.complete(tmp_path / "own")
    assert taken.name == path.name
    for part, tensors in checkpoint.read_tensors(path, checkpoint.read_state(path)).items():
        found = checkpoint.read_tensors(taken, checkpoint.read_state(taken))[part]
        for name, x in tensors.items():
            if name.endswith("/learning_rate"):
                torch.testing.assert_close(found[name], x * 7e-3 / donor.algorithm_config.learning_rate)
            else:
                assert torch.equal(x, found[name]), name
    training = resume(tmp_path / "own")
    assert training.settings.algorithm_config.learning_rate == 7e-3
    assert training.run(lambda row: None)["steps"] == donor.runner.total_steps
    assert [row["steps"] for row in read_progress(tmp_path / "own")] == [16.0 * i for i in range(1, 7)]


# Tables


def sweep_of(folder: Path, **plan: Any) -> SettingsSweep:
    """A sweep of two settings with four trials, of which one failed and one has no episode yet."""
    space = SweepSpace({"ppo.gamma": SweptChoice((0.9, 0.99)), "ppo.learning_rate": SweptInterval(1e-4, 1e-2, True)})
    sweep = SettingsSweep(SweepPlan(tiny(), space, 4, **plan), folder / "sweep")
    sweep.save()
    for i, (value, status) in enumerate(((0.3, "done"), (0.7, "stopped"), (0.9, "failed"), (None, "running"))):
        trial = sweep.trial(i)
        trial.note({"ppo.gamma": 0.9, "ppo.learning_rate": 10.0 ** (-4 + i / 2)}, status, "it diverged" * (i == 2))
        trial.run.mkdir(parents=True)
        rows = "steps,seconds,episodes,metric/success\n16,1.5,,\n"
        (trial.run / "progress.csv").write_text(rows + ("" if value is None else f"32,3,4,{value}\n"))
    return sweep


def test_the_table_has_the_best_first_and_what_failed(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path)
    rows = rows_of(sweep)
    assert [(r["trial"], r["objective"], r["status"]) for r in rows] == [
        (2, 0.9, "failed"), (1, 0.7, "stopped"), (0, 0.3, "done"), (3, None, "running")
    ]  # fmt: skip
    best = best_of(rows)
    assert best is not None and best["trial"] == 1
    write_table(sweep, rows)
    write_table(sweep, rows)
    assert (sweep.folder / "best").resolve() == sweep.trial(1).run.resolve()
    with open(sweep.folder / "table.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["trial"] for row in table] == ["2", "1", "0", "3"]
    assert table[0]["reason"] == "it diverged"
    assert (table[1]["objective"], table[1]["metric"], table[1]["steps"]) == ("0.7", "metric/success", "32")
    least = sweep_of(tmp_path / "least", minimize=True)
    assert best_of(rows_of(least))["trial"] == 0  # type: ignore[index]


def test_trials_with_the_same_objective_are_ranked_by_their_return(tmp_path: Path) -> None:
    space = SweepSpace({"ppo.gamma": SweptChoice((0.9, 0.99))})
    for minimize in (False, True):
        sweep = SettingsSweep(SweepPlan(tiny(), space, 4, minimize=minimize), tmp_path / f"s{minimize}")
        sweep.save()
        for i, gained in enumerate((-9.0, -3.0, None, -5.0)):
            sweep.trial(i).note({"ppo.gamma": 0.9}, "done")
            sweep.trial(i).run.mkdir(parents=True)
            shown = "" if gained is None else gained
            (sweep.trial(i).run / "progress.csv").write_text(f"steps,episodes,return,metric/success\n32,4,{shown},0\n")
        rows = rows_of(sweep)
        assert [row["trial"] for row in rows] == [1, 3, 0, 2]
        assert best_of(rows)["trial"] == 1  # type: ignore[index]
        said = tied(sweep, rows)
        assert said is not None and "all 4 trials have metric/success 0, which does not tell them apart" in said
        assert f"rookery sweep --resume {sweep.folder} --metric return" in said
        by_return = tied(sweep, [row | {"metric": "return"} for row in rows])
        assert by_return is not None and "--metric" not in by_return and "more --steps" in by_return
        assert tied(sweep, rows[:1]) is None
    assert tied(sweep_of(tmp_path), rows_of(sweep_of(tmp_path / "other"))) is None


def test_pictures_have_every_trial(tmp_path: Path) -> None:
    from rookery.experiments.sweep.pictures import draw_curves, draw_settings

    sweep = sweep_of(tmp_path)
    rows = rows_of(sweep)
    curves, settings = ET.fromstring(draw_curves(sweep, rows)), ET.fromstring(draw_settings(sweep, rows))
    name = "{http://www.w3.org/2000/svg}"
    assert len(curves.findall(f"{name}polyline")) == 3
    assert len(settings.findall(f"{name}circle")) == 3 * 2
    # over the logarithm of the rate the trials stand at the left edge, a quarter and a half of the width
    places = sorted(float(c.get("cx", "")) for c in settings.findall(f"{name}circle"))[-3:]
    across = [float(c.get("cx", "")) for c in settings.findall(f"{name}circle")][3:]
    left, middle, right = sorted(across)
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert places


def test_lists_come_back_from_ray_tune() -> None:
    point = {"ppo.hidden": (16, 8), "ppo.gamma": 0.9, "engine": "rotor"}
    assert as_point({name: for_tune(value) for name, value in point.items()}) == point
    assert as_point(json.loads(json.dumps(point))) == point
    assert all(isinstance(for_tune(value), (str, float)) for value in point.values())


def test_trials_that_are_made_together_have_numbers_of_their_own() -> None:
    """Ray Tune copies what it makes trials from, once for each of them."""
    names = tuner._Names([4, 6, 7])
    trials = [type("Made", (), {"trial_id": word})() for word in "abc"]
    assert [copy.deepcopy({"names": names})["names"](trial) for trial in trials] == ["4", "6", "7"]
    assert [names(trial) for trial in trials] == ["4", "6", "7"]


def test_an_opened_sweep_is_the_one_that_was_written(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, scheduler="none", metric="return", seed=3)
    assert open_sweep(sweep.folder).plan == sweep.plan
    assert open_sweep(sweep.folder, 9).plan.samples == 9
    with pytest.raises(RookeryError, match="has 4 trials already: give --samples 4 or more"):
        open_sweep(sweep.folder, 2)
    for damage in ("{", "[]", '{"base": {}}'):
        (sweep.folder / FILE).write_text(damage)
        with pytest.raises(RookeryError, match="is no folder of a sweep"):
            open_sweep(sweep.folder)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("samples", 2.5, "samples needs a whole number, got 2.5"),
        ("samples", True, "samples needs a whole number"),
        ("seed", [], "seed needs a whole number"),
        ("metric", 5, "metric needs text"),
        ("minimize", "no", "minimize needs true or false"),
        ("cwd", None, "cwd needs text"),
        ("base", {}, "base names no task"),
        ("base", 5, "base needs values by name"),
        ("base", {"task": "drone-hover", "algorithm": ["ppo"]}, "unknown algorithm"),
        ("scheduler", "x", "unknown --scheduler 'x'. Known: asha"),
        ("sampler", "x", "unknown --sampler 'x'. Known: grid"),
        ("space", [], "space needs values by name"),
        ("space", {"dimensions": {}, "fixed": {}}, "space.dimensions has no setting"),
        ("space", {"dimensions": {"seed": 5}, "fixed": {}}, "space.dimensions.seed needs values by name"),
        ("space", {"dimensions": {"seed": {"values": [1]}}, "fixed": []}, "space.fixed needs values by name"),
        ("metrics", 5, "unknown value of sweep.json 'metrics': did you mean 'metric'"),
    ],
)
def test_a_damaged_plan_is_a_sentence(name: str, value: Any, said: str, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path)
    values = json.loads((sweep.folder / FILE).read_text())
    (sweep.folder / FILE).write_text(json.dumps(values | {name: value}))
    with pytest.raises(RookeryError, match=re.escape(said)) as error:
        open_sweep(sweep.folder)
    assert "is no folder of a sweep (" in str(error.value)
    assert "unsupported operand" not in str(error.value)


@pytest.mark.parametrize(
    "note",
    [
        {"point": {"ppo.gamma": 0.9}},
        {"point": {"ppo.gamma": 0.9, "ppo.learning_rate": "1e-3"}},
        {"point": {"ppo.gamma": 0.9, "ppo.learning_rate": 5.0}},
        {"point": {"ppo.gamma": 0.5, "ppo.learning_rate": 1e-3}},
        {"point": {"ppo.gamma": [0.9], "ppo.learning_rate": 1e-3}},
        {"point": {"ppo.gamma": 0.9, "ppo.learning_rate": 1e-3, "seed": 1}},
        {"point": []},
        {"status": "dome"},
    ],
)
def test_a_damaged_note_of_a_trial_is_a_sentence(note: dict[str, Any], tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path)
    good = {"point": {"ppo.gamma": 0.9, "ppo.learning_rate": 1e-3}, "status": "done", "reason": ""}
    (sweep.folder / "trials" / "000.json").write_text(json.dumps(good))
    open_sweep(sweep.folder)
    (sweep.folder / "trials" / "000.json").write_text(json.dumps(good | note))
    with pytest.raises(RookeryError, match=r"000\.json is damaged.*put back its copy, or remove it"):
        open_sweep(sweep.folder)


def test_what_trackers_said_is_no_reason_to_stop(tmp_path: Path) -> None:
    trial = sweep_of(tmp_path).trial(0)
    trial.say("upstairs")
    assert trial.sentences() == ["upstairs"]
    trial.said.write_bytes(b"up\xff\nthere\n")
    assert trial.sentences() == ["up\ufffd", "there"]
    trial.said.unlink()
    trial.said.mkdir()
    trial.say("upstairs")
    assert trial.sentences() == []


@pytest.mark.parametrize(
    ("place", "value"),
    [("base", {"task": "evil.py:Task"}), ("space", {"runner": {"trackers": ["evil.py:Task"]}})],
)
def test_programs_that_a_stored_sweep_names_are_not_run_unasked(
    place: str, value: dict[str, Any], in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(in_tmp / "state"))
    sweep = sweep_of(in_tmp)
    values = json.loads((sweep.folder / FILE).read_text())
    values[place] |= value if place == "base" else {"fixed": value}
    (sweep.folder / FILE).write_text(json.dumps(values))
    Path("evil.py").write_text("open('ran', 'w')")
    with pytest.raises(RookeryError, match="a program that would run with your rights"):
        open_sweep(sweep.folder, metric="metric/error_m")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("sucess", "did you mean 'success'"),
        ("error_m", "metric/error_m"),
        ("metric/crsh", "metric/crash"),
        ("lenght", "'length'"),
    ],
)
def test_a_metric_that_no_trial_can_have_is_refused_before_anything_is_trained(
    metric: str, said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(in_tmp, "--metric", metric)) == 2
    error = capsys.readouterr().err
    assert said in error and ", or another column of progress.csv." in error
    assert not (in_tmp / "s").exists()
    sweep = sweep_of(in_tmp, scheduler="none", metric="return", seed=3)
    with pytest.raises(RookeryError, match="metric"):
        open_sweep(sweep.folder, metric=metric)
    assert open_sweep(sweep.folder, metric="metric/error_m", minimize=True).plan.minimize
    assert open_sweep(sweep.folder, metric="drone/value_loss").plan.metric == "drone/value_loss"


# Whole sweeps


def _words(folder: Path, *words: str, text: str = TINY + RATES) -> list[str]:
    (folder / "sweep.toml").write_text(text + SHORT)
    own = ["sweep", "drone-hover", "--space", str(folder / "sweep.toml"), "--out", str(folder / "s")]
    return [*own, "--steps", str(STEPS), "--concurrent", "1", *words]


def _table(folder: Path) -> list[dict[str, str]]:
    with open(folder / "s" / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_sweep_ranks_its_trials_and_goes_on(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TINY.replace("hidden = [4]", "hidden = {values = [[4], [3, 5]]}") + RATES
    words = ("--samples", "2", "--scheduler", "none", "--json", "--metric", "return")
    assert main(_words(in_tmp, *words, text=text)) == 0
    out, said = capsys.readouterr()
    rows = json.loads(out)
    assert [row["status"] for row in rows] == ["done", "done"]
    assert rows[0]["objective"] >= rows[1]["objective"]
    for row in rows:
        stored = tomllib.loads(Path(row["run"], "settings.toml").read_text())
        assert stored["ppo"]["learning_rate"] == row["point"]["ppo.learning_rate"]
        assert stored["ppo"]["hidden"] == row["point"]["ppo.hidden"]
        assert row["objective"] == objective(read_progress(Path(row["run"])), "return", STEPS)
        assert row["steps"] == STEPS
    assert "Traceback" not in said
    assert (in_tmp / "s" / "best" / "policy.safetensors").is_file()
    again = start(
        RunSettings.from_values(tomllib.loads(Path(rows[0]["run"], "settings.toml").read_text())), in_tmp / "r"
    )
    again.run(lambda row: None)
    mine, theirs = (read_progress(run)[-1] for run in (in_tmp / "r", Path(rows[0]["run"])))
    assert mine["drone/value_loss"] == theirs["drone/value_loss"]
    assert main(_words(in_tmp)) == 2
    assert f"go on with the sweep in it by `rookery sweep --resume {in_tmp / 's'}`" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_a_sweep_that_was_ended_goes_on_where_it_was(number: signal.Signals, code: int, tmp_path: Path) -> None:
    words = _words(tmp_path, "--samples", "3", "--scheduler", "none")
    words[words.index("--steps") + 1] = str(64 * 3000)
    command = [sys.executable, "-m", "rookery", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    first = tmp_path / "s" / "trials" / "000"
    end = time.monotonic() + 150
    while len(checkpoint.complete(first)) < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate()[1]
    assert process.returncode == code and "Traceback" not in said and "received at" not in said
    if number == signal.SIGTERM:
        assert f"interrupted; go on with: rookery sweep --resume {tmp_path / 's'}" in said
    points = json.loads((tmp_path / "s" / "trials" / "000.json").read_text())["point"]
    before = read_progress(first)[-1]["steps"]
    assert main(["sweep", "--resume", str(tmp_path / "s"), "--concurrent", "1"]) == 0
    table = _table(tmp_path)
    assert [(row["status"], row["steps"]) for row in table] == [("done", str(64 * 3000))] * 3
    assert before < 64 * 3000
    made = [row["steps"] for row in read_progress(first)]
    assert made == [64.0 * i for i in range(1, 3001)]
    assert json.loads((tmp_path / "s" / "trials" / "000.json").read_text())["point"] == points


@pytest.mark.slow
def test_a_population_takes_over_what_is_better(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "EXCHANGES", 3)
    rates = 'schedule = "fixed"\nlearning_rate = {low = 1e-5, high = 3e-2, log = true}\n'
    how = ("--scheduler", "pbt", "--metric", "drone/learning_rate", "--minimize")
    words = _words(in_tmp, "--samples", "3", *how, text=TINY + rates)
    words[words.index("--steps") + 1] = str(64 * 60)
    assert main(words) == 0
    plan = open_sweep(in_tmp / "s").plan
    first = [p["ppo.learning_rate"] for p in plan.points()]
    now = [json.loads((in_tmp / "s" / "trials" / f"{i:03d}.json").read_text())["point"] for i in range(3)]
    changed = [i for i in range(3) if now[i]["ppo.learning_rate"] != first[i]]
    assert 0 < len(changed) < 3
    assert max(p["ppo.learning_rate"] for p in now) < max(
        first
    )  # the smallest rate is the best here, and is taken over
    for i in range(3):
        last = read_progress(in_tmp / "s" / "trials" / f"{i:03d}")[-1]
        assert last["drone/learning_rate"] == pytest.approx(now[i]["ppo.learning_rate"], rel=1e-3)
    for i in range(3):
        stored = tomllib.loads((in_tmp / "s" / "trials" / f"{i:03d}" / "settings.toml").read_text())
        assert stored["ppo"]["learning_rate"] == now[i]["ppo.learning_rate"]
        assert 1e-5 <= now[i]["ppo.learning_rate"] <= 3e-2
    assert {row["steps"] for row in _table(in_tmp)} == {str(64 * 60)}


@pytest.mark.slow
def test_optuna_goes_on_with_what_it_knows(in_tmp: Path) -> None:
    pytest.importorskip("optuna", reason="the extra `optuna` is not installed")
    assert main(_words(in_tmp, "--samples", "2", "--sampler", "optuna")) == 0
    assert main(["sweep", "--resume", "s", "--samples", "4", "--concurrent", "1"]) == 0
    table = _table(in_tmp)
    assert sorted(row["trial"] for row in table) == ["0", "1", "2", "3"]
    assert len({row["ppo.learning_rate"] for row in table}) == 4


@pytest.mark.slow
def test_a_trial_that_fails_is_shown_and_the_others_go_on(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TINY.replace("minibatches = 1", "minibatches = {values = [1, 63]}")  # 64 samples are less than 63 x 2
    text = text.replace("rollout_steps = 8", "rollout_steps = 8\nlearning_rate = {values = [1e-3, 1e30]}")
    assert main(_words(in_tmp, "--sampler", "grid", text=text)) == 0
    table = _table(in_tmp)
    assert len(table) == 4
    bad = [row for row in table if row["status"] in BAD]
    assert 0 < len(bad) < len(table)
    assert all(row["reason"] for row in bad)
    assert f"trial {bad[0]['trial']} {bad[0]['status']}: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_trial_that_failed_goes_on_and_one_that_diverged_does_not(
    in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk or a wrong metric need not be there the next time; the same settings diverge again."""
    text = TINY.replace("rollout_steps = 8", "rollout_steps = 8\nlearning_rate = {values = [1e-3, 1e30]}")
    words = ("--sampler", "grid", "--scheduler", "none", "--metric", "drone/value_los")
    assert main(_words(in_tmp, *words, text=text)) == 2
    assert "go on with the sweep by --resume, and --metric as one of" in capsys.readouterr().err
    again = ["sweep", "--resume", "s", "--concurrent", "1"]
    assert main([*again, "--metric", "drone/value_loss", "--minimize"]) == 0
    assert [row["status"] for row in _table(in_tmp)] == ["done", "diverged"]
    diverged = (in_tmp / "s" / "trials" / "001" / "progress.csv").read_text()
    assert main(again) == 0
    assert (in_tmp / "s" / "trials" / "001" / "progress.csv").read_text() == diverged


@pytest.mark.slow
def test_trackers_of_trials_are_heard(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each trial has a run in a database that none of them has made before, and what trackers say is shown."""
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    (in_tmp / "loud.py").write_text(LOUD)
    text = TINY + RATES + '[runner]\ntrackers = ["mlflow", "loud.py:Loud"]\n'
    words = _words(in_tmp, "--samples", "2", "--scheduler", "none", text=text)
    words[words.index("--concurrent") + 1] = "2"
    assert main(words) == 0
    said = capsys.readouterr().err
    for number in range(2):
        assert re.search(rf"trial {number}: .*loud\.py:Loud: upstairs", said)
        assert "mlflow" in json.loads((in_tmp / "s" / "trials" / f"{number:03d}" / "trackers.json").read_text())
    assert "failed" not in said


LOUD = """
from rookery.policies.tracking.tracker import Opened, RunTracker

class Loud(RunTracker):
    def open(self, run, state):
        return Opened({"id": "1"}, "upstairs")
    def log(self, row, steps):
        pass
    def evaluated(self, figures, steps):
        pass
    def video(self, file, name, steps):
        pass
    def close(self, ended):
        pass
"""


def test_ray_tune_draws_from_whole_intervals_and_a_population_stays_in_them() -> None:
    space = SweepSpace({"seed": SweptInterval(1, 3), "ppo.gamma": SweptInterval(0.9, 0.99)})
    domain = tuner._domains(space)["seed"]
    assert {domain.sample() for _ in range(300)} == {1, 2, 3}
    assert tuner._within({"seed": 5, "ppo.gamma": 1.1}, space) == {"seed": 3, "ppo.gamma": 0.99}
    assert tuner._within({"seed": 0, "ppo.gamma": 0.7}, space) == {"seed": 1, "ppo.gamma": 0.9}


def test_asha_compares_after_a_ninth_and_a_third_of_the_steps(tmp_path: Path) -> None:
    steps = tiny().runner.total_steps
    scheduler = tuner._scheduler(SweepPlan(tiny(), space_of(tmp_path, "[ppo]\n" + RATES)))
    (bracket,) = scheduler._brackets
    assert sorted(milestone for milestone, _ in bracket._rungs) == [max(1, steps // 9), max(1, steps // 9) * 3]

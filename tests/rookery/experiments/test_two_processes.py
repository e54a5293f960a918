"""Two processes on one folder, and folders that hold parts of two runs: one sentence, and nothing of the other is lost."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from rookery.cli import watch
from rookery.cli.viewing import ViewerOptions
from rookery.cli.watch import watching
from rookery.experiments import runs
from rookery.experiments.recipes import preset, read_recipe
from rookery.experiments.reproduction import Reproduction
from rookery.experiments.runs import LATEST, link_latest, new_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.sweep.plan import SweepPlan
from rookery.experiments.sweep.space import SweepSpace, SweptChoice
from rookery.experiments.sweep.sweep import SettingsSweep
from rookery.experiments.sweep.tuner import run_sweep
from rookery.experiments.training import resume, start
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import lock
from rookery.policies.training.lock import RunLock
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

RECIPE = """
task = "drone-hover"
[[stages]]
name = "trained"
num_envs = 16
runner = {total_steps = 1024}
ppo = {hidden = [8], minibatches = 1, epochs = 1, rollout_steps = 16}
"""
AT_ONCE = 8


def at_once(make: Any) -> list[Path | RookeryError]:
    """What `make` returns or raises in several threads that begin together."""
    ready = Barrier(AT_ONCE)

    def one(_: int) -> Path | RookeryError:
        ready.wait()
        try:
            return make()
        except RookeryError as error:
            return error

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(in_tmp: Path, monkeypatch) -> None:
    """As the jobs of an array do."""

    class Still(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Still:
            return cls(2026, 1, 1)

    monkeypatch.setattr(runs.datetime, "datetime", Still)
    made = at_once(lambda: new_run("drone-hover", None))
    assert all(isinstance(folder, Path) and folder.is_dir() for folder in made)
    assert len(set(made)) == AT_ONCE


@pytest.mark.parametrize("there", [False, True])
def test_one_of_the_processes_that_begin_in_a_folder_gets_it(in_tmp: Path, there: bool) -> None:
    if there:
        Path("out").mkdir()
    made = at_once(lambda: new_run("drone-hover", Path("out")))
    assert made.count(Path("out")) == 1
    assert all("out is not empty: choose another --out." in str(error) for error in made if error != Path("out"))


def test_a_link_that_a_killed_process_left_is_replaced(in_tmp: Path) -> None:
    """In a container all processes have the same number."""
    run = Path("runs/task/now")
    run.mkdir(parents=True)
    (run.parent / f".{LATEST}-{os.getpid()}").symlink_to("gone")
    link_latest(run)
    assert (run.parent / LATEST).resolve() == run.resolve()
    assert sorted(path.name for path in run.parent.iterdir()) == [LATEST, "now"]


def test_a_recipe_is_carried_out_by_one_process_at_a_time(tmp_path: Path) -> None:
    """The other would remove the stage that has no checkpoint yet."""
    (tmp_path / "mine.toml").write_text(RECIPE)
    recipe = read_recipe(tmp_path / "mine.toml")
    out = tmp_path / "out"
    first, second = (Reproduction(recipe, out) for _ in range(2))
    (out / "trained").mkdir(parents=True)
    with RunLock(out), pytest.raises(RookeryError, match="is being trained by another process"):
        second.run()
    assert (out / "trained").is_dir()
    (out / "trained").rmdir()
    assert [path.name for path in out.iterdir()] == [lock.FILE]  # all that a kill leaves now
    assert Reproduction(recipe, out).run()
    file = out / "trained" / "contract.json"
    written = file.stat().st_mtime_ns
    told: list[str] = []
    assert first.run(lambda line, training: told.append(line))  # which knew of no stage that is done
    assert told == [] and file.stat().st_mtime_ns == written


def small_sweep(folder: Path) -> SettingsSweep:
    space = SweepSpace({"ppo.gamma": SweptChoice((0.9, 0.99))})
    return SettingsSweep(SweepPlan(preset("drone-hover"), space, 2, sampler="grid"), folder)


class NoCluster:
    """In place of Ray."""

    def __init__(self, *args: Any) -> None: ...
    def __enter__(self) -> NoCluster:
        return self

    def __exit__(self, *args: object) -> None: ...
    def check_folder(self, folder: Path) -> None: ...
    def check_own_files(self) -> None: ...


def test_a_sweep_is_gone_on_with_by_one_process_at_a_time(tmp_path: Path, monkeypatch) -> None:
    """The other would remove the files of its Ray Tune."""
    monkeypatch.setattr("rookery.experiments.sweep.tuner.Cluster", NoCluster)
    sweep = small_sweep(tmp_path / "sweep")
    sweep.save()
    storage = tmp_path / "sweep" / ".tune-live"
    storage.mkdir()
    with RunLock(sweep.folder), pytest.raises(RookeryError, match="is being trained by another process"):
        run_sweep(sweep, 1)
    assert storage.is_dir()


def test_a_trial_whose_note_is_damaged_is_not_tried_with_other_settings(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("rookery.experiments.sweep.tuner.Cluster", NoCluster)
    sweep = small_sweep(tmp_path / "sweep")
    sweep.save()
    sweep.trial(0).note({"ppo.gamma": 0.9}, "running")
    for damaged in ("", "{", "[]", '{"point": 3, "status": "running", "reason": ""}', '{"point": {}}'):
        sweep.trial(0).note_file.write_text(damaged)
        with pytest.raises(RookeryError, match=r"000\.json is damaged, and the settings of trial 0 are not known"):
            run_sweep(sweep, 1)


def trained(folder: Path, task: str, steps: int = 32) -> Path:
    config = PPOConfig(rollout_steps=8, minibatches=1, epochs=1, hidden=(4,))
    start(RunSettings(task, num_envs=4, runner=RunnerConfig(total_steps=steps), algorithm_config=config), folder).run()
    return folder


def test_a_checkpoint_of_another_task_does_not_take_over_a_run(tmp_path: Path) -> None:
    run = trained(tmp_path / "hover", "drone-hover")
    other = trained(tmp_path / "track", "drone-track", 64)
    kept = (run / "policy.safetensors").read_bytes()
    shutil.copytree(other / "checkpoints", run / "checkpoints", dirs_exist_ok=True)
    with pytest.raises(RookeryError, match=r"a checkpoint of drone-track, and the policy in .*hover is of drone-hover"):
        resume(run, {"total_steps": 128})
    assert (run / "policy.safetensors").read_bytes() == kept
    (run / "contract.json").write_text("{")  # a run whose policy is damaged goes on, and has it anew
    resume(run, {"total_steps": 96}).run()


def test_a_viewer_that_is_stopped_does_not_keep_a_training_from_ending(tmp_path: Path, monkeypatch) -> None:
    process: list[subprocess.Popen[bytes]] = []
    began = subprocess.Popen
    monkeypatch.setattr(watch, "END_S", 0.05)
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: process.append(began(["sleep", "60"])) or process[0])
    with watching(tmp_path, ViewerOptions(viewer=True)):
        process[0].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process[0].pid, os.WSTOPPED | os.WNOWAIT)
    assert process[0].returncode == -signal.SIGKILL

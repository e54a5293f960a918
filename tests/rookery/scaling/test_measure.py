"""Measured steps and iterations of a task, and the command that remembers them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numba
import pytest
import torch

from rookery import making
from rookery.cli.main import main
from rookery.experiments.recipes import preset
from rookery.scaling import measure
from rookery.scaling.cost import Way
from rookery.scaling.measure import at_most, divisible, measure_iteration, measure_task
from rookery.sim.cores import usable_cores
from rookery.sim.envs.sharded_env import ShardedEnv
from rookery.tasks.registry import find


def test_a_limit_ends_with_its_context() -> None:
    numba.get_num_threads()  # the first call begins its threads, and sets torch's where both have one OpenMP
    before = usable_cores(), torch.get_num_threads(), numba.get_num_threads()
    inside = []

    def fail() -> None:
        with at_most(1):
            inside.append((usable_cores(), torch.get_num_threads(), numba.get_num_threads()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [(1, 1, 1)]
    assert (usable_cores(), torch.get_num_threads(), numba.get_num_threads()) == before


def test_tasks_whose_worlds_depend_on_each_other_stay_whole() -> None:
    assert divisible(preset("table-reach"))
    assert not divisible(preset("drone-hover"))
    assert not divisible(preset("MT10"))
    assert not divisible(dataclasses.replace(preset("table-reach"), randomize_curriculum=True))


def test_steps_are_of_the_way_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way is made with its threads and processes, in as many rounds as said; the fastest one counts."""
    seen = []
    times = iter([4.0, 5.0, 6.0, 7.0, 9.0, 1.0, 8.0, 2.0])  # the second round begins with the last way

    def step_time(settings: object, way: Way, num_envs: int, seconds: float) -> float:
        seen.append((way, num_envs))
        return next(times)

    monkeypatch.setattr(measure, "measure_steps", step_time)
    monkeypatch.setattr(measure, "usable_cores", lambda: 2)
    found = measure_task(dataclasses.replace(preset("drone-hover"), num_envs=64), 0.1, rounds=2)
    assert seen[:4] == [(Way(1, 1), 64), (Way(1, 2), 64), (Way(1, 1), 8), (Way(1, 2), 8)]
    assert seen[4:] == seen[3::-1]
    assert [step.step_s for step in found.steps] == [2.0, 5.0, 1.0, 7.0]


def test_a_set_has_a_world_for_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = set()
    monkeypatch.setattr(measure, "measure_steps", lambda settings, way, num_envs, seconds: worlds.add(num_envs) or 1.0)
    measure_task(dataclasses.replace(preset("MT10"), num_envs=40), 0.1)
    assert worlds == {40, 10}


def test_an_environment_has_the_threads_of_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    make = making.make

    def watched(*args: object, **kwargs: object) -> object:
        env = make(*args, **kwargs)  # type: ignore[arg-type]
        threads.append((env.world.threads, numba.get_num_threads()))
        return env

    monkeypatch.setattr(making, "make", watched)
    settings = dataclasses.replace(preset("drone-hover"), num_envs=4)
    assert measure.measure_steps(settings, Way(1, 1), 4, 0.01) > 0.0
    assert threads == [(1, 1)]


def test_an_iteration_collects_and_learns() -> None:
    settings = dataclasses.replace(preset("drone-hover"), num_envs=32)
    timed = measure_iteration(settings, Way(1, 1), warm=False)
    assert timed.collect_s > 0.0 and timed.learn_s > 0.0
    assert 0.0 < timed.learner_share < 1.0


def test_the_command_measures_and_auto_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["bench", "scale", "drone-hover", "--num-envs", "16", "--seconds", "0.04", "--steps-only"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cores"] == usable_cores() and Path(found["file"]).parent == tmp_path / "rookery"
    assert all(step["steps_per_s"] > 0.0 for step in found["steps"]) and found["iterations"] == []
    taken = found["taken"]
    arguments = {"engine": "rotor", "config": {}}
    assert making.auto_way(find("drone-hover"), 16, arguments) == (taken["shards"], taken["threads"])
    assert main(words) == 0
    assert "--shards auto takes 1 process with" in capsys.readouterr().out


@pytest.mark.slow
def test_shards_are_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(measure, "usable_cores", lambda: 2)
    assert main(["bench", "scale", "table-reach", "--num-envs", "64", "--seconds", "0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(s["shards"], s["threads"], s["num_envs"]) for s in found["steps"]} == {
        (s, t, n) for s, t in ((1, 1), (1, 2), (2, 1)) for n in (64, 8)
    }
    assert len(found["iterations"]) >= 2
    with monkeypatch.context() as patched:
        patched.setattr(making, "usable_cores", lambda: 2)
        patched.setattr("rookery.scaling.record.usable_cores", lambda: 2)
        env = making.make("table-reach", 64, shards="auto")
    assert (env.shards if isinstance(env, ShardedEnv) else 1) == found["taken"]["shards"]
    env.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scale", "table-reach", "--shards", "2"], "leave out --shards"),
        (["scales", "table-reach"], "did you mean 'scale'"),
        (["scale", "table-reach", "--seconds", "0"], "--seconds must be above 0"),
        (["scale", "table-reach", "--engine", "rotor"], "rotor"),
        (["scale", "table-reach", "--num-envs", "0"], "num_envs"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert said in capsys.readouterr().err

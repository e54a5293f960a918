"""Measurements in the user's cache folder, and what `shards="auto"` makes of them."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rookery import making
from rookery.scaling import record
from rookery.scaling.cost import StepCost, TimedStep, Way, ways_of
from rookery.scaling.record import MeasuredTask, record_file, remember_task, remembered_task
from rookery.tasks.registry import find

COST = StepCost(1e-4, 2e-6, 8e-6, 1e-4, 1e-7)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 8 processors without any measurement; a choice leaves this process's threads as they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    processors(monkeypatch, 8)
    monkeypatch.setattr(making, "limit_kernel_threads", lambda count: None)
    return tmp_path / "cache" / "rookery" / "scale.json"


def processors(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for module in (record, making):
        monkeypatch.setattr(module, "usable_cores", lambda: count)


def measured(rates: dict[Way, float], worlds: int = 1024, cores: int = 8) -> MeasuredTask:
    return MeasuredTask(cores, tuple(TimedStep(way, worlds, worlds / rate) for way, rate in rates.items()), COST)


def auto(task: str, worlds: int) -> tuple[int, int | None]:
    entry = find(task)
    arguments: dict[str, Any] = {"engine": entry.engines[0], "config": {}}
    return making.auto_way(entry, worlds, arguments)


def test_what_is_kept_comes_back(cache: Path) -> None:
    kept = measured({Way(1, 1): 100.0, Way(8, 1): 700.0})
    assert remembered_task("table-reach", "mujoco") is None
    assert remember_task("table-reach", "mujoco", kept) == cache == record_file()
    assert remembered_task("table-reach", "mujoco") == kept
    assert remembered_task("table-push", "mujoco") is None
    assert remembered_task("table-reach", "rotor") is None
    remember_task("table-push", "mujoco", kept)
    remember_task("table-reach", "mujoco", measured({Way(1, 1): 5.0}))
    assert len(json.loads(cache.read_text())) == 2
    assert remembered_task("table-push", "mujoco") == kept


def test_whatever_a_busy_machine_measures_is_kept_and_chosen_by(cache: Path) -> None:
    """Also where many worlds took less time than few, so that a world costs nothing in the model."""
    rng = random.Random(2)
    ways = [Way(1, 1), Way(1, 8), Way(2, 1), Way(8, 1)]
    times = [[0.03, 0.04] * 4, *([rng.uniform(1e-4, 1e-1) for _ in range(8)] for _ in range(60))]
    for of in times:
        steps = tuple(TimedStep(way, n, s) for (way, n), s in zip(itertools.product(ways, (16, 2)), of, strict=True))
        kept = MeasuredTask(8, steps, StepCost.fitted(steps, 8))
        remember_task("drone-hover", "rotor", kept)
        assert remembered_task("drone-hover", "rotor") == kept
        for worlds in (1, 64, 100_000):
            assert all(kept.rate(way, worlds) > 0.0 for way in ways_of(8, worlds, True))
    worst = TimedStep(ways[0], 2, 0.04), TimedStep(ways[0], 16, 0.03)
    assert StepCost.fitted(worst, 8).world_s == StepCost.fitted(worst, 8).physics_s == 0.0


def test_a_measured_rate_counts_and_the_model_carries_it() -> None:
    task = measured({Way(1, 8): 90_000.0, Way(8, 1): 300_000.0})
    assert task.rate(Way(8, 1), 1024) == pytest.approx(300_000.0)
    factor = 300_000.0 / COST.rate(Way(8, 1), 1024, 8)
    assert task.rate(Way(8, 1), 64) == pytest.approx(factor * COST.rate(Way(8, 1), 64, 8))
    assert task.rate(Way(1, 4), 1024) == pytest.approx(COST.rate(Way(1, 4), 1024, 8))


def test_auto_takes_what_was_measured_here(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = dict.fromkeys(ways_of(8, 1024, True), 100.0)
    remember_task("table-reach", "mujoco", measured(slow | {Way(4, 1): 400.0}))
    assert auto("table-reach", 1024) == (4, None)
    remember_task("table-reach", "mujoco", measured(slow | {Way(1, 2): 400.0, Way(1, 8): 410.0}))
    assert auto("table-reach", 1024) == (1, 2), "6 more threads for 2 % are not worth it"
    remember_task("go2arm-reach", "mujoco", measured(slow | {Way(4, 1): 400.0, Way(1, 4): 200.0}))
    assert auto("go2arm-reach", 1024) == (1, 4), "its worlds stay in one process"
    assert auto("table-reach", 1)[0] == 1
    processors(monkeypatch, 2)
    assert remembered_task("table-reach", "mujoco") is None, "of a machine with 8"


def test_fewer_threads_are_those_of_engine_and_kernels(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels: list[int] = []
    engine: list[int | None] = []

    def make_shard(threads: int | None = None, **arguments: Any) -> SimpleNamespace:
        engine.append(threads)
        return SimpleNamespace(device=torch.device("cpu"))

    monkeypatch.setattr(making, "limit_kernel_threads", kernels.append)
    monkeypatch.setattr(making, "make_shard", make_shard)
    making.make("table-reach", 1024, shards=1)
    slow = dict.fromkeys(ways_of(8, 1024, True), 100.0)
    remember_task("table-reach", "mujoco", measured(slow | {Way(1, 2): 400.0}))
    making.make("table-reach", 1024, shards="auto")
    making.make("table-reach", 1024, shards=1)
    assert (kernels, engine) == ([2], [None, 2, None])


def test_without_a_measurement_the_default_model_says_it_in_a_line(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert auto("table-reach", 4096) == (8, None)
    said = capsys.readouterr().err
    assert said == (
        "rookery: 8 shards on 8 processors, by the default model: `rookery bench scale table-reach` measures.\n"
    )
    assert auto("go2arm-reach", 4096) == auto("drone-hover", 4096) == (1, None)
    assert auto("table-reach", 0) == (1, None)
    processors(monkeypatch, 1)
    assert auto("table-reach", 4096) == (1, None)
    assert capsys.readouterr().err == ""


STEP = '{"KEY": {"steps": [[1, 1, 64, 0.1]], "cost": [0.2, 0, 0, 0, 0]}}'


@pytest.mark.parametrize(
    "damage",
    ["{", "[3]", "3", '{"KEY": 3}', '{"KEY": {"steps": [[1, 1, 64, 0.0]], "cost": [1, 1, 1, 1, 1]}}',
     '{"KEY": {"steps": [[1, 1, 64]], "cost": [1, 1, 1, 1, 1]}}', '{"KEY": {"steps": [], "cost": [1, 1, 1, 1, 1]}}',
     *(STEP.replace("0.1", time) for time in ("NaN", "Infinity", '"nan"', "5e-324", "1e999")),
     *(STEP.replace("0.2", cost) for cost in ("NaN", '"inf"', "-1")),
     '{"KEY": {"steps": [[1, 1, 64, 0.1]], "cost": [1e308, 1e308, 1e308, 1e308, 1e308]}}',
     '{"KEY": {"steps": [[1, 1, 64, 0.1]], "cost": [0, 0, 0, 0, 0]}}', '{"KEY": {"steps": [["a", 1, 64, 1]], "cost": [1]}}'],
)  # fmt: skip
def test_a_damaged_file_is_no_measurement(damage: str, cache: Path) -> None:
    remember_task("table-reach", "mujoco", measured({Way(1, 1): 100.0}))
    (key,) = json.loads(cache.read_text())
    cache.write_text(damage.replace("KEY", key))
    assert remembered_task("table-reach", "mujoco") is None
    remember_task("table-reach", "mujoco", measured({Way(1, 1): 100.0}))
    assert remembered_task("table-reach", "mujoco") is not None

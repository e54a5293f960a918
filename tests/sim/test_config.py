"""Task configs to JSON and back, and values that do not fit."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import numpy as np
import pytest

from rookery.sim.config import from_dict
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Weights
from rookery.sim.values import plain
from rookery.tasks.registry import TASKS


@dataclass(frozen=True)
class Config:
    count: int = 2
    size: float = 0.5
    on: bool = False
    name: str = "plain"
    times: tuple[float, ...] = (0.1, 0.2)
    place: tuple[float, float, float] = (0.0, 0.0, 1.0)
    reward: Weights = Weights(near=1.0, far=-2.0)


def test_round_trip_through_json():
    cfg = Config(3, 1.5, True, "other", (1.0,), (1.0, 2.0, 3.0), Weights(near=0.25, far=0.0))
    assert from_dict(Config, json.loads(json.dumps(plain(cfg)))) == cfg
    assert from_dict(Config, {}) == Config()


@pytest.mark.parametrize("task", [t for t, entry in TASKS.items() if not entry.members])
def test_configs_of_all_tasks_survive_json(task):
    cfg = TASKS[task].load().Config()
    assert from_dict(type(cfg), json.loads(json.dumps(plain(cfg)))) == cfg
    assert hash(cfg.reward) == hash(Weights(**cfg.reward))


def test_weights_may_be_given_in_part():
    cfg = from_dict(Config, {"reward": {"far": -3}})
    assert dict(cfg.reward) == {"near": 1.0, "far": -3.0}
    assert dict(Config().reward) == {"near": 1.0, "far": -2.0}


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("count", 4, 4), ("count", 4.0, 4), ("count", np.int64(4), 4), ("size", 2, 2.0), ("size", np.float32(0.25), 0.25),
        ("on", True, True), ("name", "5", "5"), ("times", [1, 2.5], (1.0, 2.5)), ("times", [], ()),
        ("times", np.array([1.0, 2.0]), (1.0, 2.0)), ("place", [1, 2, 3], (1.0, 2.0, 3.0)),
    ],
)  # fmt: skip
def test_values_of_json_and_numpy(name, given, wanted):
    value = getattr(from_dict(Config, {name: given}), name)
    assert value == wanted
    assert type(value) is type(wanted)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, "unknown config value 'cuont': did you mean 'count'"),
        ({"reward": {"neer": 1.0}}, "unknown reward term 'neer': did you mean 'near'"),
        ({"reward": {"near": "much"}}, "reward.near needs a number, got 'much'"),
        ({"reward": {"near": float("nan")}}, "reward.near needs a finite number, got nan"),
        ({"reward": {"near": True}}, "reward.near needs a number, got True"),
        ({"reward": 3.0}, "reward needs numbers by name, reward.far=1.0, got 3.0"),
        ({"count": 1.5}, "config value count needs a whole number, got 1.5"),
        ({"count": "2"}, "count needs a whole number, got '2'"),
        ({"count": True}, "count needs a whole number, got True"),
        ({"count": float("inf")}, "count needs a whole number, got inf"),
        ({"count": float("nan")}, "count needs a whole number, got nan"),
        ({"size": None}, "size needs a number, got None"),
        ({"size": "1e-3"}, "size needs a number, got '1e-3'"),
        ({"size": float("inf")}, "size needs a finite number, got inf"),
        ({"on": 1}, "on needs true or false, got 1"),
        ({"on": "True"}, "on needs true or false, got 'True'"),
        ({"name": 5}, "name needs text, got 5"),
        ({"times": 3}, r"times needs a list such as \[0.5, 0.5\], got 3"),
        ({"times": "12"}, "times needs a list"),
        ({"times": [1.0, "2"]}, r"times\[1\] needs a number, got .2."),
        ({"times": [1.0, float("nan")]}, r"times\[1\] needs a finite number, got nan"),
        ({"place": "123"}, r"place needs a list of 3 such as \[0.5, 0.5, 0.5\], got '123'"),
        ({"place": [1.0, 2.0]}, "place needs a list of 3"),
        ({"place": {"x": 1.0, "y": 2.0, "z": 3.0}}, "place needs a list of 3"),
    ],
)
def test_refusals(values, message):
    with pytest.raises(RookeryError, match=message):
        from_dict(Config, values)


def test_weights_read_like_a_dict():
    w = Weights(a=1, b=-2.5)
    assert dict(w) == {"a": 1.0, "b": -2.5}
    assert list(w) == ["a", "b"]
    assert len(w) == 2
    assert w == Weights(a=1.0, b=-2.5) != Weights(a=1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        w.values_by_name = {}


@dataclass(frozen=True)
class Timed:
    dt: float = 0.005
    control_dt: float = 0.02
    episode_s: float = 5.0


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("dt", 1e-300, "from 1e-06 to 10 s, got 1e-300"),
        ("dt", 0.0, "from 1e-06 to 10 s, got 0"),
        ("control_dt", 1e300, "from 1e-06 to 1000 s, got 1e\\+300"),
        ("control_dt", -0.02, "from 1e-06 to 1000 s, got -0.02"),
        ("episode_s", 1e300, "from 0 to 1e\\+06 s, got 1e\\+300"),
    ],
)
def test_times_that_no_simulation_can_have_are_one_sentence(name, value, shown):
    with pytest.raises(RookeryError, match=f"^config value {name} must be {shown}"):
        from_dict(Timed, {name: value})


@pytest.mark.parametrize(("name", "value"), [("dt", 1e-6), ("dt", 10.0), ("control_dt", 1e-6), ("episode_s", 1e6)])
def test_the_longest_and_the_shortest_times_are_taken(name, value):
    assert getattr(from_dict(Timed, {name: value}), name) == value

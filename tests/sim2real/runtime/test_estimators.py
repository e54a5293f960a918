"""`rookery fly --estimator`: an estimator of one's own, or none, in place of leg odometry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

from rookery.cli.main import main
from rookery.sim2real.runtime.estimators import DEFAULT, EstimatorChoice, find_estimator
from rookery.sim2real.runtime.flown import Flown, read_flight
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.runtime.reading import Array
from tests.sim2real.runtime.processes import run_refused
from tests.sim2real.runtime.test_unitree_faults import DdsWalk
from tests.sim2real.runtime.walks import Walk

OWN = """
class Constant:
    quantities = {"velocity": "always the same", "slope": "of the ground"}
    def __init__(self, robot, joints):
        assert joints and all(name in robot.joints for name in joints)
    def update(self, values, measured):
        assert len(values["joint angles"]) == 12
        return {"velocity": [0.25, -0.5, 0.125], "slope": 0.5, "unasked": [1.0]}

class Deaf:
    quantities = {"velocity": "?"}
    def __init__(self, robot, joints): ...

class Mute:
    def __init__(self, robot, joints): ...
    def update(self, values, measured): return {}

class Bare:
    quantities = {}
    def update(self, values, measured): return {}

def function(robot, joints): ...
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    """The file of estimators."""
    file = tmp_path / "own_estimators.py"
    file.write_text(OWN)
    return str(file)


def walked(bundle: Path, log: Path, *words: str) -> Flown:
    """The log of a dry run."""
    assert main(["fly", str(bundle), "--dry-run", "--seconds", "0.5", "--log", str(log), *words]) == 0
    flown = read_flight(log)
    assert flown is not None
    return flown


@pytest.mark.slow
def test_an_estimator_of_ones_own_is_in_the_flight_log(
    walk_bundle: Path, own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flown = walked(walk_bundle, tmp_path / "own.mcap", "--estimator", f"{own}:Constant")
    told = [step["estimates"] for step in flown.vehicles[0]]
    assert told and all(e == {"velocity": [0.25, -0.5, 0.125], "slope": [0.5]} for e in told)
    assert flown.estimators == {0: f"{own}:Constant"}
    said = capsys.readouterr()
    (line,) = [s for s in (said.out + said.err).splitlines() if "estimator" in s]
    assert f"{own}:Constant" in line and "velocity always the same; slope of the ground" in line


@pytest.mark.slow
def test_none_estimates_nothing_and_leg_odometry_is_the_rest(walk_bundle: Path, tmp_path: Path) -> None:
    for words, name in ((("--estimator", "none"), "none"), ((), DEFAULT)):
        flown = walked(walk_bundle, tmp_path / "log.mcap", *words)
        assert flown.estimators == {0: name}
        assert any("estimates" in step for step in flown.vehicles[0]) == (name == DEFAULT)


class Truth:
    """The robot's true velocity.

    Args:
        truth: gives it.
    """

    quantities: Mapping[str, str] = {"velocity": "true"}

    def __init__(self, truth: Callable[[], Array]) -> None:
        self._truth = truth

    def update(self, values: Mapping[str, Array], measured: float) -> dict[str, Array]:
        return {"velocity": self._truth()}


@pytest.mark.parametrize("walk", slow_but([Walk], [Walk, DdsWalk]))
def test_both_links_of_walking_robots_take_one(walk: type[Walk], walk_bundle: Path) -> None:
    """Theirs is asked at every measurement, whose truth it tells; its name is shown before motors turn."""
    flight = walk(walk_bundle)
    asked: list[Array] = []

    def truth() -> Array:
        asked.append(np.float32(flight.vehicle.truth()["velocity"]))
        return asked[-1]

    flight.link.estimate_by(EstimatorChoice("truth", lambda robot, joints: Truth(truth)))
    flight.begin()
    flight.run(20)
    reading = flight.link.read()
    assert reading is not None and set(reading.estimates) == {"velocity"}
    assert any((reading.estimates["velocity"] == one).all() for one in asked[-3:])
    assert np.linalg.norm(asked, axis=1).max() > 0.2  # it walked
    (line,) = [text for text in flight.said if "the estimator is truth" in text]
    assert flight.said.index(line) == 0


def test_one_that_fails_tells_nan_and_does_not_end_the_loop(
    walk_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy observes none of it, so that the robot walks on; the traceback is shown once."""
    flight = Walk(walk_bundle)
    results: Any = iter([np.float32((1.0, 2.0, 3.0)), np.float32((1.0, 2.0))])
    flight.link.estimate_by(EstimatorChoice("short", lambda robot, joints: Truth(lambda: next(results))))
    flight.begin()
    flight.run(5)
    assert flight.pilot.phase is Phase.POLICY, flight.said
    told = flight.link.read().estimates["velocity"]
    assert told.shape == (3,) and np.isnan(told).all()
    assert capsys.readouterr().err.count("velocity has 2 values, not 3") == 1


def test_refusals(walk_bundle: Path, hover_bundle: Path, own: str) -> None:
    walk = ["fly", str(walk_bundle), "--dry-run", "--estimator"]
    assert "lacks update(values, measured)" in run_refused([*walk, f"{own}:Deaf"])
    assert "lacks quantities" in run_refused([*walk, f"{own}:Mute"])
    assert "is no estimator" in run_refused([*walk, f"{own}:function"])
    assert "did you mean" in run_refused([*walk, "leg-odometri"]).lower()
    assert "there is no file" in run_refused([*walk, "nowhere.py:Mine"])
    assert "name the class in it" in run_refused([*walk, own])
    assert "class in" in run_refused([*walk, f"{own}:Constnt"])
    drone = ["fly", str(hover_bundle), "--dry-run", "--estimator", "none"]
    assert "has nothing to estimate" in run_refused(drone)
    assert "takes the robot and the names of its joints" in str(_failure(f"{own}:Bare"))


def _failure(name: str) -> Exception:
    """The error of one that cannot be made; its traceback goes to stderr before it."""
    from rookery.robots.quadrupeds.go2 import GO2
    from rookery.sim.errors import RookeryError

    with pytest.raises(RookeryError) as caught:
        find_estimator(name).made(GO2, tuple(GO2.joints))
    return caught.value

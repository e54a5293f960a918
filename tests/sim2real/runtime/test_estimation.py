"""Leg odometry against the simulated robot's true motion, in lock-step, and what is said of it before a flight."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.robots.quadrupeds.go2 import GO2
from rookery.sim.quantities import ROTATION, VELOCITY
from rookery.sim.specs import Term
from rookery.sim.terms import Turned
from rookery.sim2real.links.link import Identity
from rookery.sim2real.runtime.checks import estimated
from rookery.sim2real.runtime.estimation import LegOdometry
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.runtime.reading import FOOT_FORCES
from tests.sim2real.runtime.walks import Walk, vehicle


class Judged:
    """A walk whose readings other estimators see too.

    Attributes:
        velocity, place: [T, 3] errors, m/s and m, the place's first taken off.
    """

    def __init__(self, bundle: Path, command: tuple[float, ...], seconds: float, **changed: Any) -> None:
        flight = Walk(bundle)
        flight.pilot.commands.values = {"velocity": np.float32(command)}
        flight.begin()
        odometry = LegOdometry(GO2, flight.vehicle.joints)
        velocity, place = [], []
        for _ in range(round(seconds / 0.02)):
            reading, truth = flight.vehicle.sense(), flight.vehicle.truth()
            told = odometry.update({**reading.values, **changed}, reading.measured)
            velocity.append(told["velocity"] - truth["velocity"])
            place.append(told["position"] - truth["position"])
            flight.run(1)
        assert flight.pilot.phase is Phase.POLICY, flight.said
        self.velocity = np.array(velocity)[25:]  # it knows nothing at first
        self.place = np.array(place)[25:] - place[25]
        own = flight.link.read()
        assert own is not None
        assert np.linalg.norm(own.estimates["velocity"] - flight.vehicle.truth()["velocity"]) < 0.2


@pytest.mark.parametrize(
    "command", [pytest.param((0.5, 0.0, 0.0), marks=pytest.mark.slow), (-0.3, 0.2, 0.5)], ids=["ahead", "all ways"]
)
def test_velocity_and_place(walk_bundle: Path, command: tuple[float, ...]) -> None:
    """At 50 Hz; legged_gym's tasks train with a uniform noise of 0.1 m/s on the velocity."""
    of = Judged(walk_bundle, command, 6.0)
    assert np.sqrt((of.velocity**2).mean(axis=0)).max() < 0.02
    assert np.abs(of.velocity.mean(axis=0)).max() < 0.01
    assert np.abs(of.place).max() < 0.06
    assert np.abs(of.place[:, 2]).max() < 0.01


@pytest.mark.slow
def test_without_foot_sensors_torques_tell_which_legs_stand(walk_bundle: Path) -> None:
    of = Judged(walk_bundle, (0.5, 0.0, 0.0), 5.0, **{FOOT_FORCES: np.zeros(4, np.float32)})
    assert np.sqrt((of.velocity**2).mean(axis=0)).max() < 0.06
    assert np.abs(of.place[:, 2]).max() < 0.03


def test_units_of_foot_sensors_do_not_matter(walk_bundle: Path) -> None:
    """Those of a Go2 count in their own."""
    go2 = vehicle()
    newton, counts = (LegOdometry(GO2, go2.joints) for _ in range(2))
    go2.arm()
    home = dict(zip(GO2.joints, GO2.home, strict=True))
    for _ in range(150):
        go2.setpoint([home[name] for name in go2.joints], stiffness=40.0, damping=1.0)
        go2.step()
        reading = go2.sense()
        newton.update(reading.values, reading.measured)
        more = {FOOT_FORCES: 5.0 * reading.values[FOOT_FORCES]}
        counts.update({**reading.values, **more}, reading.measured)
    assert newton.standing.tolist() == counts.standing.tolist() == [True] * 4


def test_it_begins_anew_after_a_gap_and_after_what_is_not_finite() -> None:
    go2 = vehicle()
    odometry = LegOdometry(GO2, go2.joints)
    values = go2.sense().values
    bad = {**values, "angular velocity": np.float32((np.nan, 0.0, 0.0)), FOOT_FORCES: np.full(4, 50.0, np.float32)}
    for k in range(10):
        odometry.update(bad, 0.02 * k)
    for k in range(30):
        told = odometry.update(values, 0.3 + 0.02 * k)
    assert np.isfinite(told["velocity"]).all()
    fallen = {**values, "specific force": np.float32((5.0, 0.0, 9.81)), FOOT_FORCES: np.zeros(4, np.float32)}
    weak = {**fallen, "joint torques": np.zeros(12, np.float32)}
    for k in range(20):
        told = odometry.update(weak, 1.0 + 0.02 * k)
    assert told["velocity"][0] == pytest.approx(5.0 * 0.38, abs=0.2)  # nothing stands: the accelerometer alone
    assert np.abs(odometry.update(values, 9.0)["velocity"]).max() < 0.01


def test_what_is_said_before_a_flight() -> None:
    """Of a policy that observes the velocity in body axes, and one that does not."""
    term = Term("base_velocity", Turned(VELOCITY, ROTATION), noise=0.1)
    controller: Any = SimpleNamespace(spec=SimpleNamespace(spec=SimpleNamespace(observation=[term])))
    identity = Identity("joints", "Go2", (), (), 500.0, estimated=LegOdometry.quantities)
    (said,) = estimated(controller, identity)
    assert said == (
        "velocity is estimated, within about 0.02 m/s; the policy was trained with a noise of 0.1 m/s in base_velocity"
    )
    controller.spec.spec.observation = [Term("rotation", ROTATION)]
    assert estimated(controller, identity) == []

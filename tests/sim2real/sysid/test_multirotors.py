"""Identification of multirotors: flights in MuJoCo with a controller of their own, and real propellers on a stand."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.multirotor.identification import identify_multirotor, judge
from rookery.sim2real.sysid.multirotor.parameters import rotor_parameters
from rookery.sim2real.sysid.multirotor.problem import FlightProblem
from rookery.sim2real.sysid.multirotor.reading import flight_log, turned
from rookery.sim2real.sysid.propellers import coefficient, propeller
from rookery.sim2real.sysid.readers.reading import read_table
from rookery.sim2real.sysid.settings import LogSettings
from rookery.sim2real.sysid.table import Table
from tests.sim2real.sysid.flights import DRONE, Airframe, fly

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def flight():
    log = fly(Airframe())
    assert np.abs(log.position).max() < 4.0  # it flies
    return log


@pytest.fixture(scope="module")
def found(flight):
    return identify(FlightProblem(DRONE, flight, rotor_parameters(DRONE)))


def test_the_equations_are_mujocos(flight):
    """With the true parameters, windows of half a second stay as near to a flight in MuJoCo as its sensors' noise lets them."""
    quiet = fly(Airframe(), seconds=6.0, noise=0.0)
    a = Airframe()
    truth = {"thrust": a.thrust, "torque": a.torque, "tau_up": a.tau_up, "tau_down": a.tau_down, "com_x": a.com[0],
             "com_y": a.com[1], "delay": a.delay, **{f"drag:{x}": v for x, v in zip("xyz", a.drag, strict=True)},
             **{f"inertia:{x}": v for x, v in zip("xyz", a.inertia, strict=True)}}  # fmt: skip
    parameters = rotor_parameters(DRONE)
    x = np.array([truth.get(p.name, p.nominal) for p in parameters])
    errors = judge(DRONE, quiet, parameters, x)
    assert errors["identified"]["position"] < 1e-3
    assert errors["identified"]["velocity"] < 1e-2
    assert errors["identified"]["rate"] < 5e-2
    assert errors["nominal"]["rate"] > 10 * errors["identified"]["rate"]


def test_parameters_of_a_flight_are_found(found):
    a = Airframe()
    by_name = {e.parameter.name: e for e in found.parameters}
    for name, truth, tolerance in (
        ("thrust", a.thrust, 0.05), ("tau_up", a.tau_up, 0.05), ("tau_down", a.tau_down, 0.05),
        ("com_x", a.com[0], 0.05),
        ("com_y", a.com[1], 0.05), ("delay", a.delay, 0.2), ("inertia:x", a.inertia[0], 0.05),
        ("inertia:y", a.inertia[1], 0.05),
        ("drag:x", a.drag[0], 0.05), ("drag:y", a.drag[1], 0.05),
    ):  # fmt: skip
        e = by_name[name]
        assert e.value == pytest.approx(truth, rel=tolerance), name
        if name != "delay":  # found 1.3 ms short, by curvature with 0.3 ms
            assert e.interval.low - 0.02 * abs(truth) <= truth <= e.interval.high + 0.02 * abs(truth), name


def test_torque_over_yaw_inertia_is_found(found):
    """Mostly their ratio turns the yaw."""
    by_name = {e.parameter.name: e for e in found.parameters}
    a = Airframe()
    ratio = by_name["torque"].value / by_name["inertia:z"].value
    assert ratio == pytest.approx(a.torque / a.inertia[2], rel=0.05)


def test_what_is_not_fitted_is_judged_as_a_flight_of_its_own(flight):
    first, later = flight.part(0, 800), dataclasses.replace(flight.part(800, 1600), source="later")
    report = identify_multirotor(DRONE, first, fit=("thrust", "delay"), profiled=(), hold_out=0.25, others=[later])
    parameters = rotor_parameters(DRONE, ("thrust", "delay"))
    value = {e.parameter.name: e.value for e in report.identified.parameters}
    x = np.array([value[p.name] for p in parameters])
    flights = {first.source: first.part(0, 600), f"{first.source}, last 25 %, not fitted": first.part(600, 800),
               "later, not fitted": later}  # fmt: skip
    assert report.errors.keys() == flights.keys() and report.seconds == pytest.approx(599 * 0.01)
    for name, part in flights.items():
        assert report.errors[name] == judge(DRONE, part, parameters, x)


def test_rotors_have_no_parameters_each(flight):
    with pytest.raises(RookeryError, match="--each is for joints"):
        identify_multirotor(DRONE, flight, each=("thrust",))


def table_of(log, **changes):
    columns = {"time": log.time} | {f"motors.{i + 1}": log.motors[:, i] for i in range(4)}
    for name, axes in (("position", "xyz"), ("quaternion", "wxyz"), ("velocity", "xyz")):
        columns |= {f"{name}.{a}": getattr(log, name)[:, i] for i, a in enumerate(axes)}
    columns |= {f"angular_velocity.{a}": log.rate[:, i] for i, a in enumerate("xyz")}
    columns |= changes
    return Table("test", {k: v for k, v in columns.items() if v is not None})


def test_a_reset_of_the_estimator_ends_a_stretch(flight):
    """No window goes across it, whatever was reset, with velocities or without; the rest of the flight stays."""
    at = len(flight.time) // 2
    half = 0.5 * 0.6
    turn = np.array([np.cos(half), 0.0, 0.0, np.sin(half)])
    w, x, y, z = flight.quaternion.T
    headed = np.stack(
        [turn[0] * w - turn[3] * z, turn[0] * x - turn[3] * y, turn[0] * y + turn[3] * x, turn[0] * z + turn[3] * w], 1
    )
    moved = flight.position[:, 0] + np.where(np.arange(len(flight.time)) < at, 0.0, 0.4)
    late = np.arange(len(flight.time))[:, None] >= at
    both = np.where(late, headed, flight.quaternion)
    none = dict.fromkeys(("velocity.x", "velocity.y", "velocity.z"))
    whole = flight_log(table_of(flight), LogSettings(), DRONE)
    for changes in (
        {"position.x": moved}, {"position.x": moved} | none, {f"quaternion.{a}": both[:, i] for i, a in enumerate("wxyz")}
    ):  # fmt: skip
        log = flight_log(table_of(flight, **changes), LogSettings(), DRONE)
        assert len(whole.pieces) == 1 and len(log.pieces) == 2
        assert log.time[log.pieces[1] - 1] < flight.time[at] <= log.time[log.pieces[1]]
        assert len(log.time) >= len(whole.time) - 4
        assert any("reset" in note for note in log.notes)


def test_velocities_and_rates_are_derived_where_a_log_has_none(flight):
    read = flight_log(table_of(flight), LogSettings(), DRONE)
    assert read.velocity == pytest.approx(flight.velocity) and read.notes == ()
    bare = table_of(flight, **{f"{n}.{a}": None for n in ("velocity", "angular_velocity") for a in "xyz"})
    derived = flight_log(bare, LogSettings(), DRONE)
    assert len(derived.notes) == 2
    assert np.abs(derived.rate - flight.rate).mean() < 0.3
    inverse = flight.quaternion * [1, -1, -1, -1]
    body = turned(inverse, flight.velocity)
    odometry = table_of(
        flight, **{f"velocity.{a}": None for a in "xyz"}, **{f"body_velocity.{a}": body[:, i] for i, a in enumerate("xyz")}
    )  # fmt: skip
    assert flight_log(odometry, LogSettings(), DRONE).velocity == pytest.approx(flight.velocity, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (lambda f: {f"angular_velocity.{a}": np.degrees(f.rate[:, i]) for i, a in enumerate("xyz")}, "give --degrees"),
        (lambda f: {f"motors.{i + 1}": 1000 + 1000 * f.motors[:, i] for i in range(4)}, "subtract 1000"),
        (lambda f: {"motors.2": f.motors[:, 1] * np.nan}, "motors has values that are no numbers"),
        (lambda f: {"motors.5": f.motors[:, 1], "motors.6": f.motors[:, 1]}, "has 6 motors"),
        (lambda f: {"velocity.x": f.velocity[:, 0] + np.inf}, "velocity has values that are no numbers"),
        (lambda f: {"angular_velocity.z": f.rate[:, 2] * np.nan}, "angular_velocity has values that are no numbers"),
        (lambda f: {f"position.{a}": 1e3 * f.position[:, i] for i, a in enumerate("xyz")}, "give both in m and m/s"),
        (lambda f: {"position.y": 1e30 + f.position[:, 1]}, "give them in m from a place nearby"),
        (lambda f: {f"motors.{i + 1}": 0.0 * f.motors[:, i] for i in range(4)}, "in the air"),
        (lambda f: {f"motors.{i + 1}": 0.0 * f.motors[:, i] + 1.0 for i in range(4)}, "at its limit"),
        (lambda f: {"quaternion.w": None}, "quaternion"),
        (lambda f: {"quaternion.w": 0.3 * f.quaternion[:, 0]}, "lengths"),
        (lambda f: {"position.x": f.position[:, 0] * math.nan}, "no numbers"),
    ],
    ids=[
        "degrees",
        "pulses",
        "nan motors",
        "six motors",
        "inf velocity",
        "nan rates",
        "mm",
        "far away",
        "on the ground",
        "saturated",
        "no attitude",
        "no unit length",
        "nan",
    ],
)
def test_faults_of_flights_are_one_sentence(flight, changes, sentence):
    with pytest.raises(RookeryError, match=sentence):
        flight_log(table_of(flight, **changes(flight)), LogSettings(), DRONE)


# -- propellers -------------------------------------------------------------------------------------------------


def test_a_coefficient_is_that_of_least_squares():
    w = np.linspace(100.0, 900.0, 9)
    found = coefficient(w, 3e-6 * w**2)
    assert found.value == pytest.approx(3e-6) and found.r2 == pytest.approx(1.0)
    noisy = coefficient(w, 3e-6 * w**2 + 0.05 * np.array([1, -1, 1, -1, 1, -1, 1, -1, 1.0]))
    assert noisy.low < 3e-6 < noisy.high and noisy.high - noisy.low > 1e-8


@pytest.mark.parametrize("name", ["a1_7.csv", "b1_7.csv"])
def test_real_propellers_follow_the_square_of_their_speed(name):
    """Over the source's 208 files R^2 is above 0.98."""
    table = read_table(DATA / "propellers" / name)
    found = propeller(table, None)
    assert found.thrust.r2 > 0.98
    assert 3e-7 < found.thrust.value < 5e-6  # of propellers of 5 to 8 inches
    assert found.torque is None and any("torque" in note for note in found.notes)
    assert found.thrust.low < found.thrust.value < found.thrust.high
    t0, t1, t2 = found.curve
    measured = 9.81e-3 * abs(np.nanmax(np.abs(table.columns["Thrust (gf)"])))
    assert t0 + t1 + t2 > 0.7 * measured
    # electrical speed is pole pairs times the motor's
    assert propeller(table, 7).thrust.value == pytest.approx(49.0 * found.thrust.value, rel=1e-9)
    with pytest.raises(RookeryError, match=r"1 to 50 pole pairs"):
        propeller(table, 0)

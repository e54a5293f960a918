"""Limits of a real arm that a contract does not know: speeds near the ends of joints, cycles that were lost, and a motion that
ends on the way home."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.arm_drive import LEAST_SPEED, ArmDrive
from rookery.sim2real.links.franka_servo import FR3, PERIOD_S
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.runtime.reading import Reading
from tests.sim2real.runtime.reaches import Reach, controller

# position_based_velocity_limits of franka_description's FR3: ends in rad, offset in rad/s, deceleration in rad/s^2
ENDS = np.array([[-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196],
                 [2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196]])  # fmt: skip
OFFSET = np.array([0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35])
DECELERATION = np.array([6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0])


@pytest.fixture(scope="module")
def group(reach_bundle: Path) -> ContractGroup:
    return controller(reach_bundle).spec


def excess(drive: ArmDrive) -> float:
    """rad/s, most by which a drive that goes from end to end is faster than a real arm allows."""
    rng = np.random.default_rng(0)
    drive.start(drive.start_angles)
    worst = -np.inf
    for _ in range(12):
        share = rng.choice([0.02, 0.98], 7) + rng.uniform(-0.01, 0.01, 7)
        drive.go(ENDS[0] + share * (ENDS[1] - ENDS[0]))
        for _ in range(2500):
            q, v = drive.tick().copy(), drive.speed
            left = np.where(v > 0.0, ENDS[1] - q, q - ENDS[0])
            allowed = np.sqrt(2.0 * DECELERATION * np.maximum(left, 0.0)) - OFFSET
            worst = max(worst, float((np.abs(v) - np.maximum(allowed, LEAST_SPEED)).max()))
    return worst


@pytest.mark.slow
def test_speeds_shrink_towards_the_ends_of_joints(group: ContractGroup) -> None:
    assert excess(ArmDrive(group, PERIOD_S, FR3)) < 0.0
    assert excess(ArmDrive(group, PERIOD_S, dataclasses.replace(FR3, envelope=None))) > 0.2


def test_it_goes_on_from_what_the_arm_took(group: ContractGroup) -> None:
    """An arm that misses a position goes on with its last acceleration; what it follows then keeps the limit of jerk. It says
    what it took in 32 bits."""
    drive = ArmDrive(group, PERIOD_S, FR3)
    rng = np.random.default_rng(1)
    drive.start(drive.start_angles)
    places = [drive.position.copy()] * 3
    for step in range(1500):
        if step % 300 == 0:
            drive.go(drive.start_angles + rng.uniform(-0.5, 0.5, 7))
        speed = (places[-1] - places[-2]) / PERIOD_S
        acceleration = (places[-1] - 2.0 * places[-2] + places[-3]) / PERIOD_S**2
        drive.resume(*(np.float32(x) for x in (places[-1], speed, acceleration)))
        asked = drive.tick().copy()
        missed = rng.random() < 0.05
        places.append(places[-1] + PERIOD_S * (speed + PERIOD_S * acceleration) if missed else asked)
    jerk = np.abs(np.diff(places, 3, axis=0)) / PERIOD_S**3
    assert (jerk.max(0) <= 5000.0).all()
    assert np.abs(np.diff(places, axis=0)).max() / PERIOD_S > 0.3  # it moves


def test_a_motion_that_ends_on_the_way_home_is_told_at_once(reach_bundle: Path) -> None:
    flight = Reach(reach_bundle, seconds=0.5)
    flight.begin()
    while flight.pilot.phase is not Phase.EXIT:
        flight.run(1)
    flight.run(5)
    assert flight.pilot.phase is Phase.EXIT
    read = flight.link.read

    def stopped() -> Reading | None:
        reading = read()
        return None if reading is None else dataclasses.replace(reading, armed=False, mode="stopped: a reflex")

    flight.link.read = stopped  # type: ignore[method-assign]
    flight.run(2)
    assert flight.pilot.fault is not None and flight.pilot.fault.name == "disarmed"
    assert any("a reflex" in line for line in flight.said)

"""The safety filter against its own table, judged again in float64: each limit, which fault is told, and commands."""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest

from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.safety import JOINT_MARGIN, SPEED_MARGIN, TORQUE_MARGIN, SafetyFilter
from rookery.sim2real.runtime.settings import FAULTS, Limits
from tests.sim2real.runtime.flights import library

LIMITS = Limits(
    tilt_deg=50.0, fence_m=2.0, lowest_m=0.1, highest_m=2.5, spin_deg_s=300.0, collision=0.3, ground_ms=250.0, misses=3,
    command_change=0.1,
)  # fmt: skip


def drawn(group: ContractGroup, rng: np.random.Generator) -> dict[str, Any]:
    """Measurements of which a few are beyond their limits."""
    joints = group.actuation.joints
    speed = group.actuation.references.speed
    size = np.where(rng.random((3, len(joints))) < 0.03, 1.3, 0.9) * rng.choice((-1.0, 1.0), (3, len(joints)))
    middle = np.array([0.5 * (j.lower + j.upper) for j in joints])
    reach = np.array([0.5 * (j.upper - j.lower) + JOINT_MARGIN for j in joints])
    torque = np.array([j.torque for j in joints])
    axis = rng.standard_normal(3)
    body = {
        "position": rng.uniform((-1.3, -1.3, 0.0), (1.3, 1.3, 2.7)),
        "rotation": _turn(axis, rng.uniform(0.0, 1.2)),
        "angular velocity": rng.uniform(-3.5, 3.5, 3),
    }
    own = {
        "joint angles": middle + size[0] * reach,
        "joint torques": size[1] * TORQUE_MARGIN * torque,
        "joint velocities": size[2] * SPEED_MARGIN * np.array(speed),
        "external torques": rng.uniform(-0.32, 0.32, len(joints)) * torque,
    }
    return {name: value.astype(np.float32) for name, value in {**body, **own}.items()}


def _turn(axis: np.ndarray, angle: float) -> np.ndarray:
    out = np.zeros(4)
    mujoco.mju_axisAngle2Quat(out, axis / np.linalg.norm(axis), angle)
    return out


def judged(group: ContractGroup, values: dict[str, Any], target: np.ndarray) -> dict[str, np.ndarray]:
    """By fault, how far beyond its limit each value is; above 0 it holds."""
    joints = group.actuation.joints
    up = np.zeros(3)
    mujoco.mju_rotVecQuat(up, np.array([0.0, 0.0, 1.0]), values["rotation"].astype(float))
    q = values["joint angles"].astype(float)
    torque = np.array([j.torque for j in joints])
    z = float(values["position"][2])
    return {
        "tilt": np.degrees(np.arctan2(np.hypot(up[0], up[1]), up[2])) - LIMITS.tilt_deg,
        "fence": np.linalg.norm(values["position"].astype(float) - target) - LIMITS.fence_m,
        "height": np.maximum(LIMITS.lowest_m - z, z - LIMITS.highest_m),
        "spin": np.degrees(np.linalg.norm(values["angular velocity"].astype(float))) - LIMITS.spin_deg_s,
        "joint": np.maximum([j.lower for j in joints] - q, q - [j.upper for j in joints]) - JOINT_MARGIN,
        "torque": np.abs(values["joint torques"]) - TORQUE_MARGIN * torque,
        "speed": np.abs(values["joint velocities"]) - SPEED_MARGIN * np.array(group.actuation.references.speed),
        "collision": np.abs(values["external torques"]) - LIMITS.collision * torque,
    }


def test_the_worst_limit_that_does_not_hold_is_told_with_its_joint(reach_group: ContractGroup) -> None:
    rng = np.random.default_rng(0)
    filter_, target = SafetyFilter(library(), LIMITS, reach_group), np.array([0.2, -0.1, 1.0])
    told: dict[str, int] = {}
    for k in range(3000):
        values = drawn(reach_group, rng)
        excess = judged(reach_group, values, target)
        if min(np.abs(e).min() for e in excess.values()) < 1e-4:  # float32 may round it to the other side
            continue
        worst = min((name for name, e in excess.items() if np.any(e > 0.0)), key=list(FAULTS).index, default=None)
        found = filter_.check(Reading(k, k, values), k, k, target=target)
        assert (None if found is None else found.name) == worst, k
        if found is not None:
            each = excess[found.name]
            assert found.where == (int(np.argmax(each > 0.0)) if each.ndim else -1)
        told[str(worst)] = told.get(str(worst), 0) + 1
    assert set(told) == {"None", *excess}
    assert min(told.values()) > 10


@pytest.mark.parametrize("length", [0.0, 0.5, 1.2, 1e20])
def test_what_is_no_rotation_is_not_upright(reach_group: ContractGroup, length: float) -> None:
    for off in (False, True):
        limits = dataclasses.replace(LIMITS, tilt_deg=np.inf if off else 180.0)
        reading = Reading(0.0, 0.0, {"rotation": np.float32([length, 0.0, 0.0, 0.0])})
        found = SafetyFilter(library(), limits, reach_group).check(reading, 0.0, 0.0)
        assert (None if found is None else found.name) == (None if off else "tilt")


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize(
    "name",
    ["silent", "stale", "frozen", "clock", "back", "ground", "hung", "deadline", "battery", "disarmed", "operator"],
)
def test_each_condition_begins_at_its_limit(reach_group: ContractGroup, name: str, beyond: bool) -> None:
    """A vehicle that was sound for ten steps is a little within the limit, or beyond."""
    filter_ = SafetyFilter(library(), LIMITS, reach_group)
    step, change = 0.01, 1e-3 if beyond else -1e-3
    middle = np.array([0.5 * (j.lower + j.upper) for j in reach_group.actuation.joints])
    for k in range(10):
        values = {"joint angles": np.float32(middle + 1e-3 * k)}
        assert filter_.check(Reading(k * step, k * step + 5.0, values), k * step, k * step) is None
    at = last = 9 * step
    received, measured, heard, words = at + 1e-3, at + 5.001, at + 1e-3, {}
    moved = {"joint angles": values["joint angles"] + np.float32(1e-3)}
    ground, battery = None, None
    match name:
        case "silent":
            heard, at = last, last + LIMITS.silent_ms / 1e3 + change
            received = measured = at
            measured += 5.0
        case "stale":
            at = received + LIMITS.stale_ms / 1e3 + change
            heard = at
        case "frozen":
            moved, at = values, last + LIMITS.frozen_ms / 1e3 + change
            received = heard = at
            measured = at + 5.0
        case "clock":
            measured += LIMITS.clock_ms / 1e3 + change
        case "back":
            measured = last + 5.0 - change  # 1 ms on, or 1 ms back
        case "ground":
            ground = received - LIMITS.ground_ms / 1e3 - change
        case "hung":
            words["policy"] = received - LIMITS.policy_ms / 1e3 - change
        case "deadline":
            words["misses"] = LIMITS.misses - (not beyond)
        case "battery":
            battery = LIMITS.battery - change
        case "disarmed":
            words["armed"] = not beyond
        case "operator":
            words["stop"] = beyond
    at = max(at, received)
    reading = Reading(received, measured, moved, battery=battery, ground=ground)
    found = filter_.check(reading, at, heard, **words)
    assert (None if found is None else found.name) == ({"back": "clock"}.get(name, name) if beyond else None)


def test_measurements_of_which_one_number_changes_are_not_frozen(reach_group: ContractGroup) -> None:
    for place in range(7):
        filter_ = SafetyFilter(library(), LIMITS, reach_group)
        values = np.float32([0.5 * (j.lower + j.upper) for j in reach_group.actuation.joints])
        for k in range(30):
            values[place] += 1e-3
            assert filter_.check(Reading(0.01 * k, 0.01 * k, {"joint angles": values}), 0.01 * k, 0.01 * k) is None


def test_commands_stay_in_their_range_and_change_by_a_step_at_most(reach_group: ContractGroup) -> None:
    rng = np.random.default_rng(1)
    filter_, action = SafetyFilter(library(), LIMITS, reach_group), reach_group.spec.action
    low, high = np.float32(action.low), np.float32(action.high)
    step = LIMITS.command_change * (high - low)
    last: np.ndarray | None = None
    for k in range(300):
        asked = rng.uniform(low - 0.3 * (high - low), high + 0.3 * (high - low)).astype(np.float32)
        if k % 50 == 49:
            last = None
            filter_.reset()
        expected = asked if last is None else np.clip(asked, last - step, last + step)
        expected = np.clip(expected, low, high)
        if k % 7 == 3:
            spoilt = asked.copy()
            spoilt[rng.integers(len(spoilt))] = rng.choice((np.nan, np.inf, -np.inf))
            fault = filter_.limit(spoilt)
            assert fault is not None and fault.name == "command"
            continue
        assert filter_.limit(asked) is None
        assert asked == pytest.approx(expected, abs=1e-6)
        last = asked

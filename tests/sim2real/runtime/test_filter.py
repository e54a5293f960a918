"""The safety filter against its own table, judged again in float64: each limit, which fault is told, and commands.

Jumps are judged by formulas of their own: matrices of the exponential map, not quaternions.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.safety import JOINT_MARGIN, SPEED_MARGIN, TORQUE_MARGIN, SafetyFilter
from rookery.sim2real.runtime.settings import FAULTS, Limits
from tests.sim2real.runtime.flights import library

LIMITS = Limits(
    tilt_deg=50.0, fence_m=2.0, lowest_m=0.1, highest_m=2.5, spin_deg_s=300.0, collision=0.3, ground_ms=250.0, misses=3,
    command_change=0.1, jump_m=0.3, jump_deg=20.0,
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
        "velocity": rng.uniform(-2.0, 2.0, 3),
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


def scipy_rotation(q: np.ndarray) -> Rotation:
    """Of w, x, y, z."""
    return Rotation.from_quat(np.roll(np.asarray(q, float), -1))


def before(
    values: dict[str, Any], dt: float, off: np.ndarray, turn: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Measurements dt s before: other rates, and a jump by `off` m and by the rotation vector `turn` since."""
    velocity, rate = rng.uniform(-2.0, 2.0, 3), rng.uniform(-3.0, 3.0, 3)
    step = 0.5 * dt * (velocity + values["velocity"])
    turned = Rotation.from_rotvec(0.5 * dt * (rate + values["angular velocity"])) * Rotation.from_rotvec(turn)
    place = scipy_rotation(values["rotation"]) * turned.inv()
    sign = rng.choice((-1.0, 1.0))  # both quaternions of a rotation are the same
    body = {
        "position": values["position"] - step - off, "velocity": velocity, "angular velocity": rate,
        "rotation": sign * np.roll(place.as_quat(), 1),
    }  # fmt: skip
    return values | {name: value.astype(np.float32) for name, value in body.items()}


def jump(values: dict[str, Any], old: dict[str, Any], dt: float) -> tuple[float, float]:
    """m and deg that a state is off from where the mean rates of both lead from the one before."""
    mean = {n: 0.5 * (old[n].astype(float) + values[n]) for n in ("velocity", "angular velocity")}
    off = values["position"].astype(float) - old["position"] - dt * mean["velocity"]
    lead = scipy_rotation(old["rotation"]).as_matrix() @ Rotation.from_rotvec(dt * mean["angular velocity"]).as_matrix()
    rest = Rotation.from_matrix(lead.T @ scipy_rotation(values["rotation"]).as_matrix())
    return float(np.linalg.norm(off)), float(np.degrees(rest.magnitude()))


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


@pytest.mark.slow
def test_the_worst_limit_that_does_not_hold_is_told_with_its_joint(reach_group: ContractGroup) -> None:
    rng = np.random.default_rng(0)
    filter_, target = SafetyFilter(library(), LIMITS, reach_group), np.array([0.2, -0.1, 1.0])
    told: dict[str, int] = {}
    for k in range(3000):
        values, dt = drawn(reach_group, rng), rng.uniform(0.002, 0.18)
        far = rng.random(2) < 0.1
        off, turn = (rng.standard_normal(3) for _ in range(2))
        off *= (0.4 if far[0] else 0.2) / np.linalg.norm(off)
        turn *= np.radians(30.0 if far[1] else 10.0) / np.linalg.norm(turn)
        old = before(values, dt, off, turn, rng)
        excess = judged(reach_group, values, target)
        apart = np.array(jump(values, old, dt)) - (LIMITS.jump_m, LIMITS.jump_deg)
        excess["jump"] = np.array(apart.max())
        if min(np.abs(e).min() for e in excess.values()) < 1e-4:  # float32 may round it to the other side
            continue
        worst = min((name for name, e in excess.items() if np.any(e > 0.0)), key=list(FAULTS).index, default=None)
        filter_.reset()
        filter_.check(Reading(k - dt, k - dt, old), k - dt, k - dt, target=target)
        found = filter_.check(Reading(k, k, values), k, k, target=target)
        assert (None if found is None else found.name) == worst, k
        if found is not None:
            each = excess[found.name]
            assert found.where == (int(np.argmax(each > 0.0)) if each.ndim else -1)
        told[str(worst)] = told.get(str(worst), 0) + 1
    assert set(told) == {"None", *excess}
    assert min(told.values()) > 10


CLEAR = dataclasses.replace(
    LIMITS, tilt_deg=np.inf, fence_m=np.inf, lowest_m=-np.inf, highest_m=np.inf, spin_deg_s=np.inf
)
"""Limits that a body meets by a jump alone."""


class Motion:
    """A body that moves and turns at rates which are constant, given to a filter reading by reading."""

    def __init__(self, group: ContractGroup, rng: np.random.Generator, limits: Limits = CLEAR) -> None:
        self._filter, self.now = SafetyFilter(library(), limits, group), 100.0
        self.velocity, self.rate = rng.uniform(-30.0, 30.0, 3), rng.uniform(-15.0, 15.0, 3)
        self.position, self.rotation = (
            rng.uniform(-9.0, 9.0, 3),
            Rotation.random(random_state=int(rng.integers(1 << 30))),
        )

    def go(self, dt: float, off: np.ndarray | float = 0.0, turn: np.ndarray | float = 0.0) -> None:
        """Move for dt s, and then jump."""
        self.now += dt
        self.position = self.position + dt * self.velocity + off
        self.rotation = self.rotation * Rotation.from_rotvec(dt * self.rate) * Rotation.from_rotvec(np.zeros(3) + turn)

    def told(self, *without: str) -> str | None:
        """The name of the fault that is found in a reading of now."""
        values = {
            "position": self.position, "velocity": self.velocity, "angular velocity": self.rate,
            "rotation": np.roll(self.rotation.as_quat(), 1),
        }  # fmt: skip
        values = {n: np.asarray(v, np.float32) for n, v in values.items() if n not in without}
        found = self._filter.check(Reading(self.now, self.now, values), self.now, self.now)
        return None if found is None else found.name


def direction(rng: np.random.Generator) -> np.ndarray:
    out = rng.standard_normal(3)
    return out / np.linalg.norm(out)


def test_a_motion_at_constant_rates_never_jumps_however_far_apart_its_readings_are(reach_group: ContractGroup) -> None:
    rng = np.random.default_rng(2)
    limits = dataclasses.replace(CLEAR, jump_m=1e-3, jump_deg=0.1)  # what float32 leaves
    for _ in range(50):
        body = Motion(reach_group, rng, limits)
        for _ in range(30):
            body.go(rng.choice((1e-3, 0.01, 0.05, 0.19, 0.5)) * rng.uniform(0.9, 1.0))
            assert body.told() is None


@pytest.mark.parametrize("kind", ["m", "deg"])
def test_a_jump_above_its_limit_counts_once_and_at_its_first_reading(reach_group: ContractGroup, kind: str) -> None:
    rng = np.random.default_rng(3)
    for k in range(300):
        body = Motion(reach_group, rng)
        beyond = bool(k % 2)
        share = rng.uniform(1.02, 8.0) if beyond else rng.uniform(0.0, 0.98)
        size = share * LIMITS.jump_m if kind == "m" else np.radians(min(share * LIMITS.jump_deg, 180.0))
        for _ in range(3):
            assert body.told() is None
            body.go(rng.uniform(1e-3, 0.1))
        body.go(0.0, **{"off" if kind == "m" else "turn": size * direction(rng)})
        assert body.told() == ("jump" if beyond else None)
        body.go(0.01)
        assert body.told() is None


@pytest.mark.parametrize(
    ("kind", "missing"), [("m", "velocity"), ("m", "position"), ("deg", "angular velocity"), ("deg", "rotation")]
)
@pytest.mark.parametrize("how", ["missing", "missing before", "inf", "same reading", "apart", "back"])
def test_a_jump_that_cannot_be_told_does_not_count(
    reach_group: ContractGroup, kind: str, missing: str, how: str
) -> None:
    """A rate or a place is missing, the limit is off, the stamp is that of the reading before, or far from it."""
    rng = np.random.default_rng(4)
    limits = dataclasses.replace(CLEAR, **{f"jump_{kind}": np.inf, "clock_ms": 0}) if how == "inf" else CLEAR
    body = Motion(reach_group, rng, limits)
    assert body.told(*([missing] if how.startswith("missing") else [])) is None
    body.go({"apart": 0.25, "same reading": 0.0, "back": -0.01}.get(how, 0.01), **{
        "off" if kind == "m" else "turn": 2.0 * direction(rng)
    })  # fmt: skip
    assert body.told(*([missing] if how == "missing" else [])) == ("clock" if how == "back" else None)


def test_a_jump_in_a_reading_of_an_old_stamp_counts_at_the_next_stamp(reach_group: ContractGroup) -> None:
    """Links stamp a reading by the older of its parts: a new attitude may come with the stamp of a place that is not new."""
    rng = np.random.default_rng(5)
    body = Motion(reach_group, rng)
    assert body.told() is None
    body.go(0.0, turn=direction(rng))
    assert body.told() is None
    body.go(0.01)
    assert body.told() == "jump"


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

"""The safety filter, called from Python: safety.c, compiled once into the user's cache."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.export.native import FLAGS, compile_c, find_compiler
from rookery.sim2real.runtime.reading import Array, Reading
from rookery.sim2real.runtime.settings import FAULTS, Limits

SOURCE = Path(__file__).with_name("safety.c")
MOST = 64  # SAFETY_JOINTS, SAFETY_COMMANDS
JOINT_MARGIN = 0.15  # rad (m): limits of the contract are those of targets, past which a joint under load swings
TORQUE_MARGIN = 1.2  # estimates of torque are noisy, and shocks at touch-down pass the drive's limit for a moment
SPEED_MARGIN = 1.2  # of an arm's joints, which follow references below their limits
_FLOATS = ctypes.c_float * MOST
_POINTER = ctypes.c_void_p


class _Limits(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_double) for name in (
            "stale_s", "silent_s", "frozen_s", "clock_s", "policy_s", "ground_s", "tilt", "fence", "lowest", "highest", "spin",
            "jump", "jump_angle", "battery",
        )),
        *((name, ctypes.c_int) for name in ("misses", "joints", "commands")),
        *((name, _FLOATS) for name in (
            "joint_low", "joint_high", "torque", "speed", "external", "command_low", "command_high", "command_step",
        )),
    ]  # fmt: skip


class _Sample(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_double) for name in ("now", "heard", "received", "measured", "policy", "ground", "battery")),
        *((name, ctypes.c_int) for name in ("misses", "operator_stop", "disarmed", "count")),
        *((name, _POINTER) for name in (
            "values", "position", "velocity", "target", "rotation", "angular_velocity", "joint_position", "joint_torque",
            "joint_velocity", "external_torque",
        )),
    ]  # fmt: skip


class _Memory(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_double) for name in ("measured", "changed", "offset", "kept", "placed")),
        ("digest", ctypes.c_ulonglong),
        ("place", ctypes.c_ulonglong),
        *((name, ctypes.c_int) for name in ("begun", "moves", "turns", "commanded")),
        *((name, ctypes.c_float * size) for name, size in (
            ("position", 3), ("velocity", 3), ("rotation", 4), ("angular_velocity", 3),
        )),
        ("last", _FLOATS),
    ]  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A condition that holds.

    Args:
        name: one of FAULTS.
        where: index of the value or joint concerned; -1 for none.
    """

    name: str
    where: int = -1

    def __str__(self) -> str:
        return FAULTS[self.name] + (f" (number {self.where})" if self.where >= 0 else "")


def load_filter(build: Path) -> ctypes.CDLL:
    """Compile safety.c into the folder `build` and load it.

    Raises:
        RookeryError: there is no compiler.
    """
    library = build / "safety.so"
    command = [*find_compiler(), *FLAGS, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-lm"]
    compile_c(command, SOURCE, build, "reinstall rookery")
    loaded = ctypes.CDLL(str(library))
    loaded.safety_check.argtypes = [_POINTER, _POINTER, _POINTER, _POINTER]
    loaded.safety_command.argtypes = [_POINTER, _POINTER, _POINTER]
    loaded.safety_reset.argtypes = [_POINTER]
    loaded.safety_hold.argtypes = [_POINTER, _POINTER, _POINTER, _POINTER, ctypes.c_int]
    return loaded


@dataclass(frozen=True)
class FilterRanges:
    """Ranges of a contract's commands and measured joints, as the filter takes them."""

    command_low: tuple[float, ...]
    command_high: tuple[float, ...]
    joint_low: tuple[float, ...]
    joint_high: tuple[float, ...]
    torque: tuple[float, ...]
    speed: tuple[float, ...]
    drive_torque: tuple[float, ...]


def filter_ranges(group: ContractGroup) -> FilterRanges:
    """The ranges of a group: options that are chosen first, then the action's numbers; joints with a margin."""
    action = group.spec.action
    options = tuple(float(len(choice.options) - 1) for choice in action.choices)
    joints = () if group.actuation is None else group.actuation.joints
    references = None if group.actuation is None else group.actuation.references
    speeds = [math.inf] * len(joints) if references is None else [SPEED_MARGIN * x for x in references.speed]
    return FilterRanges(
        (*[0.0] * len(options), *action.low), (*options, *action.high),
        tuple(j.lower - JOINT_MARGIN for j in joints), tuple(j.upper + JOINT_MARGIN for j in joints),
        tuple(TORQUE_MARGIN * j.torque for j in joints), tuple(speeds), tuple(j.torque for j in joints),
    )  # fmt: skip


NAMES = tuple(FAULTS)
QUANTITIES = {
    "position": "position", "velocity": "velocity", "rotation": "rotation", "angular velocity": "angular_velocity",
    "target": "target", "joint angles": "joint_position", "joint torques": "joint_torque", "joint velocities": "joint_velocity",
    "external torques": "external_torque",
}  # fmt: skip
"""Measured quantities that the filter judges, and their fields in `safety_sample`."""


class SafetyFilter:
    """Judges one vehicle's readings and holds its commands within limits.

    Args:
        library: of `load_filter`.
        limits: see Limits.
        group: of the contract, for the ranges of its commands and joints.
    """

    def __init__(self, library: ctypes.CDLL, limits: Limits, group: ContractGroup) -> None:
        action = group.spec.action
        if action.size > MOST:
            raise RookeryError(f"the runtime commands at most {MOST} values, and this policy gives {action.size}.")
        self._library = library
        self._limits = _Limits()
        self._memory = _Memory()
        self._sample = _Sample()
        self._where = ctypes.c_int()
        self._kept: dict[str, Array] = {}
        self._addresses = [ctypes.addressof(x) for x in (self._limits, self._memory, self._sample, self._where)]
        self._fill(limits, group)
        self.reset()

    def _fill(self, limits: Limits, group: ContractGroup) -> None:
        to = self._limits
        for name in ("stale", "silent", "frozen", "clock", "policy", "ground"):
            setattr(to, f"{name}_s", getattr(limits, f"{name}_ms") / 1e3)
        to.tilt = math.radians(limits.tilt_deg)
        to.fence, to.lowest, to.highest = limits.fence_m, limits.lowest_m, limits.highest_m
        to.spin = math.radians(limits.spin_deg_s)
        to.jump, to.jump_angle = limits.jump_m, math.radians(limits.jump_deg)
        to.battery, to.misses = limits.battery, limits.misses
        ranges = filter_ranges(group)
        to.commands, to.joints = len(ranges.command_low), len(ranges.torque)
        for name in ("command_low", "command_high", "joint_low", "joint_high", "torque", "speed"):
            values = getattr(ranges, name)
            getattr(to, name)[: len(values)] = values
        for i, (low, high) in enumerate(zip(ranges.command_low, ranges.command_high, strict=True)):
            to.command_step[i] = limits.command_change * (high - low)
        to.external[: len(ranges.drive_torque)] = [limits.collision * x for x in ranges.drive_torque]

    def reset(self) -> None:
        """Forget the readings and commands before."""
        self._library.safety_reset(self._addresses[1])

    def check(
        self, reading: Reading, now: float, heard: float, *, policy: float = -1.0, misses: int = 0,
        target: Array | None = None, stop: bool = False, armed: bool = True,
    ) -> Fault | None:  # fmt: skip
        """The first fault that holds.

        Args:
            reading: the newest.
            now, heard: s, the runtime's clock, now and when anything last arrived.
            policy: s, when the policy's step last returned; negative while none is due.
            misses: late control steps in a row.
            target: [3] m, world, that the fence stands around.
            stop: the operator asks for a stop.
            armed: False where the vehicle should follow set-points and says that it does not.
        """
        s = self._sample
        s.now, s.heard, s.received, s.measured = now, heard, reading.received, reading.measured
        s.policy = policy
        s.ground = 0.0 if reading.ground is None else now - reading.ground
        s.battery = -1.0 if reading.battery is None else reading.battery
        s.misses, s.operator_stop, s.disarmed = misses, stop, not armed
        flat = (
            np.concatenate([v.ravel() for v in reading.values.values()]) if reading.values else np.zeros(0, np.float32)
        )
        self._kept = {"values": flat}
        s.count, s.values = flat.size, flat.ctypes.data
        for name, field in QUANTITIES.items():
            value: Any = target if field == "target" else reading.values.get(name)
            if value is not None:
                value = self._kept[field] = np.ascontiguousarray(value, np.float32)
            setattr(s, field, None if value is None else value.ctypes.data)
        limits, memory, sample, where = self._addresses
        code = self._library.safety_check(limits, memory, sample, where)
        return None if code == 0 else Fault(NAMES[code - 1], self._where.value)

    def limit(self, command: Array) -> Fault | None:
        """Hold a command [D] within its range and its largest change, in place."""
        limits, memory, _, _ = self._addresses
        code = self._library.safety_command(limits, memory, command.ctypes.data)
        return None if code == 0 else Fault(NAMES[code - 1])

"""An arm between a policy and its joints: from a policy's command to joint positions at a link's own rate, by the C of the
contract's loops.

    drive = ArmDrive(group, control_dt, period=0.001)
    drive.start(angles)                         # at rest there
    drive.command(command, angles, velocities)  # once a control step
    drive.tick()                                # every `period`: [J] rad, within all limits of the references

Positions are kept in double precision: differences of 32-bit angles at 1 kHz would shake at accelerations of 0.2 rad/s^2.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import re
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rookery.policies.stages import c_text
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.quantities import BASE_POSITION, BASE_ROTATION, OPENING, TOOL_GOAL, TOOL_POSITION, TOOL_ROTATION
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.export import chain_c
from rookery.sim2real.export.joints_c import JointsC
from rookery.sim2real.export.native import compile_library
from rookery.sim2real.export.tool_c import ToolC
from rookery.sim2real.links.joints import no_joints
from rookery.sim2real.runtime.reading import Array

KINDS = ("cartesian", "pose", "joint_position")
"""Action kinds that lead to joint positions."""
DERIVED = (TOOL_POSITION, TOOL_ROTATION, TOOL_GOAL, BASE_POSITION, BASE_ROTATION)
"""What the policy's computer knows of an arm beside its measurements."""
STOP = 1.25
"""Braking distance by that of the full acceleration: references brake at 0.8 of it."""
PREFIX = "arm"
_POINTER = ctypes.c_void_p
_TICK = """
const unsigned long arm_sizes[2] = {sizeof(arm_sensed), sizeof(arm_loops)};

/* Steps of the references, integrated in double precision. */
void arm_tick(arm_loops *loops, double position[@J@], double speed[@J@], int steps)
{
    float target[@J@];
    int i;

    while (steps-- > 0) {@SLOW@
        arm_targets(loops, target);
        for (i = 0; i < @J@; i++) {
            speed[i] += @DT@ * (double)loops->acceleration[i];
            position[i] += @DT@ * speed[i];
            loops->reference[i] = (float)position[i];
            loops->speed[i] = (float)speed[i];
        }
    }
}
"""

_SLOW = """
/* Limits of speed where the joints are, on the way that they go: v <= sqrt(2 a (end - q)) - offset. */
@TABLES@

static void arm_slow(const arm_loops *loops)
{
    int i;

    for (i = 0; i < @J@; i++) {
        const float ahead = loops->speed[i] + (loops->wanted[i] - loops->reference[i]);
        const float left = (ahead > 0.0f) ? (slow_upper[i] - loops->reference[i]) : (loops->reference[i] - slow_lower[i]);
        const float most = sqrtf(2.0f * slow_deceleration[i] * ((left > 0.0f) ? left : 0.0f)) - slow_offset[i];

        most_speed[i] = (most < slow_speed[i]) ? most : slow_speed[i];
        most_speed[i] = (most_speed[i] > @LEAST@) ? most_speed[i] : @LEAST@;
    }
}
"""
TAKEN = (5e-7, 1e-4, 0.1)
"""rad, rad/s, rad/s^2, by which references may differ from what an arm says that it took, which comes in 32 bits. One that it
follows at 1 kHz jumps by a jerk of 700 rad/s^3 for all three together."""
LEAST_SPEED = 0.05
"""rad/s, that a joint may have everywhere: it has to leave the end of its range."""


@dataclass(frozen=True)
class SpeedEnvelope:
    """Speeds that shrink towards the ends of joints, J each: sqrt(2 deceleration (end - q)) - offset at most.

    Args:
        lower, upper: rad, ends.
        offset: rad/s.
        deceleration: rad/s^2.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    offset: tuple[float, ...]
    deceleration: tuple[float, ...]

    def c(self, speed: tuple[float, ...]) -> str:
        """`arm_slow`, where the speed is `speed` [J] at most."""
        values = {f"slow_{f.name}": getattr(self, f.name) for f in dataclasses.fields(self)} | {"slow_speed": speed}
        tables = "\n".join(c_text.table(name, value) for name, value in values.items())
        text = _SLOW.replace("@TABLES@", tables).replace("@LEAST@", c_text.literal(LEAST_SPEED))
        return text.replace("@J@", str(len(speed)))


@dataclass(frozen=True)
class MotionLimits:
    """An arm's own limits, J each: rad, rad/s, rad/s^2, rad/s^3. The contract's hold besides.

    Args:
        envelope: of speeds near the ends of joints; None without one.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    speed: tuple[float, ...]
    acceleration: tuple[float, ...]
    jerk: tuple[float, ...]
    envelope: SpeedEnvelope | None = None


class ArmDrive:
    """See the module.

    Args:
        group: of the contract.
        period: s, of `tick`.
        limits: of the arm; None for the contract's.

    Attributes:
        names: of the joints, in the contract's order.
        start_angles: [J] rad, where episodes begin. top: [J] rad/s, limits of speed.
        torque: [J] N m, limits. size: of a command.
        position, speed: [J] rad, rad/s, float64: of the references.
        grips: whether it has a gripper.

    Raises:
        RookeryError: the contract's commands do not lead to joint positions, or it lacks the arm's kinematics.
    """

    def __init__(self, group: ContractGroup, period: float, limits: MotionLimits | None = None) -> None:
        actuation = check_arm(group)
        self.period = period
        self._make(group, _within(actuation, period, limits), None if limits is None else limits.envelope)
        self.names = tuple(j.name for j in actuation.joints)
        count = len(self.names)
        assert actuation.chain is not None and actuation.references is not None
        self.start_angles = np.array(actuation.chain.start, np.float32)
        self.torque = np.array([j.torque for j in actuation.joints], np.float32)
        self.top = np.array(self._limits.speed, np.float32)
        self.size = group.spec.action.size
        self.grips = self._below.grips
        self.opened = 0.0 if actuation.gripper is None else actuation.gripper.open
        self.position, self.speed = np.zeros(count), np.zeros(count)
        self._place, self._matrix = np.zeros(3, np.float32), np.zeros(9, np.float32)
        self._jacobian = np.zeros(6 * count, np.float32)
        goal = actuation.tool_goal
        base = (
            (actuation.chain.offsets[0], actuation.chain.turns[0]) if goal is None else (goal.base_pos, goal.base_quat)
        )
        self._base = {
            BASE_POSITION.name: np.array(base[0], np.float32), BASE_ROTATION.name: np.array(base[1], np.float32)
        }  # fmt: skip

    # -- the C -------------------------------------------------------------------------------------------------

    def _make(self, group: ContractGroup, actuation: Actuation, envelope: SpeedEnvelope | None) -> None:
        made = ToolC if actuation.tool_goal is not None else JointsC
        # control_dt is for targets whose speed is limited, which arms with references have not
        below = made(actuation, group.spec.action, PREFIX, 1.0)
        if below.refused:
            raise RookeryError(f"the arm's loops have no C: {below.refused}.")
        assert actuation.chain is not None and actuation.references is not None
        self._below, self._limits = below, actuation.references
        self._moves_tool = isinstance(below, ToolC)
        folder = tempfile.TemporaryDirectory(prefix="rookery-arm-")
        weakref.finalize(self, folder.cleanup)
        source = Path(folder.name) / "arm.c"
        count = len(actuation.joints)
        loops = "\n".join(below.code())
        tick = _TICK
        if envelope is not None:  # limits of speed that change, in place of a table that does not
            loops = loops.replace("static const float most_speed[", "static float most_speed[")
            tick = envelope.c(self._limits.speed) + tick.replace("@SLOW@", "\n        arm_slow(loops);")
        tick = tick.replace("@SLOW@", "").replace("@J@", str(count)).replace("@DT@", repr(self.period))
        source.write_text("\n".join((
            "#include <math.h>", *(_struct(name, lines) for name, lines in (
                ("arm_sensed", below.sensed()), ("arm_loops", ["int begun;", *below.kept()]))),
            chain_c.declaration(PREFIX, count), below.declarations(),
            *chain_c.code(actuation.chain, actuation.joints, PREFIX), loops, tick,
        )))  # fmt: skip
        library = ctypes.CDLL(str(compile_library(source, Path(folder.name))))
        types = [_structure(lines) for lines in (below.sensed(), ["int begun;", *below.kept()])]
        sizes = (ctypes.c_ulong * 2).in_dll(library, "arm_sizes")
        assert [ctypes.sizeof(t) for t in types] == list(sizes)
        self._sensed, self._loops = (t() for t in types)
        self._views = {
            (which, name): np.frombuffer(getattr(struct, name), np.float32)
            for which, struct in (("sensed", self._sensed), ("loops", self._loops))
            for name in _arrays(struct)
        }
        self._calls = {}
        for name in ("start_loops", "take_command", "forward", "tick"):
            call = getattr(library, f"arm_{name}")
            call.restype = None
            self._calls[name] = call
        self._calls["tick"].argtypes = [_POINTER, _POINTER, _POINTER, ctypes.c_int]
        self._calls["forward"].argtypes = [_POINTER] * 5
        known = (self._calls["forward"], None) if self._moves_tool else ()
        self._given = (ctypes.byref(self._loops), ctypes.byref(self._sensed), *known)

    def _measure(self, angles: ArrayLike, velocities: ArrayLike) -> None:
        self._views["sensed", "angle"][:] = angles
        self._views["sensed", "velocity"][:] = velocities

    # -- the way of a command ----------------------------------------------------------------------------------

    def start(self, angles: ArrayLike) -> None:
        """References begin at rest at [J] rad, and stay there."""
        self.position[:] = angles
        self.speed[:] = 0.0
        self._measure(angles, 0.0)
        self._calls["start_loops"](*self._given)

    def resume(self, angles: ArrayLike, velocities: ArrayLike, accelerations: ArrayLike) -> None:
        """References go on from [J] rad, rad/s and rad/s^2 that an arm has taken, where these are not the references.

        An arm that a position does not reach in time drops it, and goes on by itself (FCI documentation, "Packet handling").
        """
        taken = tuple(np.asarray(x, float) for x in (angles, velocities, accelerations))
        asked = self.position, self.speed, self._views["loops", "acceleration"]
        if all(np.abs(t - a).max() <= most for t, a, most in zip(taken, asked, TAKEN, strict=True)):
            return
        self.position[:] = taken[0]
        self.speed[:] = taken[1]
        for name, values in zip(("reference", "speed", "acceleration"), taken, strict=True):
            self._views["loops", name][:] = values

    def begin_policy(self, angles: ArrayLike) -> None:
        """An episode begins: the tool's goal is where the tool is; the references stay."""
        keep = {name: self._views["loops", name].copy() for name in ("reference", "speed", "acceleration", "wanted")}
        self._measure(angles, 0.0)
        self._calls["start_loops"](*self._given)
        for name, values in keep.items():
            self._views["loops", name][:] = values

    def command(self, command: ArrayLike, angles: ArrayLike, velocities: ArrayLike) -> None:
        """A policy's command, in the units of the contract's action, at measured [J] rad and rad/s."""
        self._measure(angles, velocities)
        given = np.ascontiguousarray(command, np.float32)
        self._calls["take_command"](*self._given, _POINTER(given.ctypes.data))

    def go(self, angles: ArrayLike) -> None:
        """Go to [J] rad."""
        self._views["loops", "wanted"][:] = angles

    def stop(self) -> None:
        """Brake as hard as the limits allow, along the way that it goes."""
        slowest = np.max(np.abs(self.speed) / np.array(self._limits.acceleration))
        self.go(self.position + 0.5 * STOP * slowest * self.speed)

    def tick(self, steps: int = 1) -> NDArray[np.float64]:
        """Positions [J] rad of the references after so many periods."""
        at = ctypes.byref(self._loops), self.position.ctypes.data, self.speed.ctypes.data
        self._calls["tick"](*at, steps)
        return self.position

    @property
    def opening(self) -> float:
        """m, asked of the gripper."""
        return float(self._loops.opening) if self.grips else 0.0

    @opening.setter
    def opening(self, width: float) -> None:
        if self.grips:
            self._loops.opening = width

    # -- what follows from joint angles ------------------------------------------------------------------------

    @property
    def goal(self) -> Array:
        """[3] m, world: where the policy has the tool go; zeros for kinds that do not move a goal."""
        return self._views["loops", "goal"].copy() if self._moves_tool else np.zeros(3, np.float32)

    def tool(self, angles: ArrayLike) -> tuple[Array, Array]:
        """The tool's place [3] m and its rotation [4] wxyz, world."""
        q = np.ascontiguousarray(angles, np.float32)
        self._calls["forward"](*(x.ctypes.data for x in (q, self._place, self._matrix, self._jacobian)), None)
        return self._place.copy(), _quaternion(self._matrix.reshape(3, 3))

    def derived(self, angles: ArrayLike, goal: Array) -> dict[str, Array]:
        """Values of DERIVED."""
        place, turn = self.tool(angles)
        return {TOOL_POSITION.name: place, TOOL_ROTATION.name: turn, TOOL_GOAL.name: goal, **self._base}


QUANTITIES = ("joint angles", "joint velocities", "joint torques", "external torques", OPENING.name)
"""What an arm measures; the torques of motors include those that carry its weight, external ones are what it meets."""


def check_arm(group: ContractGroup) -> Actuation:
    """The actuation of an arm that joint positions can drive.

    Raises:
        RookeryError: it is none.
    """
    actuation = group.actuation
    if actuation is None or not actuation.joints:
        raise no_joints(actuation)
    if group.spec.action.kind not in KINDS or actuation.references is None:
        raise RookeryError(
            f"the policy's action kind is {group.spec.action.kind}, and a link to an arm sends joint positions: train with "
            f"one of {', '.join(KINDS)}."
        )
    if actuation.chain is None:
        raise RookeryError("the contract does not say the arm's kinematics (`chain`): export the policy again.")
    return actuation


def _within(actuation: Actuation, period: float, limits: MotionLimits | None) -> Actuation:
    """With another period of its loops, and within an arm's own limits."""
    references, joints = actuation.references, actuation.joints
    assert references is not None
    if limits is None:
        return dataclasses.replace(actuation, period=period)
    if len(limits.speed) != len(joints):
        raise RookeryError(f"the policy moves {len(joints)} joints, and the arm has {len(limits.speed)}.")
    lowest = {
        name: tuple(map(min, getattr(references, name), getattr(limits, name)))
        for name in ("speed", "acceleration", "jerk")
    }
    bounded = tuple(
        dataclasses.replace(j, lower=max(j.lower, low), upper=min(j.upper, high))
        for j, low, high in zip(joints, limits.lower, limits.upper, strict=True)
    )
    slower = dataclasses.replace(references, **lowest)  # type: ignore[arg-type]
    return dataclasses.replace(actuation, period=period, joints=bounded, references=slower)


def _struct(name: str, lines: list[str]) -> str:
    return "typedef struct {\n" + "\n".join(lines) + f"\n}} {name};"


def _structure(lines: list[str]) -> type[ctypes.Structure]:
    """A ctypes type of the members of a struct."""
    fields: list[tuple[str, Any]] = []
    for kind, name, size in re.findall(r"^(float|int) (\w+)(?:\[(\d+)\])?;", "\n".join(lines), re.M):
        one: Any = {"float": ctypes.c_float, "int": ctypes.c_int}[kind]
        fields.append((name, one * int(size) if size else one))
    return type("Struct", (ctypes.Structure,), {"_fields_": fields})


def _arrays(struct: Any) -> list[str]:
    """Names of the members of a struct that are arrays."""
    return [name for name, kind in struct._fields_ if issubclass(kind, ctypes.Array)]


def _quaternion(m: Array) -> Array:
    """[4] wxyz of a rotation matrix [3, 3], by the largest of its components (Shepperd, 1978); NaN of one that is not finite,
    which angles that are none lead to. In plain numbers: NumPy takes four times as long for so few."""
    (a, b, c), (d, e, f), (g, h, i) = m.tolist()
    trace = a + e + i
    if not math.isfinite(trace + b + c + d + f + g + h):
        return np.full(4, np.nan, np.float32)
    most = max(trace, a, e, i)
    if most == trace:
        q = (1.0 + trace, h - f, c - g, d - b)
    elif most == a:
        q = (h - f, 1.0 + a - e - i, b + d, c + g)
    elif most == e:
        q = (c - g, b + d, 1.0 + e - a - i, f + h)
    else:
        q = (d - b, c + g, f + h, 1.0 + i - a - e)
    length = math.copysign(math.hypot(*q), q[0])
    return np.array([x / length for x in q], np.float32)

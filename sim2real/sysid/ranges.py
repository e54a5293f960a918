"""From intervals to what a training uses: a file for ``--randomize``, and values for the robot's own file.

A range covers the intervals of all joints (or rotors) of one kind: what the log leaves open and what differs between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rookery.sim2real.sysid.identify import Estimated
from rookery.sim2real.sysid.report import FitReport


@dataclass(frozen=True)
class Target:
    """A quantity of the domain randomization.

    Args:
        name: of the parameter there.
        low, high: that it accepts.
        factor: it is a factor on the nominal value; otherwise in the quantity's own unit, over the nominal value.
        each: it has components, of which each is drawn by itself.
    """

    name: str
    low: float
    high: float
    factor: bool
    each: bool = True


JOINTED: Mapping[str, Target] = {
    "armature": Target("armature", 0.1, 5.0, True),
    "damping": Target("joint_damping", 0.0, 10.0, True),
    "friction": Target("joint_friction", 0.0, 5.0, False),
    "kp": Target("kp", 0.2, 3.0, True),
    "kd": Target("kd", 0.2, 3.0, True),
    "encoder_offset": Target("encoder_offset", -0.2, 0.2, False),
    "motor_strength": Target("motor_strength", 0.2, 2.0, True),
    "motor_speed": Target("motor_speed", 0.3, 2.0, True),
    "delay": Target("action_delay", 0.0, 0.1, False, each=False),
}
FLOWN: Mapping[str, Target] = {
    "inertia": Target("inertia", 0.1, 10.0, True, each=False),
    "thrust": Target("thrust_coefficient", 0.1, 3.0, True),
    "torque": Target("torque_coefficient", 0.0, 10.0, True),
    "rotor_lag": Target("rotor_lag", 0.01, 10.0, True),
    "com_x": Target("com_x", -0.1, 0.1, False, each=False),
    "com_y": Target("com_y", -0.1, 0.1, False, each=False),
    "drag": Target("drag", 0.0, 10.0, True, each=False),
    "delay": Target("action_delay", 0.0, 0.1, False, each=False),
}
KNEES = "calf"
POSITIVE = ("armature", "delay")
"""Quantities above 0 on every robot: a best fit at the end of the search means that the model or the log's times err."""


def randomization(report: FitReport) -> str:
    """The text of a TOML file for ``--randomize``."""
    targets = FLOWN if report.family == "multirotor" else JOINTED
    lines = [
        f"# Ranges of {report.robot}, identified from {report.log} by rookery sysid: 95 % intervals, all joints of a kind.",
        'extends = "default"  # what the log does not identify is drawn as by --randomize default',
    ]
    groups: dict[tuple[str, str], list[Estimated]] = {}
    members: dict[tuple[str, str], int] = {}
    left: list[str] = []
    for e in report.identified.parameters:
        target = targets.get(e.parameter.quantity)
        if target is not None:
            entry = _entry(report.family, target, e)
            members[entry] = members.get(entry, 0) + len(e.parameter.members)
        if target is None or not _usable(e) or not math.isfinite(e.interval.high - e.interval.low):
            left.append(e.parameter.name)
            continue
        groups.setdefault(_entry(report.family, target, e), []).append(e)
    for (name, pattern), estimated in groups.items():
        known, all_joints = sum(len(e.parameter.members) for e in estimated), members[(name, pattern)]
        if known < all_joints:
            left += [e.parameter.name for e in estimated]
            continue
        target = targets[estimated[0].parameter.quantity]
        reach = _union(target, estimated)
        low, high = (_clipped(target, v) for v in reach)
        lines += [
            "",
            f"# {', '.join(_evidence(e) for e in estimated)}",
            f'["{name}:{pattern}"]' if pattern else f"[{name}]",
        ]
        lines += [f"low = {low:.6g}", f"high = {high:.6g}"]
        lines += ["each = true"] if target.each else []
        lines += _cut(target, estimated, reach)
    if left:
        lines += ["", f"# not identified: {', '.join(left)}"]
    return "\n".join(lines) + "\n"


def _usable(e: Estimated) -> bool:
    """The log identifies it, and the value is one that a robot can have."""
    at_end = any(note.startswith("bound") for note in e.notes)
    return e.identified and not (at_end and e.parameter.quantity in POSITIVE)


def _entry(family: str, target: Target, e: Estimated) -> tuple[str, str]:
    """Name of the randomized parameter and pattern of its components."""
    if not target.each:
        return target.name, ""
    kind = _kind(e)
    if family == "quadruped":
        name = "knee_friction" if target.name == "joint_friction" and kind == KNEES else target.name
        return name, f"*_{kind}"
    return target.name, e.parameter.members[0] if len(e.parameter.members) == 1 else ""


def _kind(e: Estimated) -> str:
    """Last word of the members' names: `calf` of `FL_calf`."""
    return e.parameter.members[0].rsplit("_", 1)[-1]


def _union(target: Target, estimated: Iterable[Estimated]) -> tuple[float, float]:
    low, high = math.inf, -math.inf
    for e in estimated:
        nominal = e.parameter.nominal
        ends = (e.interval.low, e.interval.high)
        if target.factor and e.parameter.unit != "1":
            ends = (ends[0] / nominal, ends[1] / nominal) if nominal > 0.0 else (1.0, 1.0)
        elif not target.factor:
            ends = (ends[0] - nominal, ends[1] - nominal)
        low, high = min(low, ends[0]), max(high, ends[1])
    return low, high


def _cut(target: Target, estimated: Iterable[Estimated], reach: tuple[float, float]) -> list[str]:
    """A comment where the randomization cannot draw all that the log says."""
    if target.factor and any(e.parameter.unit != "1" and not e.parameter.nominal > 0.0 for e in estimated):
        return [
            "# cut: a model's own value is 0, and this is a factor on it: write the value into the model (--to-robot)"
        ]
    if reach != (_clipped(target, reach[0]), _clipped(target, reach[1])):
        drawn = f"{target.low:g} to {target.high:g}"
        return [f"# cut: the log says {reach[0]:.6g} to {reach[1]:.6g}, and --randomize takes {drawn}"]
    return []


def _clipped(target: Target, value: float) -> float:
    return min(max(value, target.low), target.high)


def _evidence(e: Estimated) -> str:
    unit = "" if e.parameter.unit == "1" else f" {e.parameter.unit}"
    return f"{e.parameter.name} {e.value:.4g} ({e.interval.low:.4g} to {e.interval.high:.4g}){unit}"


def robot_values(report: FitReport) -> str:
    """The text of a TOML file with values for the robot's own settings (docs/own_robot.md), and the rest in comments."""
    lines = [f"# Values of {report.robot}, identified from {report.log} by rookery sysid."]
    by_quantity: dict[str, list[Estimated]] = {}
    for e in report.identified.parameters:
        if e.identified:
            by_quantity.setdefault(e.parameter.quantity, []).append(e)
    writers = _flown_values if report.family == "multirotor" else _jointed_values
    lines += writers(by_quantity)
    for quantity, estimated in by_quantity.items():
        lines.append(f"# {quantity}: {', '.join(_evidence(e) for e in estimated)}")
    return "\n".join(lines) + "\n"


def _jointed_values(found: Mapping[str, list[Estimated]]) -> list[str]:
    """Rotor inertia, and damping with half of the dry friction, as own robots' settings have it."""
    out: list[str] = []
    armature = {j: e.value for e in found.get("armature", []) if _usable(e) for j in e.parameter.members}
    friction = {j: e.value for e in found.get("friction", []) for j in e.parameter.members}
    viscous = {j: e.value for e in found.get("damping", []) for j in e.parameter.members}
    damping = {j: viscous.get(j, 0.0) + 0.5 * friction.get(j, 0.0) for j in {**viscous, **friction}}
    for name, unit, values in (
        ("armature", "kg m^2", armature),
        ("damping", "N m s/rad, half of the dry friction in it", damping),
    ):
        if values:
            out += ["", f"[{name}]  # {unit}", *(f'"{joint}" = {value:.6g}' for joint, value in values.items())]
    return [*out, ""]


def _flown_values(found: Mapping[str, list[Estimated]]) -> list[str]:
    out = [""]
    names = {"max_thrust": "N", "torque_ratio": "m", "tau": "s"}
    for quantity, unit in names.items():
        for e in found.get(quantity, []):
            out.append(f"{quantity} = {e.value:.6g}  # {unit}")
    return [*out, ""]

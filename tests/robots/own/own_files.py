"""Robots' files for tests: those of `rookery new robot`, as they are and in other sizes."""

from __future__ import annotations

import string
import xml.etree.ElementTree as ET
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[3] / "rookery" / "templates" / "robot"


def write_robot(folder: Path, template: str, settings: bool = True, change: tuple[str, str] | None = None) -> Path:
    """The URDF of a template, called my_robot, with one text changed."""
    out = folder / "my_robot.urdf"
    for kind in ("urdf", "toml") if settings else ("urdf",):
        text = string.Template((TEMPLATES / f"{template}.{kind}.in").read_text()).substitute(module="my_robot")
        if change is not None and kind == "urdf":
            assert change[0] in text
            text = text.replace(*change)
        out.with_suffix(f".{kind}").write_text(text)
    return out


def write_scaled(folder: Path, length: float, mass: float | None = None, template: str = "quadruped") -> Path:
    """A template's robot with all lengths times `length` and all masses times `mass`, by default as of the same material.

    Motors, gains, damping and friction are what makes it move alike in the same gravity: forces as mass, times as the root of
    length.
    """
    mass = length**3 if mass is None else mass
    root = ET.fromstring(write_robot(folder, template).read_text())
    time, inertia, torque = length**0.5, mass * length**2, mass * length
    factors = {
        "xyz": length, "size": length, "radius": length, "length": length, "value": mass, "effort": torque,
        "velocity": 1.0 / time, "damping": torque * time, "friction": torque,
    } | dict.fromkeys(("ixx", "iyy", "izz", "ixy", "ixz", "iyz"), inertia)  # fmt: skip
    for element in root.iter():
        for name, text in element.attrib.items():
            if name in factors and element.tag not in ("axis", "robot"):
                element.set(name, " ".join(repr(float(v) * factors[name]) for v in text.split()))
    out = folder / f"my_robot_{length:g}.urdf"
    root.set("name", out.stem.replace(".", "_"))
    out.write_text(ET.tostring(root, encoding="unicode"))
    units = {
        "quadruped": {"kp": torque, "kd": torque * time},
        "quadrotor": {"max_thrust": mass, "torque_ratio": length, "tau": time, "propeller_radius": length},
    }[template]
    lines = (folder / "my_robot.toml").read_text().splitlines()
    for i, line in enumerate(lines):
        name, _, value = line.partition(" = ")
        if name in units:
            lines[i] = f"{name} = {float(value.split('#')[0]) * units[name]!r}"
    if template == "quadruped":
        lines.insert(0, f"armature = {0.0013 * inertia!r}")
    out.with_suffix(".toml").write_text("\n".join(lines))
    return out

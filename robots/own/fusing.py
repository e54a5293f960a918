"""Moves the inertia of links that are fixed to others over to what they are fixed to, in a URDF's tree of elements.

Only what moves by itself has dynamics: a placeholder root, a sensor's link of 4e-15 kg and a foot of 0 kg are judged as
parts of the body that carries them, not by themselves.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError

Floats = NDArray[np.float64]
_MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


@dataclass(frozen=True)
class Inertial:
    """Mass (kg), its centre [3] (m) and inertia [3, 3] about that (kg m^2), in a link's axes."""

    mass: float
    centre: Floats
    tensor: Floats

    def moved(self, place: Floats, turn: Floats) -> Inertial:
        """The same in the frame in which this link's stands at `place` [3] m, turned by `turn` [3, 3]."""
        return Inertial(self.mass, place + turn @ self.centre, turn @ self.tensor @ turn.T)

    def joined(self, other: Inertial) -> Inertial:
        """Both as one body."""
        mass = self.mass + other.mass
        centre = (self.mass * self.centre + other.mass * other.centre) / mass
        tensor = np.zeros((3, 3))
        for part in (self, other):
            r = part.centre - centre
            tensor += part.tensor + part.mass * (r @ r * np.eye(3) - np.outer(r, r))
        return Inertial(mass, centre, tensor)


def centres_of(robot: ET.Element) -> dict[str, tuple[float, float, float]]:
    """m, in each link's own frame: where its <inertial> puts its mass, whether it has any or not."""
    out = {}
    for link in robot.findall("link"):
        if (found := link.find("inertial")) is not None:
            x, y, z = _place(found)[0]
            out[link.get("name", "")] = (float(x), float(y), float(z))
    return out


def fuse_inertials(path: Path, robot: ET.Element) -> None:
    """Add up what is fixed to each other, in place: the outermost link of each group keeps the sum, the others nothing.

    A link without mass has no inertia either.

    Raises:
        RookeryError: a fixed link has a negative mass, or one that is no number.
    """
    links = {link.get("name", ""): link for link in robot.findall("link")}
    fixed = {}
    for joint in robot.findall("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if joint.get("type") == "fixed" and parent is not None and child is not None:
            fixed[child.get("link", "")] = (parent.get("link", ""), joint)
    for inner in _outermost_first(path, fixed):
        outer, joint = fixed[inner]
        if inner not in links or outer not in links:
            continue
        own = _read(path, links[inner])
        if (element := links[inner].find("inertial")) is not None:
            links[inner].remove(element)
        if own is None:
            continue
        moved = own.moved(*_place(joint))
        before = _read(path, links[outer])
        _write(links[outer], moved if before is None else before.joined(moved))


def _outermost_first(path: Path, fixed: dict[str, tuple[str, ET.Element]]) -> list[str]:
    """The fixed links, each before the one that it is fixed to."""

    def depth(name: str) -> int:
        steps = 0
        while name in fixed:
            name = fixed[name][0]
            steps += 1
            if steps > len(fixed):
                raise RookeryError(f"{path} fixes {name!r} and other links to each other in a circle: mend its joints.")
        return steps

    return sorted(fixed, key=depth, reverse=True)


def _read(path: Path, link: ET.Element) -> Inertial | None:
    """Inertia by a link's <inertial>; None without mass."""
    found = link.find("inertial")
    mass_of = None if found is None else found.find("mass")
    if found is None or mass_of is None:
        return None
    mass = float(mass_of.get("value", 0) or 0)
    if mass == 0.0:
        return None
    if not 0.0 < mass < math.inf:
        raise RookeryError(
            f"{path}: link {link.get('name')!r} has mass {mass:g} kg: it must be above 0. Mend its <inertial>."
        )
    moments = found.find("inertia")
    xx, yy, zz, xy, xz, yz = (0.0 if moments is None else float(moments.get(k, 0) or 0) for k in _MOMENTS)
    centre, turn = _place(found)
    return Inertial(mass, centre, turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T)


def _write(link: ET.Element, value: Inertial) -> None:
    if (old := link.find("inertial")) is not None:
        link.remove(old)
    new = ET.SubElement(link, "inertial")
    ET.SubElement(new, "origin", xyz=" ".join(repr(float(v)) for v in value.centre), rpy="0 0 0")
    ET.SubElement(new, "mass", value=repr(float(value.mass)))
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = value.tensor.tolist()
    numbers = dict(zip(_MOMENTS, (xx, yy, zz, xy, xz, yz), strict=True))
    ET.SubElement(new, "inertia", {k: repr(v) for k, v in numbers.items()})


def _place(element: ET.Element) -> tuple[Floats, Floats]:
    """[3] m and [3, 3] of an element's <origin>: rolled, pitched and yawed about fixed axes."""
    origin = element.find("origin")
    place = _three(origin, "xyz")
    (a, b, c), (x, y, z) = np.cos(angles := _three(origin, "rpy")), np.sin(angles)
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, a, -x], [0.0, x, a]])
    about_y = np.array([[b, 0.0, y], [0.0, 1.0, 0.0], [-y, 0.0, b]])
    about_z = np.array([[c, -z, 0.0], [z, c, 0.0], [0.0, 0.0, 1.0]])
    return place, about_z @ about_y @ about_x


def _three(origin: ET.Element | None, name: str) -> Floats:
    text = "0 0 0" if origin is None else origin.get(name, "0 0 0")
    values = [float(v) for v in text.split()]
    if len(values) != 3:
        raise ValueError(f"{name}={text!r} in an <origin>")
    return np.array(values)

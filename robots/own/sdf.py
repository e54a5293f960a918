"""A multirotor of an SDF file (sdformat.org), as Gazebo has them, as the URDF that says the same, and what its motors say.

An SDF gives places in any frame (`relative_to` another link, joint or frame), a URDF each link's in its parent's. One model of
links, fixed joints and rotors is read; shapes are boxes, cylinders and spheres, since a drone is drawn as an airframe.
Motors are Gazebo's MulticopterMotorModel: thrust = motorConstant w^2, w up to maxRotVelocity; torque = momentConstant thrust.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rookery.robots.own import guard
from rookery.robots.own.parts import is_rotor
from rookery.sim.errors import RookeryError

Floats = NDArray[np.float64]
MODEL = "__model__"
MOTOR = ("multicopter-motor-model", "multicoptermotormodel", "gazebo_motor_model")
"""One of these is in the plugin's file or name: Gazebo's, and Gazebo classic's."""
LARGEST = 1e9  # m, kg, kg m^2
PRINT = "`gz sdf -p FILE > whole.sdf` writes includes out"


@dataclass(frozen=True)
class SdfMotor:
    """Parameters that a motor's plugin states.

    Args:
        thrust: N, at most. ratio: m, reaction torque over thrust. direction: sign of the reaction torque about the body's z.
        tau_up, tau_down: s, time constants of the speed.
    """

    thrust: float
    ratio: float
    direction: int
    tau_up: float
    tau_down: float


def to_urdf(path: Path, sdf: ET.Element) -> tuple[ET.Element, dict[str, SdfMotor]]:
    """The <robot> of a file's only model, and its motors by the rotors' links.

    Raises:
        RookeryError: it is no such model, with the way out.
    """
    models = sdf.findall("model")
    if len(models) != 1:
        raise RookeryError(
            f"{path} must hold one <model>, a multirotor, and has {len(models)}: give the model's own file."
        )
    return _Model(path, models[0]).robot()


class _Model:
    def __init__(self, path: Path, model: ET.Element) -> None:
        self.path = path
        self.model = model
        self._places: dict[str, Floats] = {}
        for tag in ("include", "model"):
            inner = model.find(tag)
            if inner is not None:
                name = inner.findtext("uri", inner.get("name", "")).strip()
                raise RookeryError(
                    f"{path} holds another model, {name!r}: give one file that holds all of it ({PRINT})."
                )
        self.links = {link.get("name", ""): link for link in model.findall("link")}
        self.joints = {joint.get("name", ""): joint for joint in model.findall("joint")}
        self.frames = {frame.get("name", ""): frame for frame in model.findall("frame")}
        self.child = {name: self._text(joint, "child", f"joint {name!r}") for name, joint in self.joints.items()}
        moved = [self.child[name] for name, joint in self.joints.items() if joint.get("type") != "fixed"]
        if not moved or not all(is_rotor(name) for name in moved):
            raise RookeryError(
                f"{path} is no multirotor whose joints all turn rotors (links called rotor, prop or motor), and of SDF files "
                "nothing else is read: give the robot as URDF or MJCF."
            )

    def robot(self) -> tuple[ET.Element, dict[str, SdfMotor]]:
        robot = ET.Element("robot", name=self.model.get("name") or self.path.stem)
        for name, link in self.links.items():
            self._add_link(robot, name, link)
        children = set(self.child.values())
        roots = [name for name in self.links if name not in children]
        if len(roots) == 1 and not np.allclose(turn := self._place(roots[0])[:3, :3], np.eye(3), atol=1e-9):
            self._add_joint(robot, "model_axes", "fixed", "model_axes", roots[0], _placed(turn))
            ET.SubElement(robot, "link", name="model_axes")
        for name, joint in self.joints.items():
            parent = self._text(joint, "parent", f"joint {name!r}")
            for end in (parent, self.child[name]):
                if end not in self.links:
                    raise RookeryError(
                        f"{self.path}: joint {name!r} joins {end!r}, which is no link of it: mend the file."
                    )
            between = np.linalg.inv(self._place(parent)) @ self._place(self.child[name])
            kind = "fixed" if joint.get("type") == "fixed" else "continuous"
            self._add_joint(robot, name, kind, parent, self.child[name], between)
        return robot, self._motors()

    # Frames

    def _place(self, name: str, above: tuple[str, ...] = ()) -> Floats:
        """[4, 4] from a link, joint or frame to the model."""
        if name in ("", MODEL):
            return np.eye(4)
        if name in self._places:
            return self._places[name]
        if len(above) > guard.DEPTH:
            raise RookeryError(
                f"{self.path} places {above[0]!r} through more than {guard.DEPTH} frames: give it a <pose> nearer to the model."
            )
        if name in above:
            raise RookeryError(f"{self.path} places {name!r} relative to itself: give it a <pose> in another frame.")
        for elements in (self.links, self.joints, self.frames):
            if name in elements:
                element = elements[name]
                break
        else:
            raise RookeryError(
                f"{self.path} places something relative to {name!r}, which is not in the model: mend the file."
            )
        pose = element.find("pose")
        given = "" if pose is None else pose.get("relative_to", "")
        if not given:
            given = self.child[name] if elements is self.joints else element.get("attached_to", "")
        place = self._places[name] = self._place(given, (*above, name)) @ self._pose(pose)
        return place

    def _pose(self, pose: ET.Element | None) -> Floats:
        text = "" if pose is None else (pose.text or "").strip()
        if pose is None or not text:
            return np.eye(4)
        if pose.get("rotation_format", "euler_rpy") != "euler_rpy":
            raise RookeryError(f"{self.path} gives a <pose> as a quaternion: give x y z roll pitch yaw.")
        x, y, z, *rpy = self._numbers(text, 6)
        return _placed(_turn(np.radians(rpy) if pose.get("degrees") in ("true", "1") else np.array(rpy)), (x, y, z))

    # Parts

    def _add_link(self, robot: ET.Element, name: str, link: ET.Element) -> None:
        out = ET.SubElement(robot, "link", name=name)
        inertial = link.find("inertial")
        if inertial is not None:
            added = ET.SubElement(out, "inertial")
            self._origin(added, self._pose(inertial.find("pose")))
            (mass,) = self._numbers(self._text(inertial, "mass", f"link {name!r}"), 1)
            ET.SubElement(added, "mass", value=repr(mass))
            moments = {
                k: self._number(inertial, f"inertia/{k}", 0.0) for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
            }
            ET.SubElement(added, "inertia", {k: repr(v) for k, v in moments.items()})
        for collision in link.findall("collision"):
            shape = self._shape(collision)
            if shape is not None:
                added = ET.SubElement(out, "collision")
                self._origin(added, self._pose(collision.find("pose")))
                ET.SubElement(added, "geometry").append(shape)

    def _shape(self, collision: ET.Element) -> ET.Element | None:
        """Box, cylinder or sphere of a collision; other shapes are left out."""
        geometry = collision.find("geometry")
        for kind, sizes in (("box", {"size": 3}), ("cylinder", {"radius": 1, "length": 1}), ("sphere", {"radius": 1})):
            found = None if geometry is None else geometry.find(kind)
            if found is not None:
                texts = {k: self._numbers(self._text(found, k, f"a {kind}"), n) for k, n in sizes.items()}
                return ET.Element(kind, {k: " ".join(map(repr, v)) for k, v in texts.items()})
        return None

    def _add_joint(self, robot: ET.Element, name: str, kind: str, parent: str, child: str, between: Floats) -> None:
        joint = ET.SubElement(robot, "joint", name=name, type=kind)
        self._origin(joint, between)
        ET.SubElement(joint, "parent", link=parent)
        ET.SubElement(joint, "child", link=child)
        if kind != "fixed":
            ET.SubElement(joint, "axis", xyz="0 0 1")

    def _origin(self, element: ET.Element, place: Floats) -> None:
        roll, pitch, yaw = _rpy(place[:3, :3])
        xyz = " ".join(repr(float(v)) for v in place[:3, 3])
        ET.SubElement(element, "origin", xyz=xyz, rpy=f"{roll!r} {pitch!r} {yaw!r}")

    def _motors(self) -> dict[str, SdfMotor]:
        out = {}
        for plugin in self.model.findall("plugin"):
            called = f"{plugin.get('filename', '')} {plugin.get('name', '')}".lower()
            if not any(word in called for word in MOTOR):
                continue
            link = self._text(plugin, "linkName", "a motor's plugin")
            if link not in self.links:
                raise RookeryError(f"{self.path} has a motor for {link!r}, which is no link of it: mend the file.")
            top = self._number(plugin, "maxRotVelocity")
            turning = self._text(plugin, "turningDirection", f"the motor of {link!r}")
            if turning not in ("cw", "ccw"):
                raise RookeryError(f"{self.path}: turningDirection of {link!r} must be cw or ccw, got {turning!r}.")
            up, down = (self._number(plugin, f"timeConstant{way}", 0.0) for way in ("Up", "Down"))
            out[link] = SdfMotor(
                self._number(plugin, "motorConstant") * top * top, self._number(plugin, "momentConstant"),
                1 if turning == "cw" else -1, up, down,
            )  # fmt: skip
        return out

    # Values

    def _text(self, element: ET.Element, name: str, what: str) -> str:
        text = (element.findtext(name) or "").strip()
        if not text:
            raise RookeryError(f"{self.path}: {what} has no <{name}>: mend the file.")
        return text

    def _number(self, element: ET.Element, name: str, missing: float | None = None) -> float:
        text = (element.findtext(name) or "").strip()
        if not text and missing is not None:
            return missing
        return self._numbers(self._text(element, name, f"<{element.tag}>"), 1)[0]

    def _numbers(self, text: str, count: int) -> list[float]:
        try:
            values = [float(word) for word in text.split()]
        except ValueError:
            values = []
        if len(values) != count or not all(abs(v) <= LARGEST for v in values):
            raise RookeryError(
                f"{self.path} has {text[:60]!r} where {count} usual numbers belong (m, kg, s, rad): mend the file."
            )
        return values


def _placed(turn: Floats, xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Floats:
    out = np.eye(4)
    out[:3, :3] = turn
    out[:3, 3] = xyz
    return out


def _turn(rpy: Floats) -> Floats:
    """[3, 3] of roll, pitch, yaw about fixed axes."""
    (sr, sp, sy), (cr, cp, cy) = np.sin(rpy), np.cos(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _rpy(turn: Floats) -> tuple[float, float, float]:
    """Roll, pitch, yaw of a rotation; straight up or down the roll is 0."""
    pitch = math.asin(min(max(-float(turn[2, 0]), -1.0), 1.0))
    if abs(turn[2, 0]) > 1.0 - 1e-12:
        return 0.0, pitch, math.atan2(-float(turn[0, 1]), float(turn[1, 1]))
    return math.atan2(float(turn[2, 1]), float(turn[2, 2])), pitch, math.atan2(float(turn[1, 0]), float(turn[0, 0]))

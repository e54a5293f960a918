"""Reads a robot's URDF or MJCF file into an MjSpec that holds the files it names, so that the robot goes into any scene.

MuJoCo reads both formats. What it does not do by itself, or does without a word, is done here: the root link of a URDF keeps
its mass (MuJoCo welds it to the world), nothing gets a mass from the volume of its shapes, and a mesh that is missing is
named.
"""

from __future__ import annotations

import itertools
import math
import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mujoco

from rookery.robots.own import guard
from rookery.robots.own.conversion import expand_xacro
from rookery.robots.own.fusing import centres_of, fuse_inertials
from rookery.robots.own.meshes import mesh_bytes, take_meshes
from rookery.robots.own.sdf import SdfMotor, to_urdf
from rookery.sim.errors import RookeryError
from rookery.sim.mujoco_warnings import take_warnings

KINDS = (".urdf", ".xml", ".mjcf", ".xacro", ".sdf")
WORLD = "rookery_world"
_QUATERNION = mujoco.mjtOrientation.mjORIENTATION_QUAT
Vector = tuple[float, float, float]
BASE = "base"
"""Name that the root body gets."""


@dataclass(frozen=True)
class Source:
    """Contents of a file.

    Args:
        path: of the file.
        name: that the robot has in it.
        spec: holds the bytes of all files that it names.
        efforts, speeds: N m (N) and rad/s (m/s), by joint, where a URDF gives them above 0.
        unlimited: revolute joints of a URDF without limits of position.
        notes: what was left out, in sentences.
        motors: by link, what the motors of an SDF say.
        mimics: by joint of a URDF, the joint that its <mimic> follows. MuJoCo leaves that out without a word.
        centres: m, of a URDF's links, in each link's frame: where its <inertial> is.
    """

    path: Path
    name: str
    spec: mujoco.MjSpec
    efforts: dict[str, float]
    speeds: dict[str, float]
    notes: tuple[str, ...]
    unlimited: tuple[str, ...] = ()
    centres: Mapping[str, Vector] = field(default_factory=dict)
    motors: Mapping[str, SdfMotor] = field(default_factory=dict)
    mimics: Mapping[str, str] = field(default_factory=dict)


def is_file(name: str) -> bool:
    """True where a robot is named by its file, as ``path/my.urdf``."""
    return Path(name).suffix.lower() in KINDS or os.sep in name or Path(name).is_file()


def read(path: Path, floating: bool, rpy: Vector = (0.0, 0.0, 0.0)) -> Source:
    """The robot of a file, its root body named `base`, with the free joint `root` if `floating`.

    Args:
        rpy: rad, fixed axes, by which the root link of a URDF is turned in the robot's frame.

    Raises:
        RookeryError: no such file, an unknown type, one that is damaged, or a mesh that is missing or of an unknown type.
    """
    if path.suffix.lower() not in KINDS:
        raise RookeryError(f"{path} is no robot: give a URDF (.urdf) or MJCF (.xml) file, or the SDF of a multirotor.")
    take_warnings()
    root = guard.check(path, expand_xacro(path) if path.suffix.lower() == ".xacro" else None)
    if root.tag == "sdf":
        robot, motors = to_urdf(path, root)
        guard.check_tree(path, robot)
        return replace(_read_urdf(path, robot, floating, rpy), motors=motors)
    if root.tag == "robot":
        try:
            return _read_urdf(path, root, floating, rpy)
        except RookeryError:
            raise
        except ValueError as e:  # of float()
            raise RookeryError(f"{path} has something else where a number belongs: {_line(e)}. Mend the file.") from e
    if root.tag == "mujoco":
        return _read_mjcf(path, floating, rpy)
    raise RookeryError(
        f"{path} is no robot: its root element is <{root.tag}>, not <robot> (URDF), <mujoco> (MJCF) or <sdf>."
    )


# URDF


def _read_urdf(path: Path, robot: ET.Element, floating: bool, rpy: Vector) -> Source:
    notes: list[str] = []
    _drop_floating_world(robot)
    _rename_link(robot, "world", "world_link")  # MuJoCo's own world has that name
    assets = take_meshes(path, robot, notes)
    base = _root_link(path, robot)
    if base != BASE:
        _rename_link(robot, BASE, _free_name([link.get("name", "") for link in robot.findall("link")], notes))
    if any(rpy):
        base = _turn(robot, base, rpy)
    centres = centres_of(robot)
    fuse_inertials(path, robot)
    _check_links(path, robot)
    ET.SubElement(robot, "link", name=WORLD)
    joint = ET.SubElement(robot, "joint", name="root", type="floating" if floating else "fixed")
    ET.SubElement(joint, "parent", link=WORLD)
    ET.SubElement(joint, "child", link=base)
    extension = robot.find("mujoco")
    if extension is None:
        extension = ET.SubElement(robot, "mujoco")
    compiler = extension.find("compiler")
    if compiler is None:
        compiler = ET.SubElement(extension, "compiler")
    for name in ("meshdir", "texturedir", "assetdir"):
        compiler.attrib.pop(name, None)
    compiler.attrib |= {"strippath": "false", "discardvisual": "false", "fusestatic": "false"}
    try:
        spec = mujoco.MjSpec.from_string(ET.tostring(robot, encoding="unicode"), assets=assets)
    except ValueError as e:
        raise RookeryError(f"MuJoCo cannot read {path}: {_line(e)}. Mend the file.") from e
    for geom in spec.geoms:
        geom.mass = 0.0  # links have their inertials
    spec.body(base).name = BASE
    limits = {j.get("name", ""): j.find("limit") for j in robot.findall("joint")}
    kinds = {j.get("name", ""): j.get("type") for j in robot.findall("joint")}
    efforts, speeds = (
        {name: v for name, limit in limits.items() if limit is not None and (v := float(limit.get(key, 0) or 0)) > 0.0}
        for key in ("effort", "velocity")
    )
    unlimited = tuple(
        name for name, limit in limits.items()
        if kinds[name] == "revolute" and (limit is None or float(limit.get("lower", 0)) >= float(limit.get("upper", 0)))
    )  # fmt: skip
    found = ((j.get("name", ""), j.find("mimic")) for j in robot.findall("joint"))
    mimics = {name: mimic.get("joint", "") for name, mimic in found if mimic is not None}
    name = robot.get("name") or path.stem
    return Source(path, name, spec, efforts, speeds, tuple(notes), unlimited, centres, mimics=mimics)


def _rename_link(robot: ET.Element, old: str, new: str) -> None:
    """Call a link by another name, where there is one of the old name."""
    for link in robot.findall("link"):
        if link.get("name") == old:
            link.set("name", new)
    for joint in robot.findall("joint"):
        for end in (*joint.findall("parent"), *joint.findall("child")):
            if end.get("link") == old:
                end.set("link", new)


def _free_name(names: list[str], notes: list[str]) -> str:
    """New name of a link that is called `base`, and is not the root, is called instead; BASE itself where there is none."""
    if BASE not in names:
        return BASE
    new = next(name for i in itertools.count(2) if (name := f"{BASE}_{i}") not in names)
    notes.append(f"its link {BASE!r} is called {new!r} here: the root is the base.")
    return new


def _turn(robot: ET.Element, base: str, rpy: Vector) -> str:
    """A new root link, in whose frame the old one is turned."""
    ET.SubElement(robot, "link", name=BASE + "_turned")
    joint = ET.SubElement(robot, "joint", name="turned", type="fixed")
    ET.SubElement(joint, "parent", link=BASE + "_turned")
    ET.SubElement(joint, "child", link=base)
    ET.SubElement(joint, "origin", xyz="0 0 0", rpy=" ".join(str(v) for v in rpy))
    return BASE + "_turned"


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).removeprefix("Error: ").removeprefix("XML Error: ").rstrip(".")


def _root_link(path: Path, robot: ET.Element) -> str:
    links = [link.get("name", "") for link in robot.findall("link")]
    children = {_end(j, "child") for j in robot.findall("joint")}
    roots = [name for name in links if name not in children]
    if len(roots) != 1:
        raise RookeryError(
            f"{path} must have one root link, which no joint moves, got {roots}: join its links to one tree."
        )
    return roots[0]


def _end(joint: ET.Element, which: str) -> str:
    found = joint.find(which)
    return "" if found is None else found.get("link", "")


def _drop_floating_world(robot: ET.Element) -> None:
    """Take out a root link that is nothing but the world in which the robot floats, as MuJoCo's manual has it."""
    joints = robot.findall("joint")
    moved = {_end(j, "child") for j in joints}
    for joint in (j for j in joints if j.get("type") == "floating"):
        world = _end(joint, "parent")
        link = next((x for x in robot.findall("link") if x.get("name") == world), None)
        others = [j for j in joints if j is not joint and _end(j, "parent") == world]
        if link is not None and not len(link) and world not in moved and not others:
            robot.remove(link)
            robot.remove(joint)


def _check_links(path: Path, robot: ET.Element) -> None:
    """Every link that a joint moves needs a mass, its own or that of links that are fixed to it (fused by now)."""
    heavy = {link.get("name", "") for link in robot.findall("link") if _mass(link) > 0.0}
    moved = [_end(j, "child") for j in robot.findall("joint") if j.get("type") != "fixed"]
    bare = [name for name in moved if name not in heavy]
    if bare:
        raise RookeryError(
            f"{path} gives {_some(bare)}, moved by a joint, no mass: "
            "give each such link an <inertial> with <mass> and <inertia> (CAD programs export them)."
        )


def _mass(link: ET.Element) -> float:
    found = link.find("inertial/mass")
    return 0.0 if found is None else float(found.get("value", 0) or 0)


def _some(names: list[str]) -> str:
    shown = ", ".join(f"link {n!r}" for n in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# MJCF


def _read_mjcf(path: Path, floating: bool, rpy: Vector) -> Source:
    if any(rpy):
        raise RookeryError(f"rpy turns a URDF: turn the body of {path} by its own euler.")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as e:
        raise RookeryError(f"MuJoCo cannot read {path}: {_line(e)}. Mend the file.") from e
    _settle_angles(spec)
    _hold_files(path, spec)
    _settle_masses(spec)
    roots = list(spec.worldbody.bodies)
    if len(roots) != 1:
        names = [b.name for b in roots]
        raise RookeryError(
            f"{path} must hold one robot, one body of its world, got {names}: give the robot's own file."
        )
    notes = []
    for element in [*spec.worldbody.geoms, *spec.worldbody.sites, *spec.worldbody.lights, *spec.worldbody.cameras]:
        notes = ["what stands in the world beside the robot is left out."]
        spec.delete(element)
    (base,) = roots
    _name_base(spec, base, notes)
    free = [j for j in base.joints if j.type == mujoco.mjtJoint.mjJNT_FREE]
    for joint in free:
        spec.delete(joint)
    if floating:
        base.add_freejoint(name="root")
    return Source(path, spec.modelname or path.stem, spec, {}, {}, tuple(notes))


def _settle_angles(spec: mujoco.MjSpec) -> None:
    """Say all angles in rad and all orientations as quaternions, as everything that reads or writes parts of the spec does;
    compiled, it is the same robot."""
    compiler = spec.compiler

    def quaternion(orientation: mujoco.MjsOrientation) -> Any:
        return mujoco.MjSpec.resolve_orientation(
            degree=compiler.degree, sequence=compiler.eulerseq, orientation=orientation
        )

    for part in (*spec.bodies, *spec.geoms, *spec.sites, *spec.frames, *spec.cameras):
        if part.alt.type != _QUATERNION:
            part.quat = quaternion(part.alt)
            part.alt.type = _QUATERNION
    for body in spec.bodies:
        if body.ialt.type != _QUATERNION:
            body.iquat = quaternion(body.ialt)
            body.ialt.type = _QUATERNION
    if not compiler.degree:
        return
    for joint in spec.joints:
        if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_BALL):
            joint.range = [math.radians(v) for v in joint.range]
        if joint.type == mujoco.mjtJoint.mjJNT_HINGE:
            joint.ref = math.radians(joint.ref)
            joint.springref = math.radians(joint.springref)
    compiler.degree = False


def _settle_masses(spec: mujoco.MjSpec) -> None:
    """Give bodies the masses that the compiler's `settotalmass` and `inertiagrouprange` come to, since a scene that takes the
    robot in has its own, and groups of shapes here say what is drawn."""
    first, last = spec.compiler.inertiagrouprange
    for geom in spec.geoms:
        if not first <= geom.group <= last:
            geom.mass = 0.0
    spec.compiler.inertiagrouprange = [0, mujoco.mjNGROUP - 1]
    total = float(spec.compiler.settotalmass)
    if total <= 0.0:
        return
    spec.compiler.settotalmass = -1.0
    try:
        share = total / spec.copy().compile().body_mass.sum()
    except ValueError:
        return  # a later check says why
    for body in spec.bodies:
        body.mass *= share
        body.inertia = [share * v for v in body.inertia]
        body.fullinertia = [share * v for v in body.fullinertia]
    for geom in spec.geoms:
        geom.density *= share
        geom.mass *= share


def _name_base(spec: mujoco.MjSpec, base: mujoco.MjsBody, notes: list[str]) -> None:
    """Call the root BASE, also where others name it; a body that has that name gets another."""
    names = [body.name for body in spec.bodies]
    changes = {} if base.name == BASE else {BASE: _free_name(names, notes), base.name: BASE}
    for old, new in changes.items():
        if old not in names:
            continue
        spec.body(old).name = new
        for pair in spec.excludes:
            pair.bodyname1, pair.bodyname2 = (new if n == old else n for n in (pair.bodyname1, pair.bodyname2))
        for equality in spec.equalities:
            if equality.objtype == mujoco.mjtObj.mjOBJ_BODY:
                equality.name1, equality.name2 = (new if n == old else n for n in (equality.name1, equality.name2))
        for looking in (*spec.cameras, *spec.lights):
            looking.targetbody = new if looking.targetbody == old else looking.targetbody


def _hold_files(path: Path, spec: mujoco.MjSpec) -> None:
    held: dict[str, bytes] = {}
    for elements, folder in (
        (spec.meshes, spec.meshdir),
        (spec.hfields, spec.meshdir),
        (spec.textures, spec.texturedir),
    ):
        for element in elements:
            if not element.file:
                continue
            file = path.parent / folder / element.file
            if not file.is_file():
                raise RookeryError(
                    f"{path} names the file {element.file!r}, which is not in {file.parent}: put it there, as the robot's "
                    "package has it."
                )
            key = f"{len(held)}_{file.name}"
            held[key] = mesh_bytes(file)
            guard.check_picture(path, file, held[key])
            element.file = key
    spec.assets = held
    spec.meshdir = spec.texturedir = ""


def stamp(path: Path) -> tuple[int, ...]:
    """When a robot's file and its settings were changed last; 0 for what is not there."""
    return tuple(f.stat().st_mtime_ns if f.is_file() else 0 for f in (path, path.with_suffix(".toml")))

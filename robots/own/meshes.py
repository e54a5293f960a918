"""The meshes that a URDF names: where they are, and their bytes in a format that MuJoCo reads."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from rookery.robots.own import guard
from rookery.robots.own.conversion import stl_of
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, read_bytes

READABLE = (".obj", ".stl", ".msh")
"""Mesh formats that MuJoCo reads."""
CONVERTED = (".dae",)
"""Formats that become STL where a link collides as such a mesh."""
MESH_BYTES = 256 << 20


def take_meshes(path: Path, robot: ET.Element, notes: list[str]) -> dict[str, bytes]:
    """The bytes of all meshes by new names, which the URDF then has; shapes that are only looked at go where MuJoCo cannot
    read their file."""
    assets: dict[str, bytes] = {}
    keys: dict[Path, str] = {}
    for material in robot.iter("material"):
        for texture in material.findall("texture"):
            material.remove(texture)
    skipped = set()
    for link in robot.findall("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            mesh = shape.find("geometry/mesh")
            if mesh is None:
                _check_size(path, link, shape)
                continue
            name = mesh.get("filename", "")
            file = _find_mesh(path, name)
            if file is not None:
                guard.require_inside(path, file)
            if shape.tag == "visual" and (file is None or file.suffix.lower() not in READABLE):
                link.remove(shape)
                skipped.add(name)
                continue
            if file is None:
                raise RookeryError(
                    f"{path}: link {link.get('name')!r} collides as the mesh {name!r}, which is not there: put the file "
                    f"where the URDF names it, from {path.parent} or a folder above, or give the link another shape."
                )
            if file not in keys:
                suffix = ".stl" if file.suffix.lower() in CONVERTED else file.suffix
                keys[file] = f"{len(keys)}_{file.stem}{suffix}"
                assets[keys[file]] = _readable_bytes(path, link, name, file)
            mesh.set("filename", keys[file])
    if skipped:
        notes.append(f"{len(skipped)} meshes that are only looked at are left out (missing, or neither .obj nor .stl).")
    return assets


def _check_size(path: Path, link: ET.Element, shape: ET.Element) -> None:
    """A shape of no size: one that is only looked at goes."""
    sizes = [v for solid in shape.iterfind("geometry/*") for v in " ".join(solid.attrib.values()).split()]
    if sizes and all(float(v) > 0.0 for v in sizes):
        return
    if shape.tag == "collision":
        raise RookeryError(
            f"{path}: link {link.get('name')!r} collides as a shape of no size: give it one, or take it out."
        )
    link.remove(shape)


def _readable_bytes(path: Path, link: ET.Element, name: str, file: Path) -> bytes:
    """Collision shape of a link, in a format that MuJoCo reads."""
    kind = file.suffix.lower()
    if kind in CONVERTED:
        return stl_of(file, mesh_bytes(file))
    if kind not in READABLE:
        raise RookeryError(
            f"{path}: link {link.get('name')!r} collides as the mesh {name!r}, whose format MuJoCo does not read: "
            f"convert it to .obj or .stl, or give the link a box, cylinder or sphere."
        )
    return mesh_bytes(file)


def mesh_bytes(file: Path) -> bytes:
    """Path of a mesh, or another file that a robot's file names.

    Raises:
        RookeryError: it cannot be read.
    """
    try:
        return read_bytes(file, MESH_BYTES)
    except (OSError, Damaged) as e:
        raise RookeryError(f"the mesh {file} cannot be read: {e}.") from e


def _find_mesh(path: Path, name: str) -> Path | None:
    """Path of a mesh: as named, or, for ``package://robot/meshes/a.stl``, that path without and with the package's name below
    the URDF's folder or one above it."""
    plain = name.removeprefix("file://")
    if not plain.startswith("package:"):
        tries = [path.parent / plain]
    else:
        inside = plain.removeprefix("package:").lstrip("/")
        short = inside.partition("/")[2]
        tries = [folder / rest for folder in path.resolve().parents for rest in (inside, short) if rest]
    return next((t for t in tries if t.is_file()), None)

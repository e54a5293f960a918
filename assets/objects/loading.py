"""A user's own mesh (OBJ, STL, PLY, GLB, GLTF) as an ObjectModel, with a report of all that was changed on the way."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Literal

import numpy as np
import trimesh

from rookery.assets.errors import RookeryError
from rookery.assets.objects.decompose import decompose
from rookery.assets.objects.gltf_size import check_gltf
from rookery.assets.objects.hulls import hull
from rookery.assets.objects.model import ObjectModel, build
from rookery.assets.objects.overlap import overlapping
from rookery.assets.objects.parts import convex
from rookery.assets.objects.repair import fill_small_holes, open_edges, thin_out, turn_outwards

FORMATS = (".glb", ".gltf", ".obj", ".ply", ".stl")
MAX_BYTES = 256 << 20
"""Largest file."""
SIZES = (1e-4, 1e3)
"""m: extents of an object, largest dimension; float32 of the physics engines and their contacts are good for these."""
MASSES = (1e-12, 1e12)
"""kg: float32 holds the moments of inertia of objects of these sizes."""
MOST_FACES = 200_000
MOST_PARTS = 256
"""To find the parts of 160,000 faces takes 12 s and 0.7 GB, of 640,000 a minute and 2.9 GB, on one core."""
FLAT = 1e-5
"""Least ratio of an object's shortest to its longest principal extent."""
TOO_LARGE = 5.0
"""m: nothing to grasp is larger, so such a file is in millimeters."""
DENSITY = 500.0
"""kg/m^3 where neither mass nor density is given: our choice, between foam and water."""
_GREY = (0.62, 0.64, 0.68, 1.0)


@dataclass
class LoadingReport:
    """Record of what `load_object` did: one readable line for each thing changed or assumed."""

    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def load_object(
    path: str | Path,
    *,
    scale: float | Literal["auto"] | None = None,
    mass: float | None = None,
    density: float | None = None,
    max_faces: int = 10_000,
    max_parts: int = 32,
    open: Literal["refuse", "hull"] = "refuse",
) -> tuple[ObjectModel, LoadingReport]:
    """An object from a mesh file, z up (glTF files, whose y is up, are turned).

    Args:
        scale: what to multiply lengths with to get m; "auto" takes a file larger than 5 m for one in millimeters.
        mass: kg. density: kg/m^3. One of them, or 500 kg/m^3.
        max_faces: a finer mesh is thinned out; 100 to 200,000.
        max_parts: convex parts that it may be cut into; 1 to 256.
        open: "hull" takes the convex hull of a mesh that stays open after small holes are filled.

    Raises:
        RookeryError: a file that is missing, unreadable, empty, open, flat, not finite, far too large or of an unknown format,
            or an argument that is no number within its limits.
    """
    if not isinstance(path, (str, Path)):
        raise RookeryError(f"the path is {path!r}: give that of a mesh.")
    path = Path(path)
    report = LoadingReport()
    _check_numbers(scale, mass, density, max_faces, max_parts, open)
    mesh = _to_meters(_read(path, report), path, scale, report)
    _check_extents(mesh, path)
    if len(mesh.faces) > max_faces:
        before = len(mesh.faces)
        mesh = thin_out(mesh, max_faces)
        report.lines.append(f"thinned out from {before} to {len(mesh.faces)} faces (max_faces={max_faces}).")
    mesh = _closed(mesh, path, open, report)
    if pairs := overlapping(mesh):
        line = f"{pairs} pairs of its solids overlap or contain each other: what they share counts twice in mass and inertia."
        report.lines.append(line)
        warnings.warn(f"{path}: {line} Unite them, or subtract a cavity, before you export it.", stacklevel=2)
    pieces, excess = decompose(mesh, max_parts=max_parts)
    report.lines.append(f"{len(pieces)} convex parts, which fill {100 * excess:.1f} % more than the mesh.")
    if mass is None:
        mass = (density or DENSITY) * float(mesh.volume)
        given = "given" if density else "assumed: give mass or density"
        report.lines.append(f"mass {mass:.4g} kg, of {density or DENSITY:g} kg/m^3 ({given}).")
    if not MASSES[0] <= mass <= MASSES[1]:
        raise RookeryError(
            f"{path} gets a mass of {mass:.3g} kg, and an object has {MASSES[0]:g} to {MASSES[1]:g} kg: give another mass or "
            "density."
        )
    made = build(path.stem, mesh, [convex(p) for p in pieces], mass, source=str(path), color=_GREY)
    return made, report


def _check_numbers(
    scale: float | str | None, mass: float | None, density: float | None, max_faces: int, max_parts: int, open: str
) -> None:
    for name, value in (("scale", None if scale == "auto" else scale), ("mass", mass), ("density", density)):
        good = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(value) and value > 0.0
        if value is not None and not good:
            also = ", 'auto' or None" if name == "scale" else ""
            raise RookeryError(f"{name} is {value!r}: give a number above zero{also}.")
    if mass is not None and density is not None:
        raise RookeryError(f"both mass ({mass:g} kg) and density ({density:g} kg/m^3) are given: give one of them.")
    for name, value, least, most in (
        ("max_faces", max_faces, 100, MOST_FACES), ("max_parts", max_parts, 1, MOST_PARTS)
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= value <= most:
            raise RookeryError(f"{name} is {value!r}: give a whole number from {least} to {most}.")
    if open not in ("refuse", "hull"):
        raise RookeryError(f"open is {open!r}: give 'refuse' or 'hull'.")


def _read(path: Path, report: LoadingReport) -> trimesh.Trimesh:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise RookeryError(f"{path} has the unknown format {suffix!r}: give one of {', '.join(FORMATS)}.")
    if not path.is_file():
        raise RookeryError(f"there is no file {path}: give the path of a mesh.")
    if path.stat().st_size > MAX_BYTES:
        raise RookeryError(f"{path} has more than {MAX_BYTES >> 20} MiB: thin it out.")
    if suffix in (".glb", ".gltf"):
        check_gltf(path)
    try:
        mesh = trimesh.load(path, force="mesh", process=False)
    except Exception as error:  # the readers raise whatever broke them
        raise RookeryError(
            f"{path} cannot be read as a {suffix[1:].upper()} file ({error!s:.200}): export it again."
        ) from error
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise RookeryError(f"{path} has no faces: export it as a triangle mesh.")
    faces = np.asarray(mesh.faces)
    if np.shape(mesh.vertices)[1:] != (3,):
        raise RookeryError(f"{path} has vertices that are not three numbers: export it again.")
    if faces.min() < 0 or faces.max() >= len(mesh.vertices):
        raise RookeryError(f"{path} has faces of vertices that it lacks: export it again.")
    if not np.isfinite(mesh.vertices).all():
        bad = int((~np.isfinite(mesh.vertices)).any(1).sum())
        raise RookeryError(f"{path} has {bad} vertices that are not finite numbers: export it again.")
    mesh = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)  # without colors and normals, which part vertices
    before = len(mesh.vertices)
    mesh.merge_vertices()
    if len(mesh.vertices) < before:
        report.lines.append(f"merged {before} vertices to {len(mesh.vertices)}.")
    mesh.update_faces(mesh.unique_faces() & mesh.nondegenerate_faces(height=0.0))
    if suffix in (".glb", ".gltf"):
        mesh.vertices = mesh.vertices[:, [0, 2, 1]] * (1.0, -1.0, 1.0)
        report.lines.append("turned from glTF's y up to z up.")
    return mesh


def _check_extents(mesh: trimesh.Trimesh, path: Path) -> None:
    """Refuse a point, a line, a plane, and what is too small or too large for physics."""
    vertices = np.asarray(mesh.vertices, float)
    if len(mesh.faces) == 0 or len(vertices) < 4:
        raise RookeryError(f"{path} has no faces of an area above zero, so it has no volume: export a solid.")
    largest = float(np.ptp(vertices, axis=0).max())
    if not SIZES[0] <= largest <= SIZES[1]:
        raise RookeryError(
            f"{path} is {largest:.3g} m large, and an object has {SIZES[0]:g} to {SIZES[1]:g} m: give another scale."
        )
    extents = np.linalg.svd((vertices - vertices.mean(0)) / largest, compute_uv=False)
    if extents[2] < FLAT * extents[0]:
        raise RookeryError(f"{path} is a plane or a line, so it has no volume: export a solid.")


def _to_meters(
    mesh: trimesh.Trimesh, path: Path, scale: float | Literal["auto"] | None, report: LoadingReport
) -> trimesh.Trimesh:
    largest = float(np.ptp(np.asarray(mesh.vertices, float), axis=0).max())
    if scale is None or scale == "auto":
        if largest <= TOO_LARGE:
            return mesh
        if scale is None:
            raise RookeryError(
                f"{path} is {largest:.4g} m large, so it is probably in millimeters: give scale=0.001, or scale='auto'."
            )
        scale = 0.001
        report.lines.append(f"{largest:.4g} m large, so taken for millimeters: scaled by 0.001.")
    else:
        report.lines.append(f"scaled by {scale:g}.")
    return mesh.copy().apply_scale(scale)


def _closed(mesh: trimesh.Trimesh, path: Path, open: str, report: LoadingReport) -> trimesh.Trimesh:
    mesh, turned = turn_outwards(mesh)
    mesh, filled = fill_small_holes(mesh)
    mesh, again = turn_outwards(mesh)
    if turned or again:
        report.lines.append("turned faces that were inside out.")
    if filled:
        report.lines.append(f"filled {filled} small hole{'s' if filled > 1 else ''}.")
    rims = len(open_edges(mesh))
    if rims == 0 and mesh.volume > 0.0:
        return mesh
    if open == "hull":
        report.lines.append(f"open along {rims} edges: its convex hull is taken.")
        return hull(np.asarray(mesh.vertices, float))
    raise RookeryError(
        f"{path} is open along {rims} edges, so it has no volume: close it, or take its hull with open='hull'."
    )

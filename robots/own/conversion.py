"""Files that need a package of their own: COLLADA meshes by pycollada, xacro files by xacro."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path

import numpy as np

from rookery.robots.own import guard
from rookery.sim.errors import RookeryError


def stl_of(file: Path, data: bytes) -> bytes:
    """A COLLADA mesh as binary STL, in m, its axes as the file has them (ROS's convention, whatever its up_axis says).

    Raises:
        RookeryError: pycollada is not installed, or the file is damaged or empty.
    """
    try:
        import collada  # noqa: F401  # trimesh reads by it
    except ImportError:
        raise RookeryError(
            f"the mesh {file} is COLLADA: pip install pycollada, or convert it to .obj or .stl, or give the link a box, "
            "cylinder or sphere."
        ) from None
    import trimesh

    try:
        root = guard.parse(data)
        unit = root.find("{*}asset/{*}unit")
        meter = 1.0 if unit is None else float(unit.get("meter", 1.0))
        scene = trimesh.load_scene(io.BytesIO(data), file_type="dae")
        mesh = scene.to_mesh()
        if not (0.0 < meter < math.inf and len(mesh.faces) and np.isfinite(mesh.vertices).all()):
            raise ValueError("no triangles, or no sizes")
        mesh.apply_scale(meter)
        return bytes(mesh.export(file_type="stl"))
    except Exception as e:  # the readers raise whatever broke them
        raise RookeryError(f"the mesh {file} cannot be read ({' '.join(str(e).split())}): export it again.") from e


def expand_xacro(path: Path) -> bytes:
    """The URDF that a xacro file stands for. Its expressions and includes are evaluated: expand only what you trust.

    Raises:
        RookeryError: xacro is not installed, or cannot expand the file.
    """
    try:
        import xacro
    except ImportError:
        raise RookeryError(
            f"{path} is a xacro file: pip install xacro, or expand it by `xacro {path.name} > robot.urdf`."
        ) from None
    if not path.is_file():
        raise RookeryError(f"there is no file {path}: give the path of a robot's file.")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return bytes(xacro.process_file(str(path)).toxml("utf-8"))
    except FileNotFoundError:
        raise
    except (Exception, SystemExit) as e:  # of anybody's expressions
        raise RookeryError(
            f"xacro cannot expand {path}: {' '.join(str(e).split()) or type(e).__name__}. Mend the file."
        ) from e

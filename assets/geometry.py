"""Carries trimesh meshes into MuJoCo specs, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import mujoco

if TYPE_CHECKING:
    import trimesh

_looks: ContextVar[bool] = ContextVar("looks", default=True)


@contextmanager
def without_looks() -> Iterator[None]:
    """Inside, `looks_wanted` is false and `add_visual_mesh` adds nothing: for specs of the physics, which runs without what is
    only looked at."""
    before = _looks.set(False)
    try:
        yield
    finally:
        _looks.reset(before)


def looks_wanted() -> bool:
    """True where a robot's looks are to be made, for which trimesh is imported: half a second."""
    return _looks.get()


def add_visual_mesh(
    spec: mujoco.MjSpec,
    body: mujoco.MjsBody,
    name: str,
    mesh: trimesh.Trimesh,
    rgba: Sequence[float],
    *,
    shine: float = 0.3,
    pos: Sequence[float] = (0.0, 0.0, 0.0),
    group: int = 2,
) -> None:
    """Add a mesh (m, body frame shifted by `pos`) as a visual geom, without collisions and mass.

    Mesh, material and geom all get the name `name`. `shine` in [0, 1] sets how glossy it is.
    """
    if not looks_wanted():
        return
    asset = spec.add_mesh(name=name)
    asset.uservert = mesh.vertices.ravel()
    asset.userface = mesh.faces.ravel()
    asset.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # thin parts have next to no volume
    spec.add_material(name=name, rgba=list(rgba), specular=shine, shininess=0.3 + 0.5 * shine)
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_MESH,
        meshname=name,
        material=name,
        pos=list(pos),
        group=group,
        contype=0,
        conaffinity=0,
        mass=0,
    )

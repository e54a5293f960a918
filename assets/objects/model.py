"""ObjectModel: a rigid thing to grasp, with its looks, its convex parts and its mass, and the MuJoCo spec of all that.

Frame of every object: z up as it stands on a table, the origin at the centre of its bounding box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

from rookery.assets.arms import COLLISION_GROUP, TOUCH_BIT, Mass
from rookery.assets.errors import RookeryError
from rookery.assets.geometry import add_visual_mesh
from rookery.assets.objects.parts import Part

Floats = NDArray[np.float64]
FRICTION = (0.8, 0.01, 0.0001)
"""Sliding, torsional (m), rolling (m): our choice. 10 mm of torsional friction stand for the patch of a finger's pad, without
which an object held between two points would spin freely about the line through them."""
ROLLING = 0.0005
"""m, rolling friction of what is round, so that a ball comes to rest: our choice."""


@dataclass(frozen=True, eq=False)
class ObjectModel:
    """A rigid object in its own frame (this module's docstring).

    Args:
        name: as `find_object` knows it, or a file's.
        size: [3] m, of its bounding box.
        mass: kg.
        parts: convex parts that collide, which together are the object.
        mesh: its whole surface, m, for rendering and grasp sampling. Shells that belong together may overlap.
        com: [3] m, centre of mass.
        inertia: [6] kg m^2 about `com`: xx, yy, zz, xy, xz, yz (elements of the matrix).
        source: where size and mass come from.
        color: [4] RGBA in [0, 1].
        rolls: it is round and gets rolling friction.
    """

    name: str
    size: tuple[float, ...]
    mass: float
    parts: tuple[Part, ...]
    mesh: trimesh.Trimesh
    com: tuple[float, ...]
    inertia: tuple[float, ...]
    source: str
    color: tuple[float, float, float, float]
    rolls: bool = False

    @property
    def rest_height(self) -> float:
        """m, of the origin above the table on which the object stands."""
        return 0.5 * self.size[2]

    def spec(self, visual: bool = True, *, friction: Sequence[float] = FRICTION) -> mujoco.MjSpec:
        """The object as a MuJoCo spec: body `object` with the free joint `free` and the site `centre` at its origin.

        Collision geoms `part0` ... are in group 3 and touch what has contype or conaffinity 1, with friction about the
        contact's normal (condim 4; 6 for what rolls). They have no mass: the body's inertia is given.

        Args:
            visual: False leaves the visual mesh `looks`, in group 2, out.
            friction: [3] sliding, torsional (m), rolling (m).
        """
        spec = mujoco.MjSpec()
        spec.modelname = self.name
        spec.compiler.degree = False
        body = spec.worldbody.add_body(name="object")
        body.add_freejoint(name="free")
        body.add_site(name="centre", size=[0.004] * 3, group=4)
        body.explicitinertial = True
        body.mass = self.mass
        body.ipos = list(self.com)
        body.fullinertia = list(self.inertia)
        slide, twist, roll = friction
        for i, part in enumerate(self.parts):
            geom = _add_part(spec, body, f"part{i}", part)
            geom.contype = geom.conaffinity = TOUCH_BIT
            geom.group = COLLISION_GROUP
            geom.mass = 0.0
            geom.rgba = [*self.color[:3], 0.5]
            geom.condim = 6 if self.rolls else 4
            geom.friction = [slide, twist, max(roll, ROLLING) if self.rolls else roll]
        if visual:
            add_visual_mesh(spec, body, "looks", self.mesh, self.color)
        return spec


def build(
    name: str,
    mesh: trimesh.Trimesh,
    parts: Sequence[Part],
    mass: float,
    *,
    source: str,
    color: tuple[float, float, float, float],
    rolls: bool = False,
) -> ObjectModel:
    """An object of `mass` kg, spread evenly over the volume of its closed mesh, moved to the object's frame.

    Args:
        mesh, parts: m, in one frame, z up.

    Raises:
        RookeryError: the mass is not above zero, or the mesh has no volume.
    """
    if not (np.isfinite(mass) and mass > 0.0):
        raise RookeryError(f"{name!r} has a mass of {mass} kg: give one above zero.")
    low, high = mesh.bounds
    shift = -0.5 * (low + high)
    centred = mesh.copy().apply_translation(shift)
    weight = inertia_of(centred, mass)
    return ObjectModel(
        name, tuple((high - low).tolist()), mass, tuple(p.moved(shift) for p in parts), centred,
        weight.com, weight.inertia, source, color, rolls,
    )  # fmt: skip


def inertia_of(mesh: trimesh.Trimesh, mass: float) -> Mass:
    """`mass` kg spread evenly over a closed mesh (m).

    Raises:
        RookeryError: the mesh has no volume.
    """
    if not mesh.volume > 0.0:
        raise RookeryError(
            f"a mesh of {mesh.volume:.3g} m^3 has no inertia: give one that is closed and not inside out."
        )
    properties = mesh.mass_properties
    moments = np.asarray(properties["inertia"]) * (mass / float(properties["mass"]))
    six = (moments[0, 0], moments[1, 1], moments[2, 2], moments[0, 1], moments[0, 2], moments[1, 2])
    return Mass(mass, tuple(float(v) for v in properties["center_mass"]), tuple(float(v) for v in six))


def _add_part(spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, part: Part) -> mujoco.MjsGeom:
    if part.kind == "mesh":
        asset = spec.add_mesh(name=name)
        asset.uservert = part.mesh.vertices.ravel()
        asset.userface = part.mesh.faces.ravel()
        asset.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        return body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name)
    shape = getattr(mujoco.mjtGeom, f"mjGEOM_{part.kind.upper()}")
    return body.add_geom(name=name, type=shape, size=list(part.size), pos=list(part.pos), quat=list(part.quat))

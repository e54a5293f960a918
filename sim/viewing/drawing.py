"""Drawing in the browser: the meshes of some worlds side by side, sent once, and their poses, sent again and again.

Geoms of one mesh are one batch, of which every geom in every world is an instance with a color and a size of its own. A frame
is then two arrays a batch, whatever the number of worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.rendering.geoms import BOX, CYLINDER, ELLIPSOID, MESH, PLANE, SHOWN, SPHERE, geom_color, geom_mesh
from rookery.sim.rendering.markers import marker_shape
from rookery.sim.viewing.marks import MarkerBatches, as_bytes
from rookery.sim.viewing.values import is_place

if TYPE_CHECKING:
    from viser import ViserServer

Floats = NDArray[np.float64]
ROOT = "/worlds"
FLOOR = (222, 228, 232)
LINES = (176, 186, 194)
CREASE = np.cos(np.radians(35.0))
"""Faces that meet at less than this angle are shaded as one smooth surface."""


@dataclass(frozen=True)
class Poses:
    """Geoms of all shown worlds, one world after the other: positions [G, 3] m, world, and quaternions [G, 4] wxyz."""

    pos: Floats
    quat: Floats

    def towards(self, other: Poses, share: float) -> Poses:
        """Between these poses (0) and others (1), for motions of less than half a turn."""
        turned = np.where((self.quat * other.quat).sum(1, keepdims=True) < 0, -other.quat, other.quat)
        quat = self.quat + share * (turned - self.quat)
        return Poses(self.pos + share * (other.pos - self.pos), quat / np.linalg.norm(quat, axis=1, keepdims=True))


@dataclass(eq=False)
class _Batch:
    """Instances of one mesh: where they are in Poses, which world and body each belongs to, sizes and colors."""

    vertices: Floats
    faces: NDArray[np.int64]
    index: list[int] = field(default_factory=list)
    world: list[int] = field(default_factory=list)
    body: list[int] = field(default_factory=list)
    scale: list[Floats] = field(default_factory=list)
    color: list[Floats] = field(default_factory=list)
    handle: Any = None
    sent: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None


class Drawing:
    """Some worlds on a page.

    Args:
        server: of the page.
        models: visual model of each of the W worlds.
        offsets: [W, 3] m, where each world's origin is drawn.
        grab: called when somebody drags a body with the mouse, in a thread of the server: with the index of the world, the id
            of the body, the phase "start", "update" or "end", and the places [3] m where the body is held and where the mouse
            is, in the world's frame.
    """

    def __init__(
        self,
        server: ViserServer,
        models: Sequence[mujoco.MjModel],
        offsets: Floats,
        grab: Callable[[int, int, str, Floats, Floats], None],
    ) -> None:
        self.server = server
        self.offsets = offsets
        self.shift = np.zeros(3)
        self._grab = grab
        self._first = np.cumsum([0, *(m.ngeom for m in models)])
        self._origin = np.repeat(offsets, [m.ngeom for m in models], axis=0)
        self._root = server.scene.add_frame(ROOT, show_axes=False)
        self._batches = self._gather(models)
        self._marks = MarkerBatches(server, f"{ROOT}/markers")
        self._arrows: dict[str, Any] = {}
        self._add_floors(models)

    def geoms(self, world: int) -> slice:
        """The rows of Poses that hold a world."""
        return slice(int(self._first[world]), int(self._first[world + 1]))

    def show(self, poses: Poses) -> None:
        """Send poses; those that are the same as before are not."""
        pos = (poses.pos + self._origin).astype(np.float32)
        quat = poses.quat.astype(np.float32)
        for batch in self._batches:
            now = pos[batch.index], quat[batch.index]
            if batch.handle is None:
                self._add(batch, *now)
            else:
                assert batch.sent is not None
                if not np.array_equal(now[0], batch.sent[0]):
                    batch.handle.batched_positions = now[0]
                if not np.array_equal(now[1], batch.sent[1]):
                    batch.handle.batched_wxyzs = now[1]
            batch.sent = now

    def centre(self, place: Floats) -> None:
        """Move everything so that a place [3] m of the drawn scene is over the origin of the page, where cameras look."""
        self.shift = -place
        self._root.position = self.shift

    def mark(self, markers: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Draw markers: pairs of world and marker, see `marker_shape`."""
        self._marks.draw([(self.offsets[w], marker_shape(m)) for w, m in markers])

    def arrows(self, name: str, lines: Floats, radius: float, color: tuple[int, int, int]) -> None:
        """Draw arrows [n, 2, 3] m from tail to tip, in the drawn scene, in place of those of that name."""
        old = self._arrows.get(name)
        if not len(lines):
            if old is not None:
                old.visible = False
        elif old is None:
            self._arrows[name] = self.server.scene.add_arrows(
                f"{ROOT}/{name}", lines, color, shaft_radius=radius, head_radius=2.5 * radius, head_length=5.0 * radius
            )
        else:
            old.points = lines.astype(np.float32)
            old.visible = True

    def remove(self) -> None:
        """Take everything off the page."""
        self._root.remove()

    def _gather(self, models: Sequence[mujoco.MjModel]) -> list[_Batch]:
        batches: dict[tuple[Any, ...], _Batch] = {}
        for w, model in enumerate(models):
            for g in range(model.ngeom):
                rgba = geom_color(model, g)
                kind = int(model.geom_type[g])
                if model.geom_group[g] > SHOWN or rgba[3] < 0.03 or kind == PLANE:
                    continue
                key, scale = _identity(model, g)
                moves = int(model.body_weldid[model.geom_bodyid[g]]) != 0
                solid = rgba[3] > 0.99
                if (key, moves, solid) not in batches:
                    mesh = geom_mesh(model, g)
                    if mesh is None:
                        continue
                    batches[key, moves, solid] = _Batch(*creased(mesh.vertices / scale, mesh.faces, mesh.face_normals))
                batch = batches[key, moves, solid]
                batch.index.append(int(self._first[w]) + g)
                batch.world.append(w)
                batch.body.append(int(model.geom_bodyid[g]) if moves else 0)
                batch.scale.append(scale)
                batch.color.append(rgba)
        return list(batches.values())

    def _add(self, batch: _Batch, pos: NDArray[np.float32], quat: NDArray[np.float32]) -> None:
        colors = np.array(batch.color)
        solid = bool((colors[:, 3] > 0.99).all())
        batch.handle = self.server.scene.add_batched_meshes_simple(
            f"{ROOT}/batch_{self._batches.index(batch)}", batch.vertices, batch.faces, quat, pos,
            batched_scales=np.array(batch.scale, np.float32), batched_colors=as_bytes(colors[:, :3]),
            batched_opacities=None if solid else colors[:, 3].astype(np.float32), lod="off", cast_shadow=solid,
        )  # fmt: skip
        if any(batch.body):
            batch.handle.on_drag("left", modifier="cmd/ctrl")(lambda event: self._dragged(batch, event))

    def _dragged(self, batch: _Batch, event: Any) -> None:
        i = int(event.instance_index or 0)
        places = event.start_position, event.end_position
        if not 0 <= i < len(batch.body) or not all(map(is_place, places)):
            return
        world = batch.world[i]
        origin = self.shift + self.offsets[world]
        held = np.array(event.start_position, float) - origin
        mouse = np.array(event.end_position, float) - origin
        self._grab(world, batch.body[i], event.phase, held, mouse)

    def _add_floors(self, models: Sequence[mujoco.MjModel]) -> None:
        """Level planes of all worlds as one floor without end at each height."""
        heights = set()
        for model, offset in zip(models, self.offsets, strict=True):
            for g in np.flatnonzero((model.geom_type == PLANE) & (model.geom_group <= SHOWN)):
                heights.add(round(float(model.geom_pos[g, 2] + offset[2]), 4))
        for z in sorted(heights):
            self.server.scene.add_grid(
                f"{ROOT}/floor_{z:g}", infinite_grid=True, cell_size=0.5, section_size=0.5, cell_color=LINES,
                section_color=LINES, plane_color=FLOOR, plane_opacity=1.0, shadow_opacity=0.25, fade_distance=60.0,
                position=(0.0, 0.0, z - 0.001),
            )  # fmt: skip


def _identity(model: mujoco.MjModel, geom: int) -> tuple[tuple[Any, ...], Floats]:
    """Parts that geoms of one mesh have in common, and the factors [3] that make the mesh this geom."""
    kind = int(model.geom_type[geom])
    size = model.geom_size[geom].astype(float)
    if kind in (BOX, ELLIPSOID):
        return (kind,), size
    if kind == SPHERE:
        return (ELLIPSOID,), np.full(3, size[0])
    if kind == CYLINDER:
        return (kind,), size[[0, 0, 1]]
    if kind == MESH:
        return (kind, id(model), int(model.geom_dataid[geom])), np.ones(3)
    return (kind, *np.round(size, 6)), np.ones(3)


def creased(vertices: Floats, faces: NDArray[np.int64], normals: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """A mesh whose vertices are split along its edges, so that shading is smooth elsewhere and sharp there.

    Args:
        vertices: [V, 3].
        faces: [F, 3] indices of vertices.
        normals: [F, 3] of the faces.

    Returns:
        vertices [V', 3] and faces [F, 3].
    """
    corners = np.asarray(faces).ravel()
    turned = np.repeat(np.asarray(normals), 3, axis=0)
    new = np.empty(len(corners), np.int64)
    source: list[int] = []
    around: dict[int, list[tuple[Floats, int]]] = {}
    for corner, (vertex, normal) in enumerate(zip(corners.tolist(), turned, strict=True)):
        known = around.setdefault(vertex, [])
        place = next((i for seed, i in known if float(seed @ normal) > CREASE), -1)
        if place < 0:
            place = len(source)
            source.append(vertex)
            known.append((normal, place))
        new[corner] = place
    return np.asarray(vertices)[source], new.reshape(-1, 3)

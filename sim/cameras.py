"""Cameras on robots, batched: depth, colour or classes of what N worlds' cameras see, on any engine.

The pictures are cast on the CPU from the collision shapes of the scene (see raycast), without OpenGL, which takes tens of
milliseconds a picture where there is no GPU. Films are not made with them: for those there is `rookery.sim.render`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim import raycast
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.shading import BOX, CAPSULE, CYLINDER, ELLIPSOID, PLANE, SPHERE
from rookery.sim.world import World

CLASSES = ("nothing", "ground", "drone", "ball", "gate", "net", "target", "obstacle")
"""What segmentation tells apart; a class's number is its place here. See `geom_class`."""

KINDS = {"depth": raycast.DEPTH, "segmentation": raycast.SEGMENTATION, "rgb": raycast.RGB}

PAINT = {"drone": (0.13, 0.15, 0.20), "net": (0.92, 0.92, 0.92), "target": (0.10, 0.80, 0.25)}
"""Colours of shapes that the scene has half transparent, as it does with colliders that films do not show."""

WORK = 10_000
"""Pixels that are worth a thread: fewer are done before it has woken up."""

_GEOM = mujoco.mjtGeom


@dataclass(frozen=True)
class _Marks:
    """Spheres of one class, see `Cameras.spheres`."""

    count: int
    radius: float
    rgb: tuple[float, ...]
    own: bool


class Cameras:
    """C cameras in each of N worlds.

    Seen are the geoms of the scene as it is simulated, without those that only look: planes (from their front, with a
    chequer of half-metre tiles in `rgb`), spheres, capsules, cylinders, boxes and ellipsoids; meshes as their boxes. Half
    transparent geoms are drawn as solid, and those with alpha 0 not at all. A camera does not see what is rigidly
    fixed to the body it is mounted on. What films mark (targets, trails) is no geom: see `spheres`.

    Args:
        world: engine with the scene; its poses are read at every `read`.
        names: of MuJoCo cameras that are fixed to their bodies, such as "drone_0/onboard". They look along their -z, with y up
            in the picture, and `fovy` is the vertical angle of view, as in MuJoCo.
        width, height: pixels.
        kind: "depth", "rgb" or "segmentation".
        max_range: m; what is farther is not seen.
        threads: 0 takes one for each processor that this process may use. Pictures do not depend on it.

    Attributes:
        geoms: ids in `world.model` of the geoms that are seen, [G].
        classes: [G] their classes.

    Raises:
        RookeryError: unknown camera or kind; no camera, pixel or range; a camera that turns by itself, or without
            perspective; a height field in the scene.
    """

    def __init__(
        self, world: World, names: Sequence[str], width: int = 64, height: int = 48, kind: str = "depth",
        max_range: float = 20.0, threads: int = 0,
    ) -> None:  # fmt: skip
        if kind not in KINDS:
            raise unknown("kind of picture", kind, KINDS)
        if width < 1 or height < 1:
            raise RookeryError(f"a picture needs at least one pixel each way, got {width} x {height}.")
        if not 0.0 < max_range < math.inf:
            raise RookeryError(f"max_range must be positive and finite, got {max_range} m.")
        self.world, self.names, self.kind = world, tuple(names), kind
        self.width, self.height, self.max_range = width, height, float(max_range)
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(max(self.threads - 1, 1), "cameras")
        model = world.model
        ids = _camera_ids(model, self.names)
        self.geoms = [g for g in range(model.ngeom) if _colour(model, g)[3] > 0.0]
        self.classes = torch.tensor([CLASSES.index(geom_class(model, g)) for g in self.geoms])
        roots = sorted(
            {int(model.body_weldid[b]) for b in (*model.geom_bodyid[self.geoms], *model.cam_bodyid[ids])} - {0}
        )
        self._bodies = world.bodies([model.body(b).name for b in roots]) if roots else None
        frames = _Frames(model, roots)
        self._shapes = frames.shapes(self.geoms, self.classes.numpy())
        self._mounts = frames.cameras(ids)
        self._rays = _rays(model.cam_fovy[ids], width, height)
        self._groups: dict[str, _Marks] = {}
        self._places: dict[str, slice] = {}
        n, c = world.num_envs, len(ids)
        self._still = np.zeros((n, 0, 13), np.float32)  # states of no bodies
        self._spheres = torch.zeros(n, 0, 4)
        self._marks: tuple[np.ndarray, ...] = ()
        self._arrange()
        sizes = (n, c, height, width)
        self._depth = torch.zeros(sizes if kind == "depth" else (0, 0, 0, 0))
        self._class = torch.zeros(sizes if kind == "segmentation" else (0, 0, 0, 0), dtype=torch.int32)
        self._rgb = torch.zeros((*sizes, 3) if kind == "rgb" else (0, 0, 0, 0, 3), dtype=torch.uint8)

    def read(self) -> Tensor:
        """The pictures of this moment; row 0 is the uppermost, column 0 the leftmost. Valid until the next call.

        Returns:
            depth: [N, C, H, W] float32 m along the optical axis, as MuJoCo's renderer gives it (not along the ray);
            `max_range` where nothing is hit.
            rgb: [N, C, H, W, 3] uint8.
            segmentation: [N, C, H, W] int32, indices of `CLASSES`.
        """
        state = (
            self._still if self._bodies is None else np.ascontiguousarray(self._bodies.state.cpu().numpy(), np.float32)
        )
        fixed = (
            KINDS[self.kind], state, self._shapes, (self._spheres.numpy(), *self._marks), self._mounts, self._rays,
            np.float32(self.max_range), self._seen, self._depth.numpy(), self._class.numpy(), self._rgb.numpy(),
        )  # fmt: skip
        n, pixels = self.world.num_envs, self.width * self.height * len(self.names)
        parts = max(1, min(self.threads, n, n * pixels // WORK))
        cuts = [n * i // parts for i in range(parts + 1)]
        others = [self._pool.submit(raycast.render, a, b, *fixed) for a, b in zip(cuts[1:], cuts[2:], strict=False)]
        raycast.render(cuts[0], cuts[1], *fixed)
        for other in others:
            other.result()
        out = {"depth": self._depth, "segmentation": self._class, "rgb": self._rgb}[self.kind]
        return out.to(self.world.device)

    def spheres(
        self, pos: Tensor, radius: float, rgb: Sequence[float] = PAINT["target"], cls: str = "target", own: bool = False
    ) -> None:
        """Show spheres that are in no scene and touch nothing, such as targets. They replace earlier ones of their class.

        Args:
            pos: [N, M, 3] m, world. Copied: call again when they have moved.
            radius: m.
            rgb: [3], from 0 to 1.
            cls: what segmentation calls them, see `CLASSES`.
            own: the M spheres belong to the C cameras, the same number to each in turn; a camera shows only its own.

        Raises:
            RookeryError: unknown class, a radius that is not positive, another number of worlds, or with `own` a number of
                spheres that the cameras cannot share evenly.
        """
        if cls not in CLASSES[1:]:
            raise unknown("class", cls, CLASSES[1:])
        if not 0.0 < radius < math.inf:
            raise RookeryError(f"a sphere's radius must be positive, got {radius} m.")
        n, c = self.world.num_envs, len(self.names)
        if pos.ndim != 3 or pos.shape[0] != n or pos.shape[2] != 3:
            raise RookeryError(f"spheres need positions [{n}, M, 3], got {list(pos.shape)}.")
        count = pos.shape[1]
        if own and count % c:
            raise RookeryError(f"{count} spheres cannot be shared evenly by {c} cameras: give each as many.")
        group = _Marks(count, float(radius), tuple(rgb), own)
        if self._groups.get(cls) != group:
            self._groups[cls] = group
            self._arrange()
        self._spheres[:, self._places[cls], :3] = pos.cpu()

    def _arrange(self) -> None:
        """Lay out the spheres of all classes side by side, each in its place until the layout changes."""
        before, places, self._places = self._spheres, self._places, {}
        n, c, at = self.world.num_envs, len(self.names), 0
        labels: list[int] = []
        paints: list[tuple[float, ...]] = []
        only: list[int] = []
        radii: list[float] = []
        for cls, group in self._groups.items():
            self._places[cls] = slice(at, at + group.count)
            at += group.count
            labels += [CLASSES.index(cls)] * group.count
            paints += [group.rgb] * group.count
            radii += [group.radius] * group.count
            only += [m * c // group.count if group.own else -1 for m in range(group.count)]
        self._spheres = torch.zeros(n, at, 4)
        self._spheres[..., 3] = torch.tensor(radii)
        for cls, place in places.items():
            if place.stop - place.start == self._groups[cls].count:
                self._spheres[:, self._places[cls], :3] = before[:, place, :3]
        self._marks = (
            np.array(labels, np.int32), np.array(paints, np.float32).reshape(-1, 3), np.array(only, np.int64)
        )  # fmt: skip
        bodies = 0 if self._bodies is None else len(self._bodies.names)
        self._seen = np.zeros((n, 1 + 7 * bodies + 4 * at), np.float32)  # nothing is drawn yet


def geom_class(model: mujoco.MjModel, geom: int) -> str:
    """One of `CLASSES` for a geom: planes are ground, what belongs to a part with rotors is a drone, and otherwise the first
    word of the geom's or its body's name that is a class decides ("gate_2/left", "ball/base"). The rest are obstacles."""
    if model.geom_type[geom] == _GEOM.mjGEOM_PLANE:
        return "ground"
    body = model.body(model.geom_bodyid[geom]).name
    actuators = {model.actuator(u).name for u in range(model.nu)}
    prefix = body.rpartition("/")[0]
    if prefix and f"{prefix}/rotor_1" in actuators:
        return "drone"
    for word in re.split(r"[^a-z]+", f"{model.geom(geom).name}/{body}".lower()):
        if word in CLASSES[1:]:
            return word
    return "obstacle"


def _camera_ids(model: mujoco.MjModel, names: tuple[str, ...]) -> list[int]:
    known = [model.camera(i).name for i in range(model.ncam)]
    if not names:
        raise RookeryError(f"give the name of at least one camera: the scene has {', '.join(known) or 'none'}.")
    for name in names:
        if name not in known:
            raise unknown("camera", name, known)
    ids = [known.index(n) for n in names]
    for i, name in zip(ids, names, strict=True):
        if model.cam_mode[i] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED:
            raise RookeryError(
                f"camera {name!r} turns by itself (tracking or targeting): use one that is fixed to its body."
            )
        if model.cam_projection[i] != mujoco.mjtProjection.mjPROJ_PERSPECTIVE or model.cam_sensorsize[i].any():
            raise RookeryError(
                f"camera {name!r} is not given by its vertical angle of view alone: set fovy and no intrinsics."
            )
    return ids


def _rays(fovy: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tangents u [C, W] and v [C, H] of the rays through the middles of the pixels, and [C, H, W] 1 / (u u + v v + 1)."""
    top = np.tan(0.5 * np.radians(fovy))[:, None]
    u = top * width / height * ((2 * np.arange(width) + 1) / width - 1.0)
    v = top * (1.0 - (2 * np.arange(height) + 1) / height)
    reciprocal = 1.0 / (u[:, None, :] ** 2 + v[:, :, None] ** 2 + 1.0)
    return u.astype(np.float32), v.astype(np.float32), reciprocal.astype(np.float32)


class _Frames:
    """Poses of geoms and cameras in the frames of the bodies that carry them: the topmost of what is rigidly joined.

    Args:
        roots: ids of those bodies, in the order of the state that the kernel gets.
    """

    def __init__(self, model: mujoco.MjModel, roots: list[int]) -> None:
        self.model, self.data, self.roots = model, mujoco.MjData(model), roots
        mujoco.mj_kinematics(model, self.data)
        mujoco.mj_comPos(model, self.data)
        mujoco.mj_camlight(model, self.data)

    def _in_root(self, body: int, pos: np.ndarray, mat: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        """Index of the carrier (-1: the world) and the pose in its frame."""
        root = int(self.model.body_weldid[body])
        turn = self.data.xmat[root].reshape(3, 3).T
        at = self.roots.index(root) if root else -1
        return at, turn @ (pos - self.data.xpos[root]), turn @ mat.reshape(3, 3)

    def cameras(self, ids: list[int]) -> tuple[np.ndarray, ...]:
        """(body [C], pos [C, 3], mat [C, 9])."""
        m, d = self.model, self.data
        return _stack([self._in_root(m.cam_bodyid[i], d.cam_xpos[i], d.cam_xmat[i]) for i in ids])

    def shapes(self, geoms: list[int], classes: np.ndarray) -> tuple[np.ndarray, ...]:
        """What `raycast.render` takes."""
        m, d = self.model, self.data
        kinds, sizes, halves, poses = [], [], [], []
        for g in geoms:
            kind, size, pos, mat = int(m.geom_type[g]), m.geom_size[g], d.geom_xpos[g], d.geom_xmat[g].reshape(3, 3)
            if kind == _GEOM.mjGEOM_HFIELD:
                raise RookeryError(f"cameras do not draw height fields, and geom {m.geom(g).name!r} is one: use boxes.")
            if kind not in (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX):
                kind, size, pos = BOX, m.geom_aabb[g, 3:], pos + mat @ m.geom_aabb[g, :3]
            kinds.append(kind)
            sizes.append(size)
            halves.append(_half_edges(kind, size))
            poses.append(self._in_root(m.geom_bodyid[g], pos, mat))
        paints = [_colour(m, g)[:3] for g in geoms]
        flat = [np.array(a, np.float32).reshape(-1, 3) for a in (sizes, halves, paints)]
        return np.array(kinds, np.int64), *_stack(poses), flat[0], flat[1], classes.astype(np.int32), flat[2]


def _stack(poses: list[tuple[int, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    pos = np.array([p for _, p, _ in poses], np.float32).reshape(-1, 3)
    mat = np.array([m for _, _, m in poses], np.float32).reshape(-1, 9)
    return np.array([b for b, _, _ in poses], np.int64), pos, mat


def _half_edges(kind: int, size: np.ndarray) -> np.ndarray:
    """[3] m, of the box around a shape in its own axes; nothing for a plane."""
    r, h = size[0], size[1]
    table = {PLANE: (0.0, 0.0, 0.0), SPHERE: (r, r, r), CAPSULE: (r, r, r + h), CYLINDER: (r, r, h)}
    return np.array(table.get(kind, size))


def _colour(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """[4] rgba as MuJoCo paints it, with textures evened out; alpha 0 for what is not to be seen."""
    rgba, material = model.geom_rgba[geom].astype(float), int(model.geom_matid[geom])
    if material >= 0:
        if np.allclose(rgba, (0.5, 0.5, 0.5, 1.0)):  # MuJoCo's default stands back behind the material's
            rgba = model.mat_rgba[material].astype(float)
        texture = int(model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB])
        if texture >= 0:
            first, channels = model.tex_adr[texture], model.tex_nchannel[texture]
            count = model.tex_height[texture] * model.tex_width[texture] * channels
            rgba[:3] *= model.tex_data[first : first + count].reshape(-1, channels)[:, :3].mean(0) / 255.0
    if 0.0 < rgba[3] < 1.0:
        rgba[:3] = PAINT.get(geom_class(model, geom), rgba[:3])
    return rgba

"""Cameras on robots, batched: depth, color or classes of what N worlds' cameras see, on any engine.

The pictures are cast on the CPU from the collision shapes of the scene (see raycast), without OpenGL, which takes tens of
milliseconds a picture where there is no GPU. Videos are drawn by `rookery.sim.rendering.renderer`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rotations import matrix
from rookery.sim.sensors import raycast
from rookery.sim.sensors.appearance import Look
from rookery.sim.sensors.camera_shapes import CameraFrames
from rookery.sim.sensors.shading import PLANE
from rookery.sim.world import Ids, World

CLASSES = ("nothing", "ground", "drone", "ball", "gate", "net", "target", "obstacle")
"""What segmentation tells apart; a class's number is its place here. See `geom_class`."""

KINDS = {"depth": raycast.DEPTH, "segmentation": raycast.SEGMENTATION, "rgb": raycast.RGB}

PAINT = {"drone": (0.13, 0.15, 0.20), "net": (0.92, 0.92, 0.92), "target": (0.10, 0.80, 0.25)}
"""Colors of shapes that the scene has half transparent, as it does with colliders that videos do not show."""

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
    chequer of half-meter tiles in `rgb`), spheres, capsules, cylinders, boxes and ellipsoids; meshes as their convex hulls,
    with which they collide. Half transparent geoms are drawn as solid, and those with alpha 0 not at all. A camera does not
    see what is rigidly fixed to the body it is mounted on. What videos mark (targets, trails) is no geom: see `spheres`.

    Args:
        world: engine with the scene; its poses are read at every `read`. Make cameras in a task's `setup`: engines that derive
            the poses of jointed bodies do so for a new view at their next `step`, `forward` or `reset`.
        names: of MuJoCo cameras that are fixed to their bodies, such as "drone_0/onboard". They look along their -z, with y up
            in the picture, and `fovy` is the vertical angle of view, as in MuJoCo.
        width, height: pixels.
        kind: "depth", "rgb" or "segmentation".
        max_range: m; what is farther is not seen.
        threads: 0 takes one for each processor that this process may use. Pictures do not depend on it.

    Attributes:
        fovy: [C] rad, the cameras' vertical angles of view in the scene.
        geoms: ids in `world.model` of the geoms that are seen, [G].
        classes: [G] their classes.
        look: colors, light and mounting of the cameras in every world, which may be written; then call `redraw`.

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
        self.world = world
        self.names = tuple(names)
        self.kind = kind
        self.width = width
        self.height = height
        self.max_range = float(max_range)
        self.threads = threads or usable_cores()
        self._pool = ThreadPoolExecutor(max(self.threads - 1, 1), "cameras")
        model = world.model
        ids = _camera_ids(model, self.names)
        self.geoms = [g for g in range(model.ngeom) if _color(model, g)[3] > 0.0]
        self.classes = torch.tensor([CLASSES.index(geom_class(model, g)) for g in self.geoms])
        roots = sorted(
            {int(model.body_weldid[b]) for b in (*model.geom_bodyid[self.geoms], *model.cam_bodyid[ids])} - {0}
        )
        self._bodies = world.bodies([model.body(b).name for b in roots]) if roots else None
        frames = CameraFrames(model, roots)
        self._shapes, self._hulls = frames.shapes(self.geoms, self.classes.numpy())
        self._carriers, *mounts = frames.cameras(ids)
        paints = np.array([_color(model, g)[:3] for g in self.geoms], np.float32).reshape(-1, 3)
        self.look = Look(world.num_envs, paints, self._shapes[0] == PLANE, (mounts[0], mounts[1]))
        self._mounts = torch.from_numpy(mounts[0]), torch.from_numpy(mounts[1])  # as the scene has them
        self.fovy = np.radians(model.cam_fovy[ids])
        self._rays = _rays(self.fovy, width, height)
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
        look = self.look
        fixed = (
            KINDS[self.kind], state, self._shapes, self._hulls, (self._spheres.numpy(), *self._marks),
            (look.paint.numpy(), look.texture.numpy(), look.light.numpy()),
            (self._carriers, look.pos.numpy(), look.mat.numpy(), look.zoom.numpy()), self._rays,
            np.float32(self.max_range), self._seen, self._depth.numpy(), self._class.numpy(), self._rgb.numpy(),
        )  # fmt: skip
        n = self.world.num_envs
        pixels = self.width * self.height * len(self.names)
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

    def redraw(self, ids: Ids = None) -> None:
        """Draw the worlds `ids` anew at the next `read`, even if nothing in them moves: their `look` was written."""
        self._seen[slice(None) if ids is None else ids.cpu().numpy(), 0] = 0.0

    def poses(self, nominal: bool = False) -> tuple[Tensor, Tensor]:
        """Poses of the cameras now.

        Args:
            nominal: as the scene mounts them, which is all that a calibration tells where `look` has them elsewhere.

        Returns:
            positions [N, C, 3] m, and axes [N, C, 3, 3]: camera to world, which looks along its -z with y up in the picture.
        """
        n, c = self.world.num_envs, len(self.names)
        pos, mat = self._mounts if nominal else (self.look.pos, self.look.mat)
        pos = pos.expand(n, c, 3).clone()
        mat = mat.reshape(-1, c, 3, 3).expand(n, c, 3, 3).clone()
        moved = self._carriers >= 0
        if self._bodies is not None and moved.any():
            state = self._bodies.state.cpu()[:, self._carriers[moved]]
            turn = matrix(state[..., 3:7]).view(n, -1, 3, 3)
            pos[:, moved] = state[..., :3] + (turn @ pos[:, moved, :, None]).squeeze(-1)
            mat[:, moved] = turn @ mat[:, moved]
        return pos.to(self.world.device), mat.to(self.world.device)

    def intrinsics(self, nominal: bool = False) -> Tensor:
        """[N, C, 4] pixels: focal lengths fx, fy and the optical axis cx, cy, where pixel (column i, row j) covers
        i ... i + 1 and j ... j + 1; `nominal` as in `poses`."""
        focal = torch.from_numpy(0.5 * self.height / np.tan(0.5 * self.fovy)).float()
        zoom = torch.ones_like(self.look.zoom) if nominal else self.look.zoom
        out = torch.empty(*zoom.shape, 4)
        out[..., :2] = (focal / zoom)[..., None]
        out[..., 2] = 0.5 * self.width
        out[..., 3] = 0.5 * self.height
        return out.to(self.world.device)

    def _arrange(self) -> None:
        """Lay out the spheres of all classes side by side, each in its place until the layout changes."""
        before = self._spheres
        places = self._places
        self._places = {}
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
    """Tangents u [C, W] and v [C, H] of the rays through the middles of the pixels, and [C, H, W] 1 / (u u + v v + 1).

    Args:
        fovy: [C] rad, vertical angles of view.
    """
    top = np.tan(0.5 * fovy)[:, None]
    u = top * width / height * ((2 * np.arange(width) + 1) / width - 1.0)
    v = top * (1.0 - (2 * np.arange(height) + 1) / height)
    reciprocal = 1.0 / (u[:, None, :] ** 2 + v[:, :, None] ** 2 + 1.0)
    return u.astype(np.float32), v.astype(np.float32), reciprocal.astype(np.float32)


def _color(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """[4] rgba as MuJoCo paints it, with textures evened out; alpha 0 for what is not to be seen."""
    rgba = model.geom_rgba[geom].astype(float)
    material = int(model.geom_matid[geom])
    if material >= 0:
        if np.allclose(rgba, (0.5, 0.5, 0.5, 1.0)):  # MuJoCo's default stands back behind the material's
            rgba = model.mat_rgba[material].astype(float)
        texture = int(model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB])
        if texture >= 0:
            first = model.tex_adr[texture]
            channels = model.tex_nchannel[texture]
            count = model.tex_height[texture] * model.tex_width[texture] * channels
            rgba[:3] *= model.tex_data[first : first + count].reshape(-1, channels)[:, :3].mean(0) / 255.0
    if 0.0 < rgba[3] < 1.0:
        rgba[:3] = PAINT.get(geom_class(model, geom), rgba[:3])
    return rgba

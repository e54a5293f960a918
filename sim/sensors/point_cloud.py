"""Point clouds of many worlds from their depth pictures: cropped, thinned out to a fixed number, in any frame.

A pixel (column i, row j) of depth t is the point t * ((i + 1/2 - cx) / fx, (cy - j - 1/2) / fy, -1) in camera axes (x right, y
up, -z ahead). Threads take ranges of worlds; the clouds do not depend on how many.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the kernels from the arrays that they are given; annotations would say less.
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.random import Streams
from rookery.sim.rotations import matrix
from rookery.sim.sensors.cameras import Cameras

SUBSAMPLING = {"random": 0, "farthest": 1}
EVERYWHERE = ((-1e9, -1e9, -1e9), (1e9, 1e9, 1e9))
"""m: a cropping box that crops nothing."""

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)


class PointCloud:
    """P points on what the cameras of each world see.

    Args:
        depth: cameras of kind "depth"; all of them together make one cloud.
        points: P.
        rng: the worlds' random streams, drawn from at every `read`; "random" needs them.
        box: lowest and highest corner in m, in the cloud's frame; what is outside is cut away.
        frame: "world", or the name of a body, such as a robot's base: then the points are in its frame.
        subsample: "random" takes P of the pixels left, each at most once; "farthest" takes the one nearest the camera, then
            always that which is farthest from all taken (Eldar et al., IEEE Trans. Image Processing 6, 1997), which covers
            surfaces evenly and costs P times the pixels.
        features: cameras with the same names and size as `depth`, whose pictures color the points: kind "rgb" adds three
            numbers from 0 to 1, "segmentation" the class.
        nominal: the points lie where the cameras ought to be, not where randomization has put them: what a robot with its
            calibration computes.
        threads: 0 takes one for each processor that this process may use.

    Attributes:
        size: numbers a point, 3 and those of the features.
        count: [N] int64 pixels that were left to choose from at the last `read`. Where there are fewer than P, all are taken
            and repeated in turn; where there are none, the cloud is zero.

    Raises:
        RookeryError: other kinds of cameras, no points, an empty box, an unknown frame or way to subsample, or "random" without
            streams.
    """

    def __init__(
        self, depth: Cameras, points: int, rng: Streams | None = None, *,
        box: tuple[Sequence[float], Sequence[float]] = EVERYWHERE, frame: str = "world", subsample: str = "random",
        features: Sequence[Cameras] = (), nominal: bool = False, threads: int = 0,
    ) -> None:  # fmt: skip
        if subsample not in SUBSAMPLING:
            raise unknown("way to subsample", subsample, SUBSAMPLING)
        if depth.kind != "depth" or any(f.kind == "depth" for f in features):
            raise RookeryError(
                'a point cloud is made from cameras of kind "depth", with features of kind "rgb" or "segmentation", got '
                f"{depth.kind} with {', '.join(f.kind for f in features) or 'none'}."
            )
        for f in features:
            if (f.world, f.names, f.width, f.height) != (depth.world, depth.names, depth.width, depth.height):
                raise RookeryError("features of points must come from cameras of the same world, names and size.")
        if points < 1:
            raise RookeryError(f"a point cloud needs at least one point, got {points}.")
        if subsample == "random" and rng is None:
            raise RookeryError('subsampling at random needs streams: give the task\'s rng, or subsample "farthest".')
        self._box = np.array(box, np.float32)
        if self._box.shape != (2, 3) or not (self._box[0] < self._box[1]).all():
            raise RookeryError(f"a cropping box is its lowest and its highest corner, three numbers each, got {box}.")
        self.depth = depth
        self.points = points
        self.features = tuple(features)
        self.nominal = nominal
        self._rng = rng
        self._way = SUBSAMPLING[subsample]
        self._body = None if frame == "world" else depth.world.bodies([frame])
        self.threads = threads or usable_cores()
        self._pool = ThreadPoolExecutor(max(self.threads - 1, 1), "points")
        n = depth.world.num_envs
        pixels = len(depth.names) * depth.width * depth.height
        widths = [3 if f.kind == "rgb" else 1 for f in self.features]
        self.size = 3 + sum(widths)
        self._colors = torch.zeros(n, pixels, sum(widths))
        self._out = torch.zeros(n, points, self.size)
        self._count = torch.zeros(n, dtype=torch.int64)
        self._bits = torch.zeros(n, dtype=torch.int64)

    @property
    def count(self) -> Tensor:
        return self._count.to(self.depth.world.device)

    def read(self) -> Tensor:
        """The clouds of this moment, [N, P, size] float32: x, y, z in m, then the features. Valid until the next call."""
        cameras = self.depth
        n = cameras.world.num_envs
        picture = cameras.read().cpu().numpy()
        at = 0
        for f in self.features:
            values = f.read().cpu()
            flat = values.view(n, -1, 3) * (1.0 / 255.0) if f.kind == "rgb" else values.view(n, -1, 1)
            self._colors[..., at : at + flat.shape[-1]] = flat
            at += flat.shape[-1]
        if self._rng is not None and self._way == SUBSAMPLING["random"]:
            self._bits.copy_(self._rng.bits(None, 1)[:, 0])
        pos, mat = self._poses()
        fixed = (
            self._way, picture, np.float32(cameras.max_range), cameras.intrinsics(self.nominal).cpu().numpy(), pos, mat,
            self._box, self._colors.numpy(), self._bits.numpy(), self._out.numpy(), self._count.numpy(),
        )  # fmt: skip
        parts = max(1, min(self.threads, n))
        cuts = [n * i // parts for i in range(parts + 1)]
        others = [self._pool.submit(_clouds, a, b, *fixed) for a, b in zip(cuts[1:], cuts[2:], strict=False)]
        _clouds(cuts[0], cuts[1], *fixed)
        for other in others:
            other.result()
        return self._out.to(cameras.world.device)

    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Poses of the cameras in the cloud's frame: [N, C, 3] m and [N, C, 3, 3]."""
        pos, mat = self.depth.poses(self.nominal)
        if self._body is not None:
            state = self._body.state
            turn = matrix(state[..., 3:7]).unflatten(-1, (3, 3)).transpose(-1, -2)  # [N, 1, 3, 3], world to body
            pos = (turn @ (pos - state[..., :3])[..., None]).squeeze(-1)
            mat = turn @ mat
        return np.ascontiguousarray(pos.cpu().numpy()), np.ascontiguousarray(mat.cpu().numpy())


def unproject(depth: Tensor, intrinsics: Tensor, pos: Tensor, mat: Tensor) -> Tensor:
    """Points of depth pictures, one a pixel.

    Args:
        depth: [..., H, W] m along the optical axis.
        intrinsics: [..., 4] pixels: fx, fy, cx, cy, see `Cameras.intrinsics`.
        pos, mat: [..., 3] m and [..., 3, 3], camera to the frame that is wanted, see `Cameras.poses`.

    Returns:
        [..., H, W, 3] m.
    """
    height, width = depth.shape[-2:]
    fx, fy, cx, cy = (intrinsics[..., None, None, k] for k in range(4))
    i = torch.arange(width, device=depth.device) + 0.5
    j = (torch.arange(height, device=depth.device) + 0.5)[:, None]
    u, v = (i - cx) / fx, (cy - j) / fy
    own = depth[..., None] * torch.stack(torch.broadcast_tensors(u, v, -torch.ones_like(u)), dim=-1)
    return own @ mat.transpose(-1, -2)[..., None, :, :] + pos[..., None, None, :]


_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})


@_kernel
def _clouds(start, stop, way, depths, max_range, intrinsics, pos, mat, box, colors, bits, out, counts):
    """Fill the clouds of worlds start ... stop - 1.

    Args:
        way: value of SUBSAMPLING.
        depths: [N, C, H, W] m; intrinsics: [N, C, 4]; pos, mat: [N, C, 3], [N, C, 3, 3]; box: [2, 3] m.
        colors: [N, C H W, F]; bits: [N] int64, of chance.
        out: [N, P, 3 + F], counts: [N], written.
    """
    pixels = colors.shape[1]
    points = out.shape[1]
    places = np.empty((3, pixels), np.float32)
    which = np.empty(pixels, np.int64)
    nearest = np.empty(pixels, np.float32)
    chosen = np.empty(points, np.int64)
    for w in range(start, stop):
        count = _gather(depths[w], max_range, intrinsics[w], pos[w], mat[w], box, places, which)
        counts[w] = count
        if count == 0:
            out[w] = _ZERO
            continue
        if way == 0:
            _choose_random(count, bits[w], which, places, chosen)
        else:
            _choose_farthest(count, pos[w, 0], places, nearest, chosen)
        for p in range(points):
            k = chosen[p]
            for axis in range(3):
                out[w, p, axis] = places[axis, k]
            for f in range(colors.shape[2]):
                out[w, p, 3 + f] = colors[w, which[k], f]


@_kernel
def _gather(depths, max_range, intrinsics, pos, mat, box, places, which):
    """Points of one world inside the box, and their pixels. Returns how many."""
    count = 0
    pixel = 0
    for c in range(depths.shape[0]):
        r, fx, fy = mat[c], _ONE / intrinsics[c, 0], _ONE / intrinsics[c, 1]
        for j in range(depths.shape[1]):
            v = (intrinsics[c, 3] - np.float32(j) - _HALF) * fy
            for i in range(depths.shape[2]):
                t = depths[c, j, i]
                u = (np.float32(i) + _HALF - intrinsics[c, 2]) * fx
                x = pos[c, 0] + t * (r[0, 0] * u + r[0, 1] * v - r[0, 2])
                y = pos[c, 1] + t * (r[1, 0] * u + r[1, 1] * v - r[1, 2])
                z = pos[c, 2] + t * (r[2, 0] * u + r[2, 1] * v - r[2, 2])
                inside = (t < max_range) & (x >= box[0, 0]) & (x <= box[1, 0]) & (y >= box[0, 1]) & (y <= box[1, 1])
                places[0, count] = x
                places[1, count] = y
                places[2, count] = z
                which[count] = pixel
                count += int(inside & (z >= box[0, 2]) & (z <= box[1, 2]))
                pixel += 1
    return count


@_kernel
def _choose_random(count, bits, which, places, chosen):
    """The first places of a shuffle by Fisher and Yates, with SplitMix64 (see rookery.sim.random) from one word of chance."""
    state = np.uint64(bits)
    points = len(chosen)
    for p in range(min(points, count)):
        state += np.uint64(0x9E3779B97F4A7C15)
        h = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
        k = p + int((h >> np.uint64(32)) * np.uint64(count - p) >> np.uint64(32))
        which[p], which[k] = which[k], which[p]
        for axis in range(3):
            places[axis, p], places[axis, k] = places[axis, k], places[axis, p]
    for p in range(points):
        chosen[p] = p % count


@_kernel
def _choose_farthest(count, eye, places, nearest, chosen):
    """Farthest point sampling, from the point nearest the camera `eye`."""
    last = 0
    best = np.float32(np.inf)
    for k in range(count):
        dx, dy, dz = places[0, k] - eye[0], places[1, k] - eye[1], places[2, k] - eye[2]
        d = dx * dx + dy * dy + dz * dz
        nearest[k] = np.float32(np.inf)
        if d < best:
            best = d
            last = k
    for p in range(len(chosen)):
        if p >= count:
            chosen[p] = chosen[p % count]
            continue
        chosen[p] = last
        x, y, z = places[0, last], places[1, last], places[2, last]
        for k in range(count):
            dx, dy, dz = places[0, k] - x, places[1, k] - y, places[2, k] - z
            d = dx * dx + dy * dy + dz * dz
            nearest[k] = d if d < nearest[k] else nearest[k]
        last = int(np.argmax(nearest[:count]))

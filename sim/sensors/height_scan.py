"""Heights of the ground from its table: at any points, and in a grid that walks along under a robot.

Between nodes the ground is what MuJoCo collides with: each cell of a height field is two triangles that share the diagonal
from node (i, j) to node (i + 1, j + 1). A bilinear patch would be up to a quarter of a step off on the corners of stairs, and
costs as much. Beyond the edge of the table the ground goes on as it is there.

1024 worlds with 187 points each take 1.0 ms on one core; other devices than the CPU use `Ground.at`.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the kernel from the arrays that it is given; annotations would say less.
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.terms import GroundScan
from rookery.sim.terms.turning import yaw_of
from rookery.sim.world import World

SCAN_X: tuple[float, ...] = tuple(round(-0.8 + 0.1 * i, 1) for i in range(17))
SCAN_Y: tuple[float, ...] = tuple(round(-0.5 + 0.1 * i, 1) for i in range(11))
"""m, in the robot's heading frame: the 187 points of legged_gym and of MLM's critic (arXiv 2508.10538)."""


class Ground:
    """The ground as a table of heights.

    Args:
        heights: [X, Y] m at the nodes, first index along x.
        origin: (x, y) m, world, of node [0, 0].
        cell_m: m, between nodes.
        device: where the table and the points are.

    Raises:
        RookeryError: no table of at least 2 x 2 finite numbers, or a cell that is not positive.
    """

    def __init__(
        self,
        heights: NDArray[np.float32],
        origin: Sequence[float],
        cell_m: float,
        device: torch.device | str = "cpu",
    ) -> None:
        if heights.ndim != 2 or min(heights.shape) < 2 or not np.isfinite(heights).all():
            raise RookeryError(
                f"heights of the ground are a table of at least 2 x 2 finite numbers, got the shape {heights.shape}."
            )
        if not 0 < cell_m < math.inf:
            raise RookeryError(f"the cells of a table of heights must be positive, got {cell_m} m.")
        self.table = torch.from_numpy(np.ascontiguousarray(heights, np.float32)).to(device)
        self.origin = (float(origin[0]), float(origin[1]))
        self.cell_m = float(cell_m)

    def at(self, points: Tensor) -> Tensor:
        """Height [...] m, world, of the ground at points [..., 2 or more] (x, y in m, world); float32."""
        rows, columns = self.table.shape
        u = ((points[..., 0] - self.origin[0]) / self.cell_m).clamp(0.0, rows - 1)
        v = ((points[..., 1] - self.origin[1]) / self.cell_m).clamp(0.0, columns - 1)
        i, j = u.long().clamp(max=rows - 2), v.long().clamp(max=columns - 2)
        u, v = (u - i).float(), (v - j).float()
        first = i * columns + j
        flat = self.table.view(-1)
        low = flat[first]
        high = flat[first + columns + 1]
        middle = flat[first + torch.where(u > v, columns, 1)]
        return low + torch.maximum(u, v) * (middle - low) + torch.minimum(u, v) * (high - middle)


class HeightScan:
    """Heights under a robot, on a grid that turns with its heading.

    Args:
        ground: the table.
        xs, ys: m, forward and left of the robot; x runs slowly in the result, y fast.
        clip: m, symmetric limit of the result.

    Raises:
        RookeryError: no points, or a limit that is not positive.
    """

    def __init__(
        self, ground: Ground, xs: Sequence[float] = SCAN_X, ys: Sequence[float] = SCAN_Y, *, clip: float = 1.0
    ) -> None:
        if not xs or not ys or clip <= 0:
            raise RookeryError(
                f"a height scan needs points and a positive limit, got {len(xs)} x {len(ys)} points and {clip} m."
            )
        self.ground = ground
        self.clip = float(clip)
        grid = torch.cartesian_prod(torch.tensor(xs, dtype=torch.float32), torch.tensor(ys, dtype=torch.float32))
        self.points = grid.view(-1, 2).to(ground.table.device)  # [P, 2] m, heading frame
        self.size = len(self.points)
        self._px = grid[:, 0].contiguous().numpy()
        self._py = grid[:, 1].contiguous().numpy()

    def __call__(self, pos: Tensor, yaw: Tensor) -> Tensor:
        """Heights relative to the robot's base, clipped: below it they are negative.

        Args:
            pos: [N, 3] m, world, of the base.
            yaw: [N] rad, its heading.

        Returns:
            [N, P] m, float32.
        """
        ground = self.ground
        cos = yaw.cos()
        sin = yaw.sin()
        if ground.table.device.type != "cpu":
            px, py = self.points[:, 0], self.points[:, 1]
            x = pos[:, 0:1] + cos[:, None] * px - sin[:, None] * py
            y = pos[:, 1:2] + sin[:, None] * px + cos[:, None] * py
            return (ground.at(torch.stack((x, y), dim=-1)) - pos[:, 2:3]).clamp(-self.clip, self.clip)
        out = torch.empty(len(pos), self.size)
        place = torch.cat((pos[:, :3].double(), cos.double()[:, None], sin.double()[:, None]), dim=1)
        _scan(
            ground.table.numpy(), np.array([*ground.origin, 1.0 / ground.cell_m]), place.numpy(), self._px, self._py,
            np.float32(self.clip), out.numpy(),
        )  # fmt: skip
        return out


def scan_sensor(name: str, scan: HeightScan, mount: str, points: str) -> GroundScan:
    """The heights [P] m that a scan sees below a body.

    Args:
        name: of the quantity.
        scan: the grid.
        mount: full name of the body.
        points: where they are, for docs.
    """
    make = lambda world: HeightReader(world, scan, mount)  # noqa: E731
    doc = f"limited to {scan.clip:g} m either way; {points}"
    places = tuple((round(x, 6), round(y, 6)) for x, y in scan.points.tolist())  # they are kept in single precision
    return GroundScan(name, scan.size, "m", doc=doc, make=make, points=places, limit=scan.clip)


class HeightReader:
    """Reads `scan_sensor`."""

    def __init__(self, world: World, scan: HeightScan, mount: str) -> None:
        self._body = world.bodies([mount])
        self._scan = scan

    def read(self) -> Tensor:
        """[N, 1, P] m."""
        return self._scan(self._body.pos[:, 0], yaw_of(self._body.quat[:, 0]))[:, None]


_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})


@_kernel
def _scan(table, frame, place, px, py, clip, out):
    """As `Ground.at` at each world's points.

    Args:
        table: [X, Y] float32 m.
        frame: x and y of its first node in m, and nodes per m.
        place: [N, 5]: x, y, z of the base (m, world), cosine and sine of its heading.
        px, py: [P] float32 m, heading frame.
        clip: m.
        out: [N, P] float32 m, written.
    """
    rows, columns = table.shape
    flat = table.ravel()
    count = len(px)
    scale = frame[2]
    reach = 0.0
    for p in range(count):
        reach = max(reach, math.hypot(px[p], py[p]) * scale)
    first = np.empty(count, np.int32)
    us = np.empty(count, np.float32)
    vs = np.empty(count, np.float32)
    for w in range(len(place)):
        u, v = (place[w, 0] - frame[0]) * scale, (place[w, 1] - frame[1]) * scale  # nodes
        c, s, z = np.float32(place[w, 3] * scale), np.float32(place[w, 4] * scale), np.float32(place[w, 2])
        if reach < u < rows - 1 - reach and reach < v < columns - 1 - reach and math.isfinite(c):
            _find(u, v, c, s, px, py, np.int32(columns), first, us, vs)
        else:
            _find_near_edge(u, v, c, s, px, py, rows, columns, first, us, vs)
        for p in range(count):
            f, a, b = first[p], us[p], vs[p]
            low = flat[f]
            along = flat[f + columns]
            across = flat[f + 1]
            high = flat[f + columns + 1]
            h = (
                (low + a * (along - low) + b * (high - along))
                if a > b
                else (low + b * (across - low) + a * (high - across))
            )
            h -= z
            h = h if h < clip else clip
            out[w, p] = h if h > -clip else -clip


@_kernel
def _find(u, v, c, s, px, py, columns, first, us, vs):
    """Cell of each point (index of its first node) and where in it the point is, all inside the table.

    Counted from the cell of the base, since float32 is exact enough there; without branches, so that it becomes vector code.
    """
    iu, iv = int(u), int(v)
    fu = np.float32(u - iu)
    fv = np.float32(v - iv)
    begin = np.int32(iu * columns + iv)
    for p in range(len(px)):
        x, y = fu + c * px[p] - s * py[p], fv + s * px[p] + c * py[p]
        i, j = np.floor(x), np.floor(y)
        us[p] = x - i
        vs[p] = y - j
        first[p] = begin + np.int32(i) * columns + np.int32(j)


@_kernel
def _find_near_edge(u, v, c, s, px, py, rows, columns, first, us, vs):
    """As `_find` for points that may lie outside, which take the nearest place on the edge; NaN takes the first node."""
    for p in range(len(px)):
        x, y = u + c * px[p] - s * py[p], v + s * px[p] + c * py[p]
        x = min(x, rows - 1.0) if x > 0.0 else 0.0
        y = min(y, columns - 1.0) if y > 0.0 else 0.0
        i, j = min(int(x), rows - 2), min(int(y), columns - 2)
        us[p] = x - i
        vs[p] = y - j
        first[p] = i * columns + j

"""Terrain for legged robots: a grid of square tiles, rows by difficulty and columns by kind, as one height field.

All worlds share one model. A world is on "its" tile because its robot starts there, so terrain costs no field per world.
The centre of each tile is a flat platform, its rim is at z = 0, and the grid's centre is the world's origin: rows run along
x, columns along y.

Why one height field for all of it, stairs too: 256 worlds on 10 x 10 tiles, a free body on four feet of 22 mm radius that is
pushed about, MuJoCo 4.0, one core; us per world and step, medians.

    | ground                                           | feet only | with trunk and legs | geoms |
    |--------------------------------------------------|-----------|---------------------|-------|
    | plane                                            |       4.5 |                 4.9 |     6 |
    | one height field, cells of 0.10 m, rough         |       6.8 |                 8.6 |     6 |
    | one a tile                                       |       7.8 |                 9.6 |   105 |
    | one height field, cells of 0.05 m, rough         |       7.8 |                10.6 |     6 |
    | one a tile                                       |       8.8 |                11.1 |   105 |
    | one height field, cells of 0.05 m, on stairs     |       8.9 |                20.8 |     6 |
    | boxes for the stairs of 40 tiles, on stairs      |      12.4 |                17.8 |  1006 |

MuJoCo places all geoms anew in every world and step, wherever the robot stands: boxes cost 5 us a thousand, which eats up
what they save on the stairs. One field also leaves one geom to name, `ground`. The price: a riser is a ramp one cell wide, and
a foot that slides catches a little on the edges of triangles (without friction a tenth of 0.7 m/s in a meter).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.assets.errors import RookeryError, unknown
from rookery.assets.scenery import FRICTION, add_sky
from rookery.assets.terrain_looks import Block, add_looks, faces_of

Heights = NDArray[np.float32]
Range = tuple[float, float]

KINDS = ("flat", "rough", "slope_up", "slope_down", "stairs_up", "stairs_down", "obstacles")
"""What tiles there are; up and down is what a robot meets that leaves the platform: `stairs_up` is a pit, `stairs_down` a
pyramid."""
MAX_NODES = 16_000_000
"""Nodes of a grid, 64 MB in each model."""
_BASE = 1.0
"""m, how far the ground reaches below its lowest point: nothing falls through it."""


@dataclass(frozen=True)
class TileShape:
    """Looks of tiles. Ranges are the values at difficulty 0 and 1.

    The sizes are those of legged_gym (Rudin et al., "Learning to walk in minutes", CoRL 2021, its terrain.py): slopes up to
    0.4, steps of 0.31 m that rise 0.05 m and more, noise on a grid of 0.2 m; steps end at 0.18 m, a stair in a house.
    """

    platform_m: float = 1.5  # edge of the flat square in the middle
    rim_m: float = 0.4  # width of the flat strip at z = 0 around a tile
    rough_m: Range = (0.01, 0.06)  # half-width of the noise
    rough_grid_m: float = 0.2  # the noise is drawn on this grid and interpolated
    slope: Range = (0.05, 0.4)  # rise over run
    step_width_m: float = 0.31  # rounded to whole cells
    step_m: Range = (0.05, 0.18)  # height
    obstacle_m: Range = (0.03, 0.20)  # height of the highest, depth of the deepest
    obstacle_edge_m: Range = (0.4, 1.6)  # edges, drawn evenly from this range at every difficulty
    obstacles: int = 24  # of a tile


@dataclass(frozen=True)
class TerrainConfig:
    """A grid of tiles. Row r has the difficulty between the two given ones; columns go to kinds by their shares."""

    rows: int = 8
    columns: int = 10
    kinds: tuple[str, ...] = KINDS
    shares: tuple[float, ...] = (1.0, 2.0, 1.0, 1.0, 2.0, 2.0, 1.0)
    difficulty: Range = (0.0, 1.0)  # of the first and the last row; one row alone has the last
    tile_m: float = 8.0
    cell_m: float = 0.05
    border_m: float = 4.0  # flat ground around the grid
    shape: TileShape = field(default_factory=TileShape)
    friction: tuple[float, float, float] = (FRICTION[0], FRICTION[1], FRICTION[2])
    seed: int = 0


def heights(
    kind: str, difficulty: float, size_m: float, cell_m: float, rng: np.random.Generator, shape: TileShape | None = None
) -> Heights:
    """Heights of one tile at its nodes.

    Args:
        kind: one of KINDS.
        difficulty: from 0 to 1.
        size_m: m, edge.
        cell_m: m, between nodes.
        rng: of the noise and the obstacles.
        shape: the ranges.

    Returns:
        [n + 1, n + 1] m, first index along x, with n = size_m / cell_m; 0 on the rim.

    Raises:
        RookeryError: what cannot be built, in a sentence.
    """
    shape = shape or TileShape()
    n = _cells("tile", size_m, cell_m)
    check_shape(shape, size_m, cell_m)
    if kind not in KINDS:
        raise unknown("kind of terrain", kind, KINDS)
    if not 0.0 <= difficulty <= 1.0:
        raise RookeryError(f"the difficulty of terrain lies between 0 and 1, got {difficulty}.")
    if kind == "rough":
        z = _rough(n, cell_m, _at(shape.rough_m, difficulty), shape, rng)
    elif kind.startswith("slope"):
        z = _slope(n, cell_m, _at(shape.slope, difficulty), shape)
    elif kind.startswith("stairs"):
        z = _stairs(n, cell_m, _at(shape.step_m, difficulty), shape)
    elif kind == "obstacles":
        z = _obstacles(n, cell_m, _at(shape.obstacle_m, difficulty), shape, rng)
    else:
        z = np.zeros((n + 1, n + 1))
    return (-z if kind.endswith("_up") else z).astype(np.float32)


def _at(span: Range, difficulty: float) -> float:
    return span[0] + difficulty * (span[1] - span[0])


def _distance(n: int) -> NDArray[np.float64]:
    """[n + 1, n + 1]: distance of each node from the centre in the maximum norm, cells."""
    away = np.abs(np.arange(n + 1) - 0.5 * n)
    return np.maximum(away[:, None], away[None])


def _rough(n: int, cell: float, amplitude: float, shape: TileShape, rng: np.random.Generator) -> NDArray[np.float64]:
    stride = max(1, round(shape.rough_grid_m / cell))
    count = n // stride + 2
    noise = rng.uniform(-amplitude, amplitude, (count, count))
    # drawn values that reach into the platform or the rim are left out, so that both are flat
    away = np.abs(np.arange(count) * stride - 0.5 * n)
    r = np.maximum(away[:, None], away[None])
    inner = 0.5 * shape.platform_m / cell + stride
    outer = 0.5 * n - shape.rim_m / cell - stride
    noise[(r < inner - 1e-6) | (r > outer + 1e-6)] = 0.0
    at, part = np.divmod(np.arange(n + 1), stride)
    share = part / stride
    rows = noise[at] * (1 - share)[:, None] + noise[at + 1] * share[:, None]
    return np.asarray(rows[:, at] * (1 - share) + rows[:, at + 1] * share)


def _slope(n: int, cell: float, slope: float, shape: TileShape) -> NDArray[np.float64]:
    """A pyramid with its top cut off."""
    foot = 0.5 * n * cell - shape.rim_m
    return np.asarray(slope * (foot - np.clip(_distance(n) * cell, 0.5 * shape.platform_m, foot)))


def _stairs(n: int, cell: float, height: float, shape: TileShape) -> NDArray[np.float64]:
    """A pyramid of steps. A step's edge is a node of the step; its riser falls to the next node."""
    width = round(shape.step_width_m / cell)
    platform = 0.5 * shape.platform_m / cell
    foot = 0.5 * n - shape.rim_m / cell
    count = math.floor((foot - platform) / width + 1e-9)
    level = count - np.ceil((_distance(n) - platform) / width - 1e-9)
    return np.asarray(height * np.clip(level, 0, count))


def _obstacles(n: int, cell: float, height: float, shape: TileShape, rng: np.random.Generator) -> NDArray[np.float64]:
    """Blocks and pits of two heights anywhere but on the platform and the rim; later ones lie over earlier ones."""
    z = np.zeros((n + 1, n + 1))
    rim = math.ceil(shape.rim_m / cell - 1e-9)
    for _ in range(shape.obstacles):
        edges = np.maximum(1, np.rint(rng.uniform(*shape.obstacle_edge_m, 2) / cell)).astype(int)
        edges = np.minimum(edges, n - 2 * rim)
        x, y = (int(rng.integers(rim, n - rim - e + 1)) for e in edges)
        z[x : x + edges[0] + 1, y : y + edges[1] + 1] = rng.choice([-1.0, -0.5, 0.5, 1.0]) * height
    z[_distance(n) <= 0.5 * shape.platform_m / cell + 1e-9] = 0.0
    return z


def _cells(what: str, size_m: float, cell_m: float) -> int:
    """The number of cells that make up a length."""
    if not (0 < size_m < math.inf and 0 < cell_m < math.inf):
        raise RookeryError(f"a terrain's {what} and cell must have positive sizes, got {size_m} and {cell_m} m.")
    n = round(size_m / cell_m)
    if n < 1 or abs(n * cell_m - size_m) > 1e-6 * size_m:
        raise RookeryError(f"cells of {cell_m} m do not divide a {what} of {size_m} m: take a whole number of cells.")
    return n


def check_shape(shape: TileShape, size_m: float, cell_m: float) -> None:
    """Refuse a shape that tiles of that size cannot have.

    Raises:
        RookeryError: they cannot; the sentence says why.
    """
    s = shape
    if not (s.platform_m > 0 and s.rim_m >= 0 and s.platform_m + 2 * s.rim_m + 2 * s.step_width_m <= size_m):
        raise RookeryError(
            f"a platform of {s.platform_m} m, a rim of {s.rim_m} m and a step of {s.step_width_m} m on each side do not fit "
            f"on a tile of {size_m} m: make the tile larger."
        )
    for name in ("rough_m", "slope", "step_m", "obstacle_m", "obstacle_edge_m"):
        low, high = getattr(s, name)
        if not 0 <= low <= high < math.inf:
            raise RookeryError(
                f"terrain's {name} is a range from easy to hard, not negative and rising, got {(low, high)}."
            )
    if s.step_width_m < 2 * cell_m or s.rough_grid_m < cell_m:
        raise RookeryError(
            f"cells of {cell_m} m are too coarse for steps of {s.step_width_m} m, which need two, and noise every "
            f"{s.rough_grid_m} m: make the cells smaller."
        )
    if s.step_m[1] > s.step_width_m:
        raise RookeryError(
            f"steps of {s.step_m[1]} m are higher than they are wide ({s.step_width_m} m): lower or widen them."
        )
    if s.slope[1] > 1.0:
        raise RookeryError(f"a slope of {s.slope[1]} is steeper than 45 degrees: stay at 1 or below.")
    if s.obstacles < 0:
        raise RookeryError(f"a tile cannot have {s.obstacles} obstacles.")


def check_config(config: TerrainConfig) -> None:
    """Refuse a grid that cannot be built.

    Raises:
        RookeryError: it cannot; the sentence says why.
    """
    c = config
    if c.rows < 1 or c.columns < 1:
        raise RookeryError(f"a terrain needs at least one row and one column, got {c.rows} x {c.columns}.")
    if len(c.shares) != len(c.kinds) or not c.kinds or min(c.shares) < 0 or not 0 < sum(c.shares) < math.inf:
        raise RookeryError(f"terrain needs one share, not negative, for each of the kinds {c.kinds}, got {c.shares}.")
    if not 0 <= c.difficulty[0] <= c.difficulty[1] <= 1:
        raise RookeryError(f"the difficulty of terrain rises between 0 and 1, got {c.difficulty}.")
    if c.border_m < 0 or min(c.friction) < 0:
        raise RookeryError(f"a terrain's border and friction cannot be negative, got {c.border_m} m and {c.friction}.")
    check_shape(c.shape, c.tile_m, c.cell_m)
    n = _cells("tile", c.tile_m, c.cell_m)
    border = _cells("border", c.border_m, c.cell_m) if c.border_m else 0
    nodes = (c.rows * n + 2 * border + 1) * (c.columns * n + 2 * border + 1)
    if nodes > MAX_NODES:
        raise RookeryError(
            f"a terrain of {c.rows} x {c.columns} tiles of {c.tile_m} m with cells of {c.cell_m} m has {nodes / 1e6:.0f} "
            f"million nodes, more than {MAX_NODES / 1e6:.0f}: take fewer tiles or larger cells."
        )
    missing = {k for k, share in zip(c.kinds, c.shares, strict=True) if share > 0} - set(_column_kinds(c))
    if missing:
        raise RookeryError(
            f"{c.columns} columns leave none for {', '.join(sorted(missing))}: take more, or even shares."
        )


def _column_kinds(c: TerrainConfig) -> tuple[str, ...]:
    ends = np.cumsum(c.shares) / np.sum(c.shares)
    middles = (np.arange(c.columns) + 0.5) / c.columns
    return tuple(c.kinds[int(i)] for i in np.searchsorted(ends, middles))


@dataclass(frozen=True, eq=False)
class Terrain:
    """Terrain as `build` makes it.

    Attributes:
        config: what it was built from.
        heights: [X, Y] m, float32, at the nodes, borders included; first index along x.
        origin: (x, y) m, world, of node [0, 0].
        kinds: [C] kind of each column.
        difficulties: [R] of each row.
        centres: [R, C, 3] m, world: middles of the platforms, on the ground.
    """

    config: TerrainConfig
    heights: Heights
    origin: tuple[float, float]
    kinds: tuple[str, ...]
    difficulties: tuple[float, ...]
    centres: NDArray[np.float64]

    @property
    def cell_m(self) -> float:
        """m, between nodes."""
        return self.config.cell_m

    def spec(self, visual: bool = True) -> mujoco.MjSpec:
        """The base of a Scene: ``Scene(terrain.spec)``.

        Names: geom and height field `ground`, light `sun`. The height field itself is in geom group 3, which is not drawn:
        on a machine without a GPU a picture of its millions of triangles takes seconds. Thinned meshes
        `ground_<kind>` are drawn in its place.

        Args:
            visual: False leaves meshes, textures and light out.
        """
        spec = mujoco.MjSpec()
        rows, columns = self.heights.shape
        low = float(self.heights.min())
        high = float(self.heights.max())
        rise = max(high - low, 1e-3)
        half = [0.5 * (rows - 1) * self.cell_m, 0.5 * (columns - 1) * self.cell_m]
        # MuJoCo's rows run along y, and it stretches what it is given to [0, 1], so that the rise must fit
        spec.add_hfield(
            name="ground", nrow=columns, ncol=rows, size=[*half, rise, _BASE],
            userdata=((self.heights.T - low) / rise).ravel(),
        )  # fmt: skip
        floor = spec.worldbody.add_geom(name="ground", type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="ground", group=3)
        floor.pos = [0.0, 0.0, low]
        floor.friction = list(self.config.friction)
        floor.rgba = [0.62, 0.66, 0.70, 1.0]
        if visual:
            add_looks(spec, self._faces)
            add_sky(spec)
            spec.stat.extent = 4.0  # m; MuJoCo cuts off what is nearer than a hundredth of it, and the grid is large
        return spec

    @cached_property
    def _faces(self) -> dict[str, NDArray[np.float64]]:
        """The faces that are drawn, see `faces_of`."""
        c = self.config
        rows, columns = self.heights.shape
        n, b = round(c.tile_m / c.cell_m), round(c.border_m / c.cell_m)
        blocks: list[Block] = [
            (self.kinds[j], slice(b + i * n, b + (i + 1) * n + 1), slice(b + j * n, b + (j + 1) * n + 1))
            for i in range(c.rows)
            for j in range(c.columns)
        ]
        if b:
            everywhere = slice(0, columns)
            blocks += [("border", slice(0, b + 1), everywhere), ("border", slice(rows - b - 1, rows), everywhere)]
            between = slice(b, rows - b)
            blocks += [("border", between, slice(0, b + 1)), ("border", between, slice(columns - b - 1, columns))]
        return faces_of(self.heights, c.cell_m, self.origin, blocks)


def build(config: TerrainConfig | None = None) -> Terrain:
    """Build the grid.

    Raises:
        RookeryError: what cannot be built, in a sentence.
    """
    c = config or TerrainConfig()
    check_config(c)
    n = round(c.tile_m / c.cell_m)
    border = round(c.border_m / c.cell_m)
    table = np.zeros((c.rows * n + 2 * border + 1, c.columns * n + 2 * border + 1), np.float32)
    centres = np.zeros((c.rows, c.columns, 3))
    origin = (-0.5 * (table.shape[0] - 1) * c.cell_m, -0.5 * (table.shape[1] - 1) * c.cell_m)
    kinds = _column_kinds(c)
    steps = [1.0] if c.rows == 1 else np.linspace(0.0, 1.0, c.rows).tolist()
    difficulties = tuple(_at(c.difficulty, s) for s in steps)
    for i, difficulty in enumerate(difficulties):
        for j, kind in enumerate(kinds):
            rng = np.random.default_rng((c.seed, i, j))
            tile = heights(kind, difficulty, c.tile_m, c.cell_m, rng, c.shape)
            x, y = border + i * n, border + j * n
            table[x : x + n + 1, y : y + n + 1] = tile
            centres[i, j] = (
                origin[0] + (x + 0.5 * n) * c.cell_m,
                origin[1] + (y + 0.5 * n) * c.cell_m,
                tile[n // 2, n // 2],
            )
    return Terrain(c, table, origin, kinds, difficulties, centres)

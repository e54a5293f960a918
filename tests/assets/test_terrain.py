"""Tiles have the shapes they promise, grids join without holes, and balls come to rest on what MuJoCo makes of them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.assets.errors import RookeryError
from rookery.assets.terrain import KINDS, TerrainConfig, TileShape, build, heights
from rookery.assets.terrain_looks import TOLERANCE, rectangles

SIZE = 8.0
CELL = 0.05
SHAPE = TileShape()
N = round(SIZE / CELL)
ALL = TerrainConfig(rows=2, columns=7, shares=(1.0,) * 7, cell_m=0.1, border_m=1.0)
AWAY = np.abs(np.arange(N + 1) * CELL - 0.5 * SIZE)
NORM = np.maximum(AWAY[:, None], AWAY[None])
"""m, from the centre in the maximum norm."""


def tile(kind: str, difficulty: float, seed: int = 0, **shape: object) -> np.ndarray:
    return heights(kind, difficulty, SIZE, CELL, np.random.default_rng(seed), TileShape(**shape))


@given(
    kind=st.sampled_from(KINDS),
    difficulty=st.floats(0, 1),
    seed=st.integers(0, 99),
    cell=st.sampled_from([0.05, 0.08, 0.1]),
)
def test_platform_is_flat_and_rim_is_at_zero(kind, difficulty, seed, cell):
    z = heights(kind, difficulty, SIZE, cell, np.random.default_rng(seed))
    n = round(SIZE / cell)
    away = np.abs(np.arange(n + 1) * cell - 0.5 * SIZE)
    norm = np.maximum(away[:, None], away[None])
    assert z.dtype == np.float32
    assert z.shape == (n + 1, n + 1)
    platform = z[norm <= 0.5 * SHAPE.platform_m + 1e-6]
    assert platform.min() == platform.max()
    assert not z[norm >= 0.5 * SIZE - SHAPE.rim_m + cell].any()
    if kind != "flat":
        assert np.ptp(z) > 0


@pytest.mark.parametrize("difficulty", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("kind", "sign"), [("stairs_down", 1), ("stairs_up", -1)])
def test_steps_have_their_height_and_width(kind, sign, difficulty):
    line = sign * tile(kind, difficulty)[N // 2 :, N // 2]  # from the centre along x
    step = 0.05 + 0.13 * difficulty
    drops = -np.diff(line)
    falls = np.flatnonzero(drops > 1e-6)
    np.testing.assert_allclose(drops[falls], step, atol=1e-6)
    np.testing.assert_array_equal(np.diff(falls), 6)  # 0.31 m in cells of 0.05 m
    assert len(falls) == 9
    assert line[0] == pytest.approx(9 * step, abs=1e-6)
    assert falls[0] * CELL == pytest.approx(0.5 * SHAPE.platform_m)


@pytest.mark.parametrize("difficulty", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("kind", "sign"), [("slope_down", 1), ("slope_up", -1)])
def test_slopes_have_their_angle(kind, sign, difficulty):
    z = sign * tile(kind, difficulty)
    slope = 0.05 + 0.35 * difficulty
    for line in (z[N // 2 :, N // 2], z[N // 2, N // 2 :], z[N // 2 :: -1, N // 2], z[N // 2, N // 2 :: -1]):
        face = (AWAY[N // 2 :] > 0.5 * SHAPE.platform_m) & (AWAY[N // 2 :] < 0.5 * SIZE - SHAPE.rim_m)
        np.testing.assert_allclose(-np.gradient(line, CELL)[face], slope, atol=1e-4)


def test_noise_and_obstacles_grow_with_difficulty():
    for kind in ("rough", "obstacles"):
        spread = [tile(kind, d, seed=3).std() for d in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert (np.diff(spread) > 0).all()
    z = tile("rough", 1.0)
    assert 0.05 < np.abs(z).max() <= 0.06
    z = tile("obstacles", 0.5)
    assert {round(float(v), 4) for v in np.unique(np.abs(z))} == {0.0, 0.0575, 0.115}


def test_noise_is_smooth_between_its_own_nodes():
    """Interpolated over 0.2 m, so a cell of 0.05 m climbs at most a quarter of the largest difference."""
    assert np.abs(np.diff(tile("rough", 1.0), axis=0)).max() <= 2 * 0.06 / 4 + 0.06 / 4 + 1e-6


def test_seeds_reproduce():
    for kind in ("rough", "obstacles"):
        assert np.array_equal(tile(kind, 0.7, seed=5), tile(kind, 0.7, seed=5))
        assert not np.array_equal(tile(kind, 0.7, seed=5), tile(kind, 0.7, seed=6))
    one = build(ALL)
    again = build(ALL)
    other = build(TerrainConfig(**{**vars(ALL), "seed": 1}))
    assert np.array_equal(one.heights, again.heights)
    assert not np.array_equal(one.heights, other.heights)


def test_grid_stands_around_the_origin_and_joins():
    terrain = build(ALL)
    n, b = 80, 10
    assert terrain.heights.shape == (2 * n + 2 * b + 1, 7 * n + 2 * b + 1)
    np.testing.assert_allclose(terrain.origin, (-9.0, -29.0))
    assert terrain.kinds == KINDS
    assert terrain.difficulties == (0.0, 1.0)
    np.testing.assert_allclose(terrain.centres[..., :2].mean(axis=(0, 1)), 0.0, atol=1e-9)
    np.testing.assert_allclose(terrain.centres[0, :, 1], -24 + 8 * np.arange(7))
    np.testing.assert_allclose(terrain.centres[:, 0, 0], [-4, 4])
    for i in range(2):
        for j, kind in enumerate(KINDS):
            patch = terrain.heights[b + i * n : b + (i + 1) * n + 1, b + j * n : b + (j + 1) * n + 1]
            # each tile's own edge is flat at zero, on all four sides: so are its neighbours'
            assert not np.concatenate((patch[0], patch[-1], patch[:, 0], patch[:, -1])).any(), (i, kind)
            assert terrain.centres[i, j, 2] == patch[n // 2, n // 2]
    border = terrain.heights.copy()
    border[b:-b, b:-b] = 0.0
    assert not border.any()


def test_columns_go_to_kinds_by_their_shares():
    kinds = build(TerrainConfig(rows=1, columns=10, cell_m=0.1, border_m=0.0)).kinds
    assert [kinds.count(k) for k in KINDS] == [1, 2, 1, 1, 2, 2, 1]
    only = build(TerrainConfig(rows=1, columns=3, kinds=("flat", "rough"), shares=(0.0, 5.0), cell_m=0.1))
    assert only.kinds == ("rough",) * 3
    assert only.difficulties == (1.0,)


def stuck_ball(radius: float = 0.06) -> mujoco.MjSpec:
    """A ball that does not roll off a slope."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="ball")
    body.add_freejoint()
    body.add_geom(size=[radius, 0, 0], mass=0.5, condim=6, friction=[1.5, 0.2, 0.2], solref=[0.01, 1.0])
    return spec


@pytest.mark.parametrize("kind", KINDS)
def test_a_ball_comes_to_rest_on_the_surface(kind):
    """The ball touches the ground of the table: its least distance from it is its radius."""
    radius = 0.06
    rng = np.random.default_rng(1)
    config = TerrainConfig(rows=1, columns=1, kinds=(kind,), shares=(1.0,), difficulty=(0.6, 0.6), border_m=0.0)
    terrain = build(config)
    spec = terrain.spec(visual=False)
    spec.attach(stuck_ball(radius), frame=spec.worldbody.add_frame(), prefix="prop/")
    spec.option.timestep = 0.005
    model = spec.compile()
    for x, y in [(0.0, 0.0), *rng.uniform(-3.5, 3.5, (4, 2))]:
        data = mujoco.MjData(model)
        data.qpos[:3] = x, y, surface(terrain, x, y) + 0.3
        for _ in range(500):
            mujoco.mj_step(model, data)
        assert np.abs(data.qvel[:3]).max() < 0.02
        gap = clearance(terrain, data.qpos[:3])
        assert gap == pytest.approx(radius, abs=0.004)


def surface(terrain, x, y) -> float:
    i, j = (np.array([x, y]) - terrain.origin) / terrain.cell_m
    return float(terrain.heights[round(i) - 1 : round(i) + 2, round(j) - 1 : round(j) + 2].max())


def clearance(terrain, centre) -> float:
    """Least distance of a point from the ground, which is sampled every 2 mm by interpolation in each triangle."""
    side = np.arange(-0.08, 0.08, 0.002)
    points = centre[:2] + np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    at = (points - terrain.origin) / terrain.cell_m
    i = at.astype(int)
    u, v = (at - i).T
    z = terrain.heights
    a, d = z[i[:, 0], i[:, 1]], z[i[:, 0] + 1, i[:, 1] + 1]
    b, c = z[i[:, 0] + 1, i[:, 1]], z[i[:, 0], i[:, 1] + 1]
    h = np.where(u > v, a + u * (b - a) + v * (d - b), a + v * (c - a) + u * (d - c))
    return float(np.sqrt(((points - centre[:2]) ** 2).sum(1) + (h - centre[2]) ** 2).min())


def test_spec_collides_by_one_geom_and_shows_others():
    terrain = build(TerrainConfig(**{**vars(ALL), "friction": (0.7, 0.004, 0.0002)}))
    bare = terrain.spec(visual=False).compile()
    seen = terrain.spec().compile()
    assert bare.ngeom == 1
    assert bare.nlight == 0
    for model in (bare, seen):
        ground = model.geom("ground")
        np.testing.assert_allclose(ground.friction, [0.7, 0.004, 0.0002])
        collide = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        assert np.flatnonzero(collide).tolist() == [ground.id]
        assert model.nq == 0
    assert {f"ground_{k}" for k in KINDS} <= {seen.geom(g).name for g in range(seen.ngeom)}
    assert seen.nlight == 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_is_what_there_is(kind):
    """The rectangles cover the tile once, and their surface is the table's, node by node."""
    z = tile(kind, 1.0, seed=2)
    quads = rectangles(z, CELL)
    area = (quads[:, 1, 0] - quads[:, 0, 0]) * (quads[:, 3, 1] - quads[:, 0, 1])
    assert area.sum() == pytest.approx(SIZE**2, rel=1e-6)
    assert len(quads) < (2000 if kind == "rough" else 1200)
    for low, right, high, left in quads:
        i0, j0, i1, j1 = (round(v / CELL) for v in (low[0], low[1], high[0], high[1]))
        u, v = np.linspace(0, 1, i1 - i0 + 1)[:, None], np.linspace(0, 1, j1 - j0 + 1)
        drawn = (1 - u) * ((1 - v) * low[2] + v * left[2]) + u * ((1 - v) * right[2] + v * high[2])
        np.testing.assert_allclose(drawn, z[i0 : i1 + 1, j0 : j1 + 1], atol=TOLERANCE + 1e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 0}, "at least one row"),
        ({"tile_m": -8.0}, "do not fit"),
        ({"cell_m": 0.0}, "positive"),
        ({"cell_m": 0.07}, "do not divide a tile"),
        ({"border_m": 0.33}, "do not divide a border"),
        ({"border_m": -1.0}, "negative"),
        ({"difficulty": (0.0, 1.2)}, "between 0 and 1"),
        ({"difficulty": (0.8, 0.2)}, "between 0 and 1"),
        ({"shares": (1.0, 2.0)}, "one share"),
        ({"columns": 3}, "columns leave none for"),
        ({"kinds": ("flat", "stares_up"), "shares": (1.0, 1.0)}, "did you mean 'stairs_up'"),
        ({"rows": 100, "columns": 100}, "million nodes"),
        ({"shape": TileShape(step_m=(0.1, 0.4))}, "higher than they are wide"),
        ({"shape": TileShape(step_m=(0.2, 0.1))}, "from easy to hard"),
        ({"shape": TileShape(step_width_m=0.05)}, "too coarse"),
        ({"shape": TileShape(platform_m=7.8)}, "do not fit"),
        ({"shape": TileShape(slope=(0.1, 1.5))}, "steeper"),
        ({"shape": TileShape(obstacles=-1)}, "obstacles"),
    ],
)
def test_what_cannot_be_built_is_refused(change, words):
    with pytest.raises(RookeryError, match=words):
        build(TerrainConfig(**change))


def test_difficulty_and_kind_of_a_tile_are_checked():
    with pytest.raises(RookeryError, match="between 0 and 1"):
        tile("rough", 1.01)
    with pytest.raises(RookeryError, match=r"unknown kind of terrain 'rouhg': did you mean 'rough'\? Known: flat"):
        tile("rouhg", 0.5)

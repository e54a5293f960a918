"""Heights looked up are those that MuJoCo collides with, and the scan is a look-up at points that turn with the robot."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from rookery.assets.terrain import KINDS, TerrainConfig, build
from rookery.sim.errors import RookeryError
from rookery.sim.sensors.height_scan import SCAN_X, SCAN_Y, Ground, HeightScan


@pytest.fixture(scope="module")
def terrain():
    return build(TerrainConfig(rows=2, columns=7, shares=(1.0,) * 7, border_m=1.0))


@pytest.fixture(scope="module")
def ground(terrain):
    return Ground(terrain.heights, terrain.origin, terrain.cell_m)


@pytest.fixture(scope="module")
def model(terrain):
    return terrain.spec(visual=False).compile()


def cast(model: mujoco.MjModel, points: np.ndarray) -> np.ndarray:
    """Heights by rays from above."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    hit = np.zeros(1, np.int32)
    down = np.array([0.0, 0.0, -1.0])
    return np.array(
        [5.0 - mujoco.mj_ray(model, data, np.array([x, y, 5.0]), down, None, 1, -1, hit) for x, y in points]
    )


@pytest.mark.parametrize("column", range(7), ids=KINDS)
def test_heights_are_those_of_ray_casts(terrain, ground, model, column):
    """Everywhere, also on the edges of steps, as both know the same triangles."""
    rng = np.random.default_rng(column)
    points = terrain.centres[rng.integers(0, 2, 400), column, :2] + rng.uniform(-4, 4, (400, 2))
    found = ground.at(torch.tensor(points))
    assert found.dtype == torch.float32
    if column:
        assert found.std() > 0.005
    np.testing.assert_allclose(found.numpy(), cast(model, points), atol=1e-5)


def test_scan_is_what_rays_see_from_the_robot(terrain, ground, model):
    rng = np.random.default_rng(0)
    scan = HeightScan(ground, clip=3.0)
    pos = terrain.centres[rng.integers(0, 2, 30), rng.integers(0, 7, 30)] + rng.uniform(-2, 2, (30, 3)) * [1, 1, 0.1]
    yaw = rng.uniform(-10, 10, 30)
    out = scan(torch.tensor(pos, dtype=torch.float32), torch.tensor(yaw, dtype=torch.float32))
    assert out.shape == (30, 187)
    assert out.dtype == torch.float32
    pos = pos.astype(np.float32).astype(float)
    yaw = yaw.astype(np.float32).astype(float)
    wrong = 0
    for k, (p, a) in enumerate(zip(pos, yaw, strict=True)):
        turn = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
        points = p[:2] + np.array([(x, y) for x in SCAN_X for y in SCAN_Y]) @ turn.T
        wrong += (np.abs(out[k].numpy() - (cast(model, points) - p[2])) > 0.001).sum()
    assert wrong == 0


def test_order_frame_and_clip():
    """On a plane that rises along x and, less, along y."""
    table = np.add.outer(0.1 * np.arange(41), 0.01 * np.arange(41)).astype(
        np.float32
    )  # 1 and 0.1 per m; cells of 0.1 m
    ground = Ground(table, (-2.0, -2.0), 0.1)
    scan = HeightScan(ground, clip=0.7)
    middle = 2.0 + 0.2
    out = scan(torch.tensor([[0.0, 0.0, middle]]), torch.zeros(1)).view(17, 11)
    x, y = torch.tensor(SCAN_X), torch.tensor(SCAN_Y)
    torch.testing.assert_close(out, (x[:, None] + 0.1 * y).clamp(-0.7, 0.7), atol=1e-5, rtol=0)
    assert out.max() == 0.7
    turned = scan(torch.tensor([[0.0, 0.0, middle]]), torch.tensor([math.pi / 2])).view(17, 11)
    torch.testing.assert_close(turned, (0.1 * x[:, None] - y).clamp(-0.7, 0.7), atol=1e-5, rtol=0)


@pytest.mark.parametrize("reach", [1.0, 1.5], ids=["inside", "across the edge"])
def test_kernel_is_the_lookup(terrain, ground, reach):
    rng = torch.Generator().manual_seed(0)
    scan = HeightScan(ground, clip=10.0)
    half = torch.tensor([0.5 * (s - 1) * terrain.cell_m for s in terrain.heights.shape])
    inside = half - 1.0 if reach == 1.0 else half * reach
    pos = torch.cat(((2 * torch.rand(200, 2, generator=rng) - 1) * inside, torch.rand(200, 1, generator=rng)), dim=1)
    yaw = 6 * torch.rand(200, generator=rng)
    turn = torch.stack((torch.stack((yaw.cos(), -yaw.sin()), 1), torch.stack((yaw.sin(), yaw.cos()), 1)), 1)
    points = pos[:, None, :2] + torch.einsum("nij,pj->npi", turn, scan.points)
    torch.testing.assert_close(scan(pos, yaw), ground.at(points) - pos[:, 2:3], atol=3e-4, rtol=0)


def test_ground_goes_on_beyond_the_edge():
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    ground = Ground(table, (0.0, 0.0), 1.0)
    points = torch.tensor([[-5.0, -5.0], [9.0, 9.0], [1.0, 7.0], [2.0, 3.0], [-1.0, 1.5]])
    assert ground.at(points).tolist() == [0.0, 11.0, 7.0, 11.0, 1.5]
    scan = HeightScan(ground, xs=(0.0,), ys=(0.0,), clip=100.0)
    pos = torch.cat((points, torch.zeros(5, 1)), dim=1)
    assert scan(pos, torch.zeros(5))[:, 0].tolist() == [0.0, 11.0, 7.0, 11.0, 1.5]


def test_robots_that_are_nowhere_do_not_end_the_process(ground):
    pos = torch.tensor([[math.nan] * 3, [math.inf, 0.0, 0.3], [1e30, -1e30, 0.3], [0.0, 0.0, 0.3], [0.0, 0.0, 0.3]])
    out = HeightScan(ground)(pos, torch.tensor([math.nan, 0.0, 0.0, math.nan, 0.0]))
    assert torch.isfinite(out[1:]).all()


@pytest.mark.parametrize("shape", [(1, 5), (5,), (0, 0)])
def test_what_is_no_table_is_refused(shape):
    with pytest.raises(RookeryError, match="at least 2 x 2"):
        Ground(np.zeros(shape, np.float32), (0, 0), 0.1)


def test_what_is_no_scan_is_refused(ground):
    with pytest.raises(RookeryError, match="cells"):
        Ground(np.zeros((3, 3), np.float32), (0, 0), 0.0)
    with pytest.raises(RookeryError, match="at least 2 x 2 finite"):
        Ground(np.full((3, 3), np.nan, np.float32), (0, 0), 1.0)
    for bad in ({"xs": ()}, {"clip": 0.0}):
        with pytest.raises(RookeryError, match="points and a positive limit"):
            HeightScan(ground, **bad)

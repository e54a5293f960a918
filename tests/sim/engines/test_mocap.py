"""Mocap bodies: furniture that each world can put elsewhere, on both engines."""

from __future__ import annotations

import math
from collections.abc import Callable

import mujoco
import pytest
import torch

from rookery.assets.scenery import box, ground
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.world import World


def shelf() -> mujoco.MjSpec:
    """A board, and a drawer that slides along its x."""
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base")
    base.mocap = True
    base.add_geom(name="board", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.2, 0.2, 0.02])
    inner = base.add_body(name="drawer", pos=[0.0, 0.0, -0.1])
    inner.add_joint(name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0], damping=[5.0, 0, 0])
    inner.add_geom(name="drawer", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.05, 0.05, 0.02], contype=0, conaffinity=0)
    return spec


@pytest.fixture(params=["mujoco", "pybullet"])
def make(request: pytest.FixtureRequest) -> Callable[[], World]:
    scene = Scene(ground).add(shelf, "shelf", pos=(0.0, 0.0, 0.5))
    scene.add(lambda: box([0.05, 0.05, 0.05], 0.1), "thing", pos=(0.0, 0.0, 0.6))
    return lambda: make_world(request.param, scene, 2)


def placed(pos: tuple[float, float, float], yaw: float) -> torch.Tensor:
    state = torch.zeros(1, 1, 13)
    state[0, 0, :7] = torch.tensor([*pos, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
    return state


def test_a_thing_rests_on_a_shelf_that_one_world_moved(make: Callable[[], World]) -> None:
    world = make()
    shelves = world.bodies(["shelf/base"])
    things = world.bodies(["thing/base"])
    second = torch.tensor([1])
    shelves.set_state(second, placed((1.0, 2.0, 0.8), 0.5))
    things.set_state(second, placed((1.0, 2.0, 0.85), 0.0))
    things.set_state(torch.tensor([0]), placed((0.0, 0.0, 0.55), 0.0))
    world.forward()
    world.step(500)
    assert torch.allclose(things.pos[0, 0], torch.tensor([0.0, 0.0, 0.545]), atol=3e-3)
    assert torch.allclose(things.pos[1, 0], torch.tensor([1.0, 2.0, 0.845]), atol=3e-3)
    assert torch.allclose(shelves.state[1:], placed((1.0, 2.0, 0.8), 0.5), atol=1e-6)


def test_what_hangs_on_it_moves_along_and_a_reset_puts_it_back(make: Callable[[], World]) -> None:
    world = make()
    shelves = world.bodies(["shelf/base"])
    drawer = world.bodies(["shelf/drawer"])
    slide = world.joints(["shelf/slide"])
    shelves.set_state(None, placed((1.0, 0.0, 1.0), math.pi / 2).expand(2, -1, -1))
    slide.set_state(None, torch.full((2, 1), 0.1))
    world.forward()
    assert torch.allclose(drawer.pos[:, 0], torch.tensor([1.0, 0.1, 0.9]), atol=1e-5)
    data = world.mj_data(1)
    assert data.body("shelf/drawer").xpos == pytest.approx([1.0, 0.1, 0.9], abs=1e-5)
    saved = world.snapshot()
    world.reset(torch.tensor([1]))
    world.forward()
    assert torch.allclose(shelves.pos[:, 0, 2], torch.tensor([1.0, 0.5]))
    world.restore(saved)
    assert torch.allclose(shelves.pos[:, 0, 2], torch.tensor([1.0, 1.0]))


def test_a_jointed_body_takes_no_pose(make: Callable[[], World]) -> None:
    world = make()
    with pytest.raises(RookeryError, match="only free and mocap bodies"):
        world.bodies(["shelf/drawer"]).set_state(None, torch.zeros(2, 1, 13))

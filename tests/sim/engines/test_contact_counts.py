"""Counts of contacts between parts, by scenes whose contacts are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mujoco
import pytest
import torch

from rookery.assets.scenery import ground
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene
from rookery.sim.world import World

RADIUS = 0.05
Make = Callable[..., World]


@pytest.fixture(params=["mujoco", "pybullet"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    worlds: list[World] = []

    def build(scene: Scene, n: int = 1) -> World:
        worlds.append(make_world(request.param, scene, n))
        return worlds[-1]

    yield build
    for w in worlds:
        w.close()


BALL = """<mujoco><worldbody><body name="base">
    <freejoint/><geom name="ball" size="0.05" mass="0.1"/></body></worldbody></mujoco>"""
"""Without restitution: bouncing balls are resolved outside of MuJoCo, see sim.engines.ball_impacts."""


def balls() -> Scene:
    """Two balls side by side, 1 m apart, as high as they touch the floor."""
    scene = Scene(lambda: ground(visual=False), dt=0.001)
    for name, x in (("red", 0.0), ("blue", 1.0)):
        scene.add(lambda: mujoco.MjSpec.from_string(BALL), name, pos=(x, 0.0, RADIUS))
    floor = [("body:red/base", "world"), ("body:blue/base", "world")]
    scene.count_contacts("floor", floor)
    scene.count_contacts("red alone", floor, [("geom:blue/ball", "world")])
    return scene.count_contacts("meet", [("geom:blue/ball", "body:red/base")])


def put(world: World, name: str, *places: tuple[float, float]) -> None:
    """The ball `name` at (x, z) m in each world, at rest."""
    body = world.bodies([f"{name}/base"])
    state = torch.zeros(len(places), 1, 13)
    state[:, 0, 3] = 1.0
    state[:, 0, [0, 2]] = torch.tensor(places)
    body.set_state(None, state)


def test_each_count_has_its_own_pairs(make: Make) -> None:
    w = make(balls(), 4)
    # both on the floor; red aloft; blue aloft; both aloft, one inside the other
    low, high = RADIUS - 0.001, 1.0
    put(w, "red", (0.0, low), (0.0, high), (0.0, low), (0.0, high))
    put(w, "blue", (1.0, low), (1.0, low), (1.0, high), (1.9 * RADIUS, high))
    w.forward()
    counts = {name: w.contact_count(name) for name in ("floor", "red alone", "meet")}
    w.step(2)
    assert counts["floor"].tolist() == [2, 1, 1, 0]
    assert counts["red alone"].tolist() == [1, 0, 1, 0]
    assert counts["meet"].tolist() == [0, 0, 0, 1]


def test_a_contact_counts_in_its_own_control_step_even_if_it_ends_within_it(make: Make) -> None:
    w = make(balls(), 1)
    floor = w.contact_count("floor")
    put(w, "red", (0.0, 1.0))
    blue = w.bodies(["blue/base"])
    state = torch.zeros(1, 1, 13)
    state[..., :4] = torch.tensor([1.0, 0.0, RADIUS - 0.001, 1.0])
    state[..., 9] = 1.0
    blue.set_state(None, state)
    w.forward()
    w.step(50)
    assert blue.pos[0, 0, 2] > RADIUS + 0.01
    assert floor.item() == 1
    w.step(10)
    assert floor.item() == 0


def test_what_is_not_counted_or_not_there_is_said(make: Make) -> None:
    with pytest.raises(RookeryError, match=r"call scene.count_contacts\('walls'"):
        make(balls()).contact_count("walls")
    with pytest.raises(RookeryError, match="did you mean 'red/base'"):
        make(balls().count_contacts("typo", [("body:red/bse", "world")]))
    with pytest.raises(RookeryError, match="is no part of a scene"):
        make(balls().count_contacts("typo", [("red", "world")]))


def test_an_engine_that_cannot_count_says_so() -> None:
    world = make_world("rotor", balls(), 1)
    with pytest.raises(RookeryError, match="take mujoco or pybullet"):
        world.contact_count("floor")
    world.close()

"""Bodies that move as they are told: what drones and balls do on them, on every engine, against closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from rookery.assets.scenery import ball, ground, platform
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.model import add_drone
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.scene import Scene
from rookery.sim.world import World

ENGINES = ("rotor", "mujoco", "pybullet")
HALF = 0.5 * CRAZYFLIE_21.body_height
THICKNESS = 0.04  # m
REST = 0.5 * THICKNESS + HALF  # m, of a drone's centre over that of a level platform on which it stands
G = 9.81


def make(engine: str, n: int = 1, bounce: float = 0.0, dt: float = 0.002) -> World:
    scene = Scene(ground, dt=dt, integrator="euler")
    add_drone(scene, "drone_0", CRAZYFLIE_21, (0.0, 0.0, 3.0))
    if bounce:
        scene.add(lambda: ball(0.05, 0.1, restitution=bounce), "ball", pos=(0.0, 2.0, 3.0))
    scene.add(lambda: platform((1.0, 1.0, THICKNESS)), "pad", pos=(0.0, 0.0, 1.0))
    scene.extension(Aeronautics).moving.append("pad")
    return make_world(engine, scene, n)


def put(
    world: World, body: str, pos: tuple, vel: tuple = (0, 0, 0), quat: tuple = (1, 0, 0, 0), spin: tuple = (0, 0, 0)
):
    state = torch.tensor([*pos, *quat, *vel, *spin], dtype=torch.float32).expand(world.num_envs, 1, 13)
    world.bodies([f"{body}/base"]).set_state(None if world.engine == "rotor" else torch.arange(world.num_envs), state)


def state(world: World, body: str) -> torch.Tensor:
    return world.bodies([f"{body}/base"]).state[0, 0].double()


@pytest.mark.parametrize("engine", ENGINES)
def test_it_moves_and_turns_as_it_is_told(engine):
    world = make(engine)
    put(world, "pad", (0.0, 0.0, 1.0), (0.3, -0.2, 0.5), spin=(0.0, 0.0, 0.8))
    world.step(500)
    pad = state(world, "pad")
    assert pad[:3].tolist() == pytest.approx([0.3, -0.2, 1.5], abs=1e-4 if engine == "rotor" else 5e-4)
    assert pad[3:7].tolist() == pytest.approx([math.cos(0.4), 0.0, 0.0, math.sin(0.4)], abs=1e-4)
    assert pad[7:].tolist() == pytest.approx([0.3, -0.2, 0.5, 0.0, 0.0, 0.8], abs=1e-5 if engine == "rotor" else 1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drone_rides_on_a_platform_that_climbs_and_drifts(engine):
    """It takes on the platform's velocity, by the contact along the normal and by friction across."""
    world = make(engine)
    put(world, "pad", (0.0, 0.0, 1.0), (0.3, 0.0, 0.4))
    put(world, "drone_0", (0.0, 0.0, 1.0 + REST + 1e-5), (0.0, 0.0, 0.4))
    world.step(500)
    pad, drone = state(world, "pad"), state(world, "drone_0")
    slid = 0.3**2 / (2 * G)  # m, at friction 1 until the drone has the platform's speed
    assert (drone - pad)[0].item() == pytest.approx(-slid, abs=0.003 if engine == "rotor" else 0.02)
    assert (drone - pad)[2].item() == pytest.approx(REST, abs=3e-4 if engine == "rotor" else 4e-3)
    assert drone[7:10].tolist() == pytest.approx([0.3, 0.0, 0.4], abs=1e-3 if engine == "rotor" else 0.03)
    assert pad[:3].tolist() == pytest.approx([0.3, 0.0, 1.4], abs=1e-3)  # and the platform does not heed it


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drone_stands_on_a_tilted_platform_within_the_cone_of_friction_only(engine):
    """At friction 1 a body stays on a slope of 30 degrees; at 0.3 it slides with g (sin - 0.3 cos)."""
    tilt = math.radians(30.0)
    quat = (math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0)
    down = torch.tensor([math.cos(tilt), 0.0, -math.sin(tilt)], dtype=torch.float64)
    for grip, slid in ((1.0, 0.0), (0.3, 0.5 * G * (math.sin(tilt) - 0.3 * math.cos(tilt)) * 0.16)):
        world = make(engine)
        if engine != "rotor":  # MuJoCo and Bullet combine both friction coefficients
            world.params.set("friction", ["pad/platform"], torch.tensor([[[grip, 0.005, 0.0001]]]))
        world.params.set("friction", ["drone_0/collision"], torch.tensor([[[grip, 0.005, 0.0001]]]))
        put(world, "pad", (0.0, 0.0, 1.0), quat=quat)
        start = (math.sin(tilt) * REST, 0.0, 1.0 + math.cos(tilt) * REST)
        put(world, "drone_0", start, quat=quat)
        world.step(200)
        moved = (state(world, "drone_0")[:3] - torch.tensor(start, dtype=torch.float64)) @ down
        assert moved.item() == pytest.approx(slid, abs=0.005 if engine == "rotor" else 0.03)


def test_nothing_falls_through_a_platform():
    """From 5 to 25 m/s, level, tilted and upside down: the drone stays above it."""
    world = make("rotor", 64)
    g = torch.Generator().manual_seed(0)
    speed = torch.linspace(-5, -40, 64)
    s = torch.zeros(64, 1, 13)
    s[:, 0, 2] = 1.5
    quat = torch.randn(64, 4, generator=g)
    s[:, 0, 3:7] = quat / quat.norm(dim=1, keepdim=True)
    s[:, 0, 9] = speed
    world.bodies(["drone_0/base"]).set_state(None, s)
    put(world, "pad", (0.0, 0.0, 1.0), (0.0, 0.0, 0.5))
    world.step(60)
    drone, pad = world.bodies(["drone_0/base"]), world.bodies(["pad/base"])
    over = drone.pos[:, 0, 2] - pad.pos[:, 0, 2]
    assert (over > 0.5 * THICKNESS)[speed > -25].all()
    assert (drone.lin_vel[:, 0].norm(dim=1) < -speed).all()  # no energy comes of it


@pytest.mark.parametrize("approach", [2.0, 6.0])
def test_a_ball_bounces_off_a_rising_platform(approach):
    """Restitution is of the relative velocity: v' = w + e (w - v)."""
    e, w = 0.8, 0.7
    world = make("rotor", bounce=e)
    world.params.set("gravity", [], torch.zeros(1, 3))
    put(world, "pad", (0.0, 0.0, 1.0), (0.0, 0.0, w))
    put(world, "ball", (0.2, 0.1, 1.3), (0.0, 0.0, -approach))
    world.step(150)
    assert state(world, "ball")[9].item() == pytest.approx(w + e * (w + approach), rel=1e-5)
    assert state(world, "pad")[7:10].tolist() == pytest.approx([0.0, 0.0, w])
    assert (state(world, "ball")[2] - state(world, "pad")[2]).item() > 0.5 * THICKNESS + 0.05


def test_contacts_with_a_platform_are_measured():
    scene = Scene(ground, dt=0.002, integrator="euler")
    add_drone(scene, "drone_0", CRAZYFLIE_21, (0.0, 0.0, 1.0 + REST + 1e-4))
    scene.add(lambda: platform((1.0, 1.0, THICKNESS)), "pad", pos=(0.0, 0.0, 1.0))
    scene.extension(Aeronautics).moving.append("pad")
    scene.add_contact_sensor("drone_0/collision", ["pad/platform"])
    world = make_world("rotor", scene, 2)
    touching = world.contact_sensor("drone_0/collision", ["pad/platform"])
    for _ in range(40):
        world.step(5)
    assert touching.impulse[:, 0].tolist() == pytest.approx([0.0306 * G * 0.01] * 2, rel=0.02)


def test_snapshots_hold_platforms():
    world, other = make("rotor", 2), make("rotor", 2)
    put(world, "pad", (0.1, 0.0, 1.0), (0.3, 0.0, 0.4), spin=(0.1, 0.2, 0.3))
    world.step(7)
    other.restore(world.snapshot())
    world.step(9)
    other.step(9)
    assert torch.equal(world.bodies(["pad/base"]).state, other.bodies(["pad/base"]).state)


def test_other_free_bodies_are_still_refused():
    scene = Scene(ground)
    add_drone(scene, "drone_0", CRAZYFLIE_21, (0.0, 0.0, 3.0))
    scene.add(lambda: platform((1.0, 1.0, THICKNESS)), "pad", pos=(0.0, 0.0, 1.0))
    with pytest.raises(RookeryError, match=r"'pad/base' is none of them.*Aeronautics.moving"):
        make_world("rotor", scene, 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("over", [0.005, 0.02, 0.04])
def test_a_drone_whose_middle_is_over_the_edge_tips_off(engine, over):
    """It does not hang on the edge by rims above and below it: the edge meets the flat of its body."""
    world = make(engine)
    put(world, "pad", (0.0, 0.0, 1.0))
    put(world, "drone_0", (0.5 + over, 0.01, 1.0 + REST + 1e-3))
    for _ in range(20):
        put(world, "pad", (0.0, 0.0, 1.0))
        world.step(10)
    drone = state(world, "drone_0")
    assert drone[2] < 0.8
    assert drone[7:10].norm() < math.sqrt(2.0 * G * (1.0 + REST - drone[2].item())) + 0.01  # no energy comes of it


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pole_under_the_middle_of_a_drone_carries_it(engine):
    """Its end touches between the rims."""
    scene = Scene(ground, dt=0.002, integrator="euler")
    add_drone(scene, "drone_0", CRAZYFLIE_21, (0.0, 0.0, 1.0 + 0.5 + HALF + 1e-3))
    scene.add(lambda: platform((0.03, 0.03, 1.0)), "pole", pos=(0.0, 0.0, 1.0))
    scene.extension(Aeronautics).moving.append("pole")
    world = make_world(engine, scene, 1)
    put(world, "drone_0", (0.002, -0.003, 1.5 + HALF + 1e-3))
    for _ in range(10):
        put(world, "pole", (0.0, 0.0, 1.0))
        world.step(10)
    drone = state(world, "drone_0")
    assert drone[2].item() == pytest.approx(1.5 + HALF, abs=2e-3)

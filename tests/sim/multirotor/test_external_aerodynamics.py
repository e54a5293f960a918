"""The air on engines that have none inside: the forces of the `rotor` engine, beside those that users set."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but
from scipy.spatial.transform import Rotation
from torch import Tensor

import rookery
from rookery.assets.scenery import ball, box, ground
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.drone import Drones
from rookery.robots.drones.iris import IRIS
from rookery.robots.drones.table import DRONES
from rookery.sim.engines import make_world
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.effects import PRESETS, Effects
from rookery.sim.multirotor.external_aerodynamics import ExternalAerodynamics, external_aerodynamics
from rookery.sim.multirotor.free_bodies import FreeBodies
from rookery.sim.scene import Scene
from rookery.tasks.drones.hover import Hover, HoverConfig

NONE = PRESETS["none"]
outside = pytest.mark.parametrize("engine", ["mujoco", "pybullet"])


def scene_of(effects: Effects, drone: str = "crazyflie21", drones: int = 1) -> Scene:
    scene = Hover(HoverConfig(drone=drone, num_drones=drones)).scene()
    scene.extension(Aeronautics).effects = effects
    return scene


def rows(*states: list[float]) -> Tensor:
    """[1, A, 13] from states whose ends are zero."""
    out = torch.zeros(1, len(states), 13)
    for a, s in enumerate(states):
        out[0, a, : len(s)] = torch.tensor(s)
    return out


# whole flights


def fly(engine: str, effects: str, drone: str, kind: str, start: Tensor, target: Tensor, speed: float = 0.0) -> Tensor:
    """[T, A, 13]: states at every control step of 2 s, flown by the PID cascade from `start` [1, A, 13] to
    `target` [1, A, 3]."""
    config = {"drone": drone, "action": kind, "num_drones": start.shape[1], "effects": effects}
    env = rookery.make("drone-hover", 1, engine=engine, config=config)
    drones = env.task.drones
    controller = env.task.cascade_controller()
    drones.reset(torch.arange(1), start)
    states = []
    velocity = torch.tensor([speed, 0.0, 0.0]).expand_as(target)
    for _ in range(200):
        drones.apply(controller.act(target, velocity))
        env.world.step(5)
        states.append(drones.bodies.state[0].clone())
    return torch.stack(states)


def tilt(states: Tensor) -> Tensor:
    """Degrees between body z and world z."""
    return (1 - 2 * (states[..., 4] ** 2 + states[..., 5] ** 2)).clamp(-1, 1).acos().rad2deg()


FLIGHTS: dict[str, Any] = {
    "tilted": ([[0, 0, 2, 0.97, 0.24, 0, 0, 0.3, -0.2, 0.1, 0.5, -0.5, 0.3]], [[0.0, 0, 2]], 0.0),
    "forward": ([[0, 0, 2, 1, 0, 0, 0, 3]], [[50.0, 0, 2]], 1.0),
    "near ground": ([[0, 0, 0.04, 1]], [[0.0, 0, 0.04]], 0.0),
    "one above the other": ([[0, 0, 1, 1], [0, 0.05, 1.6, 1]], [[0.0, 0, 1], [0, 0.05, 1.6]], 0.0),
}


@functools.cache
def reference(name: str, drone: str, kind: str) -> Tensor:
    start, target, speed = FLIGHTS[name]
    return fly("rotor", "realistic", drone, kind, rows(*start), torch.tensor([target]), speed)


FLOWN = [
    (name, *flown)
    for flown in (
        ("mujoco", "crazyflie21", "ctbr"), ("mujoco", "crazyflie21", "rotor_thrust"), ("pybullet", "crazyflie21", "ctbr"),
        ("mujoco", "iris", "velocity"), ("mujoco", "cf2x", "attitude"),
    )
    for name in FLIGHTS
]  # fmt: skip
QUICK = [
    *((name, "mujoco", "crazyflie21", "ctbr") for name in FLIGHTS), ("tilted", "pybullet", "crazyflie21", "ctbr"),
    ("near ground", "mujoco", "iris", "velocity"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "engine", "drone", "kind"), slow_but(QUICK, FLOWN))
def test_flights_are_those_of_the_rotor_engine(name, engine, drone, kind):
    """Within 5 mm (the published margin is 2 cm) and half a degree; without the air they are several times as far off."""
    start, target, speed = FLIGHTS[name]
    if drone == "iris":  # a larger drone with a larger wake
        if name == "near ground":
            start = [[0, 0, 0.15, 1]]
            target = [[0.0, 0, 0.15]]
            wanted = fly("rotor", "realistic", drone, kind, rows(*start), torch.tensor([target]), speed)
        else:
            wanted = reference(name, drone, kind)
    else:
        wanted = reference(name, drone, kind)
    got = fly(engine, "realistic", drone, kind, rows(*start), torch.tensor([target]), speed)
    bare = fly(engine, "none", drone, kind, rows(*start), torch.tensor([target]), speed)
    away, without = ((s - wanted)[..., :3].norm(dim=-1).max() for s in (got, bare))
    assert away < (0.015 if (drone, name) == ("iris", "one above the other") else 0.005)
    assert (tilt(got) - tilt(wanted)).abs().max() < 0.5
    assert without > 5 * away
    assert without > 0.01


# forces one by one


def states_of(n: int, drones: int, height: float, gap: float = 0.4) -> Tensor:
    """Random states [n, drones, 13]; the second drone is in the first one's wake, or nearly."""
    g = torch.Generator().manual_seed(1)
    s = torch.randn(n, drones, 13, generator=g)
    s[..., 0:2] *= 0.05
    s[..., 2] = height * (1 + 0.3 * torch.rand(n, drones, generator=g)) + torch.arange(drones) * gap
    s[..., 3:7] = torch.nn.functional.normalize(torch.tensor([3.0, 0, 0, 0]) + 0.5 * s[..., 3:7], dim=-1)
    s[..., 7:10] *= 2.0
    s[..., 10:13] *= 3.0
    return s


def accelerations(engine: str, effects: Effects, drone: str) -> Tensor:
    """[N, A, 6] m/s^2 and rad/s^2 over one physics step from random states of two drones with random rotor speeds."""
    n = 24
    world = make_world(engine, scene_of(effects, drone, 2), n)
    drones = Drones(world, ("drone_0", "drone_1"), DRONES[drone], "rotor_thrust")
    action = 1.2 * torch.rand(n, 2, 4, generator=torch.Generator().manual_seed(0)) - 0.6
    far = states_of(n, 2, 50.0)
    far[:, 1, 2] += 100.0
    drones.reset(torch.arange(n), far)
    for steps in (400, 1):  # first until the rotors have their speeds
        drones.physics_steps = steps
        drones.apply(action)
        world.step(steps)
    before = states_of(n, 2, 0.5, gap=0.4 if drone == "crazyflie21" else 1.5)  # an Iris is larger
    drones.bodies.set_state(None, before)
    drones.apply(action)
    world.step(1)
    change = drones.bodies.state - before
    return torch.cat((change[..., 7:10], change[..., 10:13]), dim=-1) / world.dt


EFFECTS = {
    "body drag": {"body_drag": True},
    "rotor drag": {"rotor_drag": True},
    "gyroscopic": {"gyroscopic": True},
    "ground effect": {"ground_effect": True},
    "wind": {"body_drag": True, "wind_speed": 6.0, "wind_direction": 2.0},
    "wake, realistic": {"downwash": "realistic"},
    "wake, volleybots": {"downwash": "volleybots"},
    "wake, gym-pybullet-drones": {"downwash": "gym-pybullet-drones"},
    "no lag": {"rotor_lag": False},
}


@pytest.mark.parametrize("effect", slow_but(["gyroscopic", "ground effect", "wind", "wake, realistic"], EFFECTS))
def test_each_effect_alone_is_that_of_the_rotor_engine(effect):
    """What it changes in the accelerations over one physics step, at random states of two drones, one below the other.

    The engines integrate differently, so that accelerations themselves differ by what a body turns in half a step.
    """
    drone = "iris" if effect in ("ground effect", "gyroscopic") else "crazyflie21"
    fx = replace(NONE, **EFFECTS[effect])
    wanted, got = (accelerations(e, fx, drone) - accelerations(e, NONE, drone) for e in ("rotor", "mujoco"))
    force = wanted[..., :3].abs().max().item()
    torque = wanted[..., 3:].abs().max().item()
    assert (got - wanted)[..., :3].abs().max() < 0.01 * force + 0.002
    assert (got - wanted)[..., 3:].abs().max() < 0.02 * torque + 0.02
    assert (force > 0.1) is (effect != "gyroscopic")
    assert (torque > 0.2) is (effect in ("gyroscopic", "ground effect", "no lag"))


def test_drag_in_closed_form():
    """A Crazyflie at u = 0 and at hover speed, tilted, in a wind: F = -R (b + r sum(w)) R^T (v - wind)."""
    fx = replace(NONE, body_drag=True, rotor_drag=True, wind_speed=2.0, wind_direction=math.pi / 2)
    scene = scene_of(fx)
    model = scene.compile()
    air = ExternalAerodynamics(FreeBodies(scene, model, 2))
    d = CRAZYFLIE_21
    turn = Rotation.from_euler("ZYX", [0.7, -0.4, 0.3])
    v = np.array([1.5, -2.0, 0.5])
    qpos = np.concatenate(([0, 0, 5.0], turn.as_quat(scalar_first=True)))[None].repeat(2, 0)
    qvel = np.concatenate((v, [0.1, 0.2, 0.3]))[None].repeat(2, 0)
    u = d.hover_speed
    thrust = [d.thrust_curve[0], d.mass * 9.81 / 4]
    control = np.array([[t] * 4 + [0.0] for t in thrust])
    air.update(qpos, qvel, control)
    relative = turn.inv().apply(v - [0, 2.0, 0])
    for i, speed in enumerate((0.0, 4 * u * d.max_rotor_speed)):
        body = -(np.array(d.body_drag) + np.array(d.rotor_drag) * speed) * relative
        np.testing.assert_allclose(air.wrench[i, 0, :3], turn.apply(body), rtol=2e-4)
    assert not air.wrench[..., 3:].any()
    assert np.abs(air.wrench[:, 0, :3]).max() > 0.01


def test_blocks_of_worlds_do_not_leak():
    """More worlds than the wakes' blocks hold, and no multiple of them: each world is as it is alone."""
    scene = scene_of(PRESETS["realistic"], drones=2)
    model = scene.compile()
    n = 37
    s = states_of(n, 2, 0.5).double().numpy()
    qpos = s[..., :7].reshape(n, 14)
    qvel = s[..., 7:].reshape(n, 12)
    control = np.random.default_rng(0).uniform(0.0, 0.1, (n, 10))
    together = ExternalAerodynamics(FreeBodies(scene, model, n))
    together.update(qpos, qvel, control, 0.002)
    for i in (0, 15, 16, 36):
        alone = ExternalAerodynamics(FreeBodies(scene, model, 1))
        alone.update(qpos[i : i + 1], qvel[i : i + 1], control[i : i + 1], 0.002)
        np.testing.assert_array_equal(alone.wrench[0], together.wrench[i])
        assert np.abs(alone.wrench).max() > 1e-3


# balls


def thrown(engine: str, effects: Effects, mass: float = 0.047) -> Tensor:
    """[13] of a spinning ball 1 s after a throw at 9 m/s."""
    scene = Scene(ground, dt=0.002, integrator="euler").add(lambda: ball(0.04, mass), "ball", pos=(0, 0, 20))
    scene.extension(Aeronautics).effects = effects
    world = make_world(engine, scene, 2)
    b = world.bodies(["ball/base"])
    b.set_state(None, rows([0, 0, 20, 0.6, 0.8, 0, 0, 7, 2, 5, 30, -20, 60]).expand(2, 1, 13))
    for _ in range(100):
        world.step(5)
    assert torch.equal(b.state[0], b.state[1])
    return b.state[0, 0].clone()


BALLS: list[dict[str, Any]] = [{"ball_drag": True}, {"ball_lift": True}, {"wind_speed": 5.0, "ball_drag": True}]
THROWN = [(engine, effects) for engine in ("mujoco", "pybullet") for effects in BALLS]


@pytest.mark.parametrize(("engine", "effects"), slow_but([*THROWN[:3], THROWN[5]], THROWN))
def test_balls_fly_as_on_the_rotor_engine(engine, effects):
    fx = replace(NONE, **effects)
    wanted = thrown("rotor", fx)
    got = thrown(engine, fx)
    bare = thrown(engine, NONE)
    assert (got - wanted)[:3].norm() < 0.02
    assert (got - wanted)[7:10].norm() < 0.02
    assert (bare - wanted)[:3].norm() > 0.1


# what is around


@outside
def test_users_wrenches_keep_their_meaning(engine):
    """The air is added to them during a step; they hold on, to the bit, and a reset clears them."""
    world = make_world(engine, scene_of(PRESETS["realistic"]), 3)
    drones = Drones(world, ("drone_0",), CRAZYFLIE_21, "ctbr")
    start = rows([0, 0, 5, 1, 0, 0, 0, 2, 1, 0]).repeat(3, 1, 1)
    push = torch.zeros(3, 1, 6)
    push[1, 0, :3] = torch.tensor([0.05, -0.02, 0.01])
    drones.bodies.set_wrench(push)
    hold = torch.tensor(drones.spec.neutral).expand(3, 1, 4)
    speeds = []
    for again in range(2):
        drones.reset(torch.arange(3), start)
        drones.apply(hold)
        world.step(5)
        speeds.append(drones.bodies.lin_vel.clone())
        gained = (speeds[again][1] - speeds[again][0])[0]
        wanted = push[1, 0, :3] / CRAZYFLIE_21.mass * 5 * world.dt
        assert torch.allclose(gained, wanted, atol=2e-4)  # what the drag of the gained speed takes is less
        assert torch.equal(speeds[again][0], speeds[again][2])
    assert torch.allclose(*speeds, atol=1e-6)
    world.reset(torch.tensor([1]))
    drones.reset(torch.arange(3), start)
    drones.apply(hold)
    world.step(5)
    assert torch.allclose(drones.bodies.lin_vel[1], drones.bodies.lin_vel[0], atol=1e-6)


@outside
def test_a_restored_world_flies_on_alike(engine):
    """The air has no memory beyond the state; the user's wrench is part of the snapshot."""
    runs = []
    for _ in range(2):
        world = make_world(engine, scene_of(PRESETS["realistic"], drones=2), 2)
        drones = Drones(world, ("drone_0", "drone_1"), CRAZYFLIE_21, "rotor_thrust")
        drones.physics_steps = 5
        runs.append((world, drones))
    (world, drones), (other, its) = runs
    drones.reset(torch.arange(2), states_of(2, 2, 5.0))
    drones.bodies.set_wrench(0.01 * torch.ones(2, 2, 6))
    action = torch.zeros(2, 2, 4)
    drones.apply(action)
    world.step(5)
    other.restore(world.snapshot())
    its.load_state_dict(drones.state_dict())
    for w, d in runs:
        d.apply(action)
        w.step(5)
    assert torch.equal(drones.bodies.state, its.bodies.state)


@outside
def test_a_world_that_diverges_takes_no_other_with_it(engine):
    world = make_world(engine, scene_of(PRESETS["realistic"], drones=2), 3)
    drones = Drones(world, ("drone_0", "drone_1"), CRAZYFLIE_21, "rotor_thrust")
    start = states_of(3, 2, 5.0)
    start[1:] = start[:1]
    drones.reset(torch.arange(3), start)
    action = torch.zeros(3, 2, 4)
    action[1] = math.nan
    drones.apply(action)
    world.step(1)
    assert world.failed.tolist() == [1]
    drones.reset(torch.arange(3), start)
    drones.apply(torch.zeros(3, 2, 4))
    world.step(1)
    assert world.failed.tolist() == []
    assert torch.allclose(drones.bodies.state[1], drones.bodies.state[0], atol=1e-6)


@outside
def test_rotors_without_lag(engine):
    for preset, lag in (("gym-pybullet-drones", False), ("realistic", True)):
        world = make_world(engine, scene_of(PRESETS[preset]), 1)
        assert world.scene.extension(Aeronautics).effects.rotor_lag is lag
        drones = Drones(world, ("drone_0",), CRAZYFLIE_21, "rotor_thrust")
        drones.reset(torch.arange(1), rows([0, 0, 5, 1]))
        drones.apply(torch.ones(1, 1, 4))
        world.step(1)
        assert (drones.rotor_speed.min() > 0.9999) is not lag


def test_nothing_is_done_where_nothing_flies_or_blows():
    for part in (lambda: box([0.1, 0.1, 0.1], 1.0), None):
        scene = Scene(ground)
        if part is not None:
            scene.add(part, "box", pos=(0, 0, 1))
        scene.extension(Aeronautics).effects = PRESETS["realistic"]
        assert external_aerodynamics(FreeBodies(scene, scene.compile(), 4)) is None
    airless = Scene(ground).add(lambda: ball(0.04, 0.047), "ball", pos=(0, 0, 1))
    assert external_aerodynamics(FreeBodies(airless, airless.compile(), 4)) is None
    for effects in (NONE, replace(NONE, wind_speed=5.0)):  # a wind without drag moves nothing
        scene = scene_of(effects)
        air = external_aerodynamics(FreeBodies(scene, scene.compile(), 4))
        assert air is not None
        qpos = np.tile([0, 0, 0.05, 1.0, 0, 0, 0], (4, 1))
        air.update(qpos, np.ones((4, 6)), np.full((4, 5), 0.05), 0.002)
        assert not air.wrench.any()


def test_accelerometers_feel_the_air():
    """On mujoco, whose sensors stand for the last physics step: drag along the body's x."""
    world = make_world("mujoco", scene_of(replace(NONE, body_drag=True), "iris"), 1)
    sensor = world.sensors("drone_0/imu_acc")
    drones = Drones(world, ("drone_0",), IRIS, "rotor_thrust")
    drones.reset(torch.arange(1), rows([0, 0, 5, 1, 0, 0, 0, 4.0]))
    drones.apply(drones.normalized(torch.full((1, 1, 4), IRIS.mass * 9.81 / 4)))
    world.step(1)
    world.forward()
    world.step(1)
    assert sensor.data[0].tolist() == pytest.approx([-IRIS.body_drag[0] * 4.0 / IRIS.mass, 0, 9.81], abs=1e-3)

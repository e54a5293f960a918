"""Ground that lies higher or lower: everything on it and over it is as over the scene's own, at another height."""

from __future__ import annotations

import pytest
import torch

import rookery
from rookery.assets.scenery import ball, ground
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

every_engine = pytest.mark.parametrize("engine", ["rotor", "mujoco", "pybullet"])
HEIGHTS = (0.0, 0.2, -0.15)


def over(engine: str, height: float, effects: str = "none"):
    """Three drones at rest at one height over their own ground, which is that of HEIGHTS."""
    env = rookery.make("drone-hover", 3, engine=engine, config={"action": "rotor_thrust", "effects": effects})
    env.reset()
    raised = torch.tensor(HEIGHTS)
    env.randomization.parameters["ground_height"].write(torch.arange(3), raised)
    state = torch.zeros(3, 1, 13)
    state[:, 0, 2] = raised + height
    state[..., 3] = 1.0
    env.task.drones.reset(torch.arange(3), state)
    env.world.forward()
    return env


def step(env, action: float, times: int) -> torch.Tensor:
    """[3] m, heights over the ground after some control steps of one action, without the task."""
    for _ in range(times):
        env.task.drones.apply(torch.full((3, 1, 4), action))
        env.world.step(env.task.physics_steps)
    return env.task.drones.bodies.pos[:, 0, 2] - torch.tensor(HEIGHTS)


@every_engine
def test_a_drone_comes_to_rest_on_the_ground_where_that_is(engine):
    env = over(engine, 0.1)
    rest = step(env, -1.0, 50)
    assert rest.tolist() == pytest.approx([0.5 * env.task.drone.body_height] * 3, abs=1e-3)
    assert env.task.drones.bodies.lin_vel.abs().max() < 0.02


@every_engine
def test_ground_effect_is_by_the_height_over_the_ground(engine):
    neutral = 2 * 0.25 - 1
    near, far = (step(over(engine, z, "realistic"), neutral, 5) - z for z in (0.05, 1.0))
    torch.testing.assert_close(near, near[:1].expand(3), rtol=0.0, atol=2e-6)
    assert (near > far + 1e-4).all()


@every_engine
def test_balls_bounce_off_the_ground_where_that_is(engine):
    """From 0.5 m to its highest place after the bounce: the same in all worlds."""
    scene = Scene(ground, dt=0.001, integrator="euler")
    scene.add(lambda: ball(0.05, 0.1, restitution=0.8), "ball", pos=(0.0, 0.0, 1.0))
    world = make_world(engine, scene, 3)
    raised = torch.tensor(HEIGHTS)
    world.params.set("height", ["ground"], raised[:, None])
    torch.testing.assert_close(world.params.get("height", ["ground"])[:, 0], raised)
    view = world.bodies(["ball/base"])
    state = view.state.clone()
    state[:, 0, 2] = raised + 0.5
    view.set_state(None, state)
    heights = []
    for _ in range(60):
        world.step(10)
        heights.append(view.pos[:, 0, 2] - raised)
    track = torch.stack(heights)
    lowest = int(track[:, 0].argmin())
    assert track[lowest:].amax(0).tolist() == pytest.approx([0.05 + 0.64 * 0.45] * 3, abs=0.02)
    torch.testing.assert_close(track, track[:, :1].expand(-1, 3), rtol=0.0, atol=1e-3)


def test_a_drone_crashes_on_raised_ground_and_starts_above_it():
    env = rookery.make("drone-hover", 2, config={"height_m": 0.9, "target_box_m": 0.0, "start_box_m": 0.8})
    env.reset()
    task, write = env.task, env.randomization.parameters["ground_height"].write
    write(torch.arange(2), torch.tensor([0.0, 0.3]))
    lowest = torch.full((2,), 9.0)
    for _ in range(40):
        task.place(torch.arange(2))
        lowest = torch.minimum(lowest, task.drones.bodies.pos[:, 0, 2])
    assert lowest[0] < 0.28 and 0.3 + task.drone.body_height < lowest[1] < 0.4
    state = task.drones.bodies.state.clone()
    state[:, 0, 2] = 0.3 + 0.5 * task.drone.body_height
    task.drones.bodies.set_state(None, state)
    task.detect_crashes(torch.zeros(2, 1, dtype=torch.bool))
    assert task.crashed[:, 0].tolist() == [False, True]


def test_pictures_show_the_scenes_own_ground_and_leave_the_factor_out():
    env = rookery.make("drone-hover", 1, config={"obs": "depth"})
    assert "ground_height" not in env.randomization.parameters
    env.close()


def test_ground_that_is_not_there_is_refused():
    flying = make_world("rotor", Scene(dt=0.001, integrator="euler").add(lambda: ball(0.05, 0.1), "ball"), 1)
    with pytest.raises(RookeryError, match="one level plane, not 0: use engine 'mujoco'"):
        flying.params.nominal("height", ["ground"])
    world = make_world(
        "rotor", Scene(ground, dt=0.001, integrator="euler").add(lambda: ball(0.05, 0.1), "ball", pos=(0, 0, 1)), 1
    )
    with pytest.raises(RookeryError, match=r"unknown level ground 'floor'. Known: ground"):
        world.params.set("height", ["floor"], torch.zeros(1, 1))

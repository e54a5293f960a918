"""Wind and gusts that a user asks of a drone task: their statistics, what they do to drones, on every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but

import rookery
from rookery.robots.drones.table import find_drone
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.layout import AIR, LANES, WORLD
from rookery.sim.multirotor.wind import scales

ENGINES = ("rotor", "mujoco", "pybullet")
G = 9.81  # m/s^2
STEP = 0.01  # s, of control


def make(n: int = 2, engine: str = "rotor", seed: int = 3, task: str = "drone-hover", **config: Any) -> VecEnv:
    env = rookery.make(task, n, engine=engine, seed=seed, config=config)
    env.reset()
    return env


def air(env: VecEnv) -> np.ndarray:
    """[N, 3] m/s, world, where the engines read it."""
    lanes = env.world.worlds if env.world.engine == "rotor" else env.world._flying.worlds
    return lanes.reshape(-1, WORLD, LANES)[:, AIR : AIR + 3].transpose(0, 2, 1).reshape(-1, 3)[: env.num_envs]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_task_knows_the_wind(engine):
    """What acts on the drones, at every step; the mean wind at the start of an episode, and none in calm air."""
    env = make(3, engine, wind=[2.0, 1.0, 0.5], episode_s=0.05)
    mean = torch.tensor([2.0, 1.0, 0.5]).expand(3, 3)
    torch.testing.assert_close(env.task.wind(), mean)
    for _ in range(4):
        env.step(neutral(env))
        np.testing.assert_allclose(env.task.wind().numpy(), air(env), atol=1e-6)
        assert (env.task.wind() - mean).norm(dim=1).min() > 1e-3, "gusts"
    assert env.step(neutral(env))[3].all()
    torch.testing.assert_close(env.task.wind(), mean)
    assert not make(3, engine, effects="none").task.wind().any()


def neutral(env: VecEnv) -> dict[str, torch.Tensor]:
    spec = env.groups["drone"]
    return {"drone": torch.tensor(spec.action.neutral, dtype=torch.float32).expand(env.num_envs, spec.count, 4)}


def winds(env: VecEnv, steps: int) -> np.ndarray:
    """[steps, N, 3] m/s: the air of each control step."""
    out = np.empty((steps, env.num_envs, 3))
    for at in out:
        env.world.step(5)
        at[:] = air(env)
    return out


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drone_without_thrust_takes_on_the_speed_of_the_wind(engine):
    """v = u (1 - exp(-c t / m)) on each axis, with u the wind sideways and the wind less m g / c upwards: linear drag."""
    wind = [3.0, -1.0, 0.5]
    env = make(1, engine, wind=wind, gusts=False, action="rotor_thrust")
    drone, bodies = env.task.drone, env.task.drones.bodies
    state = torch.zeros(1, 1, 13)
    state[..., 2], state[..., 3] = 500.0, 1.0
    bodies.set_state(torch.tensor([0]), state)
    names = [f"drone_0/{part}" for part in ("rotor_1", "rotor_2", "rotor_3", "rotor_4", "reaction")]
    env.world.actuators(names).set_control(torch.zeros(1, 5))
    # on `rotor`, thrusts that are commanded directly leave the rotors turning, on the others they say how fast they turn
    turning = float(env.task.drones.rotor_speed.sum()) * drone.max_rotor_speed if engine == "rotor" else 0.0
    drag = np.array(drone.body_drag) + np.array(drone.rotor_drag) * turning
    for time in (0.5, 1.0, 1.5):
        env.world.step(250)
        end = np.array(wind) - [0.0, 0.0, drone.mass * G / drag[2]]
        expected = end * (1.0 - np.exp(-drag * time / drone.mass))
        assert bodies.lin_vel[0, 0].numpy() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("engine", slow_but([e for e in ENGINES if e != "pybullet"], ENGINES))
def test_a_drone_that_stands_against_the_wind_leans_into_it(engine):
    """In equilibrium tan(tilt) = drag / (weight - vertical drag): with c of the axes across and along the thrust, and the speed
    v over the drone level, m g tan(tilt) = c v to first order."""
    speed = 2.0
    env = make(1, engine, wind=[speed, 0.0, 0.0], gusts=False, start_box_m=0.0, start_speed=0.0, start_tilt=0.0,
               start_spin=0.0, target_box_m=0.0, episode_s=30.0)  # fmt: skip
    controller = env.task.controller()
    obs = env.reset()[0]
    tilts = []
    for step in range(900 if engine == "rotor" else 600):
        obs = env.step(controller(obs))[0]
        if step >= 500:
            w, x, y, z = env.task.drones.bodies.quat[0, 0].double().tolist()
            tilts.append((2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)))
    up = np.mean(tilts, 0)
    assert env.task.drones.bodies.lin_vel.norm() < 0.02
    d = find_drone("crazyflie21")
    turning = float(env.task.drones.rotor_speed.sum()) * d.max_rotor_speed
    across = d.body_drag[0] + d.rotor_drag[0] * turning
    along = d.body_drag[2] + d.rotor_drag[2] * turning
    lean = math.atan2(-up[0], up[2])  # against the wind
    # forces along the body's axis across: m g sin(lean) = c v cos(lean), whatever thrust and drag along the axis are
    assert across > along > 0.0
    assert math.tan(lean) == pytest.approx(across * speed / (d.mass * G), rel=0.02)
    assert abs(up[1]) < 2e-3


def test_gusts_have_the_speed_and_the_time_that_were_asked_for():
    """Over many worlds: variances of both horizontal parts, the standard's ratio of the vertical one to them, and the
    autocorrelation exp(-t/T) along the wind, (1 - t/2T) exp(-t/T) across."""
    n, sigma, time = 4000, 1.5, 0.8
    env = make(n, wind=[0.0, 3.0, 0.0], gust_speed=sigma, gust_time=time)
    lag = 40  # control steps of 10 ms
    series = winds(env, lag + 1) - [0.0, 3.0, 0.0]
    height = env.world._height()
    ratio = scales(height, 1.0)[3] / scales(height, 1.0)[2]
    spread = series[-1].std(0)
    assert spread == pytest.approx([sigma, sigma, ratio * sigma], rel=4 / math.sqrt(2 * n))
    assert np.abs(series[-1].mean(0)).max() < 4 * sigma / math.sqrt(n)
    t = lag * STEP / time
    for axis, expected in ((1, math.exp(-t)), (0, (1 - 0.5 * t) * math.exp(-t))):
        found = np.corrcoef(series[0, :, axis], series[-1, :, axis])[0, 1]
        assert found == pytest.approx(expected, abs=4 / math.sqrt(n))


def test_gusts_without_a_wind_and_winds_without_gusts():
    calm = winds(make(2000, gust_speed=1.0, gust_time=0.5), 2)[-1]
    assert calm.std(0)[:2] == pytest.approx([1.0, 1.0], rel=4 / math.sqrt(4000))
    assert np.abs(calm.mean(0)).max() < 4 / math.sqrt(2000)
    steady = winds(make(3, wind=[1.0, -2.0, 0.5], gusts=False), 3)
    assert np.allclose(steady, [1.0, -2.0, 0.5], atol=1e-12)
    standard = winds(make(2000, wind=[5.0, 0.0, 0.0]), 2)[-1]
    _, _, horizontal, vertical = scales(2.0, 5.0)  # at the height of the drones' places
    assert standard.std(0) == pytest.approx([horizontal, horizontal, vertical], rel=4 / math.sqrt(4000))


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_all_engines_have_the_same_gusts(engine):
    config = {"wind": [3.0, 1.0, -0.5], "gust_speed": 1.5, "gust_time": 0.8}
    ours, other = make(3, **config), make(3, engine, **config)
    for _ in range(8):
        ours.step(neutral(ours))
        other.step(neutral(other))
        assert np.allclose(air(ours), air(other), rtol=1e-6, atol=1e-6)  # normals are of float32
    assert len({tuple(row) for row in air(ours)}) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_gusts_go_on_after_a_resume(engine):
    env, other = (make(3, engine, seed=seed, wind=[4.0, 0.0, 0.0]) for seed in (1, 2))
    for _ in range(5):
        env.step(neutral(env))
    other.load_state_dict(env.state_dict())
    assert np.array_equal(air(env), air(other))
    for _ in range(5):
        env.step(neutral(env))
        other.step(neutral(other))
        assert np.array_equal(air(env), air(other))


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_randomization_sets_winds_of_other_engines(engine):
    env = rookery.make("drone-hover", 3, engine=engine, seed=1, fixed={"wind_speed": 6.0})
    env.reset()
    speeds = np.linalg.norm(air(env)[:, :2], axis=1)
    env.step(neutral(env))
    assert speeds == pytest.approx([6.0] * 3, rel=1e-5) and not np.allclose(air(env)[:, 2], 0.0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"wind": [3.0, 0.0, 0.0], "effects": "none"}, "no wind acts with effects=none"),
        ({"wind": [30.0, 0.0, 0.0]}, "up to 15 m/s, got 30 m/s"),
        ({"wind": [3.0, 0.0]}, "wind needs a list of 3"),
        ({"wind": 3.0}, "wind needs a list of 3"),
        ({"gust_speed": 1.0, "gusts": False}, "there are none"),
        ({"gust_speed": 1.0, "effects": "gym-pybullet-drones"}, "there are none"),
        ({"gust_speed": -1.0}, "gust_speed of effects is -1.0"),
        ({"wind": [math.nan, 0.0, 0.0]}, "wind"),
    ],
)
def test_winds_that_cannot_be_are_refused(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)


def test_every_drone_task_takes_a_wind():
    for task in ("drone-track", "drone-race", "swarm-surround", "uav-coverage"):
        env = make(1, task=task, wind=[2.0, 0.0, 0.0], gusts=False)
        assert np.allclose(air(env), [2.0, 0.0, 0.0])

"""drone-land: the pad's motion, touch-downs, success and crashes against what the task says of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but
from scipy.spatial.transform import Rotation

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError

STILL = {"heave_m": 0.0, "sway_m": 0.0, "tilt": 0.0}


def make(n: int = 4, engine: str = "rotor", **config: Any) -> VecEnv:
    env = rookery.make("drone-land", n, engine=engine, seed=0, config=config)
    env.reset()
    return env


def neutral(env: VecEnv) -> dict[str, torch.Tensor]:
    return {"drone": torch.tensor(env.groups["drone"].action.neutral).float().expand(env.num_envs, 1, 4)}


def over(env: VecEnv, height: float, side: float = 0.0, fall: float = 0.0) -> None:
    """Put all drones level over their pads, `height` m above where they would stand, falling at some speed."""
    state = torch.zeros(env.num_envs, 1, 13)
    state[..., :3] = env.task.pad.pos
    state[..., 0] += side
    state[..., 2] += env.task.rest + height
    state[..., 3] = 1.0
    state[..., 9] = -fall
    env.task.drones.bodies.set_state(torch.arange(env.num_envs), state)
    env.task._follow()


@pytest.mark.parametrize("engine", ["rotor", "mujoco"])
def test_the_pad_swings_as_drawn(engine):
    """Its pose after each control step is that of the sines, its velocities those of their derivatives to first order."""
    env = make(3, engine)
    task = env.task
    for _ in range(25):
        env.step(neutral(env))
    t = 25 * task.cfg.control_dt
    wave = task.wave.numpy()
    swing = wave[..., 0] * np.sin(wave[..., 1] * t + wave[..., 2])
    speed = wave[..., 0] * wave[..., 1] * np.cos(wave[..., 1] * t + wave[..., 2])
    pad = task.pad.state[:, 0].double().numpy()
    assert np.abs(pad[:, :3] - swing[:, :3] - [0.0, 0.0, 0.5]).max() < 1e-4
    assert np.abs(pad[:, 7:10] - speed[:, :3]).max() < 0.01
    expected = Rotation.from_euler("X", swing[:, 3:4]) * Rotation.from_euler("Y", swing[:, 4:5])
    found = Rotation.from_quat(pad[:, 3:7], scalar_first=True)
    assert (expected.inv() * found).magnitude().max() < 2e-4
    assert (np.abs(wave[..., 0]) <= [0.3, 0.3, 0.1, task.cfg.tilt, task.cfg.tilt]).all()


def test_a_drone_that_stands_is_at_rest_on_the_pad_whatever_it_does():
    """`relative` on a drone that is carried along: no speed, no distance, upright."""
    env = make(5)
    task = env.task
    for _ in range(7):
        env.step(neutral(env))
    pad = task.pad.state
    up = task.target - pad[..., :3]
    spin = Rotation.from_quat(pad[:, 0, 3:7].numpy(), scalar_first=True).apply(pad[:, 0, 10:13].numpy())
    state = pad.clone()
    state[..., :3] = task.target
    state[:, 0, 7:10] += torch.linalg.cross(torch.from_numpy(spin).float(), up[:, 0])
    task.drones.bodies.set_state(torch.arange(5), state)
    task._follow()
    assert task.pad_place.abs().max() < 1e-6 and task.pad_speed.max() < 1e-6 and (task.pad_lean - 1).abs().max() < 1e-6
    assert up.norm(dim=-1) == pytest.approx(torch.full((5, 1), task.rest).numpy(), rel=1e-5)


@pytest.mark.parametrize("engine", slow_but(["rotor", "mujoco"], ["rotor", "mujoco", "pybullet"]))
def test_after_the_first_touch_rotors_are_off_and_the_drone_stays(engine):
    env = make(2, engine, **STILL)
    over(env, 0.03)
    noted = 0
    climb = {"drone": torch.tensor([0.0, 0.0, 0.0, -0.2]).expand(2, 1, 4)}
    for _ in range(160):
        env.step(climb)
        noted += int(env.task.events()["touchdown"].sum())
        climb = {
            "drone": torch.where(env.task.touched[:, None, None], torch.tensor([0.0, 0.0, 0.0, 1.0]), climb["drone"])
        }
    metrics = env.task.metrics()
    assert noted == 2  # once in each world
    assert (
        metrics["success"].tolist() == [1.0, 1.0] and metrics["rest_s"].min() > 1.0
    )  # though full thrust was asked for
    assert metrics["touchdown_speed"].min() > 0.0 and metrics["touchdown_speed"].max() < 0.5
    assert metrics["lateral_m"].max() < 0.02
    assert env.task.drones.rotor_speed.max() < 0.1


@pytest.mark.parametrize(("fall", "crashes"), [(0.3, False), (0.9, True)])
def test_a_hard_touch_is_a_crash(fall, crashes):
    env = make(1, **STILL)
    over(env, 0.01, fall=fall)
    for _ in range(4):
        _, _, terminated, _, info = env.step(neutral(env))
        if terminated.any():
            break
    assert bool(terminated.any()) == crashes
    if crashes:
        assert env.task.causes[int(info["episode"]["cause"][0]) - 1] == "hard_landing"
        assert info["episode"]["metrics"]["crash"].tolist() == [1.0]
        assert info["episode"]["metrics"]["touchdown_speed"].item() == pytest.approx(fall, rel=0.15)


@pytest.mark.parametrize("engine", ["rotor", "mujoco", "pybullet"])
@pytest.mark.parametrize(("roll", "crashes"), [(60.0, False), (180.0, True)])
def test_a_drone_on_its_back_has_crashed(engine, roll, crashes):
    env = make(1, engine, **STILL)
    over(env, 0.005)
    task = env.task
    env.step(neutral(env))
    task.touched[:] = True
    pose = task.drones.bodies.state.clone()
    pose[..., 3:7] = torch.from_numpy(Rotation.from_euler("x", roll, degrees=True).as_quat(scalar_first=True)).float()
    pose[..., 2] += 0.05
    task.drones.bodies.set_state(torch.arange(1), pose)
    _, _, terminated, _, info = env.step(neutral(env))
    assert bool(terminated.any()) == crashes
    if crashes:
        assert task.causes[int(info["episode"]["cause"][0]) - 1] == "overturned"
        assert info["episode"]["metrics"]["success"].item() == 0.0


def test_beside_the_pad_is_the_ground():
    env = make(1, **STILL, start_box_m=0.0)
    over(env, 0.0, side=0.6)
    off = {"drone": torch.tensor([[[0.0, 0.0, 0.0, -1.0]]])}
    for _ in range(80):
        *_, terminated, _, info = env.step(off)
        if terminated.any():
            break
    assert terminated.all() and info["episode"]["metrics"]["success"].item() == 0.0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_drones": 2}, "one drone lands"),
        ({"action": "velocity"}, "turns rotors off"),
        ({"obs": "depth"}, "does not see a pad below"),
        ({"pad_m": 0.1}, "pad_m must be at least"),
        ({"pad_height_m": 0.2}, "within 0.1 m of the ground"),
        ({"period_least_s": 0.0}, "periods positive"),
    ],
)
def test_what_cannot_be_landed_on_is_refused(config, message):
    with pytest.raises(RookeryError, match=message):
        make(1, **config)


def test_the_pad_moves_under_wind_and_other_drones_too():
    env = make(2, drone="iris", pad_m=2.0, wind=[1.0, 0.0, 0.0], heave_m=0.0)
    for _ in range(5):
        env.step(neutral(env))
    assert math.isfinite(float(env.task.metrics()["touchdown_speed"].sum()))

"""The numbers of `actuation` against the engines: the independent runtime's drives give what the simulated drives give."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

import rookery
from rookery.robots.drones.actuation import drone_actuation
from rookery.robots.drones.kernels import MEMORY_SIZE, MOTORS, RATES, cascade
from rookery.robots.drones.table import DRONES, find_drone
from rookery.sim.multirotor.layout import type_row
from rookery.sim.values import plain
from rookery.sim2real.build import build_contract
from tests.sim2real.independent_runtime import LegDrive, MotorDrive


@pytest.mark.parametrize("name", sorted(DRONES))
def test_the_rate_loop_and_the_mixer_are_the_compiled_cascade_s(name: str) -> None:
    """Rates and commands at random, sums and derivatives included, into saturation."""
    drone = find_drone(name)
    rng = np.random.default_rng(0)
    drive = MotorDrive({"actuation": plain(drone_actuation(drone, "ctbr", 0.002))})
    memory = np.zeros((1, MEMORY_SIZE), np.float64)
    constants = np.array(type_row(drone))
    state = np.zeros((1, 13))
    state[0, 3] = 1.0
    names = ("roll_rate", "pitch_rate", "yaw_rate", "collective_thrust")
    saturated = 0
    for _ in range(200):
        state[0, 10:13] += rng.normal(0.0, 0.3, 3)
        command = np.append(rng.uniform(-3.0, 3.0, 3), rng.uniform(0.0, 4.0 * drone.max_thrust))
        setpoint = command[None].copy()
        cascade(RATES, MOTORS, state, setpoint, memory, constants, 0.002)
        got = drive.step(dict(zip(names, command, strict=True)), {"angular velocity": state[0, 10:13]})
        np.testing.assert_allclose(list(got.values()), setpoint[0], atol=1e-9)
        saturated += max(got.values()) == 1.0
    assert list(got) == ["rotor_1", "rotor_2", "rotor_3", "rotor_4"] and saturated > 10


def servo_torques(task: str, prefix: str, spread: float, speed: float, seed: int) -> tuple[Any, Any]:
    """Torques by the contract and by MuJoCo at a random state with random targets."""
    env = rookery.make(task, 1)
    (group,) = build_contract(env).to_json()["groups"].values()
    model = env.world.model
    env.close()
    joints = group["actuation"]["joints"]
    rng = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    ids = [model.joint(f"{prefix}/{j['name']}") for j in joints]
    drives = [model.actuator(f"{prefix}/{j['name']}").id for j in joints]
    q = np.array([rng.uniform(j["lower"], j["upper"]) for j in joints])
    dq = rng.uniform(-speed, speed, len(joints))
    target = np.clip(q + rng.uniform(-spread, spread, len(q)), *([j[k] for j in joints] for k in ("lower", "upper")))
    for i, joint in enumerate(ids):
        data.qpos[joint.qposadr[0]], data.qvel[joint.dofadr[0]], data.ctrl[drives[i]] = q[i], dq[i], target[i]
        np.testing.assert_array_equal(joint.axis, joints[i]["axis"])
    mujoco.mj_forward(model, data)
    command = dict(zip((j["name"] for j in joints), target, strict=True))
    wanted = LegDrive(group).step(command, {"joint angles": q, "joint velocities": dq})
    return np.array(list(wanted.values())), data.actuator_force[drives]


@pytest.mark.parametrize(
    ("task", "prefix", "spread", "speed"),
    [
        ("go2-velocity", "go2", 1.5, 40.0),
        ("table-reach", "panda", 0.01, 0.02),
        ("hand-grasp", "hand", 0.3, 2.0),
        ("hand-reorient", "hand", 0.3, 2.0),
    ],
)
def test_servos_are_mujoco_s(task: str, prefix: str, spread: float, speed: float) -> None:
    for seed in range(5):
        wanted, given = servo_torques(task, prefix, spread, speed, seed)
        np.testing.assert_allclose(wanted, given, rtol=1e-6, atol=1e-6)


def test_an_arm_on_a_quadruped_follows_the_legs() -> None:
    """Names, order and numbers of all 18 joints, and of one agent for each part."""
    env = rookery.make("go2arm-reach", 1)
    (whole,) = build_contract(env).groups.values()
    env.close()
    parts = rookery.make("go2arm-reach", 1, config={"agents": "parts"})
    split = build_contract(parts).groups
    parts.close()
    assert whole.actuation is not None
    assert whole.actuation.actuators == whole.spec.action.names
    legs, arm = split["legs"].actuation, split["arm"].actuation
    assert legs is not None and arm is not None
    assert legs.joints + arm.joints == whole.actuation.joints
    assert [j.no_load_speed is None for j in whole.actuation.joints] == [False] * 12 + [True] * 6

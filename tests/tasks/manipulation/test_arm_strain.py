"""What table-top tasks measure beside success: motors' torques, contacts with the table, and of an arm with itself."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch
from sampled import slow_but

import rookery


def env_of(task: str = "table-reach", engine: str = "mujoco"):
    config = {"dt": 0.0125 / 6} if engine == "pybullet" else {}  # its servos are stiff there
    env = rookery.make(task, 1, engine=engine, config=config, randomize="none")
    env.reset(seed=0)
    return env


def wait(env, steps: int) -> dict[str, float]:
    """The metrics after `steps` control steps of the neutral action."""
    for _ in range(steps):
        env.step({g: torch.tensor(s.action.neutral).expand(1, 1, -1).clone() for g, s in env.groups.items()})
    return {k: float(v[0]) for k, v in env.task.metrics().items()}


every_engine = pytest.mark.parametrize("engine", slow_but(["mujoco"], ["mujoco", "pybullet"]))


@every_engine
def test_the_torque_of_a_static_hold_is_the_arms_weight(engine):
    """Beside a model of the same arm without motors and compensation, in which gravity pulls at the joints."""
    env = env_of(engine=engine)
    metrics = wait(env, 60)
    arm = env.task.robot
    model = env.task.model.spec(drive="torque").compile()
    model.body_gravcomp[:] = 0.0
    data = mujoco.MjData(model)
    for name, angle in zip(env.task.model.joints, arm.pos[0].tolist(), strict=True):
        data.joint(name).qpos = angle
    for name in env.task.model.fingers:
        data.joint(name).qpos = float(arm.opening[0]) / 2
    mujoco.mj_forward(model, data)
    weight = np.array([data.joint(name).qfrc_bias[0] for name in env.task.model.joints])
    np.testing.assert_allclose(arm.motor_torque[0].numpy(), weight, atol=0.15)
    share = np.abs(weight) / np.array(env.task.model.torque)
    assert metrics["torque_rms_share"] == pytest.approx(share.max(), rel=0.1) and share.max() > 0.1
    assert metrics["power"] < 0.5 and metrics["undesired_contact"] == metrics["self_collision"] == 0.0
    env.close()


def bodies_that_meet(model: mujoco.MjModel, joints: list[str], angles: np.ndarray) -> list[tuple[str, str]]:
    """Names of bodies in contact at joint angles, by MuJoCo."""
    data = mujoco.MjData(model)
    for name, angle in zip(joints, angles, strict=True):
        data.joint(name).qpos = angle
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_collision(model, data)
    pairs = ((model.geom_bodyid[g] for g in c.geom) for c in data.contact[: data.ncon])
    return [(model.body(a).name, model.body(b).name) for a, b in pairs]


@every_engine
def test_arms_in_themselves_and_in_the_table_count(engine):
    env = env_of(engine=engine)
    arm, model = env.task.robot, env.world.model
    rng = np.random.default_rng(0)
    found: dict[tuple[bool, bool], np.ndarray] = {}
    for _ in range(1500):
        angles = rng.uniform(arm.lower, arm.upper)
        pairs = [p for p in bodies_that_meet(model, list(arm.joint_names), angles) if any("panda/" in x for x in p)]
        own = any(all("panda/" in x for x in p) for p in pairs)
        table = any("world" in p and not any("finger" in x for x in p) for p in pairs)
        found.setdefault((own, table), angles)
    assert {own for own, _ in found} == {table for _, table in found} == {True, False}
    for (own, table), angles in found.items():
        env.reset(seed=0)
        arm.reset(torch.arange(1), torch.from_numpy(angles)[None])
        env.world.forward()
        env.world.step(1)
        assert (env.task.colliding.item() > 0) == own
        assert (env.task.undesired.item() > 0) == table
    env.close()


def test_two_arms_that_meet_collide():
    """Tools of both arms sent to the middle between them."""
    env = env_of("dual-panda-handover")
    assert wait(env, 2)["self_collision"] == 0.0
    for arm in env.task.arms.values():
        joints = arm.joints_for(torch.tensor([[0.0, 0.0, 0.3]]) + 0.5 * sum(a.base_pos for a in env.task.arms.values()))
        arm.reset(torch.arange(1), joints)
    env.world.forward()
    env.world.step(1)
    assert env.task.colliding.item() > 0
    env.close()


def test_torques_cost_what_they_are_of_the_motors_limits_where_they_have_a_weight():
    actions = 2.0 * torch.rand(20, 4, 1, 4, generator=torch.Generator().manual_seed(0)) - 1.0
    rewards = {}
    for weight in (0.0, -0.5):
        env = rookery.make("table-drawer-close", 4, seed=0, config={"reward": {"torques": weight}})
        env.reset()
        for action in actions:
            _, reward, *_ = env.step(action)
        rewards[weight] = reward["arm"][:, 0]
    gave, limits = env.task.robot.motor_torque.double().numpy(), np.array([87.0] * 4 + [12.0] * 3)
    cost = 0.5 * np.linalg.norm(gave / limits, axis=1) ** 2
    np.testing.assert_allclose((rewards[0.0] - rewards[-0.5]).numpy(), cost, rtol=1e-4)

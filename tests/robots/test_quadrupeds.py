"""The Go2's kinematics and controllers against MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

import rookery
from rookery.assets.go2 import FOOT_RADIUS, LEGS, go2_spec
from rookery.assets.scenery import ground
from rookery.robots.quadrupeds.go2 import GO2, STAND_HEIGHT, add_go2
from rookery.robots.quadrupeds.kernels import feet, leg_angles
from rookery.robots.quadrupeds.quadruped import Quadruped, leg_chains
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.scene import Scene


def states(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(n, 13))
    base[:, 3:7] /= np.linalg.norm(base[:, 3:7], axis=1, keepdims=True)
    low, high = go2_spec(visual=False).compile().jnt_range[1:].T
    return base, rng.uniform(low, high, (n, 12)), rng.normal(size=(n, 12))


def test_feet_and_knees_are_where_mujoco_has_them() -> None:
    n = 50
    base, q, dq = states(n)
    pos = np.zeros((n, 4, 3))
    vel = np.zeros((n, 4, 3))
    knees = np.zeros((n, 4, 3))
    rotation = np.zeros((n, 9))
    model = go2_spec(visual=False).compile()
    feet(base, q, dq, rotation, pos, vel, knees, *leg_chains(model, GO2.joints))
    data = mujoco.MjData(model)
    six = np.zeros(6)
    for i in range(n):
        data.qpos[:] = np.r_[base[i, :7], q[i]]
        data.qvel[:] = np.r_[base[i, 7:], dq[i]]
        mujoco.mj_forward(model, data)
        assert np.allclose(data.body("base").xmat, rotation[i], atol=1e-9)
        for leg, name in enumerate(LEGS):
            site = model.site(f"{name}_foot").id
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, site, six, 0)
            assert np.allclose(data.site_xpos[site], pos[i, leg], atol=1e-9)
            assert np.allclose(six[3:], vel[i, leg], atol=1e-9)
            assert np.allclose(data.xanchor[model.joint(f"{name}_calf").id], knees[i, leg], atol=1e-9)


def test_leg_angles_undo_the_feet() -> None:
    n = 200
    _, q, dq = states(n)
    q[:, ::3] = np.clip(q[:, ::3], -0.9, 0.9)
    level = np.zeros((n, 13))
    level[:, 3] = 1.0
    pos = np.zeros((n, 4, 3))
    again = np.zeros((n, 4, 3))
    others = np.zeros((2, n, 4, 3))
    chains = leg_chains(go2_spec(visual=False).compile(), GO2.joints)
    feet(level, q, dq, np.zeros((n, 9)), pos, *others, *chains)
    below = pos[..., 2] < -0.05  # a foot above its hip has two solutions
    for leg in range(4):
        q[:, 3 * leg : 3 * leg + 3] = leg_angles(pos[:, leg], leg)
    feet(level, q, dq, np.zeros((n, 9)), again, *others, *chains)
    assert below.mean() > 0.4
    assert np.allclose(again[below], pos[below], atol=1e-9)


def walk_world(n: int = 2, height: float = STAND_HEIGHT) -> tuple[MujocoWorld, Quadruped]:
    def floor() -> mujoco.MjSpec:
        spec = ground(visual=False)
        spec.option.impratio = 10.0
        return spec

    world = MujocoWorld(add_go2(Scene(floor, dt=0.005), height=height), n)
    return world, Quadruped(world, GO2)


def test_it_stands_for_a_minute_within_a_centimeter() -> None:
    world, robot = walk_world(1)
    state = torch.zeros(1, 13)
    state[:, 2] = STAND_HEIGHT
    state[:, 3] = 1.0
    robot.reset(torch.arange(1), state, robot.home[None])
    world.forward()
    # the legs' targets lie beyond home by what the weight bends the servos, so that they rest at home without spreading
    model = world.model
    data = mujoco.MjData(model)
    data.qpos[:] = np.r_[state[0, :7].numpy(), robot.home.numpy()]
    data.qvel[:] = 0.0
    mujoco.mj_forward(model, data)
    lift = np.array([0.0, 0.0, model.body_mass.sum() * 9.81 / 4])
    torque = np.zeros(model.nv)
    for name in LEGS:
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, jacobian, None, model.site(f"go2/{name}_foot").id)
        torque += jacobian.T @ lift
    target = robot.home + torch.from_numpy((data.qfrc_bias - torque)[6:] / 40.0).float()
    robot.command(target[None])
    world.step(400)
    robot.refresh()
    start = robot.base.pos.clone()
    feet_start = robot.foot_pos.clone()
    for _ in range(58):
        world.step(200)
    robot.refresh()
    assert float((robot.base.pos - start).norm()) < 0.01
    assert float((robot.foot_pos - feet_start).norm(dim=-1).max()) < 0.01
    assert float(robot.base.pos[0, 0, 2]) == pytest.approx(0.317, abs=0.01)  # legs at home, as geometry has it
    assert float(robot.foot_pos[..., 2].min()) > 0.022 - 0.003  # feet do not sink in


def test_feet_bounce_as_much_as_is_said_and_carry_as_before() -> None:
    """A ball with a foot's contact, thrown down at 0.5 to 2 m/s from 8 heights, leaves at the drawn share of that speed."""
    world, robot = walk_world(96)
    drawn = torch.tensor([0.0, 0.1, 0.2, 0.3]).repeat_interleave(24)
    robot.parameters()["restitution"].write(torch.arange(96), drawn)
    foot = world.params.get("solref", ["go2/FL_foot"])
    assert torch.equal(foot, world.params.get("solref", ["go2/RR_foot"]))

    def ball() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        like = go2_spec().geom("FL_foot")
        body = spec.worldbody.add_body(name="base")
        body.add_freejoint()
        body.add_geom(
            name="foot", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[FOOT_RADIUS, 0, 0], mass=4.0, priority=like.priority,
            friction=like.friction, solimp=like.solimp,
        )  # fmt: skip
        return spec

    drop = MujocoWorld(Scene(lambda: ground(visual=False), dt=0.005).add(ball, "ball"), 96)
    drop.params.set("solref", ["ball/foot"], foot)
    body = drop.bodies(["ball/base"])
    state = torch.zeros(96, 1, 13)
    speed = torch.tensor([0.5, 1.0, 2.0]).repeat_interleave(8).repeat(4)
    state[:, 0, 2] = FOOT_RADIUS + 0.005 * speed * torch.linspace(1.0, 2.0, 9)[:8].repeat(12)  # parts of a physics step
    state[:, 0, 3] = 1.0
    state[:, 0, 9] = -speed
    body.set_state(None, state)
    after = torch.zeros(96)
    for _ in range(40):
        drop.step(1)
        free = body.pos[:, 0, 2] > FOOT_RADIUS
        after = torch.where(free & (after == 0.0), body.lin_vel[:, 0, 2].clamp(min=0.0), after)
    share = (after / speed).view(4, 24)
    assert (share.mean(1) - drawn[::24]).abs().max() < 0.02
    assert (share - drawn[::24, None]).abs().max() < 0.15
    assert foot[:, 0, 0].unique().tolist() == world.params.nominal("solref", ["go2/FL_foot"])[:1, 0].tolist()


def test_the_trot_walks_as_told() -> None:
    env = rookery.make(
        "go2-velocity", 8, config={"push_s": 0.0, "start_joints": 0.0, "stand_share": 0.0, "resample_s": 100.0}
    )
    env.reset(seed=0)
    task = env.task
    act = env.task.controller()
    speed = torch.linspace(-0.4, 0.8, 8)
    for _ in range(250):
        task.command.zero_()
        task.command[:, 0] = speed
        _, _, terminated, _, _ = env.step(act({}))
        assert not terminated.any()
    walked = task.smooth[:, 0]
    assert float(torch.corrcoef(torch.stack((walked, speed)))[0, 1]) > 0.95
    assert float(walked[-1]) > 0.3 and float(walked[0]) < -0.15

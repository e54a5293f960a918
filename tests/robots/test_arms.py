"""Kinematics against MuJoCo and finite differences; servos that hold; grippers that grasp."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from rookery.assets.scenery import ground
from rookery.robots.arms.airbot_play import AIRBOT_PLAY
from rookery.robots.arms.arx5 import ARX5
from rookery.robots.arms.kinematics import Kinematics, Place, pose_error, quat_of_matrix
from rookery.sim import rotations
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

ARMS = pytest.mark.parametrize("arm", [AIRBOT_PLAY, ARX5], ids=lambda a: a.name)


def random_q(kinematics, count, seed=0):
    share = torch.rand(count, 6, generator=torch.Generator().manual_seed(seed))
    return kinematics.lower + share * (kinematics.upper - kinematics.lower)


@ARMS
def test_model_agrees_with_its_spec(arm):
    model = arm.spec(visual=False).compile()
    data = mujoco.MjData(model)
    assert arm.mass == pytest.approx(model.body_mass.sum())
    assert np.allclose(model.jnt_range[:6].T, [arm.lower, arm.upper])
    assert np.allclose(model.actuator_forcerange[:6, 1], arm.effort)
    assert np.allclose(model.actuator_ctrlrange[6], arm.gripper_range)
    kinematics = Kinematics.of(arm)
    assert np.allclose(kinematics.lower, arm.lower) and np.allclose(kinematics.upper, arm.upper)
    mujoco.mj_kinematics(model, data)
    shoulder = torch.tensor(data.body("link2").xpos, dtype=torch.float32)
    q = random_q(kinematics, 40000)
    q[:, 0] = 0  # the shoulder's place depends on joint 1
    reach = (kinematics.forward(q).pos - shoulder).norm(dim=-1).max().item()
    assert reach <= arm.reach + 1e-4 and reach > 0.98 * arm.reach


@ARMS
@pytest.mark.parametrize("pose", ["home", "ready"])
def test_named_poses_hold_the_tool_level_in_front(arm, pose):
    q = torch.tensor([getattr(arm, pose)])
    kinematics = Kinematics.of(arm)
    assert (q >= kinematics.lower).all() and (q <= kinematics.upper).all()
    tool = kinematics.forward(q)
    assert np.allclose(tool.quat[0], [1, 0, 0, 0], atol=1e-3)
    assert tool.pos[0, 0] > 0.2 and abs(tool.pos[0, 1]) < 1e-4 and tool.pos[0, 2] > 0.1


@ARMS
def test_forward_is_mujocos(arm):
    """Also with the base elsewhere and turned: poses are in its frame."""
    make = lambda: arm.spec(visual=False)  # noqa: E731
    model = Scene(ground).add(make, "arm", pos=(1, 2, 3), quat=(0.8, 0.0, 0.6, 0.0)).compile()
    data = mujoco.MjData(model)
    kinematics = Kinematics(model, [f"arm/{j}" for j in arm.joints], "arm/base", "arm/tcp")
    q = random_q(kinematics, 200)
    pose = kinematics.forward(q)
    base = model.body("arm/base").id
    site = model.site("arm/tcp").id
    for i in range(len(q)):
        data.qpos[:6] = q[i]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        frame = data.xmat[base].reshape(3, 3)
        assert np.allclose(frame.T @ (data.site_xpos[site] - data.xpos[base]), pose.pos[i], atol=1e-5)
        turn = frame.T @ data.site_xmat[site].reshape(3, 3)
        assert np.allclose(turn.ravel(), rotations.matrix(pose.quat[i]), atol=1e-5)
        linear, angular = np.zeros((2, 3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, site)
        assert np.allclose(np.vstack([frame.T @ linear, frame.T @ angular])[:, :6], pose.jacobian[i], atol=1e-5)


@ARMS
def test_the_compiled_place_is_that_of_forward(arm):
    kinematics = Kinematics.of(arm)
    q = random_q(kinematics, 500)
    here = kinematics.place(q, Place.empty(500))
    pose = kinematics.forward(q)
    assert torch.allclose(here.pos, pose.pos, atol=2e-6)
    assert torch.minimum((here.quat - pose.quat).norm(dim=1), (here.quat + pose.quat).norm(dim=1)).max() < 2e-6
    assert (here.quat[:, 0] >= 0).all()


@ARMS
def test_jacobian_is_the_derivative(arm):
    kinematics = Kinematics.of(arm)
    q, h = random_q(kinematics, 64), 5e-3
    here = kinematics.forward(q)
    for j in range(6):
        shift = torch.zeros(6)
        shift[j] = h
        ahead = kinematics.forward(q + shift)
        behind = kinematics.forward(q - shift)
        slope = pose_error(behind, ahead.pos, ahead.quat) / (2 * h)
        assert torch.allclose(slope, here.jacobian[:, :, j], atol=2e-4)


def test_quaternions_of_all_turns():
    quat = torch.nn.functional.normalize(torch.randn(2000, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    quat[:4] = torch.eye(4)  # the half turns
    back = quat_of_matrix(rotations.matrix(quat).view(-1, 3, 3))
    assert (back[:, 0] >= 0).all()
    assert torch.allclose((back * quat).sum(-1).abs(), torch.ones(2000), atol=1e-6)


@ARMS
@pytest.mark.parametrize("start", ["home", "ready"])
def test_inverse_undoes_forward(arm, start):
    kinematics = Kinematics.of(arm)
    goal = kinematics.forward(random_q(kinematics, 300, seed=1))
    found = kinematics.solve(goal.pos, goal.quat, torch.tensor([getattr(arm, start)]).expand(300, 6))
    assert (found.q >= kinematics.lower - 1e-5).all() and (found.q <= kinematics.upper + 1e-5).all()
    reached = kinematics.forward(found.q)
    error = pose_error(reached, goal.pos, goal.quat)
    good = (error[:, :3].norm(dim=-1) < 1e-3) & (error[:, 3:].norm(dim=-1) < 1e-2)
    assert good.float().mean() > 0.95
    assert torch.allclose(error[:, :3].norm(dim=-1), found.pos_error, atol=1e-5)
    assert torch.allclose(error[:, 3:].norm(dim=-1), found.rot_error, atol=1e-5)


def test_inverse_says_when_it_cannot():
    kinematics = Kinematics.of(AIRBOT_PLAY)
    pose = kinematics.forward(torch.tensor([AIRBOT_PLAY.ready, AIRBOT_PLAY.ready]))
    goal = pose.pos.clone()
    goal[1] = torch.tensor([2.0, 0.0, 0.5])
    found = kinematics.solve(goal, pose.quat, torch.tensor([AIRBOT_PLAY.ready] * 2))
    assert found.pos_error[0] < 1e-4 and 0.8 < found.pos_error[1] < 1.6
    alone = kinematics.solve(goal[1:], pose.quat[1:], torch.tensor([AIRBOT_PLAY.ready]))
    assert torch.allclose(alone.q, found.q[1:], atol=1e-4)  # a world does not depend on its neighbours


@ARMS
def test_a_step_is_bounded_and_goes_towards_the_goal(arm):
    kinematics = Kinematics.of(arm)
    q = torch.tensor([arm.ready]).expand(100, 6)
    here = kinematics.forward(q)
    way = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    near = here.pos + 0.02 * torch.nn.functional.normalize(way, dim=-1)
    for bound in (0.5, 0.1, 0.02):  # of the first error
        q = q + kinematics.step(q, near, here.quat)
        assert (pose_error(kinematics.forward(q), near, here.quat).norm(dim=-1) < bound * 0.02).all()
    anywhere = random_q(kinematics, 500, seed=2)
    far = kinematics.forward(random_q(kinematics, 500, seed=3))
    change = kinematics.step(anywhere, far.pos, far.quat)
    assert change.abs().max() <= 0.2 + 1e-6
    assert change.abs().max() > 0.19
    new = anywhere + change
    assert (new >= kinematics.lower - 1e-6).all() and (new <= kinematics.upper + 1e-6).all()


def test_a_joint_at_its_limit_leaves_the_work_to_the_others():
    kinematics = Kinematics.of(AIRBOT_PLAY)
    q = torch.tensor([AIRBOT_PLAY.ready])
    q[0, 3] = kinematics.upper[3]
    goal = kinematics.forward(q + torch.tensor([[0.0, 0.0, 0.0, 0.3, 0.0, 0.0]]))
    change = kinematics.step(q, goal.pos, goal.quat)
    assert change[0, 3] == 0 and change.abs().max() > 0.01
    left = pose_error(kinematics.forward(q + change), goal.pos, goal.quat).norm()
    assert left < 0.9 * pose_error(kinematics.forward(q), goal.pos, goal.quat).norm()


def test_wrong_names_are_explained():
    model = AIRBOT_PLAY.spec(visual=False).compile()
    with pytest.raises(RookeryError, match="joint1"):
        Kinematics(model, ["joint_1", *AIRBOT_PLAY.joints[1:]], "base", "tcp")
    with pytest.raises(RookeryError, match="tcp"):
        Kinematics(model, AIRBOT_PLAY.joints, "base", "tool")
    with pytest.raises(RookeryError, match="name those"):
        Kinematics(model, AIRBOT_PLAY.joints[:5], "base", "tcp")
    with pytest.raises(RookeryError, match="name those"):
        Kinematics(model, AIRBOT_PLAY.joints, "finger_left", "tcp")


@ARMS
@pytest.mark.parametrize("pose", ["home", "ready"])
def test_servos_hold_against_gravity(arm, pose):
    model = Scene(dt=0.005).add(lambda: arm.spec(visual=False), "arm").compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = data.ctrl[:6] = getattr(arm, pose)
    _run(model, data, 2.0)
    assert np.abs(data.qvel).max() < 1e-3
    sag = np.abs(data.qpos[:6] - data.ctrl[:6])
    assert 0.01 < sag.max() < 0.08  # rad: the servos have no integral, so some sag is right
    assert (np.abs(data.actuator_force[:6]) < 0.5 * np.array(arm.effort)).all()


@ARMS
def test_fingers_open_and_close_as_one(arm):
    model = Scene(dt=0.005).add(lambda: arm.spec(visual=False), "arm").compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = data.ctrl[:6] = np.add(arm.ready, [0, 0, 0, 0, 0, 1.0])  # on its side: the fingers want to drop
    for opening in (arm.gripper_range[1], 0.03, 0.0):
        data.ctrl[6] = opening
        _run(model, data, 0.6)
        assert data.tendon("arm/opening").length[0] == pytest.approx(opening, abs=1e-3)
        assert data.qpos[6] == pytest.approx(data.qpos[7], abs=5e-4)


@ARMS
@pytest.mark.parametrize("dt", [0.002, 0.005])
@pytest.mark.parametrize("roll", [0.0, 1.5])
def test_holds_a_ball(arm, dt, roll):
    """A ball of 40 mm and 100 g between open fingers; closed, it stays there for 2 s under gravity, roll rad on the side."""
    model = Scene(dt=dt).add(lambda: arm.spec(visual=False), "arm").add(_ball, "ball").compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = data.ctrl[:6] = np.add(arm.ready, [0, 0, 0, 0, 0, roll])
    data.ctrl[6] = arm.gripper_range[1]
    data.qpos[8:11] = [0, 3, 0]
    _run(model, data, 1.5)  # the arm sags and the gripper opens while the ball floats elsewhere
    data.qpos[8:11] = data.site("arm/tcp").xpos
    data.ctrl[6] = 0.0
    _run(model, data, 0.5)
    model.body_gravcomp[model.body("ball/ball").id] = 0.0
    held = _in_tool(data)
    depth = 0.0
    for _ in range(int(2.0 / dt)):
        mujoco.mj_step(model, data)
        depth = min(depth, data.contact.dist.min(initial=0.0))
    assert data.ncon == 2
    assert 1e-6 < -depth < 0.002
    assert np.linalg.norm(_in_tool(data) - held) < 0.002
    assert np.linalg.norm(_in_tool(data)) < 0.004  # centred
    assert data.actuator("arm/gripper").force[0] == pytest.approx(-20.0, abs=0.5)
    data.ctrl[6] = arm.gripper_range[1]  # and lets go
    _run(model, data, 0.4)
    assert np.linalg.norm(_in_tool(data) - held) > 0.01


@ARMS
@pytest.mark.parametrize("hz", [4.0, 8.0])
def test_holds_a_box_in_a_shaken_hand(arm, hz):
    """150 g while the weight swings by 6 m/s^2 up and down and to the sides, as in the hand of a walking robot: in 6 s the box
    moves by less than 1.2 cm, most of which the arm's own swaying drives outward."""
    scene = Scene(dt=0.005).add(lambda: arm.spec(visual=False), "arm").add(_box, "box")
    spec = scene.spec()
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:6] = data.ctrl[:6] = arm.ready
    data.qpos[6:8] = 0.0255
    data.ctrl[6] = 0.035
    mujoco.mj_forward(model, data)
    tool = data.site("arm/tcp")
    data.qpos[8:11] = tool.xpos + tool.xmat.reshape(3, 3) @ [0.02, 0.0, 0.0]
    mujoco.mju_mat2Quat(data.qpos[11:15], tool.xmat)
    _run(model, data, 1.0)
    held = _in_tool(data, "box/box")
    for k in range(1200):
        angle = 2.0 * np.pi * hz * k * 0.005
        model.opt.gravity[:] = 3.0 * np.sin(angle + 1.0), 6.0 * np.sin(0.5 * angle), -9.81 + 6.0 * np.sin(angle)
        mujoco.mj_step(model, data)
    assert np.linalg.norm(_in_tool(data, "box/box") - held) < 0.012


def _run(model, data, seconds):
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)


def _ball():
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="ball", gravcomp=1.0)
    body.add_freejoint(name="root")
    body.add_geom(name="ball", size=[0.02, 0, 0], mass=0.1)
    return spec


def _box():
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="box")
    body.add_freejoint(name="root")
    body.add_geom(name="box", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.045, 0.025, 0.03], mass=0.15)
    return spec


def _in_tool(data, body="ball/ball"):
    tool = data.site("arm/tcp")
    return tool.xmat.reshape(3, 3).T @ (data.body(body).xpos - tool.xpos)

"""The Allegro hand compiles to what the tables say, its servos are fast and stable, and its wrist carries it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets import allegro as hand
from rookery.assets.allegro import CHAINS, FINGERS, JOINTS, TOUCH, WRIST, allegro

STEP = 0.0025  # s, which the servos are to bear


def compiled(**kw) -> tuple[mujoco.MjModel, mujoco.MjData]:
    spec = allegro(looks=False, **kw)
    spec.option.timestep = STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def middles(model: mujoco.MjModel) -> np.ndarray:
    return np.array([model.joint(j).range.mean() for j in JOINTS])


def set_fingers(data: mujoco.MjData, angles: np.ndarray) -> None:
    for name, angle in zip(JOINTS, angles, strict=True):
        data.joint(name).qpos = angle


def in_palm(data: mujoco.MjData, body: str) -> np.ndarray:
    palm = data.body("palm")
    return palm.xmat.reshape(3, 3).T @ (data.body(body).xpos - palm.xpos)


@pytest.mark.parametrize("wrist", [True, False])
def test_tables(wrist: bool) -> None:
    model, _ = compiled(wrist=wrist)
    assert model.body_mass.sum() == pytest.approx(1.08)  # the maker's
    assert model.body("palm").mass[0] > 0.4154  # its published mass is without boards and flange
    for name, servo in ((j, model.actuator(j)) for j in JOINTS):
        assert np.allclose(servo.forcerange, [-0.35, 0.35]) and np.allclose(servo.ctrlrange, model.joint(name).range)
    ranges = np.array([model.joint(j).range for j in JOINTS])
    assert np.allclose(ranges[:4], [[-0.47, 0.47], [-0.196, 1.61], [-0.174, 1.709], [-0.227, 1.618]])  # wonik_allegro
    assert np.allclose(ranges[12:], [[0.263, 1.396], [-0.105, 1.163], [-0.189, 1.644], [-0.162, 1.719]])
    assert model.nu == model.nv == 16 + 6 * wrist
    assert {model.sensor(i).name for i in range(model.nsensor)} == set(TOUCH)
    assert not model.dof_frictionloss.any()
    assert compiled(wrist=wrist, dry_friction=True)[0].dof_frictionloss.sum() == pytest.approx(16 * 0.035)


def test_three_fingers_and_a_thumb_against_them() -> None:
    model, data = compiled(wrist=False)
    length = 0.0007 + 0.0164 + 0.054 + 0.0384 + 0.019
    assert np.allclose(in_palm(data, "mf_tip"), [0, 0, length])
    first = in_palm(data, "ff_tip")
    ring = in_palm(data, "rf_tip")
    assert first[1] > 0.05 and np.allclose(first, ring * [1, -1, 1])
    assert np.allclose(data.site("grasp").xmat.reshape(3, 3), np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]))
    angles = np.zeros(16)
    angles[12] = 1.396  # the thumb turns out of the palm's plane, to the side where fingers bend to
    angles[[1, 5, 9]] = 1.2
    set_fingers(data, angles)
    mujoco.mj_forward(model, data)
    thumb = in_palm(data, "th_tip")
    middle = in_palm(data, "mf_tip")
    assert thumb[0] > 0.1 and middle[0] > 0.08
    assert thumb[2] < hand.GRASP_POS[2] < middle[2]  # the grasp frame is between them


def test_looks_change_nothing_but_looks() -> None:
    with_looks = allegro().compile()
    without = allegro(looks=False).compile()
    seen = with_looks.geom_group == 2
    assert seen.sum() > 20 and with_looks.ngeom - seen.sum() == without.ngeom
    assert not with_looks.geom_contype[seen].any() and not with_looks.geom_conaffinity[seen].any()
    assert np.allclose(with_looks.body_inertia, without.body_inertia)


def test_fingers_move_at_the_makers_speed_and_settle() -> None:
    """From one end of the range to the other, all together, without weight: fast, and calm at the end."""
    model, data = compiled(wrist=False)
    model.opt.gravity[:] = 0
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    low, high = np.array([model.joint(j).range for j in JOINTS]).T
    low = low + 0.1
    high = high - 0.1
    for goal, start in ((high, low), (low, high)):
        mujoco.mj_resetData(model, data)
        set_fingers(data, start)
        data.ctrl[:] = goal
        fastest = np.zeros(16)
        for _ in range(round(1.0 / STEP)):
            mujoco.mj_step(model, data)
            fastest = np.maximum(fastest, np.abs(data.qvel))
        assert np.allclose(data.qpos, goal, atol=0.01)
        assert np.abs(data.qvel).max() < 0.05
        assert fastest.max() > 4.0  # rad/s, of 6.283


def test_a_free_joint_ends_at_the_speed_limit() -> None:
    model, _ = compiled(wrist=False)
    servos = [model.actuator(j) for j in JOINTS]
    top = [s.forcerange[1] / model.joint(j).damping[0] for j, s in zip(JOINTS, servos, strict=True)]
    assert np.allclose(top, 6.283)


def test_neighbors_do_not_touch_but_fingers_do() -> None:
    model, data = compiled(wrist=False)
    chains = [["palm", *(f"{f}_{link.name}" for link in CHAINS[f]), f"{f}_tip"] for f in FINGERS]
    near = {frozenset(pair) for chain in chains for pair in zip(chain, chain[1:], strict=False)}
    low, high = model.jnt_range.T
    rng = np.random.default_rng(0)
    met = set()
    for _ in range(200):
        data.qpos[:] = rng.uniform(low, high)
        mujoco.mj_forward(model, data)
        met |= {frozenset(model.geom(int(g)).name for g in c.geom) for c in data.contact[: data.ncon]}
    assert not met & near
    assert any({n[:2] for n in pair} == {"ff", "mf"} for pair in met)
    assert any({n[:2] for n in pair} == {"mf", "th"} for pair in met)


def test_wrist_axes_meet_in_the_grasp_frame() -> None:
    model, data = compiled()
    site = data.site("grasp")
    assert np.allclose(site.xpos, 0) and np.allclose(site.xmat.reshape(3, 3)[:, 2], [0, 0, -1], atol=1e-9)
    zero = site.xmat.reshape(3, 3).copy()
    x = 0.1
    y = -0.2
    z = 0.3
    roll = 0.4
    pitch = -0.5
    yaw = 0.6
    for name, value in zip(WRIST, (x, y, z, roll, pitch, yaw), strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    quat = np.zeros(4)
    turn = np.zeros(9)
    mujoco.mju_euler2Quat(quat, [roll, pitch, yaw], "XYZ")  # about fixed axes: Rz(yaw) Ry(pitch) Rx(roll)
    mujoco.mju_quat2Mat(turn, quat)
    assert np.allclose(site.xpos, [x, y, z])
    assert np.allclose(site.xmat.reshape(3, 3), turn.reshape(3, 3) @ zero, atol=1e-9)


def test_wrist_carries_the_hand_and_keeps_its_speed() -> None:
    model, data = compiled()
    for name, angle in zip(JOINTS, middles(model), strict=True):
        data.actuator(name).ctrl = angle
        data.joint(name).qpos = angle
    for _ in range(round(0.5 / STEP)):
        mujoco.mj_step(model, data)
    assert np.abs(data.site("grasp").xpos).max() < 1e-3  # under its weight of 10.6 N
    assert abs(data.joint("wrist_pitch").qpos[0]) < 0.01
    data.actuator("wrist_y").ctrl = 0.5
    data.actuator("wrist_yaw").ctrl = 1.5
    fastest = np.zeros(model.nv)
    for _ in range(round(1.5 / STEP)):
        mujoco.mj_step(model, data)
        fastest = np.maximum(fastest, np.abs(data.qvel))
    speed = {j: fastest[model.joint(j).dofadr[0]] for j in WRIST}
    assert 0.5 < speed["wrist_y"] < 1.1 and 1.0 < speed["wrist_yaw"] < 2.7
    assert data.joint("wrist_y").qpos[0] == pytest.approx(0.5, abs=0.005)
    assert data.joint("wrist_yaw").qpos[0] == pytest.approx(1.5, abs=0.02)


def test_on_a_flange_the_fingers_point_away_from_it() -> None:
    """The hand hangs on a site of a part of the world, where MuJoCo does not excuse parents and children from touching."""
    arm = mujoco.MjSpec()
    site = arm.worldbody.add_site(name="flange", pos=[0, 0, 0.5], quat=[0, 1, 0, 0])  # z down
    arm.attach(allegro(wrist=False, looks=False), site=site, prefix="hand/")
    model = arm.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = np.array([0.0] * 12 + [0.8, 0.0, 0.0, 0.0])
    mujoco.mj_forward(model, data)
    assert data.ncon == 0
    assert data.body("hand/palm").xpos[2] == pytest.approx(0.5 - 0.095)
    assert data.body("hand/mf_tip").xpos[2] < 0.3


@pytest.mark.parametrize("finger", ["ff", "mf", "rf", "th"])
def test_touch_is_the_force_on_a_tip(finger: str) -> None:
    """A 0.2 kg ball lies on a tip that points up."""
    spec = allegro(wrist=False, looks=False)
    spec.option.timestep = STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[12] = 0.8
    mujoco.mj_forward(model, data)
    tip = data.body(f"{finger}_tip")
    end = tip.xpos + tip.xmat.reshape(3, 3)[:, 2] * (hand.TIPS[finger][1] + hand.TIP_RADIUS)
    up = tip.xmat.reshape(3, 3)[:, 2]
    ball = spec.worldbody.add_body(name="ball", pos=(end + 0.0299 * up).tolist())
    ball.add_joint(name="along", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=up.tolist())
    ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.03, 0, 0], mass=0.2)
    model = spec.compile()
    model.opt.gravity[:] = -9.81 * up
    data = mujoco.MjData(model)
    data.joint("th0").qpos = 0.8
    data.ctrl[12] = 0.8
    for _ in range(round(0.5 / STEP)):
        mujoco.mj_step(model, data)
    forces = {name: data.sensor(name).data[0] for name in TOUCH}
    assert forces.pop(f"{finger}_touch") == pytest.approx(0.2 * 9.81, rel=0.05)
    assert not any(forces.values())

"""The Panda's spec against published tables (Gaz et al., RA-L 2019): masses, limits, kinematics, the hand's force and speed."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from rookery.assets.errors import RookeryError
from rookery.assets.panda import FINGERS, GRIP_FORCE, JOINTS, LOWER, STROKE, TCP, TORQUE, UPPER, panda_spec

# modified Denavit-Hartenberg (a, d, alpha) of joints 1 to 7; the flange is 0.107 m out of the last
MDH = (
    (0, 0.333, 0), (0, 0, -math.pi / 2), (0, 0.316, math.pi / 2), (0.0825, 0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2), (0, 0, math.pi / 2), (0.088, 0, math.pi / 2),
)  # fmt: skip
MASSES = (0.629769, 4.970684, 0.646926, 3.228604, 3.587895, 1.225946, 1.666555, 0.735522)


def flange(q: np.ndarray) -> np.ndarray:
    """[4, 4] of the flange in the base's frame."""
    out = np.eye(4)
    for (a, d, alpha), angle in zip(MDH, q, strict=True):
        ca, sa, c, s = math.cos(alpha), math.sin(alpha), math.cos(angle), math.sin(angle)
        out = out @ [[c, -s, 0, a], [s * ca, c * ca, -sa, -d * sa], [s * sa, c * sa, ca, d * ca], [0, 0, 0, 1]]
    out[:3, 3] += 0.107 * out[:3, 2]
    return out


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return panda_spec(visual=False).compile()


def test_kinematics_are_those_of_the_table(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    for _ in range(20):
        data.qpos[:7] = rng.uniform(LOWER, UPPER)
        mujoco.mj_kinematics(model, data)
        want = flange(data.qpos[:7])
        at = data.site("flange")
        assert np.abs(at.xpos - want[:3, 3]).max() < 1e-7 and np.abs(at.xmat.reshape(3, 3) - want[:3, :3]).max() < 1e-7
        tip = data.site("tcp")
        assert np.abs(tip.xpos - (want[:3, 3] + TCP * want[:3, 2])).max() < 1e-7
        # the hand is turned by -45 degrees about the flange's z; fingers slide along the hand's y
        hand = want[:3, :3] @ [[math.sqrt(0.5), math.sqrt(0.5), 0], [-math.sqrt(0.5), math.sqrt(0.5), 0], [0, 0, 1]]
        assert np.abs(tip.xmat.reshape(3, 3) - hand).max() < 1e-7


def test_masses_limits_and_gravity(model: mujoco.MjModel) -> None:
    for i, kg in enumerate(MASSES):
        assert model.body(f"link{i}").mass[0] == kg
    assert model.body("hand").mass[0] == 0.73 and model.body("left_finger").mass[0] == 0.015
    for i, name in enumerate(JOINTS):
        joint = model.joint(name)
        assert tuple(joint.range) == (LOWER[i], UPPER[i])
        assert model.jnt_actfrcrange[joint.id].tolist() == [-TORQUE[i], TORQUE[i]]
    assert (model.body_gravcomp[1:] == 1).all()
    # inertia is that of a body: positive, and no axis has more than the two others together (Gaz et al. bound it so)
    own = np.sort(model.body_inertia[1:], axis=1)
    assert (own > 0).all() and (own[:, 2] <= own[:, :2].sum(1) * (1 + 1e-6)).all()


def test_drives() -> None:
    for drive in ("position", "torque"):
        model = panda_spec(drive=drive, visual=False).compile()
        assert [model.actuator(i).name for i in range(model.nu)] == [*JOINTS, "gripper"]
    bare = panda_spec(hand=False, visual=False).compile()
    assert (bare.nq, bare.nu) == (7, 7) and bare.site("flange").id >= 0
    with pytest.raises(RookeryError, match="choose 'position' or 'torque'"):
        panda_spec(drive="velocity")


def test_gripper_opens_closes_and_holds(model: mujoco.MjModel) -> None:
    model.opt.timestep = 0.0025
    data = mujoco.MjData(model)
    data.qpos[:7] = data.ctrl[:7] = (0, 0.1, 0, -2, 0, 2.1, 0)
    slides = [model.joint(f).qposadr[0] for f in FINGERS]
    fastest = 0.0
    for goal in (2 * STROKE, 0.0, 2 * STROKE):
        data.ctrl[7] = goal
        for _ in range(400):
            mujoco.mj_step(model, data)
            fastest = max(fastest, abs(data.qvel[7:].mean()))  # of both: single ones swing by half a percent
        assert np.abs(data.qpos[slides] - 0.5 * goal).max() < 5e-4
    assert 0.18 < fastest <= 0.2 * (1 + 1e-5)


def test_gripper_force_on_what_blocks_it(model: mujoco.MjModel) -> None:
    """A cube that is fixed in the world where the open fingers are."""
    at = mujoco.MjData(model)
    at.qpos[:7] = (0, 0.1, 0, -2, 0, 2.1, 0)
    mujoco.mj_kinematics(model, at)
    spec = panda_spec(visual=False)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, at.site("tcp").xmat)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.02] * 3, pos=at.site("tcp").xpos, quat=quat)
    model = spec.compile()
    model.opt.timestep = 0.0025
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_DISCRETE
    data = mujoco.MjData(model)
    data.qpos[:7] = data.ctrl[:7] = (0, 0.1, 0, -2, 0, 2.1, 0)
    data.qpos[7:9] = STROKE
    for _ in range(400):
        mujoco.mj_step(model, data)
    pads = {model.geom(f"{f}_pad").id for f in FINGERS}
    total = 0.0
    force = np.zeros(6)
    steps = 200
    for _ in range(steps):  # a mean, because the arm's servos tremble
        mujoco.mj_step(model, data)
        side = data.site("tcp").xmat.reshape(3, 3)[:, 1]
        for i in range(data.ncon):
            if pads & set(data.contact.geom[i].tolist()):
                mujoco.mj_contactForce(model, data, i, force)
                total += abs(data.contact.frame[i].reshape(3, 3).T @ force[:3] @ side) / steps
    assert total == pytest.approx(2 * GRIP_FORCE, rel=0.03)  # what one pad has more, the rack takes from the other

"""The Go2's model against the published tables (MuJoCo Menagerie)."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets.go2 import HIP_MOTOR, JOINTS, KNEE_MOTOR, LEGS, go2_spec


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return go2_spec(visual=False).compile()


def test_masses_add_up(model: mujoco.MjModel) -> None:
    assert model.body_mass.sum() == pytest.approx(6.921 + 4 * (0.678 + 1.152 + 0.241352), abs=1e-6)
    assert model.body("FL_calf").mass[0] == pytest.approx(0.154 + 0.04 + 0.047352, abs=1e-6)


def test_left_and_right_mirror_each_other(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for front in "FR":
        for part in ("hip", "thigh", "calf"):
            left, right = (model.body(f"{front}{side}_{part}") for side in "LR")
            flip = np.diag([1.0, -1.0, 1.0])
            assert np.allclose(flip @ data.xipos[left.id], data.xipos[right.id], atol=1e-6)
            tensors = []
            for b in (left, right):
                turn = data.ximat[b.id].reshape(3, 3)
                tensors.append(turn @ np.diag(model.body_inertia[b.id]) @ turn.T)
            assert np.allclose(flip @ tensors[0] @ flip, tensors[1], atol=2e-6), part


def test_limits_are_the_tables(model: mujoco.MjModel) -> None:
    assert tuple(model.joint(j).name for j in range(1, 13)) == JOINTS
    assert tuple(model.joint("RL_thigh").range) == (-0.5236, 4.5379)
    assert tuple(model.joint("FR_thigh").range) == (-1.5708, 3.4907)
    for leg in LEGS:
        assert tuple(model.joint(f"{leg}_hip").range) == (-1.0472, 1.0472)
        assert tuple(model.joint(f"{leg}_calf").range) == (-2.7227, -0.83776)


def test_motors_follow_their_line_of_torque_over_speed(model: mujoco.MjModel) -> None:
    """A servo that is asked for more than the motor has gives what is left at that speed; within it, exactly kp e - kd v."""
    data = mujoco.MjData(model)
    for motor, joint in ((HIP_MOTOR, "FL_thigh"), (KNEE_MOTOR, "FL_calf")):
        at = model.joint(joint).dofadr[0]
        actuator = model.actuator(joint).id
        for speed in (-0.5, 0.0, 0.25, 0.5, 0.9, 1.0):
            mujoco.mj_resetData(model, data)
            data.qvel[at] = speed * motor.speed
            data.ctrl[actuator] = 100.0
            mujoco.mj_forward(model, data)
            assert data.actuator_force[actuator] == pytest.approx(motor.torque * min(1.0, 1.0 - speed), abs=1e-6)
        mujoco.mj_resetData(model, data)
        data.qvel[at] = 1.0
        data.ctrl[actuator] = data.joint(joint).qpos[0] + 0.1
        mujoco.mj_forward(model, data)
        assert data.actuator_force[actuator] == pytest.approx(40.0 * 0.1 - 1.0 * 1.0, abs=1e-6)


def test_shells_weigh_nothing_and_touch_nothing() -> None:
    bare = go2_spec(visual=False).compile()
    dressed = go2_spec().compile()
    assert dressed.body_mass.sum() == pytest.approx(bare.body_mass.sum())
    assert dressed.nmesh > 10
    meshes = dressed.geom_type == mujoco.mjtGeom.mjGEOM_MESH
    assert not dressed.geom_contype[meshes].any() and not dressed.geom_conaffinity[meshes].any()

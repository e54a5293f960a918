"""The quadrotor specs compile to what their numbers say, with and without looks."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets.drones import quadrotor_spec
from rookery.assets.errors import RookeryError
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.iris import IRIS

DRONES = pytest.mark.parametrize("drone", [CRAZYFLIE_21, IRIS], ids=lambda d: d.name)
ROTORS = [f"rotor_{i}" for i in range(1, 5)]


def spec(drone, visual=True):
    x, y, z = drone.inertia
    return quadrotor_spec(
        mass=drone.mass,
        inertia=(x, y, min(z, x + y)),  # the published Iris inertia is no rigid body's
        rotor_positions=drone.rotor_positions,
        propeller_radius=drone.propeller_radius,
        rotor_directions=drone.directions,
        body_radius=drone.body_radius,
        body_height=drone.body_height,
        look=drone.look,
        visual=visual,
    )


@DRONES
@pytest.mark.parametrize("visual", [True, False])
def test_numbers_and_names(drone, visual):
    model = spec(drone, visual).compile()
    base = model.body("base")
    assert model.body_mass.sum() == pytest.approx(drone.mass)
    assert np.allclose(base.inertia[:2], drone.inertia[:2])
    assert np.allclose(base.ipos, 0)
    assert np.allclose(base.iquat, [1, 0, 0, 0])
    assert model.joint("root").type[0] == mujoco.mjtJoint.mjJNT_FREE
    for name, place in zip(ROTORS, drone.rotor_positions, strict=True):
        assert np.allclose(model.site(name).pos, place)
    assert [model.actuator(i).name for i in range(model.nu)] == [*ROTORS, "reaction"]
    assert [model.sensor(i).name for i in range(model.nsensor)] == ["imu_gyro", "imu_acc", "imu_quat"]
    assert [model.camera(i).name for i in range(model.ncam)] == ["chase", "onboard"]
    collision = model.geom("collision")
    assert collision.type[0] == mujoco.mjtGeom.mjGEOM_CYLINDER
    assert np.allclose(collision.size[:2], [drone.body_radius, drone.body_height / 2])


@DRONES
def test_looks_change_nothing_else(drone):
    with_looks = spec(drone).compile()
    without = spec(drone, visual=False).compile()
    dropped = spec(drone)
    dropped.discard_visual()
    for other in (without, dropped.compile()):
        for field in ("nq", "nv", "nu", "nsensor", "nbody", "nsite", "ncam"):
            assert getattr(other, field) == getattr(with_looks, field), field
        assert other.ngeom == 1
        assert other.nmesh == 0
        assert np.array_equal(other.body_mass, with_looks.body_mass)
        assert np.array_equal(other.body_inertia, with_looks.body_inertia)
    visual = with_looks.geom_group == 2
    assert not with_looks.geom_contype[visual].any()
    assert not with_looks.geom_conaffinity[visual].any()
    assert visual.sum() > 10


@DRONES
def test_actuators_push_and_turn_about_body_z(drone):
    model = spec(drone, visual=False).compile()
    data = mujoco.MjData(model)
    data.qpos[3:7] = [np.cos(0.3), np.sin(0.3), 0, 0]
    mujoco.mj_forward(model, data)
    up = data.xmat[1].reshape(3, 3)[:, 2]
    for i, (x, y, _) in enumerate(drone.rotor_positions):
        data.ctrl[:] = 0
        data.ctrl[i] = 2.0
        mujoco.mj_forward(model, data)
        assert np.allclose(data.qfrc_actuator[:3], 2.0 * up)
        assert np.allclose(data.qfrc_actuator[3:], [2.0 * y, -2.0 * x, 0], atol=1e-12)
    data.ctrl[:] = [0, 0, 0, 0, 0.5]
    mujoco.mj_forward(model, data)
    assert np.allclose(data.qfrc_actuator, [0, 0, 0, 0, 0, 0.5], atol=1e-12)


def test_propellers_turn_against_their_reaction():
    model = spec(CRAZYFLIE_21).compile()
    names = {model.geom(i).name for i in range(model.ngeom)}
    for i, direction in enumerate(CRAZYFLIE_21.directions, start=1):
        assert f"propeller_{i}_{'cw' if direction > 0 else 'ccw'}" in names


def test_two_drones_in_one_scene():
    root = mujoco.MjSpec()
    for i in range(2):
        frame = root.worldbody.add_frame(pos=[i, 0, 1])
        root.attach(spec(CRAZYFLIE_21), frame=frame, prefix=f"drone_{i}/")
    model = root.compile()
    assert model.nu == 10
    assert model.body("drone_1/base").mass[0] == pytest.approx(CRAZYFLIE_21.mass)
    assert model.sensor("drone_1/imu_gyro").dim[0] == 3


def test_impossible_inertia_is_refused():
    with pytest.raises(RookeryError, match="no rigid body"):
        quadrotor_spec(
            mass=1.52,
            inertia=IRIS.inertia,
            rotor_positions=IRIS.rotor_positions,
            propeller_radius=0.1,
            rotor_directions=IRIS.directions,
            body_radius=0.2,
            body_height=0.1,
        )

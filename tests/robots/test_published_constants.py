"""Physical constants against the numbers of their sources, from which they are computed here once more.

The numbers below are copied from the sources that are named beside them, in the sources' units; nothing is read from the
modules under test but what is compared.
"""

from __future__ import annotations

import math
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from rookery.assets.go2 import HIP_MOTOR, KNEE_MOTOR, go2_spec
from rookery.robots.drones.table import DRONES
from rookery.robots.quadrupeds import gaits
from rookery.sim.multirotor import cascade, parameters
from rookery.tasks.swarm.radio import AIRCRAFT, HOVER_POWER, LIGHT, URBAN, propulsion_power
from rookery.tasks.volleyball.ball import BALLS

RPM = 2.0 * math.pi / 60.0  # rad/s

# kg; kg m^2; N, thrust of one rotor at full speed; N m, its torque; rad/s; thrust over weight as published
PUBLISHED = {
    # rl-tools, dynamics/crazyflie.h: thrust curve and torque ratio; full speed: Learning to Fly (arXiv 2311.13081)
    "crazyflie21": (0.0306, (9.4166e-6, 9.6441e-6, 17.4595e-6), 0.003525 + 0.014373 + 0.092230,
                    0.004665 * (0.003525 + 0.014373 + 0.092230), 21702 * RPM, None),
    # gym_pybullet_drones/assets/cf2x.urdf: kf 3.16e-10 N/rpm^2, km 7.94e-12 N m/rpm^2, thrust2weight 2.25 at g = 9.8
    "cf2x": (0.027, (1.4e-5, 1.4e-5, 2.17e-5), 2.25 * 0.027 * 9.8 / 4, 7.94e-12 / 3.16e-10 * 2.25 * 0.027 * 9.8 / 4,
             math.sqrt(2.25 * 0.027 * 9.8 / 4 / 3.16e-10) * RPM, 2.25),
    # omni_drones/robots/assets/usd/hummingbird.yaml
    "hummingbird": (0.716, (0.007, 0.007, 0.012), 8.54858e-6 * 838.0**2, 1.3677728816e-7 * 838.0**2, 838.0, 3.42),
    # volley_bots/robots/assets/usd/iris.yaml
    "iris": (1.52, (0.0347563, 0.0458929, 0.0977), 8.54858e-6 * 838.0**2, 1.3677728816e-7 * 838.0**2, 838.0, 1.61),
    # github.com/thu-uav/JuggleRL_train (arXiv 2509.24892); its torque is not published
    "air": (0.9505, (0.00529, 0.005624, 0.007805), 5.39899e-6 * 1356.6**2, None, 1356.6, None),
}  # fmt: skip


def test_every_drone_has_a_source():
    """Of a fresh process: in this one, other tests have registered drones of their own."""
    script = "from rookery.robots.drones.table import DRONES; print(*DRONES)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(PUBLISHED) == set(done.stdout.split())


@pytest.mark.parametrize("name", PUBLISHED)
def test_drones_are_those_published(name):
    drone = DRONES[name]
    mass, inertia, thrust, torque, speed, ratio = PUBLISHED[name]
    assert drone.mass == mass
    assert drone.inertia == inertia
    assert sum(drone.thrust_curve) == pytest.approx(thrust, rel=1e-9)
    assert torque is None or sum(drone.torque_curve) == pytest.approx(torque, rel=1e-9)
    assert drone.max_rotor_speed == pytest.approx(speed, rel=1e-9)
    assert ratio is None or drone.thrust_to_weight == pytest.approx(ratio, rel=3e-3)
    # at the speed of hover the rotors carry the weight
    t0, t1, t2 = drone.thrust_curve
    u = drone.hover_speed
    assert 4 * (t0 + u * (t1 + u * t2)) == pytest.approx(mass * 9.81, rel=1e-6)


@pytest.mark.parametrize("name", PUBLISHED)
def test_equal_rotors_balance(name):
    """Equal thrusts neither roll nor pitch the drone, equal torques do not yaw it, and neighbours turn against each other."""
    drone = DRONES[name]
    places = np.array(drone.rotor_positions)
    assert np.abs(places.sum(0)).max() < 1e-9
    assert sum(drone.directions) == 0
    around = np.argsort(np.arctan2(places[:, 1], places[:, 0]))
    turns = np.array(drone.directions)[around]
    assert (turns * np.roll(turns, 1) == -1).all()


def test_arms_of_the_iris():
    """iris.yaml: arm_lengths .255539, .238537."""
    found = [round(math.hypot(x, y), 6) for x, y, _ in DRONES["iris"].rotor_positions]
    assert found == [0.255539, 0.238537] * 2


@pytest.mark.parametrize(("name", "step"), [("hummingbird", 0.016), ("iris", 0.02)])
def test_rotor_lag_of_a_factor_for_each_step(name, step):
    """OmniDrones' rotors keep 1 - .43 of the way to their command at each control step: exp(-step / tau) = .57."""
    tau = -step / math.log(1.0 - 0.43)
    assert DRONES[name].tau_up == DRONES[name].tau_down == pytest.approx(tau, rel=2e-3)


def test_lags_of_the_crazyflie():
    """rl-tools, dynamics/crazyflie.h: rotors speed up and slow down with time constants of their own."""
    assert (DRONES["crazyflie21"].tau_up, DRONES["crazyflie21"].tau_down) == (0.05545, 0.24939)


def test_firmware_gains():
    """bitcraze/crazyflie-firmware: PID_ROLL_RATE_KP 250 a degree per second, of 65535 of the full command."""
    assert parameters.firmware_rate(250.0) == pytest.approx(250.0 * 180.0 / math.pi / 65535.0)


def test_gravity_is_one_number():
    assert parameters.GRAVITY == cascade.GRAVITY == gaits.GRAVITY == -mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody/></mujoco>"
    ).opt.gravity[2]  # fmt: skip


def test_the_knee_of_the_go2_is_the_hip_motor_behind_a_linkage():
    """Unitree: 23.7 N m and 30.1 rad/s at the hip; the knee's linkage of 1.917 gives 45.43 N m and 15.70 rad/s. The rotor,
    1.11842e-4 kg m^2 (mjlab), is felt through the gear of 6, and of 6 x 1.917 at the knee, squared."""
    linkage = 1.917
    assert (HIP_MOTOR.torque, HIP_MOTOR.speed) == (23.7, 30.1)
    assert pytest.approx(23.7 * linkage, rel=1e-3) == KNEE_MOTOR.torque
    assert pytest.approx(30.1 / linkage, rel=1e-3) == KNEE_MOTOR.speed
    assert pytest.approx(1.11842e-4 * 6**2, rel=2e-3) == HIP_MOTOR.armature
    assert pytest.approx(1.11842e-4 * (6 * linkage) ** 2, rel=2e-3) == KNEE_MOTOR.armature


def test_mass_and_inertia_of_the_go2():
    """Menagerie's unitree_go2/go2.xml; the trunk's tensor as Unitree's go2.urdf has it, kg m^2."""
    model = go2_spec(visual=False).compile()
    assert model.body_mass.sum() == pytest.approx(15.206, abs=1e-3)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    base = model.body("base").id
    turn = data.ximat[base].reshape(3, 3)
    found = turn @ np.diag(model.body_inertia[base]) @ turn.T
    wanted = [[0.02448, 0.00012166, 0.0014849], [0.00012166, 0.098077, -3.12e-5], [0.0014849, -3.12e-5, 0.107]]
    assert np.abs(found - wanted).max() < 1e-4


def test_balls():
    """VolleyBots, cfg/task/*.yaml; JuggleRL (arXiv 2509.24892)."""
    assert BALLS["volleybots"][:3] == (0.005, 0.1, 0.8)
    assert BALLS["realistic"][:2] == (0.0472, 0.04)


def test_radio_and_propulsion():
    """Urban environment of Al-Hourani et al. 2014; the 20 N aircraft of Zeng, Xu and Zhang 2019, table I, whose powers of
    blades and of induced flow follow from the rotor: delta/8 rho s A Omega^3 R^3 and (1 + k) W^(3/2) / sqrt(2 rho A)."""
    assert (URBAN.a, URBAN.b, URBAN.los_db, URBAN.nlos_db) == (9.61, 0.16, 1.0, 20.0)
    assert LIGHT == 299_792_458.0
    tip, radius = 120.0, 0.4
    area = math.pi * radius**2
    assert AIRCRAFT.disc_area == pytest.approx(area, rel=1e-3)
    assert AIRCRAFT.tip_speed == 300.0 * radius == tip
    assert AIRCRAFT.blade_power == pytest.approx(0.012 / 8 * 1.225 * 0.05 * area * tip**3, rel=1e-2)
    assert AIRCRAFT.induced_power == pytest.approx(1.1 * 20.0**1.5 / math.sqrt(2 * 1.225 * area), rel=1e-2)
    assert AIRCRAFT.induced_speed == pytest.approx(math.sqrt(20.0 / (2 * 1.225 * area)), rel=1e-2)
    assert pytest.approx(AIRCRAFT.blade_power + AIRCRAFT.induced_power) == HOVER_POWER
    assert propulsion_power(0.0, 0.0, AIRCRAFT) == pytest.approx(HOVER_POWER)

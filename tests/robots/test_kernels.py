"""Rotors against closed forms, the cascade's signs against MuJoCo, and limits that hold whatever comes in."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from rookery.robots.drones import kernels
from rookery.robots.drones.air import AIR
from rookery.robots.drones.cf2x import CF2X
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.hummingbird import HUMMINGBIRD
from rookery.robots.drones.iris import IRIS
from rookery.robots.drones.kernels import ATTITUDE, MEMORY_SIZE, MOTORS, POSITION, RATES, VELOCITY
from rookery.sim.multirotor.layout import type_row
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.tasks.drones.hover import Hover, HoverConfig

DT = 0.002
DRONES = (CRAZYFLIE_21, IRIS, HUMMINGBIRD, CF2X, AIR)
drone_types = pytest.mark.parametrize("drone", DRONES, ids=lambda d: d.name)


class Airframe:
    """One drone's arrays for the kernels, kept apart from rookery.robots.drones.drone on purpose."""

    def __init__(self, drone: DroneParameters) -> None:
        self.drone = drone
        self.directions = np.array(drone.directions, float)
        self.constants = {yaw: np.array(type_row(drone, yaw)) for yaw in (False, True)}
        self.u = np.full((1, 4), drone.hover_speed, np.float32)
        self.memory = np.zeros((1, MEMORY_SIZE), np.float32)
        self.rotor = np.tile(np.array([1, 1, drone.tau_up, drone.tau_down], np.float32), (1, 4, 1))
        self.out = np.zeros((1, 5), np.float32)

    def fly(self, level: int, state: np.ndarray, setpoint, yaw: bool = False, dt: float = DT) -> np.ndarray:
        """Thrusts and reaction torque [5] after one step."""
        kernels.fly(
            level, np.asarray(state, np.float32).reshape(1, 13), np.array([setpoint], np.float32), self.memory,
            self.constants[yaw], dt, self.u, self.rotor, self.out,
        )  # fmt: skip
        return self.out[0].copy()

    def cascade(self, level: int, to: int, state: np.ndarray, setpoint, yaw: bool = False) -> np.ndarray:
        sp = np.array([setpoint], np.float32)
        kernels.cascade(
            level, to, np.asarray(state, np.float32).reshape(1, 13), sp, self.memory, self.constants[yaw], DT
        )
        return sp[0]

    def schedule(self, thrust: np.ndarray, steps: int) -> np.ndarray:
        """[K, 5] for thrust commands [R, 4]."""
        out = np.zeros((1, steps, 1, 5), np.float32)
        kernels.rotor_schedule(
            np.asarray(thrust, np.float32)[None, :, None],
            DT,
            self.constants[False],
            self.u[None],
            self.rotor[None],
            out,
        )
        return out[0, :, 0]

    def thrust_of(self, u):
        t = self.drone.thrust_curve
        return t[0] + t[1] * u + t[2] * u * u


def at_rest(**parts) -> np.ndarray:
    s = np.zeros(13)
    s[3] = 1.0
    for name, v in parts.items():
        s[{"pos": slice(0, 3), "quat": slice(3, 7), "vel": slice(7, 10), "spin": slice(10, 13)}[name]] = v
    return s


def tilted(roll: float, pitch: float, yaw: float) -> np.ndarray:
    return Rotation.from_euler("ZYX", [yaw, pitch, roll]).as_quat(scalar_first=True)


# rotors


@drone_types
@pytest.mark.parametrize(("start", "command"), [(0.1, 0.9), (0.9, 0.1), (0.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
def test_rotor_speed_follows_the_exponential(drone, start, command):
    """u(t) = c + (u0 - c) exp(-t / tau), with one time constant up and another down."""
    a = Airframe(drone)
    a.u[:] = start
    tau = drone.tau_up if command > start else drone.tau_down
    for k in range(1, 301):
        out = a.schedule(np.full((1, 4), a.thrust_of(command)), 1)[0]
        wanted = command + (start - command) * math.exp(-k * DT / tau)
        np.testing.assert_allclose(a.u, wanted, atol=2e-5)
        middle = command + (start - command) * math.exp(-(k - 0.5) * DT / tau)  # thrusts are those of the step's middle
        np.testing.assert_allclose(out[:4], a.thrust_of(middle), rtol=1e-3, atol=1e-4 * drone.max_thrust)


@drone_types
def test_the_lag_does_not_depend_on_the_step(drone):
    coarse = Airframe(drone)
    fine = Airframe(drone)
    command = [0, 0, 0, 3.9 * drone.max_thrust]
    coarse.fly(RATES, at_rest(), command, dt=0.01)
    for _ in range(10):
        fine.fly(RATES, at_rest(), command, dt=0.001)
    np.testing.assert_allclose(coarse.u, fine.u, rtol=1e-5)


@drone_types
def test_thrust_curve_and_its_inverse(drone):
    u = np.linspace(0, 1, 50)
    for x in u:
        assert drone.speed_for_thrust(Airframe(drone).thrust_of(x)) == pytest.approx(x, abs=1e-9)
    assert drone.speed_for_thrust(-1.0) == 0.0
    assert drone.speed_for_thrust(2 * drone.max_thrust) == 1.0
    assert 4 * Airframe(drone).thrust_of(drone.hover_speed) == pytest.approx(9.81 * drone.mass)
    ratios = {"crazyflie21": 1.468, "iris": 1.610, "hummingbird": 3.419, "cf2x": 2.248, "air": 4.262}
    assert drone.thrust_to_weight == pytest.approx(ratios[drone.name], abs=1e-3)


@drone_types
def test_a_settled_rotor_gives_the_commanded_thrust(drone):
    a = Airframe(drone)
    thrust = np.array([[0.2, 0.4, 0.6, 0.9]]) * drone.max_thrust
    out = a.schedule(thrust, 3000)[-1]
    np.testing.assert_allclose(out[:4], thrust[0], rtol=1e-4)
    u = np.array([drone.speed_for_thrust(t) for t in thrust[0]])
    q = drone.torque_curve
    wanted = (a.directions * (q[0] + q[1] * u + q[2] * u * u)).sum()
    assert out[4] == pytest.approx(wanted, rel=1e-3, abs=1e-4 * sum(q))


@drone_types
def test_rotor_parameters_scale_thrust_torque_and_lag(drone):
    a, b = Airframe(drone), Airframe(drone)
    b.rotor[0, :] *= [1.3, 0.7, 1.0, 1.0]
    thrust = np.array([[0.2, 0.4, 0.6, 0.9]]) * drone.max_thrust
    x, y = a.schedule(thrust, 20), b.schedule(thrust, 20)
    np.testing.assert_allclose(y[:, :4], 1.3 * x[:, :4], rtol=1e-5)
    np.testing.assert_allclose(y[:, 4], 0.7 * x[:, 4], rtol=1e-5)
    fast, slow = Airframe(drone), Airframe(drone)
    slow.rotor[0, :, 2:] *= 2
    for _ in range(20):
        fast.schedule(thrust, 1)
        slow.schedule(thrust, 2)
        np.testing.assert_allclose(slow.u, fast.u, rtol=1e-4)


@drone_types
def test_a_schedule_is_the_flight_step_by_step(drone):
    """Constant commands computed ahead equal the per-step path, and rows equal one call a row."""
    ahead = Airframe(drone)
    stepped = Airframe(drone)
    rows = Airframe(drone)
    thrust = np.array([0.1, 0.5, 0.7, 1.0]) * drone.max_thrust
    speeds = [drone.speed_for_thrust(t) for t in thrust]
    plan = ahead.schedule(thrust[None], 30)
    np.testing.assert_array_equal(rows.schedule(np.tile(thrust, (30, 1)), 30), plan)
    flown = np.array([stepped.fly(MOTORS, at_rest(), speeds) for _ in range(30)])
    np.testing.assert_allclose(plan, flown, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(ahead.u, stepped.u, rtol=1e-5)
    np.testing.assert_array_equal(ahead.u, rows.u)


def test_rows_of_a_schedule_act_one_step_each():
    a, b = Airframe(CRAZYFLIE_21), Airframe(CRAZYFLIE_21)
    thrust = np.random.default_rng(0).uniform(0, CRAZYFLIE_21.max_thrust, (8, 4))
    together = a.schedule(thrust, 8)
    apart = np.concatenate([b.schedule(row[None], 1) for row in thrust])
    np.testing.assert_array_equal(together, apart)


anything = st.floats(-1e6, 1e6, width=32)


@given(
    level=st.sampled_from([RATES, ATTITUDE, VELOCITY, POSITION]),
    drone=st.sampled_from(DRONES),
    setpoint=arrays(np.float32, 4, elements=anything),
    pose=arrays(np.float32, 13, elements=st.floats(-100, 100, width=32)),
    yaw=st.booleans(),
)
def test_motor_commands_stay_between_nothing_and_full(level, drone, setpoint, pose, yaw):
    """Whatever is asked for in whatever state, at the first step and after many."""
    a = Airframe(drone)
    pose[3:7] = pose[3:7] / max(np.linalg.norm(pose[3:7]), 1e-3) if np.any(pose[3:7]) else [1, 0, 0, 0]
    for _ in range(5):
        u = a.cascade(level, MOTORS, pose, setpoint, yaw)
        assert np.isfinite(u).all()
        assert (u >= 0).all()
        assert (u <= 1).all()
        out = a.fly(level, pose, setpoint, yaw)
        assert (a.u >= 0).all()
        assert (a.u <= 1).all()
        assert (out[:4] <= drone.max_thrust * (1 + 1e-6)).all()
        assert (out[:4] >= 0).all()
        assert np.isfinite(a.memory).all()


@drone_types
def test_saturation_gives_up_thrust_before_attitude(drone):
    """At full throttle a roll command turns the drone as hard as at half: all motors make room for the difference."""
    full, half = (
        Airframe(drone).cascade(RATES, MOTORS, at_rest(), [1.5, 0, 0, 4 * t])
        for t in (drone.max_thrust, 0.3 * drone.max_thrust)
    )
    left = np.array(drone.rotor_positions)[:, 1] > 0
    assert full[left] == pytest.approx(1.0)
    assert 0 < half.min() < half.max() < 1
    assert full[left] - full[~left] == pytest.approx(half[left] - half[~left], abs=1e-5)


def test_the_firmwares_gains_in_its_own_units():
    """Default rate PID, platform_defaults_cf2.h: roll and pitch 250 / 500 / 2.5, yaw 120 / 16.7 / 0, of 65535 a degree."""
    a = Airframe(CRAZYFLIE_21)
    u = a.cascade(RATES, MOTORS, at_rest(), [math.radians(2.0), 0, 0, 4 * a.thrust_of(0.5)])
    roll = (250 * 2.0 + 500 * 2.0 * DT) / 65535
    np.testing.assert_allclose(u, 0.5 + np.array([-1, -1, 1, 1]) * roll / 2, atol=1e-6)
    a = Airframe(CRAZYFLIE_21)
    u = a.cascade(RATES, MOTORS, at_rest(), [0, 0, math.radians(2.0), 4 * a.thrust_of(0.5)])
    yaw = (120 * 2.0 + 16.7 * 2.0 * DT) / 65535
    np.testing.assert_allclose(u, 0.5 + np.array(CRAZYFLIE_21.directions) * yaw, atol=1e-6)


# signs, in MuJoCo


def simulate(drone: DroneParameters, level: int, setpoint, seconds: float, state=None, yaw: bool = False, push=None):
    """Fly one drone in plain MuJoCo; gives its data and the states [K, 13] along the way."""
    m = Hover(HoverConfig(drone=drone.name)).scene().compile()
    d = mujoco.MjData(m)
    a = Airframe(drone)
    states = []
    s = at_rest(pos=(0, 0, 5)) if state is None else state
    d.qpos[:7] = s[:7]
    d.qvel[:6] = s[7:]
    for k in range(round(seconds / DT)):
        now = np.concatenate([d.qpos[:7], d.qvel[:6]])
        d.ctrl[:] = a.fly(level, now, setpoint, yaw)
        d.xfrc_applied[m.body("drone_0/base").id] = 0 if push is None else push(k * DT)
        mujoco.mj_step(m, d)
        states.append(np.concatenate([d.qpos[:7], d.qvel[:6]]))
    return np.array(states)


def weight(drone: DroneParameters) -> float:
    return 9.81 * drone.mass


@drone_types
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_rate_commands_turn_about_their_own_axis_in_their_own_direction(drone, axis, sign):
    command = np.zeros(4)
    command[axis] = 0.5 * sign
    command[3] = weight(drone)
    early = simulate(drone, RATES, command, 0.02)[-1, 10:]
    assert sign * early[axis] > 0
    if (
        drone is not IRIS or axis != 2
    ):  # its front rotors stand wider than its rear ones: yaw torque comes with some roll
        assert np.abs(np.delete(early, axis)).max() < 0.05 * abs(early[axis])
    late = simulate(drone, RATES, command, 1.0)[-100:, 10:].mean(0)
    assert late[axis] == pytest.approx(0.5 * sign, rel=0.1)
    assert np.abs(np.delete(late, axis)).max() < 0.05


@drone_types
def test_attitude_commands(drone):
    for roll, pitch in ((0.3, 0.0), (0.0, 0.3), (-0.2, 0.25)):
        s = simulate(drone, ATTITUDE, [roll, pitch, 0, weight(drone)], 1.5)
        got = Rotation.from_quat(s[-1, 3:7], scalar_first=True).as_euler("ZYX")[::-1]
        np.testing.assert_allclose(got[:2], [roll, pitch], atol=0.03)
        # thrust leans with the body: pitching forward flies forward, rolling right flies right (to -y)
        assert np.sign(np.round(s[-1, 7:9], 1)).tolist() == [np.sign(pitch), -np.sign(roll)]


@drone_types
@pytest.mark.parametrize("heading", [0.0, 2.0, -2.5])
def test_velocity_and_position_commands_hold_at_every_heading(drone, heading):
    start = at_rest(pos=(0, 0, 5), quat=tilted(0, 0, heading))
    s = simulate(drone, VELOCITY, [0.6, -0.4, 0.2, 0.0], 5.0, start)
    np.testing.assert_allclose(s[-200:, 7:10].mean(0), [0.6, -0.4, 0.2], atol=0.05)
    s = simulate(drone, POSITION, [0.5, -0.3, 5.4, heading + 0.5], 6.0, start)
    np.testing.assert_allclose(s[-1, :3], [0.5, -0.3, 5.4], atol=0.03)
    yaw = Rotation.from_quat(s[-1, 3:7], scalar_first=True).as_euler("ZYX")[0]
    assert math.remainder(yaw - heading - 0.5, 2 * math.pi) == pytest.approx(0, abs=0.05)


@drone_types
def test_each_level_hands_on_its_yaw_rate(drone):
    """Whatever else it asks for: climbing must not turn the drone."""
    for setpoint in ([0, 0, 1.0, 0.0], [0, 0, -1.0, 0.7], [1.0, 0.5, 0, -0.4]):
        sp = Airframe(drone).cascade(VELOCITY, ATTITUDE, at_rest(), setpoint)
        assert sp[2] == pytest.approx(setpoint[3])
        assert Airframe(drone).cascade(VELOCITY, RATES, at_rest(), setpoint)[2] == pytest.approx(setpoint[3])
    climb = simulate(drone, VELOCITY, [0, 0, 1.0, 0.0], 1.0)
    assert np.abs(climb[:, 12]).max() < 1e-3
    turn = simulate(drone, VELOCITY, [0, 0, 0, 0.6], 3.0)
    assert turn[-500:, 12].mean() == pytest.approx(0.6, rel=0.1)


@drone_types
def test_the_cascade_recovers_from_large_tilts(drone):
    """Upside down is beyond it; 75 degrees with spin is not."""
    for roll, pitch, yaw in ((1.3, 0.0, 0.5), (-0.9, 0.9, -2.0), (0.0, -1.3, 3.0)):
        start = at_rest(pos=(0, 0, 50), quat=tilted(roll, pitch, yaw), vel=(1, -1, 0.5), spin=(2, -2, 1))
        s = simulate(drone, POSITION, [0, 0, 50, 0], 8.0, start)
        np.testing.assert_allclose(s[-1, :3], [0, 0, 50], atol=0.1)
        assert np.abs(s[-1, 7:12]).max() < 0.1


@drone_types
def test_integrated_yaw_holds_a_heading_that_rates_alone_lose(drone):
    """A twist for half a second, while a yaw rate of zero is commanded: the firmware's PID turns back."""
    strength = 0.3 * sum(drone.torque_curve)

    def push(t: float) -> np.ndarray:
        return np.array([0, 0, 0, 0, 0, strength if 0.5 < t < 1.0 else 0])

    heading = {}
    for yaw in (True, False):
        s = simulate(drone, RATES, [0, 0, 0, weight(drone)], 6.0, yaw=yaw, push=push)
        angles = np.unwrap(2 * np.arctan2(s[:, 6], s[:, 3]))
        heading[yaw] = angles[-1]
        assert angles.max() > 0.02
        assert abs(s[-1, 12]) < 0.05
    assert abs(heading[True]) < 0.25 * abs(heading[False])


def test_integrated_yaw_still_follows_a_yaw_rate():
    s = simulate(CRAZYFLIE_21, RATES, [0, 0, 0.8, weight(CRAZYFLIE_21)], 3.0, yaw=True)
    assert s[-500:, 12].mean() == pytest.approx(0.8, rel=0.1)


@drone_types
def test_level_flight_costs_no_rates(drone):
    """Hovering at the setpoint, every level asks for just what is there."""
    a = Airframe(drone)
    s = at_rest(pos=(1, 2, 3), quat=tilted(0, 0, 0.7))
    np.testing.assert_allclose(a.cascade(POSITION, VELOCITY, s, [1, 2, 3, 0.7]), 0, atol=1e-6)
    np.testing.assert_allclose(a.cascade(VELOCITY, ATTITUDE, s, [0, 0, 0, 0]), [0, 0, 0, weight(drone)], atol=1e-6)
    np.testing.assert_allclose(
        a.cascade(ATTITUDE, RATES, s, [0, 0, 0, weight(drone)]), [0, 0, 0, weight(drone)], atol=1e-6
    )
    np.testing.assert_allclose(a.cascade(RATES, MOTORS, s, [0, 0, 0, weight(drone)]), drone.hover_speed, atol=1e-6)


@drone_types
@pytest.mark.parametrize("far", [1e-3, 0.1, 50.0])
def test_a_place_asks_for_speed_towards_it_up_to_a_bound(drone, far):
    """Gain times distance along each axis; a longer vector is shortened to the greatest speed and keeps its direction."""
    a = Airframe(drone)
    place, off = np.array([1.0, -2.0, 3.0]), far * np.array([0.9, -0.3, 0.5])
    got = a.cascade(POSITION, VELOCITY, at_rest(pos=place, vel=(0.1, 0.2, -0.3)), [*(place + off), 0.0])[:3]
    wanted = np.array(drone.gains.position_kp) * off
    speed = np.linalg.norm(wanted)
    np.testing.assert_allclose(got, wanted * min(1.0, drone.gains.max_velocity / speed), rtol=1e-3, atol=1e-6)
    assert (speed > drone.gains.max_velocity) == (far > 1.0)


@drone_types
@pytest.mark.parametrize("velocity", [(0.2, -0.1, 0.05), (-0.3, 0.4, -0.2), (30.0, 10.0, 1.0), (0.0, 0.1, -90.0)])
def test_a_velocity_leans_thrust_to_the_acceleration_it_wants(drone, velocity):
    """By rotations: the thrust's direction at the wanted angles is that of the acceleration and what holds the weight."""
    a, g = Airframe(drone), drone.gains
    now, heading = np.array([0.05, 0.02, -0.03]), 0.8
    error = np.array(velocity) - now
    limit = np.array(g.velocity_integral_limit)
    wanted = np.array(g.velocity_kp) * error + np.array(g.velocity_ki) * np.clip(error * DT, -limit, limit)
    roll, pitch, rate, thrust = a.cascade(
        VELOCITY, ATTITUDE, at_rest(vel=now, quat=tilted(0, 0, heading)), [*velocity, 0.4]
    )
    up = max(wanted[2] + 9.81, 0.3 * 9.81)
    level = wanted[:2] * min(1.0, math.tan(g.max_tilt) * up / np.linalg.norm(wanted[:2]))
    direction = Rotation.from_euler("ZYX", [heading, pitch, roll]).apply([0.0, 0.0, 1.0])
    np.testing.assert_allclose(direction / direction[2] * up, [*level, up], rtol=2e-4, atol=2e-4)
    assert rate == pytest.approx(0.4)
    assert thrust == pytest.approx(min(drone.mass * up, 4.0 * sum(drone.thrust_curve)), rel=1e-5)


def test_yaw_wraps_the_short_way():
    a = Airframe(CRAZYFLIE_21)
    s = at_rest(quat=tilted(0, 0, 3.0))
    assert a.cascade(POSITION, VELOCITY, s, [0, 0, 0, -3.0])[3] == pytest.approx(2 * (2 * math.pi - 6.0), abs=1e-5)


def test_drones_do_not_touch_one_another():
    """The loop over drones: one of three moves, the other two are as if alone."""
    a = Airframe(CRAZYFLIE_21)
    one = a.cascade(POSITION, MOTORS, at_rest(pos=(0, 0, 1)), [0, 0, 2, 0])
    states = np.stack([at_rest(pos=(0, 0, 1)), at_rest(vel=(3, 2, 1), spin=(1, 2, 3)), at_rest(pos=(0, 0, 1))]).astype(
        np.float32
    )
    sp = np.array([[0, 0, 2, 0], [5, 5, 5, 1], [0, 0, 2, 0]], np.float32)
    memory = np.zeros((3, MEMORY_SIZE), np.float32)
    kernels.cascade(POSITION, MOTORS, states, sp, memory, a.constants[False], DT)
    np.testing.assert_array_equal(sp[0], one)
    np.testing.assert_array_equal(sp[2], one)
    assert not np.array_equal(sp[1], one)

"""Each identified parameter does to a simulated joint what its closed form says: a wheel on a vertical axis, and a pendulum."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rookery.sim2real.sysid.jointed.parameters import QUANTITIES, joint_parameters
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.robot import JointedRobot, make_robot
from rookery.sim2real.sysid.logs import JointLog

INERTIA, KP, KD, TORQUE, SPEED = 0.02, 8.0, 0.4, 5.0, 12.0
ARMATURE, DAMPING = 0.01, 0.05  # nominal
PERIOD = 0.005
REST = 4  # samples


def one_joint(vertical: bool = True, mass: float = 0.0) -> JointedRobot:
    """A wheel, or a pendulum of a point mass 0.2 m from its axis."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="wheel")
    body.explicitinertial = True
    body.mass, body.inertia = max(mass, 1e-3), [INERTIA, INERTIA, INERTIA]
    body.ipos = [0.0, 0.0, -0.2 if mass else 0.0]
    axis = [0, 0, 1] if vertical else [0, 1, 0]
    joint = body.add_joint(name="wheel", type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis)
    joint.armature, joint.damping = ARMATURE, [DAMPING, 0, 0]
    limits = ((-9.0,), (9.0,), (TORQUE,), (SPEED,), (KP,), (KD,), (0.0,))
    return make_robot("wheel", "quadruped", spec, ("wheel",), ("wheel",), *limits)


def predicted(robot: JointedRobot, target: np.ndarray, **values: float) -> tuple[np.ndarray, np.ndarray]:
    """Times from the first target on and angles, from rest at 0, with some parameters in place of the nominal ones."""
    target = np.concatenate((np.zeros(REST), target))
    time = (np.arange(len(target)) - REST) * PERIOD
    zero = np.zeros((len(target), 1))
    log = JointLog("test", robot.joints, time, zero, target[:, None], np.array([KP]), np.array([KD]))
    parameters = joint_parameters(robot, list(values) or ["delay"], each=())
    problem = JointProblem(robot, log, parameters, window=math.inf, threads=1)
    x = np.array([values.get(p.quantity, p.nominal) for p in parameters])
    return time[REST:], problem.predict(x[None])[0, REST - 1 :, 0]


def step_response(time, target, inertia=INERTIA + ARMATURE, damping=DAMPING, kp=KP, kd=KD, bias=0.0, late=0.0):
    """Of the linear second-order system, integrated to 1e-9."""

    def change(t, s):
        u = target if t >= late else 0.0
        return [s[1], (kp * (u - s[0]) + bias - (kd + damping) * s[1]) / inertia]

    span = (-REST * PERIOD, time[-1])
    found = solve_ivp(change, span, [0.0, 0.0], t_eval=time, rtol=1e-9, atol=1e-11, max_step=PERIOD)
    return found.y[0]


@pytest.mark.parametrize(
    ("values", "truth"),
    [
        ({}, {}),
        ({"armature": 0.05}, {"inertia": INERTIA + 0.05}),
        ({"damping": 0.3}, {"damping": 0.3}),
        ({"kp": 1.5}, {"kp": 1.5 * KP}),
        ({"kd": 0.5}, {"kd": 0.5 * KD}),
        ({"torque_bias": 0.15}, {"bias": 0.15}),
        ({"delay": 0.013}, {"late": 0.013}),
    ],
    ids=lambda v: ", ".join(v) or "nominal",
)
def test_step_responses_are_those_of_the_linear_system(values, truth):
    """Within 3e-4 of a step of 0.3 rad: of second order in the physics step of 2.5 ms, as the midpoint rule is."""
    time, angle = predicted(one_joint(), np.full(200, 0.3), **values)
    exact = step_response(time, 0.3, **truth)
    assert np.abs(angle - exact).max() < 3e-4
    if values:
        assert np.abs(step_response(time, 0.3) - exact).max() > 5e-3  # the parameter matters


def test_dry_friction_holds_below_its_torque_and_takes_it_off_above():
    held = predicted(one_joint(), np.full(400, 0.1), friction=0.9)[1]  # KP 0.1 = 0.8 N m
    assert np.abs(held).max() < 2e-3
    time, angle = predicted(
        one_joint(), np.full(30, 10.0), friction=0.9
    )  # the motor gives its 5 N m, and less with speed
    early = time < 0.03
    assert angle[early][-1] == pytest.approx(
        0.5 * (TORQUE - 0.9) / (INERTIA + ARMATURE) * time[early][-1] ** 2, rel=0.25
    )


@pytest.mark.parametrize(("strength", "speed"), [(1.0, 1.0), (0.5, 1.0), (1.0, 0.6), (1.4, 1.2)])
def test_the_torque_speed_line_is_the_motors(strength, speed):
    """Far from the target the torque is T (1 - w / w0), which acts as T and a damping T / w0 more."""
    time, angle = predicted(one_joint(), np.full(100, 100.0), motor_strength=strength, motor_speed=speed)
    stall, top, inertia = TORQUE * strength, SPEED * speed, INERTIA + ARMATURE
    rate = (stall / top + DAMPING) / inertia
    end = stall / inertia / rate
    exact = end * (time - (1.0 - np.exp(-rate * time)) / rate)
    assert np.abs(angle - exact).max() < 2e-2 * exact.max()


def test_an_encoder_offset_turns_gravity():
    """At rest kp (target - reading) is the torque of the weight at the true angle."""
    robot = one_joint(vertical=False, mass=1.0)
    reading = predicted(robot, np.full(2000, 0.5), encoder_offset=0.1)[1][-1]
    weight = 1.0 * 9.81 * 0.2
    assert KP * (0.5 - reading) == pytest.approx(weight * math.sin(reading - 0.1), abs=1e-3)


def test_every_quantity_is_tried_here():
    tried = {"armature", "damping", "kp", "kd", "torque_bias", "delay", "friction", "motor_strength", "motor_speed",
             "encoder_offset"}  # fmt: skip
    assert set(QUANTITIES) == tried

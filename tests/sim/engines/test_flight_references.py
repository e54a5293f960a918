"""Free flight on every engine against the equations of motion, solved to rounding by another integrator.

The equations are written down here from their sources: rigid body and rotors as in Foerster, "System identification of the
Crazyflie 2.0 nano quadrocopter" (ETH Zurich, 2015), drag of body and rotors as in RotorPy (arXiv 2306.04485), a ball's drag and
Magnus lift as in Nathan, "The effect of spin on the flight of a baseball" (American Journal of Physics 76, 2008).
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from rookery.assets.scenery import ball, ground
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.drone import Drones
from rookery.sim.engines import make_world
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.multirotor.effects import PRESETS, Effects
from rookery.sim.scene import Scene
from rookery.tasks.drones.hover import Hover, HoverConfig

D = CRAZYFLIE_21
G = 9.81
WIND = np.array([2.0 * math.cos(0.7), 2.0 * math.sin(0.7), 0.0])  # m/s
CONTROL_S, INTERVALS = 0.08, 25  # 2 s
STEPS = (0.008, 0.004, 0.002)  # s
SPIN = (30.0, -20.0, 60.0)  # rad/s, world, of the ball
BALL_KG, BALL_M = 0.0472, 0.04


def rk(f, y0, seconds):
    """y0 [n] after dy/dt = f(y), to rounding."""
    found = solve_ivp(lambda _, y: f(y), (0.0, seconds), y0, method="DOP853", rtol=1e-12, atol=1e-13)
    return found.y[:, -1]


def actions() -> torch.Tensor:
    """[INTERVALS, 4] in [-1, 1]: about hovering, with pulses of roll, pitch and yaw that nearly cancel."""
    hover = 2 * D.mass * G / (4 * D.max_thrust) - 1
    t = np.arange(INTERVALS)
    roll, pitch, yaw = 0.02 * np.sin(1.3 * t), 0.02 * np.cos(0.9 * t + 1), 0.1 * np.sin(0.5 * t)
    pulses = np.outer(roll, [-1, -1, 1, 1]) + np.outer(pitch, [-1, 1, 1, -1]) + np.outer(yaw, [1, -1, 1, -1])
    return torch.tensor(hover + pulses + 0.15 * np.cos(0.4 * t)[:, None], dtype=torch.float32)


START = np.array([0, 0, 50, 0.96, 0.2, -0.15, 0.1, 2.0, -1.0, 0.5, 1.5, -1.0, 3.0])
START[3:7] /= np.linalg.norm(START[3:7])
START = START.astype(np.float32).astype(float)  # what the engines are given


def drone_equations(y: np.ndarray, command: np.ndarray) -> np.ndarray:
    """Of position, quaternion wxyz, velocity (world), rates (body) and rotor speeds u; `command` is of the latter."""
    q, v, w, u = y[3:7], y[7:10], y[10:13], y[13:17]
    r = Rotation.from_quat(q, scalar_first=True).as_matrix()
    t0, t1, t2 = D.thrust_curve
    q0, q1, q2 = D.torque_curve
    turning = np.array(D.directions)
    thrust = t0 + t1 * u + t2 * u**2
    drag = np.array(D.body_drag) + np.array(D.rotor_drag) * (u * D.max_rotor_speed).sum()
    force = r @ (np.array([0, 0, thrust.sum()]) - drag * (r.T @ (v - WIND)))
    torque = sum(np.cross(place, [0, 0, f]) for place, f in zip(D.rotor_positions, thrust, strict=True))
    torque = torque + np.array([0, 0, turning @ (q0 + q1 * u + q2 * u**2)])
    momentum = np.array(D.inertia) * w - np.array([0, 0, turning @ u * D.max_rotor_speed * D.rotor_inertia])
    a, b, c, d = q
    x, y_, z = w
    q_dot = 0.5 * np.array(
        [-b * x - c * y_ - d * z, a * x + c * z - d * y_, a * y_ + d * x - b * z, a * z + b * y_ - c * x]
    )
    tau = np.where(command > u, D.tau_up, D.tau_down)
    return np.concatenate(
        (
            v,
            q_dot,
            force / D.mass - [0, 0, G],
            (torque - np.cross(w, momentum)) / np.array(D.inertia),
            (command - u) / tau,
        )
    )


@functools.cache
def drone_reference() -> np.ndarray:
    """[13] after 2 s."""
    t0, t1, t2 = D.thrust_curve
    hover = (-t1 + math.sqrt(t1 * t1 + 4 * t2 * (D.mass * G / 4 - t0))) / (2 * t2)
    y = np.concatenate((START, np.full(4, hover)))
    half = np.float32(0.5 * D.max_thrust)  # commands pass through float32
    for action in actions().numpy():
        thrust = (half + half * action).astype(float)
        command = (-t1 + np.sqrt(t1 * t1 + 4 * t2 * (thrust - t0))) / (2 * t2)
        y = rk(functools.partial(drone_equations, command=command), y, CONTROL_S)
        y[3:7] /= np.linalg.norm(y[3:7])
    return y[:13]


@functools.cache
def ball_reference() -> np.ndarray:
    """[6] position and velocity after 2 s."""
    area = math.pi * BALL_M**2
    half = 0.5 * 1.225 * area / BALL_KG

    def equations(y: np.ndarray) -> np.ndarray:
        v = y[3:6] - WIND
        drag = -half * 0.47 * np.linalg.norm(v) * v
        lift = half * BALL_M * np.cross(SPIN, v)  # a lift coefficient of r w / v, whose direction is that of w x v
        return np.concatenate((y[3:6], drag + lift - [0, 0, G]))

    return rk(equations, np.array([0, 0, 40, 7, 2, 5.0]), INTERVALS * CONTROL_S)


FX = replace(
    PRESETS["none"], gyroscopic=True, body_drag=True, rotor_drag=True, ball_drag=True, ball_lift=True, wind_speed=2.0,
    wind_direction=0.7,
)  # fmt: skip


def precise(world: Any, body: str) -> np.ndarray:
    """[13] of a body in world 0, in float64."""
    if world.engine == "rotor":
        row = world.bodies_lanes[0, world.members([body])[0]].reshape(-1, 16)
        return row[:13, 0].copy()
    joint = world.model.body_jntadr[world.model.body(body).id]
    q, v = world.model.jnt_qposadr[joint], world.model.jnt_dofadr[joint]
    if world.engine == "pybullet":
        world.read()
        return np.concatenate((world.qpos[0, q : q + 7], world.qvel[0, v : v + 6]))
    return np.concatenate((world.batch.bind("qpos")[0, q : q + 7], world.batch.bind("qvel")[0, v : v + 6]))


def flown(engine: str, dt: float, effects: Effects = FX) -> np.ndarray:
    """[13] of the drone after 2 s."""
    scene = Hover(HoverConfig(drone="crazyflie21", dt=dt, effects="none")).scene()
    scene.extension(Aeronautics).effects = effects
    world = make_world(engine, scene, 1)
    drones = Drones(world, ("drone_0",), D, "rotor_thrust")
    drones.physics_steps = round(CONTROL_S / dt)
    drones.reset(torch.arange(1), torch.tensor(START, dtype=torch.float32)[None, None])
    for action in actions():
        drones.apply(action[None, None])
        world.step(drones.physics_steps)
    return precise(world, "drone_0/base")


def thrown(engine: str, dt: float) -> np.ndarray:
    """[6] of the ball after 2 s."""
    scene = Scene(ground, dt=dt, integrator="euler").add(lambda: ball(BALL_M, BALL_KG), "ball", pos=(0, 0, 40))
    scene.extension(Aeronautics).effects = FX
    world = make_world(engine, scene, 1)
    quat = np.array([0.6, 0.0, 0.8, 0.0])
    rates = Rotation.from_quat(quat, scalar_first=True).inv().apply(SPIN)
    state = np.concatenate(([0, 0, 40], quat, [7, 2, 5], rates))
    world.bodies(["ball/base"]).set_state(None, torch.tensor(state)[None, None])
    for _ in range(INTERVALS):
        world.step(round(CONTROL_S / dt))
    return precise(world, "ball/base")[[0, 1, 2, 7, 8, 9]]


def drone_errors(engine: str, dt: float) -> np.ndarray:
    """Position m, attitude rad, velocity m/s, rates rad/s."""
    got, wanted = flown(engine, dt), drone_reference()
    turn = Rotation.from_quat(got[3:7], scalar_first=True).inv() * Rotation.from_quat(wanted[3:7], scalar_first=True)
    away = np.linalg.norm(got - wanted)
    assert np.isfinite(away)
    return np.array([np.linalg.norm((got - wanted)[:3]), turn.magnitude(),
                     np.linalg.norm((got - wanted)[7:10]), np.linalg.norm((got - wanted)[10:])])  # fmt: skip


def ball_errors(engine: str, dt: float) -> np.ndarray:
    """Position m, velocity m/s."""
    gap = thrown(engine, dt) - ball_reference()
    return np.array([np.linalg.norm(gap[:3]), np.linalg.norm(gap[3:])])


ENGINES = ("rotor", "mujoco", "pybullet")
WITHIN = np.array([1e-4, 1e-4, 2e-4, 2e-4])  # of drone_errors at 2 ms


def order(coarse: np.ndarray, fine: np.ndarray) -> np.ndarray:
    return np.log2(coarse / fine)


@pytest.mark.parametrize("engine", slow_but([e for e in ENGINES if e != "pybullet"], ENGINES))
def test_a_drone_with_lag_drag_and_gyroscopic_torque_flies_by_its_equations(engine):
    """2 s of pulses that turn it by more than a radian: within 0.1 mm and 1e-4 rad at 2 ms, and of second order."""
    errors = [drone_errors(engine, dt) for dt in STEPS]
    assert (errors[-1] < WITHIN).all()
    assert (order(errors[0], errors[1]) > 1.8).all()
    assert (order(errors[1], errors[2]) > 1.8).all()
    assert (errors[0] < 30 * WITHIN).all()


def test_the_flight_shows_every_term():
    """Each of them alone moves the drone by far more than the errors above."""
    whole = drone_reference()
    turned = Rotation.from_quat(whole[3:7], scalar_first=True) * Rotation.from_quat(START[3:7], scalar_first=True).inv()
    assert turned.magnitude() > 1.0
    for without in ({"body_drag": False}, {"rotor_drag": False}, {"gyroscopic": False}, {"rotor_lag": False}):
        gone = np.linalg.norm((flown("rotor", 0.002, replace(FX, **without)) - whole)[:3])
        assert gone > 5e-3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_spinning_ball_flies_by_its_equations(engine):
    errors = [ball_errors(engine, dt) for dt in STEPS]
    assert (errors[-1] < 1e-5).all()
    assert (order(errors[0], errors[1]) > 1.8).all()
    assert (order(errors[1], errors[2]) > 1.8).all()


def test_the_balls_drag_and_lift_show():
    flight = ball_reference()[:3]
    arc = np.array([14.0, 4.0, 40 + 10 - 0.5 * G * 4])
    assert np.linalg.norm(flight - arc) > 1.0
    assert abs(np.cross([7, 2, 0], flight - [0, 0, 40])[2]) > 1.0  # sideways, which drag alone is not


def test_flights_on_mujoco_do_not_depend_on_the_number_of_worlds():
    """To the bit, alone and among others: the compiled loops for one world are not others than those for many."""
    out = []
    for n in (1, 2, 17):
        world = make_world("mujoco", Hover(HoverConfig(drone="crazyflie21", num_drones=2)).scene(), n)
        drones = Drones(world, ("drone_0", "drone_1"), D, "ctbr")
        start = torch.tensor(START, dtype=torch.float32).expand(n, 2, 13).clone()
        start[:, 1, 2] -= 0.5  # in the other's wake
        drones.reset(torch.arange(n), start)
        for _ in range(20):
            drones.apply(torch.full((n, 2, 4), 0.1))
            world.step(5)
        out.append(precise(world, "drone_1/base"))
    for x in out[1:]:
        np.testing.assert_array_equal(out[0], x)

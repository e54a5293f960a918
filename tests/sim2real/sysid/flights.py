"""Flights of a multirotor with known parameters in MuJoCo, with a controller of its own: an engine and code that identification
does not use."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import mujoco
import numpy as np

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim2real.sysid.logs import MultirotorLog

DRONE = dataclasses.replace(CRAZYFLIE_21, rotor_drag=(0.0, 0.0, 0.0), rotor_inertia=0.0, tau_down=0.08)
"""Without what the flight here leaves out: drag of the rotors and their gyroscopic torques."""
STEP, PERIOD = 0.0005, 0.01  # s, of the physics and of samples


@dataclass(frozen=True)
class Airframe:
    """Truth, as factors on the nominal drone or in SI units."""

    thrust: float = 1.15
    torque: float = 0.85
    tau_up: float = 0.06
    tau_down: float = 0.09
    drag: tuple[float, float, float] = (0.02, 0.03, 0.01)  # kg/s
    inertia: tuple[float, float, float] = (1.2, 0.9, 1.1)
    com: tuple[float, float] = (0.0012, -0.0008)  # m
    delay: float = 0.012


def fly(frame: Airframe, seconds: float = 16.0, seed: int = 0, noise: float = 1.0) -> MultirotorLog:
    """A flight through random set-points."""
    d = DRONE
    moments = np.array(d.inertia) * frame.inertia
    xml = f"""<mujoco><option timestep="{STEP}" integrator="RK4"/><worldbody><body><freejoint/>
      <inertial pos="0 0 0" mass="{d.mass}" diaginertia="{moments[0]} {moments[1]} {moments[2]}"/></body></worldbody>
      </mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    data.qpos[2] = 1.0
    rng = np.random.default_rng(seed)
    places = np.array(d.rotor_positions)[:, :2] - frame.com
    each, late = round(PERIOD / STEP), round(frame.delay / STEP)
    steps = round(seconds / STEP)
    u = np.full(4, d.hover_speed)
    sent = np.tile(u, (steps + late + 1, 1))
    rows: list[tuple[float, ...]] = []
    target, spin, command = np.array([0.0, 0.0, 1.0]), 0.0, u
    shake = np.zeros(4)
    for step in range(steps):
        if step % each == 0:
            if step % (each * 120) == 0:
                target = np.array([0.0, 0.0, 1.5]) + rng.uniform(-1.2, 1.2, 3)
                spin = rng.uniform(-2.0, 2.0)  # rad/s
            shake = rng.uniform(-0.04, 0.04, 4)
            command = np.clip(_control(data, target, spin, places) + shake, 0.0, 1.0)
            rows.append((step * STEP, *data.qpos, *data.qvel, *command))
        sent[step + late] = command
        tau = np.where(sent[step] > u, frame.tau_up, frame.tau_down)
        u = sent[step] + (u - sent[step]) * np.exp(-STEP / tau)
        t0, t1, t2 = d.thrust_curve
        q0, q1, q2 = d.torque_curve
        force = frame.thrust * (t0 + t1 * u + t2 * u**2)
        turn = frame.torque * np.array(d.directions) * (q0 + q1 * u + q2 * u**2)
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        r = rotation.reshape(3, 3)
        push = np.array([0.0, 0.0, force.sum()]) - np.array(frame.drag) * (r.T @ data.qvel[:3])
        twist = np.array([(places[:, 1] * force).sum(), -(places[:, 0] * force).sum(), turn.sum()])
        data.xfrc_applied[1, :3], data.xfrc_applied[1, 3:] = r @ push, r @ twist
        mujoco.mj_step(model, data)
    table = np.array(rows)
    table[:, 1:4] += 0.001 * noise * rng.standard_normal((len(table), 3))
    table[:, 4:8] += 0.001 * noise * rng.standard_normal((len(table), 4))
    table[:, 4:8] /= np.linalg.norm(table[:, 4:8], axis=1, keepdims=True)
    table[:, 8:11] += 0.01 * noise * rng.standard_normal((len(table), 3))
    table[:, 11:14] += 0.02 * noise * rng.standard_normal((len(table), 3))
    return MultirotorLog(
        "flight", table[:, 0], *(table[:, a:b] for a, b in ((1, 4), (4, 8), (8, 11), (11, 14), (14, 18)))
    )


def _control(data: mujoco.MjData, target: np.ndarray, spin: float, places: np.ndarray) -> np.ndarray:
    """Motor commands by position, attitude and rates: a controller without integrals, which knows the centre of mass alone."""
    d = DRONE
    wanted = np.clip(1.2 * (target - data.qpos[:3]) - 1.8 * data.qvel[:3], -4.0, 4.0)
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
    r = rotation.reshape(3, 3)
    lift = d.mass * (wanted + np.array((0.0, 0.0, 9.81)))
    axis = r.T @ (lift / np.linalg.norm(lift))
    rate = data.qvel[3:6]
    turning = np.array([-3.5 * axis[1] - rate[0], 3.5 * axis[0] - rate[1], spin - rate[2]])
    torque = np.array(d.inertia) * np.array([7.0, 7.0, 3.0]) * turning
    thrust = float(lift @ r[:, 2])
    ratio = sum(d.torque_curve) / sum(d.thrust_curve)
    full = np.array([np.ones(4), places[:, 1], -places[:, 0], ratio * np.array(d.directions)])
    forces = np.linalg.solve(full, [thrust, *torque])
    return np.array([d.speed_for_thrust(max(f, 0.0)) for f in forces])

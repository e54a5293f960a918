"""Prediction of drones and ball until a command takes effect: commands that are on their way, carried out. Compiled.

A command that comes d s late acts on the state of then, so that is the state to command from (Smith 1957). What is needed for
it is known: the commands given before, and what drones are seen to do with them (`Strength`).
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np
from numba import njit

from rookery.tasks.volleyball.ballistics import fly

_fast = njit(cache=True, nogil=True, error_model="numpy")


@_fast
def drones_ahead(states, speeds, given, late, steps, dt, strength, turning, pull, slow, drone, state_out, speed_out):
    """States and rotor speeds `late` [N] physics steps from now, by the midpoint rule.

    Args:
        states: [N, A, 13], see Bodies.state; speeds: [N, A, 4] normalized rotor speeds.
        given: [2 or more, N, A, 4] N, commands of the last control step and the one before.
        steps: physics steps of a control step, at least half of the largest `late`; dt: s, of one.
        strength, turning: [N, A] factors on thrust over mass, and on torque over inertia across the thrust.
        pull: [N, A, 2] m/s^2, horizontal acceleration besides; slow: [N, A] factor on the rotors' time constant.
        drone: (mass kg, inertia [3] kg m^2, places [4, 2] m of the rotors, reaction torque over thrust [4] m with its sign,
            thrust N at full speed, time constant s, gravity m/s^2); thrust is taken as the square of the speed.
        state_out: [N, A, 13]; speed_out: [N, A, 4], the results.
    """
    mass, inertia, places, reaction, full, lag, gravity = drone
    v = np.empty(4)
    spin = np.empty(3)
    for n in range(states.shape[0]):
        for a in range(states.shape[1]):
            x, u = state_out[n, a], speed_out[n, a]
            x[:] = states[n, a]
            u[:] = speeds[n, a]
            left = math.exp(-0.5 * dt / (lag * slow[n, a]))
            for k in range(late[n], 0, -1):
                thrust = 0.0
                torque_x = 0.0
                torque_y = 0.0
                torque_z = 0.0
                for m in range(4):
                    command = given[0, n, a, m] if k <= steps else given[1, n, a, m]
                    wanted = math.sqrt(min(max(command / full, 0.0), 1.0))
                    v[m] = wanted + (u[m] - wanted) * left
                    u[m] = wanted + (v[m] - wanted) * left
                    f = full * v[m] * v[m]
                    thrust += f
                    torque_x += places[m, 1] * f
                    torque_y -= places[m, 0] * f
                    torque_z += reaction[m] * f
                w, i, j, q = x[3], x[4], x[5], x[6]
                push = strength[n, a] * thrust / mass
                ax = push * 2.0 * (i * q + w * j) + pull[n, a, 0]
                ay = push * 2.0 * (j * q - w * i) + pull[n, a, 1]
                az = push * (1.0 - 2.0 * (i * i + j * j)) - gravity
                x[0] += dt * (x[7] + 0.5 * dt * ax)
                x[1] += dt * (x[8] + 0.5 * dt * ay)
                x[2] += dt * (x[9] + 0.5 * dt * az)
                x[7] += dt * ax
                x[8] += dt * ay
                x[9] += dt * az
                t = turning[n, a]
                spin[:] = x[10:13]
                twist_x = t * torque_x / inertia[0] - (inertia[2] - inertia[1]) / inertia[0] * spin[1] * spin[2]
                twist_y = t * torque_y / inertia[1] - (inertia[0] - inertia[2]) / inertia[1] * spin[0] * spin[2]
                twist_z = torque_z / inertia[2] - (inertia[1] - inertia[0]) / inertia[2] * spin[0] * spin[1]
                x[10] += dt * twist_x
                x[11] += dt * twist_y
                x[12] += dt * twist_z
                h = 0.25 * dt
                rx, ry, rz = h * (spin[0] + x[10]), h * (spin[1] + x[11]), h * (spin[2] + x[12])
                x[3] = w - i * rx - j * ry - q * rz
                x[4] = i + w * rx + j * rz - q * ry
                x[5] = j + w * ry + q * rx - i * rz
                x[6] = q + w * rz + i * ry - j * rx
                norm = math.sqrt(x[3] * x[3] + x[4] * x[4] + x[5] * x[5] + x[6] * x[6])
                for c in range(3, 7):
                    x[c] /= norm


@_fast
def balls_ahead(balls, late, dt, gravity, drag):
    """Fly balls [N, 6], in place, on by `late` [N] steps of dt s; gravity m/s^2, drag 1/m, see ballistics."""
    p = np.empty(3)
    v = np.empty(3)
    for n in range(balls.shape[0]):
        p[:] = balls[n, :3]
        v[:] = balls[n, 3:]
        for _ in range(late[n]):
            fly(p, v, gravity, drag, dt)
        balls[n, :3] = p
        balls[n, 3:] = v

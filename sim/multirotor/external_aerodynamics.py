"""Aerodynamics on engines that have none inside (mujoco, pybullet): wrenches of the air on multirotors and balls.

Before every physics step, drag, ground effect, gyroscopic torque, wakes and the lift and drag of balls follow from the states
and from the thrusts, by the functions of the `rotor` engine. They are those of the middle of the step, to which the states are
predicted, and held for it: this is second order. From 2 ms to 1 ms the error of a flight of 2 s shrinks to a quarter, from some
0.1 mm (tests/sim/engines/test_flight_references.py).

The air of a control step is brought by rookery.sim.multirotor.winds, gusts included. The battery's sag is inside the `rotor`
engine only: rotors reach full speed always.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of compiled functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import numpy as np

from rookery.sim.multirotor import aero, flight
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.cascade import speed_for_thrust
from rookery.sim.multirotor.free_bodies import ROTORS, FreeBodies, load, loop
from rookery.sim.multirotor.layout import LANES, POS, QUAT, RATE, SPEED, THRUST, VEL, WAKE, WRENCH
from rookery.sim.multirotor.wakes import NO_WAKE, WAKES, wakes


class ExternalAerodynamics:
    """Wrenches of the air on the multirotors and balls of a scene, in N worlds.

    Args:
        flying: the bodies.

    Attributes:
        bodies: [B] ids of the bodies in the model, drones first.
        wrench: [N, B, 6] N, N m, world frame, at the centres of mass; see `update`.
        precession: [N, B, 3] N m, world: by how much -w x I w, the torque by which a free body precesses, is another in the
            middle of the step than at its beginning. For engines that take the latter.
    """

    def __init__(self, flying: FreeBodies) -> None:
        self.bodies = flying.ids
        self.wrench = np.zeros((flying.num_envs, len(flying.ids), 6))
        wake = WAKES[flying.effects.downwash] if flying.drones > 1 else NO_WAKE
        self._places, self._state = flying.places, flying.state
        self._fixed = flying.varied, flying.worlds, flying.types, wake, flying.state
        self._axes = np.zeros((flying.drones, 6 * LANES))  # see the wakes of the `rotor` engine
        self._none = np.zeros_like(self.wrench)
        self.precession = np.zeros((flying.num_envs, len(flying.ids), 3))

    def update(
        self, qpos: np.ndarray, qvel: np.ndarray, control: np.ndarray, dt: float = 0.0, others: np.ndarray | None = None
    ) -> None:
        """Bring `wrench` up to date for the middle of a step.

        Args:
            qpos, qvel: [N, nq], [N, nv] states in MuJoCo's layout, at the step's beginning.
            control: [N, nu], of which the rotors' are thrusts in N, those of the middle of the step.
            dt: s, the step's length; 0 for the wrenches at these states.
            others: [N, B, 6] N, N m: what else acts on the bodies from outside, by which the middle is predicted.
        """
        load(qpos, qvel, self._places, self._state)
        _load_forces(control, self._none if others is None else others, self._places, self._state)
        _blow(dt, *self._fixed, self._axes, self.wrench, self.precession)


def external_aerodynamics(flying: FreeBodies) -> ExternalAerodynamics | None:
    """The aerodynamics of free bodies, or None where nothing flies: no drones, and no balls that the air acts on."""
    fx = flying.effects
    if not (flying.drones or ((fx.ball_drag or fx.ball_lift) and flying.balls)):
        return None
    return ExternalAerodynamics(flying)


@loop
def _load_forces(control, others, places, state):
    """Thrusts, reaction torques and wrenches to the lanes; copies only, see `load`."""
    for n in range(len(others)):
        block, i = n // LANES, n % LANES
        for b in range(len(places)):
            d = state[block, b]
            for f in range(6):
                d[(WRENCH + f) * LANES + i] = others[n, b, f]
            if places[b, ROTORS + 4] != places[b, ROTORS]:  # a drone
                for m in range(5):  # the reaction torque follows the thrusts
                    d[(THRUST + m) * LANES + i] = control[n, places[b, ROTORS + m]]


@loop
def _blow(dt, varied, worlds, types, wake, state, axes, out, precession):
    """All worlds, block by block as the `rotor` engine takes them."""
    drones = len(types)
    bodies = state.shape[1]
    for block in range(len(state)):
        rows, p, w = state[block], varied[block], worlds[block]
        here = min(LANES, len(out) - block * LANES)
        for a in range(drones):
            for i in range(LANES):
                _spin_rotors(rows[a], i, types[a])
        if wake != NO_WAKE:
            wakes(wake, rows, types, drones, 0.5 * dt, axes)
        for b in range(bodies):
            for i in range(here):
                precession[block * LANES + i, b] = _gyration(rows[b], i, p[b])
        if dt > 0.0:
            for a in range(drones):
                for i in range(LANES):
                    flight.rigid(rows[a], i, p[a], i, w, i, types[a], 0.5 * dt)
            for b in range(drones, bodies):
                for i in range(LANES):
                    flight.ball(rows[b], i, p[b], i, w, i, 0.5 * dt)
        for i in range(here):
            n = block * LANES + i
            for b in range(bodies):
                _precess(rows[b], i, p[b], precession[n, b])
            for a in range(drones):
                _drone(rows[a], i, p[a], w, types[a], out[n, a])
            for b in range(drones, bodies):
                _ball(rows[b], i, p[b], w, out[n, b])


@loop
def _spin_rotors(d, i, k):
    """The rotor speeds that give one drone's thrusts."""
    for m in range(4):
        thrust = d[(THRUST + m) * LANES + i]
        u = speed_for_thrust(thrust, k[at.THRUST_CURVE], k[at.THRUST_CURVE + 1], k[at.THRUST_CURVE + 2])
        d[(SPEED + m) * LANES + i] = u


@loop
def _gyration(d, i, p):
    """w x I w in body axes."""
    n = LANES
    f = RATE
    wx, wy, wz = d[f * n + i], d[(f + 1) * n + i], d[(f + 2) * n + i]
    f = at.INERTIA
    xx, yy, zz = p[f * n + i], p[(f + 1) * n + i], p[(f + 2) * n + i]
    xy, xz, yz = p[(f + 3) * n + i], p[(f + 4) * n + i], p[(f + 5) * n + i]
    lx, ly, lz = xx * wx + xy * wy + xz * wz, xy * wx + yy * wy + yz * wz, xz * wx + yz * wy + zz * wz
    return wy * lz - wz * ly, wz * lx - wx * lz, wx * ly - wy * lx


@loop
def _precess(d, i, p, torque):
    """From w x I w at the beginning of the step to what the torque differs by in its middle, world axes."""
    x, y, z = _gyration(d, i, p)
    n = LANES
    torque[0], torque[1], torque[2] = flight.to_world(
        d[QUAT * n + i], d[(QUAT + 1) * n + i], d[(QUAT + 2) * n + i], d[(QUAT + 3) * n + i],
        torque[0] - x, torque[1] - y, torque[2] - z,
    )  # fmt: skip


@loop
def _drone(d, i, p, w, k, out):
    """Drag, wakes, gyroscopic torque and ground effect of one drone, as rookery.sim.multirotor.flight.rigid has them."""
    n = LANES
    q = d[QUAT * n + i], d[(QUAT + 1) * n + i], d[(QUAT + 2) * n + i], d[(QUAT + 3) * n + i]
    up_x, up_y, up_z = flight.to_body(q[0], q[1], q[2], q[3], 0.0, 0.0, 1.0)
    gain = p[at.GROUND_GAIN * n + i] * max(up_z, 0.0)
    fz = 0.0
    tx = 0.0
    ty = 0.0
    speed = 0.0
    spin = 0.0
    for m in range(4):
        thrust = d[(THRUST + m) * n + i]
        px, py, pz = k[at.PLACES + 3 * m], k[at.PLACES + 3 * m + 1], k[at.PLACES + 3 * m + 2]
        height = d[(POS + 2) * n + i] - w[at.GROUND * n + i] + up_x * px + up_y * py + up_z * pz
        more = thrust * (aero.ground_effect(height, k[at.PROPELLER_RADIUS], gain) - 1.0)
        fz += more
        tx += py * more
        ty -= px * more
        u = d[(SPEED + m) * n + i]
        speed += u
        spin -= k[at.DIRECTIONS + m] * u
    x, y, z = d[VEL * n + i], d[(VEL + 1) * n + i], d[(VEL + 2) * n + i]
    a = at.AIR
    vx, vy, vz = flight.to_body(
        q[0], q[1], q[2], q[3], x - w[a * n + i], y - w[(a + 1) * n + i], z - w[(a + 2) * n + i]
    )
    b, r = at.BODY_DRAG, at.ROTOR_DRAG
    fx, fy, drag_z = aero.drag(
        vx, vy, vz, speed * p[at.FULL_SPEED * n + i], p[b * n + i], p[(b + 1) * n + i], p[(b + 2) * n + i],
        p[r * n + i], p[(r + 1) * n + i], p[(r + 2) * n + i],
    )  # fmt: skip
    gx, gy = aero.gyroscopic(d[RATE * n + i], d[(RATE + 1) * n + i], spin * p[at.SPIN * n + i])
    fx, fy, fz = flight.to_world(q[0], q[1], q[2], q[3], fx, fy, fz + drag_z)
    out[0] = fx + d[WAKE * n + i]
    out[1] = fy + d[(WAKE + 1) * n + i]
    out[2] = fz + d[(WAKE + 2) * n + i]
    out[3], out[4], out[5] = flight.to_world(q[0], q[1], q[2], q[3], tx + gx, ty + gy, 0.0)


@loop
def _ball(d, i, p, w, out):
    """Drag and lift of one ball."""
    n = LANES
    wx, wy, wz = flight.to_world(
        d[QUAT * n + i], d[(QUAT + 1) * n + i], d[(QUAT + 2) * n + i], d[(QUAT + 3) * n + i],
        d[RATE * n + i], d[(RATE + 1) * n + i], d[(RATE + 2) * n + i],
    )  # fmt: skip
    ux = d[VEL * n + i] - w[at.AIR * n + i]
    uy = d[(VEL + 1) * n + i] - w[(at.AIR + 1) * n + i]
    uz = d[(VEL + 2) * n + i] - w[(at.AIR + 2) * n + i]
    k_drag, k_lift = p[at.BALL_DRAG * n + i], p[at.BALL_LIFT * n + i]
    mass = p[at.MASS * n + i]
    ax, ay, az = aero.ball_acceleration(ux, uy, uz, wx, wy, wz, k_drag, k_lift)
    out[0], out[1], out[2] = mass * ax, mass * ay, mass * az

"""An arm's references: where its joints are to be at each physics step, within the robot's limits, for all worlds at once.

All joints of an arm go together. Whichever limit is met first, of a joint's speed, acceleration or jerk, or of the rate of
the torque that the motion takes, slows all of them by one factor, so what is commanded along a line stays on it. The rate of
torque is taken to be the arm's mass matrix times the jerk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numba import njit, prange

from rookery.robots.manipulators.chain import PIECE, Floats, HingeChain, Numbers, few_threads

BANDWIDTH = 30.0
"""1/s, with which a reference goes to its goal where no limit is in the way."""
SETTLING = 4.0
"""Times BANDWIDTH: with which the speed wanted is approached. With 4, unlimited motion does not overshoot."""
BRAKE = 0.8
EASE = 0.6
CATCH = 0.8
"""Shares of the acceleration and of the jerk that braking counts on, and of the jerk with which a speed is caught up with."""
LATE = 0.8
"""Of the time that the acceleration takes to change, by which braking begins earlier: 0.5 were it all at constant speed."""
KEEN = 1.2
"""Braking counts on what it will be worth at the speed wanted, in the ratio of the speeds; above 1, sooner."""
TOP = 0.97
BEYOND = 0.03
GUARD = 100.0
"""Share of the top speed that is asked for; rad beyond the ends, and 1/s, where and how hard a joint is stopped whatever the
others do: at its limit of speed or position, which sharing one factor with others could take it across."""


class ReferenceLimits(NamedTuple):
    """Limits of an arm's references.

    Args:
        low, high: [J] rad, where references end.
        speed, acceleration, jerk: [J], rad and s.
        torque: [J] N m, of what moves the arm.
        rate: N m/s of that.
    """

    low: Floats
    high: Floats
    speed: Floats
    acceleration: Floats
    jerk: Floats
    torque: Floats
    rate: float


class ArmDynamics(NamedTuple):
    """Masses that references move, and their time.

    Args:
        links: [J, 10] of `links_of`.
        armature: [J] kg m^2.
        lead: [J] s, times the velocity is added to a row: what makes up for a servo's damping against standstill.
        dt: s, physics step.
    """

    links: Floats
    armature: Floats
    lead: Floats
    dt: float


class ControlRows(NamedTuple):
    """Results of `follow`.

    Args:
        grip: [N] m, what the gripper's column gets.
        rows: [N, K, J + 1] one row a physics step; the opening of the gripper is last ([N, K, J] where there is none).
    """

    grip: Numbers
    rows: Numbers


class InverseLimits(NamedTuple):
    """1 / limit of the speed, [J]; of the acceleration and the jerk, [2 J] each, of motions and of the torques they take."""

    speed: Floats
    acceleration: Floats
    jerk: Floats


class BodyScratch(NamedTuple):
    """Scratch of one world's mass matrix: the last link's matrix [3, 3] and place [3] m; the motion of each joint as spin and
    velocity of the origin [J, 6]; of composite bodies mass, mass times place, inertia xx yy zz xy xz yz [J, 10]; and the mass
    matrix [J, J] kg m^2 itself."""

    turn: Floats
    pos: Floats
    momenta: Floats
    composite: Floats
    mass: Floats


class ReferenceScratch(NamedTuple):
    """Scratch of one world's reference: angles q [J]; [2 J] each, with the torques that it takes in places J to 2 J - 1: speed,
    acceleration, way to the goal, missing part of the speed, change of the speed wanted; and [J] 1 / jerk of each alone."""

    q: Floats
    v: Floats
    a: Floats
    way: Floats
    error: Floats
    push: Floats
    column: Floats


def links_of(model: mujoco.MjModel, joints: Sequence[str], turns: Floats, offsets: Floats) -> Floats:
    """Masses that each joint moves up to the next one, and the last one all the rest: mass (kg), its centre (m), inertia about
    that (kg m^2; xx yy zz xy xz yz), in the joint's frame, [J, 10].

    Args:
        joints: names, from the base on. turns [J + 1, 3, 3], offsets [J + 1, 3]: of the chain; see `chain_of`.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    owner = {int(model.joint(name).bodyid[0]): n for n, name in enumerate(joints)}
    groups: list[list[int]] = [[] for _ in joints]
    for body in range(1, model.nbody):  # parents come first
        n = owner.setdefault(body, owner.get(int(model.body_parentid[body]), -1))
        if n >= 0:
            groups[n].append(body)
    out = np.zeros((len(joints), 10))
    turn = np.eye(3)
    place = np.zeros(3)
    for n, bodies in enumerate(groups):
        place = place + turn @ offsets[n]
        turn = turn @ turns[n]
        kg = model.body_mass[bodies]
        centre = kg @ data.xipos[bodies] / kg.sum()
        inertia = np.zeros((3, 3))
        for body in bodies:
            axes = data.ximat[body].reshape(3, 3)
            away = data.xipos[body] - centre
            inertia += axes @ np.diag(model.body_inertia[body]) @ axes.T
            inertia += model.body_mass[body] * (away @ away * np.eye(3) - np.outer(away, away))
        inertia = turn.T @ inertia @ turn
        out[n] = kg.sum(), *(turn.T @ (centre - place)), *inertia.diagonal(), *inertia[np.triu_indices(3, 1)]
    return out


@njit(cache=True, error_model="numpy", inline="always")
def body_scratch(joints: int) -> BodyScratch:  # pragma: no cover - compiled
    """Room for one world."""
    momenta = np.empty((joints, 6))
    return BodyScratch(np.empty((3, 3)), np.empty(3), momenta, np.empty((joints, 10)), np.empty((joints, joints)))


@njit(cache=True, error_model="numpy", inline="always")
def reference_scratch(joints: int) -> ReferenceScratch:  # pragma: no cover - compiled
    """Room for one world."""
    both = 2 * joints
    v, a, way, error, push = np.empty(both), np.empty(both), np.empty(both), np.empty(both), np.empty(both)
    return ReferenceScratch(np.empty(joints), v, a, way, error, push, np.empty(joints))


@njit(cache=True, error_model="numpy")
def mass_matrix(
    ref: Floats, world: int, chain: HingeChain, links: Floats, at: BodyScratch
) -> None:  # pragma: no cover - compiled
    """Mass matrix of one world by composite bodies, all of them about the world's origin.

    Args:
        ref: [N, 3, J], joint angles first. links: [J, 10] of `links_of`. at: written.
    """
    turns, offsets, axes = chain
    turn, pos, momenta, composite, mass = at
    joints = len(axes)
    for i in range(3):
        pos[i] = 0.0
        for j in range(3):
            turn[i, j] = 1.0 if i == j else 0.0
    for n in range(joints):
        for i in range(3):
            a, b, c = turn[i, 0], turn[i, 1], turn[i, 2]
            pos[i] += a * offsets[n, 0] + b * offsets[n, 1] + c * offsets[n, 2]
            for j in range(3):
                turn[i, j] = a * turns[n, 0, j] + b * turns[n, 1, j] + c * turns[n, 2, j]
        x, y, z = axes[n, 0], axes[n, 1], axes[n, 2]
        s, k = math.sin(ref[world, 0, n]), 1.0 - math.cos(ref[world, 0, n])
        for i in range(3):
            a, b, c = turn[i, 0], turn[i, 1], turn[i, 2]
            momenta[n, i] = a * x + b * y + c * z
            u, v, w = b * z - c * y, c * x - a * z, a * y - b * x
            turn[i, 0] = a + s * u + k * (v * z - w * y)
            turn[i, 1] = b + s * v + k * (w * x - u * z)
            turn[i, 2] = c + s * w + k * (u * y - v * x)
        sx, sy, sz = momenta[n, 0], momenta[n, 1], momenta[n, 2]
        momenta[n, 3] = pos[1] * sz - pos[2] * sy
        momenta[n, 4] = pos[2] * sx - pos[0] * sz
        momenta[n, 5] = pos[0] * sy - pos[1] * sx
        m = links[n, 0]
        cx = pos[0] + turn[0, 0] * links[n, 1] + turn[0, 1] * links[n, 2] + turn[0, 2] * links[n, 3]
        cy = pos[1] + turn[1, 0] * links[n, 1] + turn[1, 1] * links[n, 2] + turn[1, 2] * links[n, 3]
        cz = pos[2] + turn[2, 0] * links[n, 1] + turn[2, 1] * links[n, 2] + turn[2, 2] * links[n, 3]
        composite[n, 0] = m
        composite[n, 1] = m * cx
        composite[n, 2] = m * cy
        composite[n, 3] = m * cz
        composite[n, 4] = m * (cy * cy + cz * cz)
        composite[n, 5] = m * (cx * cx + cz * cz)
        composite[n, 6] = m * (cx * cx + cy * cy)
        composite[n, 7] = -m * cx * cy
        composite[n, 8] = -m * cx * cz
        composite[n, 9] = -m * cy * cz
        xx, yy, zz, xy, xz, yz = links[n, 4], links[n, 5], links[n, 6], links[n, 7], links[n, 8], links[n, 9]
        for i in range(3):
            a, b, c = turn[i, 0], turn[i, 1], turn[i, 2]
            u, v, w = a * xx + b * xy + c * xz, a * xy + b * yy + c * yz, a * xz + b * yz + c * zz
            composite[n, 4 + i] += u * a + v * b + w * c
            for j in range(i + 1, 3):
                composite[n, 6 + i + j] += u * turn[j, 0] + v * turn[j, 1] + w * turn[j, 2]
    for n in range(joints - 1, -1, -1):
        if n < joints - 1:
            for i in range(10):
                composite[n, i] += composite[n + 1, i]
        m, hx, hy, hz = composite[n, 0], composite[n, 1], composite[n, 2], composite[n, 3]
        xx, yy, zz, xy, xz, yz = (
            composite[n, 4], composite[n, 5], composite[n, 6], composite[n, 7], composite[n, 8], composite[n, 9]
        )  # fmt: skip
        a, b, c, u, v, w = momenta[n, 0], momenta[n, 1], momenta[n, 2], momenta[n, 3], momenta[n, 4], momenta[n, 5]
        px, py, pz = m * u + b * hz - c * hy, m * v + c * hx - a * hz, m * w + a * hy - b * hx
        lx = xx * a + xy * b + xz * c + hy * w - hz * v
        ly = xy * a + yy * b + yz * c + hz * u - hx * w
        lz = xz * a + yz * b + zz * c + hx * v - hy * u
        for i in range(n + 1):
            total = momenta[i, 0] * lx + momenta[i, 1] * ly + momenta[i, 2] * lz
            total += momenta[i, 3] * px + momenta[i, 4] * py + momenta[i, 5] * pz
            mass[i, n] = mass[n, i] = total


@njit(cache=True, error_model="numpy", inline="always")
def _share(x: Floats, most: Floats) -> float:  # pragma: no cover - compiled
    """By how much x is too large: the largest |x_i| / limit_i; `most` has the limits inverted."""
    worst = 0.0
    for i in range(len(most)):
        worst = max(worst, abs(x[i]) * most[i])
    return worst


@njit(cache=True, error_model="numpy", inline="always")
def _torques(mass: Floats, armature: Floats, x: Floats) -> None:  # pragma: no cover - compiled
    """Put mass times x[:J] into x[J:]."""
    joints = len(mass)
    for i in range(joints):
        total = armature[i] * x[i]
        for j in range(joints):
            total += mass[i, j] * x[j]
        x[joints + i] = total


@njit(cache=True, error_model="numpy", inline="always")
def _pace(tight: float, bent: float) -> tuple[float, float]:  # pragma: no cover - compiled
    """Speed, in ways per second, from which it is possible to stop within the way, and its own decay in 1/s.

    tight: s^2, share of the acceleration's limits that the way itself is, bent: s^3, of the jerk's.
    """
    a, j = BRAKE / max(tight, 1e-12), EASE / max(bent, 1e-12)
    if a * a * a >= 6.0 * j * j:  # all of it is the end of braking, with a constant jerk
        pace = (4.5 * j) ** (1.0 / 3.0)
        return pace, pace / 1.5
    pace = math.sqrt(2.0 * a - a * a * a * a / (12.0 * j * j))
    return pace, a / pace


@njit(cache=True, error_model="numpy", inline="always")
def _advance(
    limits: ReferenceLimits, inverse: InverseLimits, dynamics: ArmDynamics, mass: Floats, at: ReferenceScratch
) -> None:  # pragma: no cover - compiled
    """One physics step towards a velocity that is `at.error` away and changes by `at.push`."""
    low, high, speed, acceleration, jerk, _, _ = limits
    armature, dt = dynamics.armature, dynamics.dt
    slowly, gently = inverse.acceleration, inverse.jerk
    q, v, a, _, error, push, _ = at
    joints = len(jerk)
    bent = _share(error, gently)
    rate = min(SETTLING * BANDWIDTH, math.sqrt(2.0 * CATCH / max(bent, 1e-12)))
    for i in range(2 * joints):
        error[i] = rate * error[i] + push[i]
    part = 1.0 / max(_share(error, slowly), 1.0)
    for i in range(2 * joints):
        error[i] = part * error[i] - a[i]
    bent = _share(error, gently)
    part = min(1.0, dt / max(bent, 1e-12))
    clipped = False
    for i in range(2 * joints):
        error[i] = part * error[i]
    for i in range(joints):
        new = a[i] + error[i]
        # the guard
        up = high[i] + BEYOND - q[i]
        down = q[i] - low[i] + BEYOND
        room = 2.0 * acceleration[i]
        most = speed[i]
        least = -speed[i]
        if room * up < v[i] * abs(v[i]) or up <= 0.0:
            most = math.sqrt(0.8 * room * max(up, 0.0))
        if room * down < -v[i] * abs(v[i]) or down <= 0.0:
            least = -math.sqrt(0.8 * room * max(down, 0.0))
        bound = min(max(new, GUARD * (least - v[i])), GUARD * (most - v[i]))
        if bound != new:
            bound = min(max(bound, -acceleration[i]), acceleration[i])
            bound = min(max(bound, a[i] - jerk[i] * dt), a[i] + jerk[i] * dt)
            clipped = clipped or bound != new
            error[i] = bound - a[i]
    if clipped:
        _torques(mass, armature, error)
    for i in range(2 * joints):
        a[i] += error[i]
        v[i] += a[i] * dt
    for i in range(joints):
        q[i] += v[i] * dt


@njit(cache=True, error_model="numpy", inline="always")
def _head_for(inverse: InverseLimits, at: ReferenceScratch) -> None:  # pragma: no cover - compiled
    """The part of the speed wanted on the way to a goal that is missing, and the change of that speed, [2 J] both."""
    quickly, slowly, gently = inverse
    _, v, a, way, error, push, _ = at
    joints = len(way) // 2
    tight = _share(way, slowly)
    bent = _share(way, gently)
    square = 1e-12
    along = 0.0
    slowing = 0.0
    for n in range(joints):
        square += way[n] * way[n]
        along += way[n] * v[n]
        slowing -= way[n] * a[n]
    along = max(along, 0.0) / square
    slowing = max(slowing, 0.0) / square
    pace, decay = _pace(tight, bent)
    if pace > BANDWIDTH:
        pace = decay = BANDWIDTH
    else:  # braking begins as much earlier as it takes for the acceleration to change
        left = max(1.0 - max(pace * decay - slowing, 0.0) * bent * LATE * along, 0.05)
        pace, decay = _pace(tight * left, bent * left)
        pace *= left
    top = 1.0 / max(_share(way, quickly), 1e-12)
    if pace > top:
        pace = top
        decay = 0.0
    decay *= min(pace, KEEN * along)  # what is far slower than that does not brake yet
    for i in range(2 * joints):
        push[i] = -decay * way[i]
        error[i] = pace * way[i] - v[i]


@njit(cache=True, error_model="numpy", inline="always")
def _cruise(
    goal: Floats, limits: ReferenceLimits, slowly: Floats, at: ReferenceScratch
) -> None:  # pragma: no cover - compiled
    """The same [:J] for a velocity, each joint's own, that ends before the limits."""
    low, high, speed = limits.low, limits.high, limits.speed
    q, v, a, _, error, push, column = at
    joints = len(column)
    for n in range(joints):
        wanted = min(max(goal[n], -TOP * speed[n]), TOP * speed[n])
        left = max(high[n] - q[n] if wanted > 0.0 else q[n] - low[n], 0.0)
        pace, decay = _pace(left * slowly[n], left * column[n])
        if pace > BANDWIDTH:
            pace = decay = BANDWIDTH
        else:
            speeding = v[n] if wanted > 0.0 else -v[n]
            slowing = -a[n] if wanted > 0.0 else a[n]
            late = max(left * pace * decay - max(slowing, 0.0), 0.0) * column[n] * LATE
            left = max(left - late * max(speeding, 0.0), 0.05 * left)
            pace, decay = _pace(left * slowly[n], left * column[n])
        most = left * pace
        push[n] = -decay * v[n] if most < abs(wanted) else 0.0
        error[n] = min(max(wanted, -most), most) - v[n]


@njit(cache=True, error_model="numpy")
def references(
    goal: Floats, ref: Floats, world: int, together: bool, limits: ReferenceLimits, inverse: InverseLimits,
    dynamics: ArmDynamics, controls: ControlRows, mass: Floats, at: ReferenceScratch,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """The rows of `follow` in one world, whose mass matrix is known; `at` is scratch."""
    armature, lead, dt = dynamics.armature, dynamics.lead, dynamics.dt
    gently = inverse.jerk
    grip, rows = controls
    q, v, a, way, error, push, column = at
    joints = len(lead)
    for n in range(joints):
        q[n] = ref[world, 0, n]
        v[n] = ref[world, 1, n]
        a[n] = ref[world, 2, n]
        way[n] = goal[world, n] - q[n]
    _torques(mass, armature, v)
    _torques(mass, armature, a)
    if together:
        _torques(mass, armature, way)
    else:
        for n in range(joints):
            column[n] = max(gently[n], (mass[n, n] + armature[n]) * gently[joints])
    for k in range(rows.shape[1]):
        if together:
            _head_for(inverse, at)
        else:
            _cruise(goal[world], limits, inverse.acceleration, at)
            _torques(mass, armature, error)
            _torques(mass, armature, push)
        _advance(limits, inverse, dynamics, mass, at)
        if rows.shape[2] > joints:
            rows[world, k, joints] = grip[world]
        for n in range(joints):
            rows[world, k, n] = q[n] + lead[n] * v[n]
        if together:
            for i in range(2 * joints):
                way[i] -= v[i] * dt
    for n in range(joints):
        ref[world, 0, n] = q[n]
        ref[world, 1, n] = v[n]
        ref[world, 2, n] = a[n]


@njit(cache=True, error_model="numpy", inline="always")
def shares(limits: ReferenceLimits) -> InverseLimits:  # pragma: no cover - compiled
    """Bounds that references are compared with."""
    joints = len(limits.speed)
    slowly = np.empty(2 * joints)
    gently = np.empty(2 * joints)
    slowly[:joints] = 1.0 / limits.acceleration
    slowly[joints:] = 1.0 / limits.torque
    gently[:joints] = 1.0 / limits.jerk
    gently[joints:] = 1.0 / limits.rate
    return InverseLimits(1.0 / (TOP * limits.speed), slowly, gently)


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def follow(
    goal: Floats,
    ref: Floats,
    together: bool,
    limits: ReferenceLimits,
    chain: HingeChain,
    dynamics: ArmDynamics,
    controls: ControlRows,
) -> None:  # pragma: no cover - compiled
    """References that go to joint goals, or at joint velocities, within limits: one row a physics step.

    The speed wanted is along the way to the goal, as fast as can be braked from; it is approached by accelerations of
    which, where they or their change are too large, all are made less by one factor. Straight ways of goals are kept.

    Args:
        goal: [N, J] rad if `together`, else rad/s: a velocity, that ends before the limits. ref: [N, 3, J] position, velocity,
            acceleration; in and out.
        controls: its rows are the result.
    """
    joints = len(limits.speed)
    for piece in prange((goal.shape[0] + PIECE - 1) // PIECE):
        inverse = shares(limits)
        bodies = body_scratch(joints)
        at = reference_scratch(joints)
        for world in range(piece * PIECE, min((piece + 1) * PIECE, goal.shape[0])):
            mass_matrix(ref, world, chain, dynamics.links, bodies)
            references(goal, ref, world, together, limits, inverse, dynamics, controls, bodies.mass, at)

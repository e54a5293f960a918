"""Work of all drone tasks for every drone, compiled: starts, crashes, vectors in body axes, and the figures of a pursuit.

Loops over worlds are in exact IEEE arithmetic, so that a world's numbers do not depend on how many there are.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

import math

import numpy as np
from numba import njit

from rookery.sim.random_kernels import inlined

_loop = njit(cache=True, nogil=True, error_model="numpy")

GROUND, COLLISION, OUT_OF_BOUNDS = 1, 2, 3  # causes of a drone's crash, counted from 1 as in `terminated`
CAUSE_RANKS = (OUT_OF_BOUNDS, GROUND, COLLISION)  # a later one overrides those before it
_RANK = np.array([1 + CAUSE_RANKS.index(c) if c in CAUSE_RANKS else 0 for c in range(len(CAUSE_RANKS) + 1)])

NEAR_M, ON_TARGET_M = 0.2, 0.05
"""m, of `rewards.closeness_exp`: what pulls over half a meter, and over the last decimeter."""
_NEAR, _ON_TARGET = np.float32(-1.0 / NEAR_M), np.float32(-1.0 / ON_TARGET_M)


@_loop
def starts(ids, draws, target, facing, box, speed, spin, heading, tilt, ground, above, state):
    """Random starts around the targets of the worlds `ids` [n].

    Args:
        draws: [n, A, 12] in [-1, 1]: position, velocity, rates; heading, direction of the tilt, tilt.
        target: [N, A, 3] m, world.
        facing: [N, A] rad, from world x, the middles of the headings.
        box, speed, spin, heading: half-widths in m, m/s, rad/s and rad.
        tilt: rad, at most.
        ground: [N] m, height of the ground; where it is raised, no drone begins less than `above`, m, over it.
        state: [n, A, 13], see Bodies.state, written.
    """
    for r in range(len(ids)):
        for a in range(target.shape[1]):
            u = draws[r, a]
            s = state[r, a]
            for i in range(3):
                s[i] = target[ids[r], a, i] + box * u[i]
                s[7 + i] = speed * u[3 + i]
                s[10 + i] = spin * u[6 + i]
            turn = 0.5 * (facing[ids[r], a] + heading * u[9])
            around = math.pi * u[10]
            lean = 0.5 * tilt * abs(u[11])
            hw, hz = math.cos(turn), math.sin(turn)
            tw, tx, ty = math.cos(lean), math.sin(lean) * math.cos(around), math.sin(lean) * math.sin(around)
            if ground[ids[r]] > 0.0:
                s[2] = max(s[2], ground[ids[r]] + np.float32(above))
            # first the turn about z, then the tilt about a level axis
            s[3] = tw * hw
            s[4] = tx * hw + ty * hz
            s[5] = ty * hw - tx * hz
            s[6] = tw * hz


@_loop
def begin(ids, neutral, last_action, previous_action, crashed, cause):
    """New episodes in the worlds `ids`: nobody has crashed, and all have commanded the action `neutral` [4] before."""
    for w in ids:
        for a in range(crashed.shape[1]):
            for i in range(neutral.shape[0]):
                last_action[w, a, i] = neutral[i]
                previous_action[w, a, i] = neutral[i]
            crashed[w, a] = False
            cause[w, a] = 0


@_loop
def detect_crashes(state, ground, radius, height, touching, astray, collided, crashed, cause):
    """Which drones have crashed, and how; of several causes at once the one that ranks highest.

    A drone is on the ground where its middle is lower than `height` over it, and where its body touches it: tilted by t, a
    cylinder reaches down by radius sin t + height / 2 |cos t|.

    Args:
        state: [N, A, 13], see Bodies.state.
        ground: [N] m, height of the ground.
        radius, height: m, of a drone's body, an upright cylinder about its middle.
        touching: m, bodies this near touch.
        astray: [N, A] bool, drones out of bounds.
        collided: [N, A] bool, drones that have collided, in place of the distances; [0, 0] for those.
        crashed: [N, A] bool, written.
        cause: [N, A] int64, written: GROUND, COLLISION, OUT_OF_BOUNDS, or 0.
    """
    reach = 2.0 * radius + touching
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            cause[w, a] = OUT_OF_BOUNDS if astray[w, a] else 0
            qw, qx, qy, qz = float(state[w, a, 3]), float(state[w, a, 4]), float(state[w, a, 5]), float(state[w, a, 6])
            level, tilted = qw * qw + qz * qz, qx * qx + qy * qy  # squares of cosine and sine of half the tilt
            down = 2.0 * radius * math.sqrt(level * tilted) + 0.5 * height * abs(level - tilted)
            if state[w, a, 2] < ground[w] + max(height, down + touching):
                cause[w, a] = GROUND
        for a in range(state.shape[1]):
            if collided.shape[0] > 0:
                if collided[w, a]:
                    cause[w, a] = COLLISION
                continue
            for b in range(a):
                x = float(state[w, a, 0]) - float(state[w, b, 0])
                y = float(state[w, a, 1]) - float(state[w, b, 1])
                z = float(state[w, a, 2]) - float(state[w, b, 2])
                if x * x + y * y + z * z < reach * reach:
                    cause[w, a] = COLLISION
                    cause[w, b] = COLLISION
        for a in range(state.shape[1]):
            crashed[w, a] = cause[w, a] > 0


@inlined
def _rank(cause):
    """Rank of a cause; those that a task adds override all others, the last most."""
    return cause if cause > OUT_OF_BOUNDS else _RANK[cause]


@_loop
def first_cause(cause, out):
    """out [N] int64: of the causes [N, A] in each world the one that ranks highest."""
    for w in range(cause.shape[0]):
        worst = 0
        for a in range(cause.shape[1]):
            if _rank(cause[w, a]) > _rank(worst):
                worst = cause[w, a]
        out[w] = worst


@inlined
def _rotation(state, w, a):
    """Row by row the matrix that turns a drone's body axes into world axes."""
    qw, qx, qy, qz = float(state[w, a, 3]), float(state[w, a, 4]), float(state[w, a, 5]), float(state[w, a, 6])
    ww, xx, yy, zz = qw * qw, qx * qx, qy * qy, qz * qz
    return (
        ww + xx - yy - zz, 2.0 * (qx * qy - qw * qz), 2.0 * (qx * qz + qw * qy),
        2.0 * (qx * qy + qw * qz), ww - xx + yy - zz, 2.0 * (qy * qz - qw * qx),
        2.0 * (qx * qz - qw * qy), 2.0 * (qy * qz + qw * qx), ww - xx - yy + zz,
    )  # fmt: skip


@_loop
def to_body(worlds, state, vectors, are_points, up, velocity, rates, turned):
    """Motion as the drones of some worlds feel it, and given vectors, in body axes.

    Args:
        worlds: [m] int64 which.
        state: [N, A, 13], see Bodies.state.
        vectors: arrays [N, A, 3 k] of k vectors each, world axes.
        are_points: for each of these whether they are points (m, world), seen from the drone.
        up, velocity, rates: [N, A, 3], written: the world's z axis (1), m/s, rad/s.
        turned: like `vectors`, written.
    """
    for w in worlds:
        for a in range(state.shape[1]):
            xx, xy, xz, yx, yy, yz, zx, zy, zz = _rotation(state, w, a)
            up[w, a, 0], up[w, a, 1], up[w, a, 2] = zx, zy, zz
            x, y, z = float(state[w, a, 7]), float(state[w, a, 8]), float(state[w, a, 9])
            velocity[w, a, 0] = xx * x + yx * y + zx * z
            velocity[w, a, 1] = xy * x + yy * y + zy * z
            velocity[w, a, 2] = xz * x + yz * y + zz * z
            for i in range(3):
                rates[w, a, i] = state[w, a, 10 + i]
    for j in range(len(vectors)):
        v, out, is_point = vectors[j], turned[j], are_points[j]
        for w in worlds:
            for a in range(state.shape[1]):
                xx, xy, xz, yx, yy, yz, zx, zy, zz = _rotation(state, w, a)
                ox, oy, oz = 0.0, 0.0, 0.0
                if is_point:
                    ox, oy, oz = float(state[w, a, 0]), float(state[w, a, 1]), float(state[w, a, 2])
                for i in range(0, v.shape[2], 3):
                    x, y, z = v[w, a, i] - ox, v[w, a, i + 1] - oy, v[w, a, i + 2] - oz
                    out[w, a, i] = xx * x + yx * y + zx * z
                    out[w, a, i + 1] = xy * x + yy * y + zy * z
                    out[w, a, i + 2] = xz * x + yz * y + zz * z


@_loop
def speeds(state, reference, out):
    """out [N, A] m/s: of the drones against reference velocities [N, A, 3]."""
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            out[w, a] = _distance(state[w, a], 7, reference[w, a])


@_loop
def pursue(state, target, steps, counted_from, bounds, distance, error_sum, error_count, astray):
    """Distances to the targets after a control step, their sums where they count, and who is out of bounds.

    Args:
        state: [N, A, 13], see Bodies.state.
        target: [N, A, 3] m, world.
        steps: [N] control steps into the episode; beyond `counted_from` the distance counts.
        bounds: m, from the target.
        distance, error_sum: [N, A] m, the first written and added to the second.
        error_count: [N], counted up.
        astray: [N, A] bool, written.
    """
    for w in range(state.shape[0]):
        counts = steps[w] > counted_from
        if counts:
            error_count[w] += 1.0
        for a in range(state.shape[1]):
            d = np.float32(_distance(state[w, a], 0, target[w, a]))
            distance[w, a] = d
            astray[w, a] = d > bounds
            if counts:
                error_sum[w, a] += d


@_loop
def begin_pursuit(ids, state, target, distance, error_sum, error_count):
    """New episodes in the worlds `ids`; arrays as in `pursue`."""
    for w in ids:
        error_count[w] = 0.0
        for a in range(state.shape[1]):
            error_sum[w, a] = 0.0
            distance[w, a] = _distance(state[w, a], 0, target[w, a])


@_loop
def closeness(distance, near, on_target):
    """Reward terms [N, A] for distances [N, A] m, the last two, written; see `Pursuit.closeness`."""
    for w in range(distance.shape[0]):
        for a in range(distance.shape[1]):
            near[w, a] = math.exp(_NEAR * distance[w, a])
            on_target[w, a] = math.exp(_ON_TARGET * distance[w, a])


@_loop
def motion_rewards(state, last_action, previous_action, crashed, ang_vel, yaw_rate, action_rate, crash):
    """Reward terms [N, A] of each drone's own motion, the last four, written; see `DroneTask.motion_rewards`."""
    for w in range(state.shape[0]):
        for a in range(state.shape[1]):
            x, y, z = state[w, a, 10], state[w, a, 11], state[w, a, 12]
            ang_vel[w, a] = x * x + y * y + z * z
            yaw_rate[w, a] = abs(z)
            change = np.float32(0.0)
            for i in range(last_action.shape[2]):
                step = last_action[w, a, i] - previous_action[w, a, i]
                change += step * step
            action_rate[w, a] = change
            crash[w, a] = crashed[w, a]


@_loop
def pursuit_metrics(steps, max_steps, most, distance, error_sum, error_count, crashed, success, error, crash):
    """Figures of a pursuit, the last three arrays [N], written; see `Pursuit.metrics`.

    Args:
        most: m, mean distance of a success.
    """
    drones = distance.shape[1]
    for w in range(len(steps)):
        count = max(error_count[w], np.float32(1.0))
        total = 0.0
        close = True
        hit = False
        for a in range(drones):
            e = error_sum[w, a] / count if error_count[w] > 0.0 else distance[w, a]
            close = close and e < most
            total += e
            hit = hit or crashed[w, a]
        success[w] = close and not hit and steps[w] >= max_steps
        error[w] = total / drones
        crash[w] = hit


@_loop
def _distance(s, first, p):
    """Distance of three numbers of a row from a point [3]."""
    x, y, z = float(s[first]) - p[0], float(s[first + 1]) - p[1], float(s[first + 2]) - p[2]
    return math.sqrt(x * x + y * y + z * z)


@_loop
def follow_paths(worlds, amplitude, frequency, phase, places, clock, control_dt, ahead, target, velocity, future):
    """Places of the references of `Track` in some worlds, their velocities, and their places later.

    Args:
        worlds: [m] int64 which.
        amplitude, frequency, phase: [N, A, 3, H] m, rad/s, rad: of each axis, see `Track`.
        places: [A, 3] m, world: the middles of the paths.
        clock: [N] control steps of `control_dt` s since the path began.
        ahead: [1 + T] float32 s, the first 0.
        target, velocity: [N, A, 3] m, m/s, world, written.
        future: [N, A, 3 T] m, written: the places at the T times ahead, from the present one.
    """
    for w in worlds:
        now = np.float32(clock[w]) * np.float32(control_dt)
        for a in range(target.shape[1]):
            for i in range(3):
                for t in range(len(ahead)):
                    position = np.float32(0.0)
                    speed = np.float32(0.0)
                    for h in range(amplitude.shape[3]):
                        angle = frequency[w, a, i, h] * (now + ahead[t]) + phase[w, a, i, h]
                        position += amplitude[w, a, i, h] * math.sin(angle)
                        if t == 0:
                            speed += amplitude[w, a, i, h] * frequency[w, a, i, h] * math.cos(angle)
                    if t == 0:
                        target[w, a, i] = position + places[a, i]
                        velocity[w, a, i] = speed
                    else:
                        future[w, a, 3 * (t - 1) + i] = position + places[a, i] - target[w, a, i]

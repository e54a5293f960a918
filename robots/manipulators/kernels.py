"""The computation of an arm's controller at each control step, for all worlds at once: inverse kinematics and
Cartesian impedance. Joint references: `references.py`.

Kinematic chains are those of `chain_of`, with the base's pose in them: all places and axes are the world's. J is the number
of joints. Each thread takes worlds by the piece, with one set of scratch arrays. Arrays that belong together come as one
NamedTuple; those of parallel kernels hold no further tuples, which Numba's parallel loops do not take.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[Any]
"""Float64, or float32 where tensors of an environment are meant."""

PIECE = 64  # worlds that a thread takes at a time
WORLDS_EACH = 512
"""Worlds for which it is worth to wake another thread; a kernel takes about 1 us for a world."""


class HingeChain(NamedTuple):
    """A kinematic chain of hinges with its tool.

    Args:
        turns: [J + 1, 3, 3], before each joint, and of the tool after the last one.
        offsets: [J + 1, 3] m, likewise.
        axes: [J, 3].
    """

    turns: Floats
    offsets: Floats
    axes: Floats


class PoseSearch(NamedTuple):
    """Settings of the search of `track_pose` for joint angles.

    Args:
        lower, upper: [J] rad, limits.
        home: [J] rad.
        damping: of the least squares.
        posture: share of the way home in a round, in the null space.
        most: rad, largest change of a joint in a round.
    """

    lower: Floats
    upper: Floats
    home: Floats
    damping: float
    posture: float
    most: float


class ToolSpring(NamedTuple):
    """Springs and limits of `impedance`.

    Args:
        home: [J] rad.
        stiffness, damping: [N, 6] N/m and N m/rad, N s/m and N m s/rad.
        home_stiffness, home_damping: N m/rad, N m s/rad, of the pull home that the tool does not feel.
        torque: [J] N m, limits.
        change: N m, the largest in a physics step.
    """

    home: Floats
    stiffness: Floats
    damping: Floats
    home_stiffness: float
    home_damping: float
    torque: Floats
    change: float


class ArmCommands(NamedTuple):
    """Commands of all worlds, see `Manipulator`.

    Args:
        reference: [N, 3, J] rad, rad/s, rad/s^2.
        joint_goal: [N, J] rad.
        torque: [N, J] N m.
        grip: [N] m.
        goal: [N, 3] m, of the tool, in the world.
        goal_rotation: [N, 3, 3], likewise.
    """

    reference: Floats
    joint_goal: Floats
    torque: Floats
    grip: Numbers
    goal: Floats
    goal_rotation: Floats


class ArmReadings(NamedTuple):
    """State of the arms of all worlds, see `Manipulator`.

    Args:
        exact_tool, exact_rotation: [N, 3] m, [N, 3, 3] float64, the tool in the world.
        tool, rotation: likewise float32.
        pos, vel: [N, J] rad, rad/s.
        opening: [N] m.
    """

    exact_tool: Floats
    exact_rotation: Floats
    tool: Numbers
    rotation: Numbers
    pos: Numbers
    vel: Numbers
    opening: Numbers


class ChainScratch(NamedTuple):
    """Scratch of one world, which `walk` fills: the tool's matrix [3, 3] and place [3] m in the world; each joint's place and
    axis, [J, 3] both."""

    turn: Floats
    pos: Floats
    origins: Floats
    spins: Floats


class LeastSquares(NamedTuple):
    """Scratch of one world's equations: Jacobian [6, J], error [6], J J^T [6, 6], pull home [J]."""

    jac: Floats
    error: Floats
    a: Floats
    pull: Floats


@njit(cache=True, error_model="numpy", inline="always")
def chain_scratch(joints: int) -> ChainScratch:  # pragma: no cover - compiled
    """Room for one world."""
    return ChainScratch(np.empty((3, 3)), np.empty(3), np.empty((joints, 3)), np.empty((joints, 3)))


@njit(cache=True, error_model="numpy", inline="always")
def least_squares(joints: int) -> LeastSquares:  # pragma: no cover - compiled
    """Room for one world."""
    return LeastSquares(np.empty((6, joints)), np.empty(6), np.empty((6, 6)), np.empty(joints))


def few_threads(kernel: Callable[..., None]) -> Callable[..., None]:
    """Call a kernel on no more threads than its worlds are worth. The first argument's first axis is theirs."""

    @functools.wraps(kernel)
    def run(first: Any, *rest: Any) -> None:
        before = numba.get_num_threads()
        wanted = min(before, 1 + len(first) // WORLDS_EACH)
        if wanted == before:
            kernel(first, *rest)
            return
        numba.set_num_threads(wanted)
        try:
            kernel(first, *rest)
        finally:
            numba.set_num_threads(before)

    return run


@njit(cache=True, error_model="numpy", inline="always")
def walk(q: Numbers, row: int, chain: HingeChain, at: ChainScratch) -> None:  # pragma: no cover - compiled
    """Walk along the chain at the joint angles in one row of q [N, >= J] rad."""
    turns, offsets, axes = chain
    turn, pos, origins, spins = at
    joints = len(axes)
    for i in range(3):
        pos[i] = 0.0
        for j in range(3):
            turn[i, j] = 1.0 if i == j else 0.0
    for n in range(joints + 1):
        for i in range(3):
            a, b, c = turn[i, 0], turn[i, 1], turn[i, 2]
            pos[i] += a * offsets[n, 0] + b * offsets[n, 1] + c * offsets[n, 2]
            for j in range(3):
                turn[i, j] = a * turns[n, 0, j] + b * turns[n, 1, j] + c * turns[n, 2, j]
        if n < joints:
            x, y, z = axes[n, 0], axes[n, 1], axes[n, 2]
            s, k = math.sin(q[row, n]), 1.0 - math.cos(q[row, n])
            for i in range(3):  # turn times the rotation about the joint's axis: 1 + s X + k X X
                a, b, c = turn[i, 0], turn[i, 1], turn[i, 2]
                origins[n, i] = pos[i]
                spins[n, i] = a * x + b * y + c * z
                u, v, w = b * z - c * y, c * x - a * z, a * y - b * x
                turn[i, 0] = a + s * u + k * (v * z - w * y)
                turn[i, 1] = b + s * v + k * (w * x - u * z)
                turn[i, 2] = c + s * w + k * (u * y - v * x)


@njit(cache=True, error_model="numpy", inline="always")
def _error(
    goal_pos: Floats, goal_turn: Floats, world: int, pos: Floats, turn: Floats, error: Floats
) -> None:  # pragma: no cover
    """`error` [6]: way (m), and the rotation vector (rad, world) for angles below half a turn."""
    for i in range(3):
        error[i] = goal_pos[world, i] - pos[i]
        error[3 + i] = 0.0
    trace = 0.0
    for j in range(3):  # half the sum of the cross products of the axes is sin(angle) times the axis of the turn
        ax, ay, az = turn[0, j], turn[1, j], turn[2, j]
        bx, by, bz = goal_turn[world, 0, j], goal_turn[world, 1, j], goal_turn[world, 2, j]
        trace += ax * bx + ay * by + az * bz
        error[3] += 0.5 * (ay * bz - az * by)
        error[4] += 0.5 * (az * bx - ax * bz)
        error[5] += 0.5 * (ax * by - ay * bx)
    sine = math.sqrt(error[3] ** 2 + error[4] ** 2 + error[5] ** 2)
    if sine > 1e-9:
        scale = math.atan2(sine, 0.5 * (trace - 1.0)) / sine
        for i in range(3):
            error[3 + i] *= scale


@njit(cache=True, error_model="numpy", inline="always")
def _jacobian(pos: Floats, origins: Floats, spins: Floats, jac: Floats) -> None:  # pragma: no cover
    joints = len(origins)
    for n in range(joints):
        rx, ry, rz = pos[0] - origins[n, 0], pos[1] - origins[n, 1], pos[2] - origins[n, 2]
        ax, ay, az = spins[n, 0], spins[n, 1], spins[n, 2]
        jac[0, n] = ay * rz - az * ry
        jac[1, n] = az * rx - ax * rz
        jac[2, n] = ax * ry - ay * rx
        jac[3, n] = ax
        jac[4, n] = ay
        jac[5, n] = az


@njit(cache=True, error_model="numpy", inline="always")
def _free_spin(turn: Floats, jac: Floats, error: Floats) -> None:  # pragma: no cover
    """Take rotations about the tool's own z out of `jac` and `error`: five joints cannot choose it."""
    along = 0.0
    for i in range(3):
        along += turn[i, 2] * error[3 + i]
    for i in range(3):
        error[3 + i] -= along * turn[i, 2]
    for n in range(jac.shape[1]):
        along = 0.0
        for i in range(3):
            along += turn[i, 2] * jac[3 + i, n]
        for i in range(3):
            jac[3 + i, n] -= along * turn[i, 2]


@njit(cache=True, error_model="numpy", inline="always")
def _normal(jac: Floats, square: float, a: Floats) -> None:  # pragma: no cover
    """Lower half of a = J J^T + square [6, 6]."""
    joints = jac.shape[1]
    for i in range(6):
        for j in range(i + 1):
            total = square if i == j else 0.0
            for n in range(joints):
                total += jac[i, n] * jac[j, n]
            a[i, j] = total


@njit(cache=True, error_model="numpy", inline="always")
def _solve(a: Floats, x: Floats) -> None:  # pragma: no cover
    """Put a^-1 x into x [6], of a positive definite matrix a [6, 6] whose lower half is given and lost: Cholesky."""
    for i in range(6):
        for j in range(i):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total * a[j, j]
        total = a[i, i]
        for k in range(i):
            total -= a[i, k] * a[i, k]
        a[i, i] = 1.0 / math.sqrt(total)  # the diagonal is kept inverted
    for i in range(6):
        for k in range(i):
            x[i] -= a[i, k] * x[k]
        x[i] *= a[i, i]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            x[i] -= a[k, i] * x[k]
        x[i] *= a[i, i]


@njit(cache=True, error_model="numpy")
def approach(
    q: Floats,
    world: int,
    goal_pos: Floats,
    goal_turn: Floats,
    chain: HingeChain,
    search: PoseSearch,
    at: ChainScratch,
    eq: LeastSquares,
) -> None:  # pragma: no cover - compiled
    """One round of `track_pose` in one world; `at` and `eq` are scratch."""
    lower, upper, home, damping, posture, most = search
    turn, pos, origins, spins = at
    jac, error, a, pull = eq
    joints = len(home)
    walk(q, world, chain, at)
    _jacobian(pos, origins, spins, jac)
    _error(goal_pos, goal_turn, world, pos, turn, error)
    if joints < 6:
        _free_spin(turn, jac, error)
    for n in range(joints):
        pull[n] = posture * (home[n] - q[world, n])
    for i in range(6):
        for n in range(joints):
            error[i] -= jac[i, n] * pull[n]
    _normal(jac, damping * damping, a)
    _solve(a, error)
    for n in range(joints):
        change = pull[n]
        for i in range(6):
            change += jac[i, n] * error[i]
        change = min(max(change, -most), most)
        q[world, n] = min(max(q[world, n] + change, lower[n]), upper[n])


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def track_pose(
    q: Floats, goal_pos: Floats, goal_turn: Floats, chain: HingeChain, search: PoseSearch, rounds: int
) -> None:  # pragma: no cover - compiled
    """Move joint goals towards tool poses by damped least squares, with what is left of the joints pulled home. Of less
    than six joints the tool's spin about its own z follows from the rest of its pose.

    Args:
        q: [N, J] rad, in and out. goal_pos: [N, 3] m, goal_turn: [N, 3, 3], of the tool, in the world.
        rounds: of iteration.
    """
    joints = len(search.home)
    for piece in prange((q.shape[0] + PIECE - 1) // PIECE):
        at = chain_scratch(joints)
        eq = least_squares(joints)
        for world in range(piece * PIECE, min((piece + 1) * PIECE, q.shape[0])):
            for _ in range(rounds):
                approach(q, world, goal_pos, goal_turn, chain, search, at, eq)


@njit(cache=True, error_model="numpy")
def _pull(
    q: Numbers, v: Numbers, world: int, goal_pos: Floats, goal_turn: Floats, chain: HingeChain, spring: ToolSpring,
    last: Floats, out: Numbers, at: ChainScratch, eq: LeastSquares, force: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """`impedance` in one world; `at`, `eq` and `force` [6] are scratch."""
    home, stiffness, damping, home_stiffness, home_damping, torque, rate = spring
    turn, pos, origins, spins = at
    jac, error, a, pull = eq
    joints = len(home)
    walk(q, world, chain, at)
    _jacobian(pos, origins, spins, jac)
    _error(goal_pos, goal_turn, world, pos, turn, error)
    for n in range(joints):
        pull[n] = home_stiffness * (home[n] - q[world, n]) - home_damping * v[world, n]
    # the part of the pull that accelerates the tool is taken out: pull - J^T (J J^T)^-1 J pull
    for i in range(6):
        force[i] = 0.0
        for n in range(joints):
            force[i] += jac[i, n] * pull[n]
    _normal(jac, 1e-4, a)
    _solve(a, force)
    for i in range(6):
        speed = 0.0
        for n in range(joints):
            speed += jac[i, n] * v[world, n]
        force[i] = stiffness[world, i] * error[i] - damping[world, i] * speed - force[i]
    for n in range(joints):
        total = pull[n]
        for i in range(6):
            total += jac[i, n] * force[i]
        total = min(max(total, -torque[n]), torque[n])
        total = min(max(total, last[world, n] - rate), last[world, n] + rate)
        last[world, n] = total
        out[world, n] = total


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def impedance(
    q: Numbers, v: Numbers, goal_pos: Floats, goal_turn: Floats, chain: HingeChain, spring: ToolSpring, last: Floats,
    out: Numbers,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Joint torques that pull the tool to poses like a spring with a damper.

    Args:
        q, v: [N, >= J] rad, rad/s. goal_pos: [N, 3] m, goal_turn: [N, 3, 3], of the tool, in the world.
        last: [N, J] N m, torques of the step before, in and out. out: [N, >= J].
    """
    joints = len(spring.home)
    for piece in prange((q.shape[0] + PIECE - 1) // PIECE):
        at = chain_scratch(joints)
        eq = least_squares(joints)
        force = np.empty(6)
        for world in range(piece * PIECE, min((piece + 1) * PIECE, q.shape[0])):
            _pull(q, v, world, goal_pos, goal_turn, chain, spring, last, out, at, eq, force)


@njit(cache=True, nogil=True, error_model="numpy")
def tools(q: Numbers, chain: HingeChain, pos: Floats, turn: Floats) -> None:  # pragma: no cover - compiled
    """Places `pos` [N, 3] m and matrices `turn` [N, 3, 3] of the tool in the world at joint angles q [N, >= J] rad."""
    at = chain_scratch(len(chain.axes))
    for world in range(q.shape[0]):
        walk(q, world, chain, at)
        for i in range(3):
            pos[world, i] = at.pos[i]
            for j in range(3):
                turn[world, i, j] = at.turn[i, j]


@njit(cache=True, error_model="numpy", inline="always")
def _read_arm(
    q: Numbers, row: int, world: int, chain: HingeChain, out: ArmReadings, at: ChainScratch
) -> None:  # pragma: no cover
    """Read the joint angles and the opening in one row of q into a world's, and place its tool; `at` is scratch."""
    joints = len(chain.axes)
    walk(q, row, chain, at)
    for i in range(3):
        out.exact_tool[world, i] = out.tool[world, i] = at.pos[i]
        for j in range(3):
            out.exact_rotation[world, i, j] = out.rotation[world, i, j] = at.turn[i, j]
    for n in range(joints):
        out.pos[world, n] = q[row, n]
    out.opening[world] = q[row, joints] + q[row, joints + 1] if q.shape[1] > joints else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def read_arms(q: Numbers, v: Numbers, chain: HingeChain, out: ArmReadings) -> None:  # pragma: no cover - compiled
    """Read joints after a step and place the tools as `tools` does.

    Args:
        q, v: [N, J + 2] rad and rad/s, of the joints, and m and m/s of two fingers; [N, J] without them.
    """
    joints = len(chain.axes)
    at = chain_scratch(joints)
    for world in range(q.shape[0]):
        _read_arm(q, world, world, chain, out, at)
        for n in range(joints):
            out.vel[world, n] = v[world, n]


@njit(cache=True, nogil=True, error_model="numpy")
def reset_arms(
    ids: NDArray[np.int64], joints: Floats, q: Numbers, opened: float, pulled: bool, chain: HingeChain, commands: ArmCommands,
    readings: ArmReadings, held: Numbers,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Put arms at joint angles, at rest and held there, as `read_arms` will read them.

    Args:
        ids: [n] int64, worlds. joints: [n, J] rad, float64. q: [n, J + 2] likewise float32, and m of two fingers, or [n, J].
        opened: m, of the gripper. pulled: whether controls are torques.
        held: [N, J + 1], controls of all worlds now, the gripper's last; [N, J] where there is none.
    """
    count = len(chain.axes)
    reference = commands.reference
    at = chain_scratch(count)
    for row in range(len(ids)):
        world = ids[row]
        for n in range(count):
            reference[world, 0, n] = commands.joint_goal[world, n] = joints[row, n]
            reference[world, 1, n] = reference[world, 2, n] = 0.0
            commands.torque[world, n] = 0.0
            readings.vel[world, n] = 0.0
        commands.grip[world] = opened
        walk(joints, row, chain, at)
        for i in range(3):
            commands.goal[world, i] = at.pos[i]
            for j in range(3):
                commands.goal_rotation[world, i, j] = at.turn[i, j]
        _read_arm(q, row, world, chain, readings, at)
    for world in range(len(held)):
        for n in range(count):
            held[world, n] = 0.0 if pulled else reference[world, 0, n]
        if held.shape[1] > count:
            held[world, count] = commands.grip[world]


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def rotate_goals(spin: Floats, now: Floats, leash: float, goal: Floats) -> None:  # pragma: no cover - compiled
    """Rotate goals about the world's axes, but not farther from the tool than a leash allows.

    Args:
        spin: [N, 3] rad, rotation vector. now: [N, 3, 3] of the tool. leash: 1, cosine of the largest angle between tool and
            goal. goal: [N, 3, 3], in and out.
    """
    for piece in prange((spin.shape[0] + PIECE - 1) // PIECE):
        rotated = np.empty((3, 3))
        for world in range(piece * PIECE, min((piece + 1) * PIECE, spin.shape[0])):
            x, y, z = spin[world, 0], spin[world, 1], spin[world, 2]
            angle = math.sqrt(x * x + y * y + z * z)
            if angle < 1e-9:
                continue
            x, y, z = x / angle, y / angle, z / angle
            s, k = math.sin(angle), 1.0 - math.cos(angle)
            trace = 0.0
            for j in range(3):  # each axis v becomes v + s u x v + k u x (u x v)
                a, b, c = goal[world, 0, j], goal[world, 1, j], goal[world, 2, j]
                u, v, w = y * c - z * b, z * a - x * c, x * b - y * a
                rotated[0, j] = a + s * u + k * (y * w - z * v)
                rotated[1, j] = b + s * v + k * (z * u - x * w)
                rotated[2, j] = c + s * w + k * (x * v - y * u)
                for i in range(3):
                    trace += rotated[i, j] * now[world, i, j]
            if 0.5 * (trace - 1.0) > leash:
                for i in range(3):
                    for j in range(3):
                        goal[world, i, j] = rotated[i, j]

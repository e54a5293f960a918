"""Inverse kinematics: joint angles that bring a tool to its pose, by damped least squares. Chains: `chain.py`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from rookery.robots.manipulators.chain import (
    PIECE,
    ChainScratch,
    Floats,
    HingeChain,
    chain_scratch,
    few_threads,
    walk,
)


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


class LeastSquares(NamedTuple):
    """Scratch of one world's equations: Jacobian [6, J], error [6], J J^T [6, 6], pull home [J]."""

    jac: Floats
    error: Floats
    a: Floats
    pull: Floats


@njit(cache=True, error_model="numpy", inline="always")
def least_squares(joints: int) -> LeastSquares:  # pragma: no cover - compiled
    """Room for one world."""
    return LeastSquares(np.empty((6, joints)), np.empty(6), np.empty((6, 6)), np.empty(joints))


@njit(cache=True, error_model="numpy", inline="always")
def pose_error(
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
def jacobian(pos: Floats, origins: Floats, spins: Floats, jac: Floats) -> None:  # pragma: no cover
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
def free_spin(turn: Floats, jac: Floats, error: Floats) -> None:  # pragma: no cover
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
def normal_matrix(jac: Floats, square: float, a: Floats) -> None:  # pragma: no cover
    """Lower half of a = J J^T + square [6, 6]."""
    joints = jac.shape[1]
    for i in range(6):
        for j in range(i + 1):
            total = square if i == j else 0.0
            for n in range(joints):
                total += jac[i, n] * jac[j, n]
            a[i, j] = total


@njit(cache=True, error_model="numpy", inline="always")
def solve(a: Floats, x: Floats) -> None:  # pragma: no cover
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
    jacobian(pos, origins, spins, jac)
    pose_error(goal_pos, goal_turn, world, pos, turn, error)
    if joints < 6:
        free_spin(turn, jac, error)
    for n in range(joints):
        pull[n] = posture * (home[n] - q[world, n])
    for i in range(6):
        for n in range(joints):
            error[i] -= jac[i, n] * pull[n]
    normal_matrix(jac, damping * damping, a)
    solve(a, error)
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

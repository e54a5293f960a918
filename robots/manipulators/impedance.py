"""Cartesian impedance: joint torques that pull a tool to its goal like a spring with a damper, and how goals turn."""

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
    Numbers,
    chain_scratch,
    few_threads,
    walk,
)
from rookery.robots.manipulators.pose_search import (
    LeastSquares,
    jacobian,
    least_squares,
    normal_matrix,
    pose_error,
    solve,
)


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
    jacobian(pos, origins, spins, jac)
    pose_error(goal_pos, goal_turn, world, pos, turn, error)
    for n in range(joints):
        pull[n] = home_stiffness * (home[n] - q[world, n]) - home_damping * v[world, n]
    # the part of the pull that accelerates the tool is taken out: pull - J^T (J J^T)^-1 J pull
    for i in range(6):
        force[i] = 0.0
        for n in range(joints):
            force[i] += jac[i, n] * pull[n]
    normal_matrix(jac, 1e-4, a)
    solve(a, force)
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

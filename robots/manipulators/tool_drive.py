"""Goals of an arm's tool, and the joint references that follow from them, for all worlds at once.

A goal is moved, inverse kinematics turn it into joint goals, and references go there: one kernel does it all, since the
reference's kinematics serve the goal and the mass matrix alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from rookery.robots.manipulators.kernels import PIECE, approach, few_threads, walk
from rookery.robots.manipulators.references import mass_matrix, references, shares


@njit(cache=True, error_model="numpy", inline="always")
def _move(goal, step, world, pos, tool, leash, slack, low, high):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Move one goal, see `move_goals`; pos: [3] m, of the reference's tool."""
    part = 1.0
    for i in range(3):
        ahead = goal[world, i] - pos[i]
        s = step[world, i]
        if s < 0.0:
            ahead = -ahead
            s = -s
        if s > 0.0 and ahead + part * s > leash:
            part = max(leash - ahead, 0.0) / s
    for i in range(3):
        new = goal[world, i] + part * step[world, i]
        new = min(max(new, tool[world, i] - slack), tool[world, i] + slack)
        goal[world, i] = min(max(new, low[i]), high[i])


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def move_goals(  # type: ignore[no-untyped-def]
    goal, step, ref, tool, leash, slack, turns, offsets, axes, low, high
):  # pragma: no cover - compiled
    """Move the tool's goals, along a line as far as the reference lets them.

    Args:
        goal: [N, 3] m, in and out. step: [N, 3] m. ref: [N, 3, J]: of its tool the goal goes ahead by `leash` m at most
            along each axis, steps are made shorter for that. tool: [N, 3] m: likewise `slack` m, of what cannot get away;
            the goal is pulled back for that.
        turns, offsets, axes: the chain. low, high: [3] m, the goal's box.
    """
    joints = len(axes)
    for piece in prange((goal.shape[0] + PIECE - 1) // PIECE):
        turn = np.empty((3, 3))
        pos = np.empty(3)
        origins = np.empty((joints, 3))
        spins = np.empty((joints, 3))
        for world in range(piece * PIECE, min((piece + 1) * PIECE, goal.shape[0])):
            walk(ref[:, 0], world, turns, offsets, axes, turn, pos, origins, spins)
            _move(goal, step, world, pos, tool, leash, slack, low, high)


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def drive_tools(  # type: ignore[no-untyped-def]
    goal, goal_turn, step, tool, leash, slack, box, joint_goal, home, damping, posture, most, ref, limits, rate,
    turns, offsets, axes, links, armature, lead, dt, grip, rows,
):  # fmt: skip  # pragma: no cover - compiled
    """`move_goals`, then one round of `track_pose` for the joint goals, then `follow` for the rows.

    Args:
        goal, step, ref, tool, leash, slack: see `move_goals`. goal_turn: [N, 3, 3], of the tool, in the world.
        box: [2, 3] m, the goal's. joint_goal: [N, J] rad, in and out. home, damping, posture, most: see `track_pose`.
        limits, rate, links, armature, lead, dt, grip, rows: see `follow`. turns, offsets, axes: the chain.
    """
    joints = len(home)
    low = limits[0]
    high = limits[1]
    speed = limits[2]
    acceleration = limits[3]
    jerk = limits[4]
    quickly, slowly, gently = shares(limits, rate)
    for piece in prange((goal.shape[0] + PIECE - 1) // PIECE):
        turn = np.empty((3, 3))
        pos = np.empty(3)
        tip = np.empty(3)
        momenta = np.empty((joints, 6))
        composite = np.empty((joints, 10))
        mass = np.empty((joints, joints))
        origins = np.empty((joints, 3))
        spins = np.empty((joints, 3))
        jac = np.empty((6, joints))
        off = np.empty(6)
        square = np.empty((6, 6))
        pull = np.empty(joints)
        q = np.empty(joints)
        column = np.empty(joints)
        way = np.empty(2 * joints)
        v = np.empty(2 * joints)
        a = np.empty(2 * joints)
        error = np.empty(2 * joints)
        push = np.empty(2 * joints)
        for world in range(piece * PIECE, min((piece + 1) * PIECE, goal.shape[0])):
            mass_matrix(ref, world, turns, offsets, axes, links, turn, pos, momenta, composite, mass)
            for i in range(3):
                tip[i] = pos[i]
                for j in range(3):
                    tip[i] += turn[i, j] * offsets[joints, j]
            _move(goal, step, world, tip, tool, leash, slack, box[0], box[1])
            approach(
                joint_goal, world, goal, goal_turn, turns, offsets, axes, low, high, home, damping, posture, most,
                turn, pos, origins, spins, jac, off, square, pull,
            )  # fmt: skip
            references(
                joint_goal, ref, world, True, low, high, speed, acceleration, jerk, quickly, slowly, gently, mass, armature,
                lead, dt, grip, rows, q, v, a, way, error, push, column,
            )  # fmt: skip

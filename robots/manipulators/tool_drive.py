"""Goals of an arm's tool, and the joint references that follow from them, for all worlds at once.

A goal is moved, inverse kinematics turn it into joint goals, and references go there: one kernel does it all, since the
reference's kinematics serve the goal and the mass matrix alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange

from rookery.robots.manipulators.chain import PIECE, ChainScratch, Floats, HingeChain, chain_scratch, few_threads, walk
from rookery.robots.manipulators.pose_search import PoseSearch, approach, least_squares
from rookery.robots.manipulators.references import (
    ArmDynamics,
    ControlRows,
    ReferenceLimits,
    body_scratch,
    mass_matrix,
    reference_scratch,
    references,
    shares,
)


class GoalBounds(NamedTuple):
    """Bounds of a tool's goal.

    Args:
        lead: m, along each axis, that the goal goes ahead of the reference's tool at most: steps are made shorter for that.
        slack: m, likewise ahead of the tool itself, which cannot get away: the goal is pulled back for that.
        low, high: [3] m, the goal's box.
    """

    lead: float
    slack: float
    low: Floats
    high: Floats


@njit(cache=True, error_model="numpy", inline="always")
def _move(
    goal: Floats, step: Floats, world: int, pos: Floats, tool: Floats, leash: GoalBounds
) -> None:  # pragma: no cover
    """Move one goal, see `move_goals`; pos: [3] m, of the reference's tool."""
    lead, slack, low, high = leash
    part = 1.0
    for i in range(3):
        ahead = goal[world, i] - pos[i]
        s = step[world, i]
        if s < 0.0:
            ahead = -ahead
            s = -s
        if s > 0.0 and ahead + part * s > lead:
            part = max(lead - ahead, 0.0) / s
    for i in range(3):
        new = goal[world, i] + part * step[world, i]
        new = min(max(new, tool[world, i] - slack), tool[world, i] + slack)
        goal[world, i] = min(max(new, low[i]), high[i])


@njit(cache=True, error_model="numpy")
def _move_one(
    goal: Floats, step: Floats, world: int, angles: Floats, tool: Floats, leash: GoalBounds, chain: HingeChain,
    at: ChainScratch,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """`move_goals` in one world; angles: [N, J] rad, of the references; `at` is scratch."""
    walk(angles, world, chain, at)
    _move(goal, step, world, at.pos, tool, leash)


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def move_goals(
    goal: Floats, step: Floats, ref: Floats, tool: Floats, leash: GoalBounds, chain: HingeChain
) -> None:  # pragma: no cover - compiled
    """Move the tool's goals, along a line as far as the reference lets them.

    Args:
        goal: [N, 3] m, in and out. step: [N, 3] m. ref: [N, 3, J]. tool: [N, 3] m.
    """
    for piece in prange((goal.shape[0] + PIECE - 1) // PIECE):
        at = chain_scratch(len(chain.axes))
        for world in range(piece * PIECE, min((piece + 1) * PIECE, goal.shape[0])):
            _move_one(goal, step, world, ref[:, 0], tool, leash, chain, at)


@few_threads
@njit(cache=True, parallel=True, error_model="numpy")
def drive_tools(
    goal: Floats, goal_turn: Floats, step: Floats, tool: Floats, leash: GoalBounds, joint_goal: Floats, search: PoseSearch,
    ref: Floats, limits: ReferenceLimits, chain: HingeChain, dynamics: ArmDynamics, controls: ControlRows,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """`move_goals`, then one round of `track_pose` for the joint goals, then `follow` for the rows.

    Args:
        goal, step, ref, tool: see `move_goals`. goal_turn: [N, 3, 3], of the tool, in the world.
        joint_goal: [N, J] rad, in and out.
    """
    joints = len(search.home)
    for piece in prange((goal.shape[0] + PIECE - 1) // PIECE):
        inverse = shares(limits)
        tip = np.empty(3)
        bodies = body_scratch(joints)
        at = chain_scratch(joints)
        eq = least_squares(joints)
        motion = reference_scratch(joints)
        for world in range(piece * PIECE, min((piece + 1) * PIECE, goal.shape[0])):
            mass_matrix(ref, world, chain, dynamics.links, bodies)
            for i in range(3):
                tip[i] = bodies.pos[i]
                for j in range(3):
                    tip[i] += bodies.turn[i, j] * chain.offsets[joints, j]
            _move(goal, step, world, tip, tool, leash)
            approach(joint_goal, world, goal, goal_turn, chain, search, at, eq)
            references(joint_goal, ref, world, True, limits, inverse, dynamics, controls, bodies.mass, motion)

"""Arms put at joint angles, with commands that hold them there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rookery.robots.manipulators.chain import ArmReadings, Floats, HingeChain, Numbers, chain_scratch, read_arm, walk


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
        read_arm(q, row, world, chain, readings, at)
    for world in range(len(held)):
        for n in range(count):
            held[world, n] = 0.0 if pulled else reference[world, 0, n]
        if held.shape[1] > count:
            held[world, count] = commands.grip[world]

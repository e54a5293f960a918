"""The chain of an arm's hinges: where its joints and its tool are, of all worlds at once.

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
from numba import njit
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


@njit(cache=True, error_model="numpy", inline="always")
def chain_scratch(joints: int) -> ChainScratch:  # pragma: no cover - compiled
    """Room for one world."""
    return ChainScratch(np.empty((3, 3)), np.empty(3), np.empty((joints, 3)), np.empty((joints, 3)))


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
def read_arm(
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
        read_arm(q, world, world, chain, out, at)
        for n in range(joints):
            out.vel[world, n] = v[world, n]

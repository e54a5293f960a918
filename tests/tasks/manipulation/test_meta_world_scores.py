"""Scores of all Meta-World tasks on states drawn at random, against Meta-World's formulas written out in NumPy.

The formulas are those of Meta-World 3.1.1 (envs/sawyer_*_v3.py and utils/reward_utils.py) with this robot's opening, palm and
margins, as the tasks' docstrings say. States are put into the task's buffers: the tool and the first object are near each
other, the object is near its start or near its goal, so that every branch is taken (asserted).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.manipulation.basketball import Basketball
from rookery.tasks.manipulation.button import ButtonPressTopdown
from rookery.tasks.manipulation.door_close import DoorClose
from rookery.tasks.manipulation.door_open import DoorOpen
from rookery.tasks.manipulation.drawer import DrawerClose, DrawerOpen
from rookery.tasks.manipulation.lever_pull import LeverPull
from rookery.tasks.manipulation.meta_world import MetaWorldTask
from rookery.tasks.manipulation.peg_insert import PegInsertSide
from rookery.tasks.manipulation.pick_place import PickPlace
from rookery.tasks.manipulation.push import Push
from rookery.tasks.manipulation.reach import Reach
from rookery.tasks.manipulation.shelf_place import ShelfPlace
from rookery.tasks.manipulation.sweep import Sweep, SweepInto
from rookery.tasks.manipulation.window import WindowClose, WindowOpen

N = 400
PAD = 0.05  # m, of a pad that still counts as beside a cube
OPEN = 0.08  # m, between the pads of the open gripper
UP = np.array([0.0, 0.0, 0.045])  # m, of the hand over the tool
Array = NDArray[np.float64]


def near(x: Array, low: float, high: float, margin: Array | float, gaussian: bool = False) -> Array:
    """reward_utils.tolerance with a value of a tenth at the margin."""
    d = np.maximum(np.maximum(low - x, x - high), 0.0) / margin
    return np.exp(math.log(0.1) * d**2) if gaussian else 1.0 / (1.0 + 9.0 * d**2)


def both(a: Array, b: Array) -> Array:
    """reward_utils.hamacher_product."""
    return np.where(a + b > 0.0, a * b / np.maximum(a + b - a * b, 1e-12), 0.0)


def norm(x: Array) -> Array:
    return np.linalg.norm(x, axis=-1)


class State:
    """A task whose buffers are drawn, and they as arrays; `moved` is where the joint is, m or rad."""

    def __init__(self, cls: type[MetaWorldTask]) -> None:
        draw = np.random.default_rng(5)
        task: Any = cls()
        self.task = task
        VecEnv(task, make_world("mujoco", task.scene(), N), seed=1).reset()
        self.goal, self.tool_0, self.thing_0 = (
            x.numpy().astype(float) for x in (task.target, task.tool_0, task.first_0)
        )
        if hasattr(task, "handle"):  # furniture: the thing is where its joint has it
            low, high = (float(x) for x in task.world.model.joint(task.handle.names[0]).range)
            task.handle.set_state(None, torch.from_numpy(draw.uniform(low, high, (N, 1))).float(), torch.zeros(N, 1))
            task.refresh()
            self.moved = task.handle.pos[:, 0].numpy().astype(float)
            self.origin = task.origin.numpy().astype(float)
        elif hasattr(task, "slide"):
            task.slide.set_state(None, torch.from_numpy(draw.uniform(-0.074, 0.0, (N, 1))).float(), torch.zeros(N, 1))
            task.refresh()
        else:
            way = draw.uniform(0.0, 1.0, (N, 1)) ** 2
            start = draw.integers(0, 2, (N, 1))
            between = np.where(start, self.thing_0, self.goal) + way * np.where(start, 1.0, -1.0) * (
                self.goal - self.thing_0
            )
            between += draw.normal(0.0, 0.02, (N, 3))
            task.first[:, :3] = torch.from_numpy(between)
        if hasattr(
            task, "head"
        ):  # the peg's head is 13 cm before where it is gripped and 1 cm lower, and not below the table
            task.head.copy_(task.first[:, :3] + torch.tensor([-0.13, 0.0, -0.01]))
            self.head = task.head.numpy().astype(float)
        self.thing = task.first[:, :3].numpy().astype(float)
        scale = draw.choice([0.001, 0.01, 0.1], (N, 1))
        task.robot.tool.copy_(torch.from_numpy(self.thing + draw.normal(0.0, 1.0, (N, 3)) * scale))
        task.robot.opening.copy_(torch.from_numpy(draw.uniform(0.0, OPEN, N)))
        task.closing.copy_(torch.from_numpy(draw.uniform(-1.0, 1.0, N)))
        self.tool, self.opening, self.grip = (
            x.numpy().astype(float) for x in (task.robot.tool, task.robot.opening, task.closing)
        )

    def caged(self, radius: float, pad: float, beside: float, side: bool = False) -> tuple[Array, Array]:
        """How well the fingers are around the thing, and that with the grip: reward_utils' _gripper_caging_reward.

        The margin of a pad is how far it was from its place around the thing at the beginning; `side`: pads must be on their
        own sides, and the thing's place is that of now (pick-place's form).
        """
        pads = []
        for sign in (1.0, -1.0):
            now = self.tool[:, 1] + sign * 0.5 * self.opening - self.thing[:, 1]
            if side:
                then = self.tool_0[:, 1] + sign * 0.5 * OPEN - self.thing[:, 1]
                now = sign * now
            else:
                then = self.tool[:, 1] + sign * 0.5 * self.opening - self.thing_0[:, 1]
                now = np.abs(now)
            pads.append(near(now, radius, pad, np.maximum(np.abs(np.abs(then) - pad), 1e-6)))
        across = both(*pads)
        off, off_0 = norm((self.tool - self.thing)[:, ::2]), norm((self.tool_0 - self.thing_0)[:, ::2])
        caged = both(across, near(off, 0.0, beside, np.maximum(off_0 - beside, 1e-6)))
        held = np.where(caged > 0.97, np.clip(self.grip, 0.0, 1.0), 0.0)
        return caged, 0.5 * (caged + both(caged, held))

    def in_hand(self, distance: float, lifted: float | None = 0.01) -> Array:
        held = (norm(self.tool - self.thing) < distance) & (self.opening > 0.0)
        return held if lifted is None else held & (self.thing[:, 2] > self.thing_0[:, 2] + lifted)


def reach(s: State) -> tuple[Array, Array]:
    error = norm(s.tool - s.goal)
    return 10.0 * near(error, 0.0, 0.05, norm(s.tool_0 - s.goal)), error <= 0.05


def push(s: State) -> tuple[Array, Array]:
    error = norm(s.thing - s.goal)
    close = near(error, 0.0, 0.05, norm(s.thing_0 - s.goal))
    _, caged = s.caged(0.015, 0.05, 0.005)
    score = 2.0 * caged + np.where(s.in_hand(0.02, None), 2.0 * caged + 1.0 + 5.0 * close, 0.0)
    return np.where(error < 0.05, 10.0, score), error <= 0.05


def pick_place(s: State) -> tuple[Array, Array]:
    error = norm(s.thing - s.goal)
    close = near(error, 0.0, 0.05, norm(s.thing_0 - s.goal))
    _, caged = s.caged(0.015, 0.05, 0.005, side=True)
    score = both(caged, close) + np.where(s.in_hand(0.02), 1.0 + 5.0 * close, 0.0)
    return np.where(error < 0.05, 10.0, score), error <= 0.07


def button(s: State) -> tuple[Array, Array]:
    up = np.abs(s.thing[:, 2] - s.goal[:, 2])
    error = norm(s.tool - s.thing)
    reached = near(error, 0.0, 0.01, norm(s.tool_0 - s.thing))
    score = 5.0 * both(1.0 - s.opening / OPEN, reached)
    score += np.where(
        error <= 0.03, 5.0 * near(up, 0.0, 0.005, 0.193 - 0.1), 0.0
    )  # m over the box: the cap, and its goal
    return score, up <= 0.024


def peg(s: State) -> tuple[Array, Array]:
    double = np.array([1.0, 2.0, 2.0])
    error = norm((s.head - s.goal) * double)
    close = near(error, 0.0, 0.07, norm((s.thing_0 - np.array([0.13, 0.0, 0.01]) - s.goal) * double))
    foot = s.goal - np.array([0.03, 0.0, HOLE])
    clear = []
    for zero, one in (((0.11, 0.1, 0.16), (0.17, -0.1, 0.19)), ((0.11, 0.1, 0.01), (0.15, -0.1, 0.096))):
        share = (s.head - foot - zero) / (np.array(one) - zero)
        inside = ((share >= 0.0) & (share <= 1.0)).all(1)
        clear.append(np.where(inside, share.prod(1), 1.0))
    close = both(close, both(*clear))
    held = s.in_hand(0.08)
    _, caged = s.caged(0.0075, 0.03, 0.005)
    score = both(np.where(held, 1.0, caged), close) + np.where(held, 1.0 + 5.0 * close, 0.0)
    return np.where(error <= 0.07, 10.0, score), error <= 0.07


HOLE = 0.13
"""m, of the hole's middle over the block's foot: Meta-World's peg_block.xml."""


def shelf(s: State) -> tuple[Array, Array]:
    offset = s.thing - s.goal
    error = norm(offset)
    close = near(error, 0.0, 0.05, norm(s.thing_0 - s.goal))
    caged, _ = s.caged(0.02, 0.05, 0.01)
    grip = both(caged, np.where(caged > 0.97, np.clip(s.grip, 0.0, 1.0), 0.0))
    z, y = s.thing[:, 2], offset[:, 1]
    low = (z > 0.0) & (z < 0.24) & (np.abs(offset[:, 0]) < 0.15)
    loss = both(np.clip((y + 0.15) / 0.15, 0.0, 1.0), np.clip((0.24 - z) / 0.24, 0.0, 1.0))
    less = np.where(low & (y > -0.15) & (y < 0.0), np.clip(close - loss, 0.0, 1.0), close)
    less = np.where(low & (y > 0.0), 0.0, less)
    score = both(grip, close) + np.where(s.in_hand(0.025), 1.0 + 5.0 * less, 0.0)
    return np.where(error < 0.05, 10.0, score), error <= 0.07


def basketball(s: State) -> tuple[Array, Array]:
    double = np.array([1.0, 1.0, 2.0])
    error = norm((s.thing - s.goal) * double)
    close = near(error, 0.0, 0.08, norm((s.thing_0 - s.goal) * double))
    _, caged = s.caged(0.025, 0.06, 0.005)
    score = np.where(s.in_hand(0.035), close + 1.0 + 5.0 * close, both(caged, close))
    return np.where(error < 0.08, 10.0, score), error <= 0.08


def sweeping(beside: float, slack: float) -> Any:
    def score(s: State) -> tuple[Array, Array]:
        """Their own form of the caging: pads count as gripping by where they are; distances are along the table."""
        error, far = norm((s.thing - s.goal)[:, :2]), norm((s.thing_0 - s.goal)[:, :2])
        around, grips = [], []
        for sign in (1.0, -1.0):
            gap = sign * (s.tool[:, 1] + sign * 0.5 * s.opening - s.thing[:, 1])
            margin = np.maximum(np.abs(np.abs(s.tool_0[:, 1] + sign * 0.5 * OPEN - s.thing[:, 1]) - PAD), 0.01)
            around.append(near(gap, 0.02, PAD, margin))
            grips.append(near(gap, 0.02, 0.02 + slack, margin))
        off, off_0 = norm((s.tool - s.thing)[:, ::2]), norm((s.tool_0 - s.thing_0)[:, ::2])
        caged = both(both(*around), near(off, 0.0, beside, np.abs(off_0 - beside)))
        cage = 0.5 * (caged + np.where(caged > 0.95, both(*grips), 0.0))
        points = 2.0 * cage + 6.0 * both(cage, near(error, 0.0, 0.05, far))
        return np.where(error < 0.05, 10.0, points), error <= 0.05

    return score


def door_open(s: State) -> tuple[Array, Array]:
    hand = s.tool + UP
    rho = norm((hand - s.thing + [0.05, 0.0, 0.0])[:, :2])
    floor = np.where(rho <= 0.12, 0.0, 0.04 * np.log(np.maximum(rho - 0.12, 1e-9)) + 0.4)
    high = np.where(hand[:, 2] >= floor, 1.0, near(floor - hand[:, 2], 0.0, 0.01, np.maximum(0.5 * floor, 1e-6)))
    close = near(norm(hand - s.thing - [0.0, 0.03, -0.01]), 0.0, 0.06, 0.5)
    wide = 0.8 * near(2.0 * np.pi / 3.0 - s.moved, 0.0, 0.5, np.pi / 3.0) + 0.2 * (s.moved > np.pi / 90.0)
    done = np.abs(s.thing[:, 0] - s.goal[:, 0]) <= 0.08
    return np.where(done, 10.0, 2.0 * both(both(high, close), 0.5 * (s.grip + 1.0)) + 8.0 * wide), done


def door_close(s: State) -> tuple[Array, Array]:
    error = norm(s.thing - s.goal)
    begun = norm(s.tool_0 + UP - s.thing)
    hand = near(norm(s.tool - s.goal), 0.0, 0.0125, begun + 0.1, True)
    shut = near(error, 0.0, 0.05, math.hypot(0.2, 0.2), True)
    return np.where(error < 0.05, 10.0, 3.0 * hand + 6.0 * shut), error <= 0.08


def drawer_open(s: State) -> tuple[Array, Array]:
    triple = np.array([3.0, 3.0, 1.0])
    bar_0 = s.thing + np.array([0.0, 0.01, 0.0]) + np.outer(s.moved, [0.0, 1.0, 0.0])  # of the shut drawer
    reached = near(norm((s.thing - s.tool - UP) * triple), 0.0, 0.01, norm((bar_0 - s.tool_0) * triple))
    error = norm(s.thing - s.goal)
    return 5.0 * (near(error, 0.0, 0.02, 0.2) + reached), error <= 0.03


def drawer_close(s: State) -> tuple[Array, Array]:
    error = norm(s.thing - s.goal)
    reached = near(norm(s.thing - s.tool), 0.0, 0.005, np.abs(norm(s.thing_0 - s.tool_0) - 0.005), True)
    shut = near(error, 0.0, 0.05, np.abs(norm(s.thing_0 - s.goal) - 0.05))
    score = 10.0 * both(both(reached, np.clip(s.grip, 0.0, 1.0)), shut)
    return np.where(error <= 0.065, 10.0, score), error <= 0.065


def window(margin: float, gaussian: bool) -> Any:
    def score(s: State) -> tuple[Array, Array]:
        error = np.abs(s.thing[:, 0] - s.goal[:, 0])
        reached = near(norm(s.thing - s.tool), 0.0, 0.02, np.abs(norm(s.thing_0 - s.tool_0) - 0.02), gaussian)
        return 10.0 * both(reached, near(error, 0.0, 0.05, margin)), error <= 0.05

    return score


def lever(s: State) -> tuple[Array, Array]:
    stretch = np.array([4.0, 1.0, 4.0])
    bar = np.array([0.077, 0.0, 0.0])  # to where it is gripped, 0.7 of 11 cm along
    ready = near(norm((s.tool - s.thing - bar) * stretch), 0.0, 0.02, norm((s.tool_0 - s.thing_0 - bar) * stretch))
    lifted = near(norm(s.thing - s.goal), 0.0, 0.04, norm(s.thing_0 - s.goal))
    return 10.0 * both(ready, lifted), np.abs(s.moved - np.pi / 2) <= np.pi / 24


FORMULAS: dict[type[MetaWorldTask], Any] = {
    Reach: reach, Push: push, PickPlace: pick_place, ButtonPressTopdown: button, PegInsertSide: peg, ShelfPlace: shelf,
    Basketball: basketball, Sweep: sweeping(0.005, 0.01), SweepInto: sweeping(0.01, 0.005), DoorOpen: door_open,
    DoorClose: door_close, DrawerOpen: drawer_open, DrawerClose: drawer_close, WindowOpen: window(0.15, False),
    WindowClose: window(0.16, True), LeverPull: lever,
}  # fmt: skip


@pytest.mark.parametrize("cls", FORMULAS, ids=lambda cls: cls.__name__)
def test_scores_are_those_of_the_formula(cls):
    state = State(cls)
    wanted, wanted_done = FORMULAS[cls](state)
    terms, done = state.task.evaluate()
    np.testing.assert_allclose(terms["score"].numpy(), wanted, rtol=2e-3, atol=2e-4)
    assert (done.numpy() == wanted_done).mean() > 0.995  # but for rounding at the edge
    assert wanted_done.any() and not wanted_done.all()
    assert wanted.std() > 0.1 and len(np.unique(np.round(wanted, 3))) > N // 10

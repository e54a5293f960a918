"""Lift, stack, push-T, cabinet and handover: measures and rewards against cases worked out by hand, and the agents."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rookery.assets.blocks import HANDLE, T_AREA, T_RECTANGLES, T_UNIT
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.manipulation.cabinet import OPENED, Cabinet
from rookery.tasks.manipulation.handover import Handover
from rookery.tasks.manipulation.lift import Lift
from rookery.tasks.manipulation.objects import quarter_heading
from rookery.tasks.manipulation.overlap import overlap
from rookery.tasks.manipulation.push_t import GOAL, PushT
from rookery.tasks.manipulation.pusher import CANDIDATES, foresee
from rookery.tasks.manipulation.stack import HALF, LARGE_HALF, Stack

ALL = (Lift, Stack, PushT, Cabinet, Handover)


def make(cls: type, n: int = 4, seed: int = 0) -> VecEnv:
    task = cls()
    return VecEnv(task, make_world("mujoco", task.scene(), n), seed=seed)


def covered(pose: tuple[float, float, float], goal: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> float:
    area = np.zeros(1)
    overlap(np.array([pose]), np.array([goal]), np.array(T_RECTANGLES), area)
    return float(area[0] / T_AREA)


# Starts


def test_a_t_begins_anywhere_before_the_arm_and_turned_at_will():
    """Uniform over a box that both hands of the arm reach alike, 16 by 40 cm, and over all headings."""
    env = make(PushT, 512)
    env.reset()
    x, y, yaw = env.task.pose.double().T.numpy()
    for values, low, high in ((x, 0.42, 0.58), (y, -0.2, 0.2), (yaw, -math.pi, math.pi)):
        assert low - 1e-3 <= values.min() and values.max() <= high + 1e-3
        sixth = np.histogram(values, 6, (low - 1e-3, high + 1e-3))[0]
        assert sixth.min() > 0.5 * 512 / 6
    env.close()


# Coverage


def test_a_t_covers_itself():
    for pose in ((0.0, 0.0, 0.0), (0.4, -0.3, 2.0)):
        assert covered(pose, pose) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("shift", "units"),
    [((0.3, 0.0), 7 - 4 * 0.3), ((1.0, 0.0), 3), ((0.0, -1.0), 3), ((0.0, 1.0), 3), ((3.5, 0.0), 0.5), ((9.0, 0.0), 0)],
)
def test_coverage_of_a_shifted_t(shift, units):
    """Counted in squares of one unit: by 0.3 to the right the bar keeps 3.7 of 4, the stem 2.1 of 3."""
    assert covered((shift[0] * T_UNIT, shift[1] * T_UNIT, 0.0)) == pytest.approx(units / 7, abs=1e-12)


def test_coverage_of_a_t_turned_by_a_quarter():
    """About its centroid, 6/7 of a unit under the bar's middle. Bar on bar: 1. Bar on stem, and stem on bar: 1/7 x 33/14.
    Stem on stem: 6/7 x 6/7."""
    assert covered((0.0, 0.0, math.pi / 2)) == pytest.approx((1 + 2 * 33 / 98 + 36 / 49) / 7, abs=1e-12)


def test_coverage_against_counting_points():
    rng = np.random.default_rng(0)
    line = (np.arange(300) + 0.5) / 300 * 0.5 - 0.25
    points = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)

    def inside(pose: np.ndarray) -> np.ndarray:
        c, s = math.cos(pose[2]), math.sin(pose[2])
        local = (points - pose[:2]) @ np.array([[c, -s], [s, c]])
        return sum(((abs(local[:, 0] - x) < a) & (abs(local[:, 1] - y) < b)) for x, y, a, b in T_RECTANGLES) > 0

    for _ in range(5):
        pose, goal = (np.append(rng.uniform(-0.04, 0.04, 2), rng.uniform(-4.0, 4.0)) for _ in range(2))
        counted = (inside(pose) & inside(goal)).sum() / inside(goal).sum()
        assert covered(tuple(pose), tuple(goal)) == pytest.approx(counted, abs=0.01)


# Frames and rewards


@pytest.mark.parametrize("face", range(3))
def test_the_heading_of_a_cube_knows_its_faces_not_its_sides(face):
    yaw = torch.tensor([0.3])
    c, s = math.cos(0.3), math.sin(0.3)
    turn = torch.tensor([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]).roll(face, 1)[None]
    expected = torch.stack(((4 * yaw).cos(), (4 * yaw).sin()), 1)
    assert torch.allclose(quarter_heading(turn), expected, atol=1e-6)


def test_a_push_through_the_centroid_moves_straight_and_one_beside_it_turns():
    pose = torch.zeros(1, 3)
    goal = torch.tensor([[0.05, 0.0, 0.0]])
    through = foresee(pose, goal, torch.tensor([[-0.05, 0.0]]), torch.tensor([[1.0, 0.0]]), 0.01, 5)
    assert torch.allclose(through[0], torch.tensor([0.05, 0.04, 0.03, 0.02, 0.01, 0.0]).square(), atol=1e-7)
    beside = foresee(pose, goal, torch.tensor([[-0.05, 0.03]]), torch.tensor([[1.0, 0.0]]), 0.01, 5)
    assert beside[0, -1] > through[0, -1] + 1e-4


def test_pushes_begin_clear_of_the_t():
    begin = CANDIDATES[:, 4:]
    x, y, a, b = (torch.tensor(v) for v in zip(*T_RECTANGLES, strict=True))
    gap = (
        torch.stack(((begin[:, None, 0] - x).abs() - a, (begin[:, None, 1] - y).abs() - b), 2).clamp_min(0).norm(dim=2)
    )
    assert gap.min() > 0.0132  # the tips' half diagonal


def test_rewards_of_a_stack():
    env = make(Stack, 3)
    env.reset()
    task = env.task
    ids = torch.arange(3)
    zero = torch.zeros(3)
    on = torch.tensor([[0.5, 0.1, HALF + 2 * LARGE_HALF]]).repeat(3, 1)
    on[1, 0] += 0.03  # beside its place
    on[2] = task.robot.tool[2]  # in the hand
    under = torch.tensor([[0.5, 0.1, LARGE_HALF]]).repeat(3, 1)
    task.small.put(ids, on, zero)
    task.large.put(ids, under, zero)
    env.world.forward()
    task.refresh()
    terms, done = task.evaluate()
    assert done.tolist() == [True, False, False]
    assert [float(terms[k][0]) for k in ("reach", "lift", "align", "stack")] == [0.0, 0.0, 0.0, 1.0]
    assert float(terms["align"][1]) == pytest.approx(1 - math.tanh(0.3), abs=1e-5)
    assert float(terms["reach"][2]) == pytest.approx(1 - math.tanh(10 * (0.0 + 0.04 + 0.04) / 3), abs=1e-3)


def test_rewards_of_a_drawer():
    env = make(Cabinet, 2)
    env.reset()
    task = env.task
    out = torch.tensor([[0.1], [OPENED + 0.005]])
    task.slide.set_state(torch.arange(2), out, torch.zeros(2, 1))
    env.world.forward()
    task.given = {"arm": torch.full((2, 1, 4), 0.5)}
    task.refresh()
    terms, done = task.evaluate()
    assert done.tolist() == [False, True]
    assert torch.allclose(task.handle[:, 0], task.origin[:, 0] + HANDLE[0] - out[:, 0])
    assert torch.allclose(terms["open"], out[:, 0])  # nothing is around the handle
    assert terms["bonus"].tolist() == [0.5, 0.5]
    # the approach leans 30 degrees: half of cos^2 of that, for each of the two axes
    assert torch.allclose(terms["attitude"], torch.full((2,), 0.75), atol=0.01)
    assert terms["effort"].tolist() == pytest.approx([0.75, 0.75])


def test_a_t_on_its_goal_is_covered():
    env = make(PushT, 2)
    env.reset()
    task = env.task
    at = torch.tensor([[GOAL[0], GOAL[1], 0.015], [GOAL[0] + T_UNIT, GOAL[1], 0.015]])
    task.tee.put(torch.arange(2), at, torch.tensor([GOAL[2], GOAL[2]]))
    env.world.forward()
    task.refresh()
    terms, done = task.evaluate()
    assert done.tolist() == [True, False]
    assert task.coverage[0] == pytest.approx(1.0, abs=1e-5)
    assert terms["coverage"][0] == 1.0
    assert terms["pose"][0] == pytest.approx(1.0, abs=1e-5)


# Agents


@pytest.mark.parametrize("cls", ALL)
def test_agents_are_as_declared(cls):
    env = make(cls)
    obs, _ = env.reset()
    names = {"giver", "receiver"} if cls is Handover else {"arm"}
    assert obs.keys() == env.groups.keys() == names
    for group, spec in env.groups.items():
        assert obs[group].shape == (4, 1, spec.observation_size)
    if cls is Handover:
        sizes = {g: s.observation_size for g, s in env.groups.items()}
        assert sizes["receiver"] == sizes["giver"] + 3  # it alone is told the goal
        shared = [env.step({g: torch.zeros(4, 1, s.action.size) for g, s in env.groups.items()})[1] for _ in range(2)]
        assert all(torch.equal(r["giver"], r["receiver"]) for r in shared)


def test_both_arms_see_the_same_from_opposite_sides():
    env = make(Handover)
    env.reset()
    task = env.task
    own = {g: (r.tool - r.base_pos.float()) @ r.base_rotation.float() for g, r in task.arms.items()}
    assert all((v[:, 0] > 0.3).all() and (v[:, 0] < 0.6).all() for v in own.values())
    for group in own:
        assert torch.allclose(task.to_world(group, own[group]), task.arms[group].tool, atol=1e-5)

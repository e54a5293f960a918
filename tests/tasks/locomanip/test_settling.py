"""The correction of a teacher's arm: offsets by their closed form, where there are none, and what they do to a tool."""

from __future__ import annotations

import pytest
import torch

import rookery
from rookery.robots.arms.kinematics import Place
from rookery.tasks.locomanip.loco_manipulation import HOLDING
from rookery.tasks.locomanip.settling import MAX_STEP, Settling

N = 3
GAIN = 0.02
LEAK = 0.04


def settling() -> tuple[Settling, torch.Tensor, Place]:
    """Of an arm at rest at home, whose goal is 1 cm and 0.02 rad away."""
    task = rookery.make("go2arm-reach", N, seed=0).task
    home = task.robot.home[None, 12:].expand(N, -1).contiguous()
    pose = task.tool.forward(home)
    goal = Place.empty(N)
    task.tool.place(home + torch.tensor([0.02, -0.015, 0.01, 0.02, -0.01, 0.015]), goal)
    assert (goal.pos - pose.pos).norm(dim=1).min() > 0.004
    return Settling(task.tool, N, GAIN, LEAK), home, goal


def test_offsets_take_in_the_error_and_forget_it():
    """x' = (1 - leak) x + gain d of a constant d: d gain / leak (1 - (1 - leak)^n), towards the goal."""
    own, joints, goal = settling()
    no, yes = torch.zeros(N, dtype=torch.bool), torch.ones(N, dtype=torch.bool)
    first = own.step(joints, goal, no, yes).clone()
    for _ in range(39):
        last = own.step(joints, goal, no, yes)
    torch.testing.assert_close(last, first / GAIN * GAIN / LEAK * (1.0 - (1.0 - LEAK) ** 40), rtol=1e-4, atol=1e-6)
    before, after = own.tool.forward(joints), own.tool.forward(joints + last)
    nearer = (goal.pos - after.pos).norm(dim=1) / (goal.pos - before.pos).norm(dim=1)
    assert nearer.max() < 0.75


def test_offsets_begin_anew_with_an_episode_and_are_not_everywhere():
    own, joints, goal = settling()
    no, yes = torch.zeros(N, dtype=torch.bool), torch.ones(N, dtype=torch.bool)
    for _ in range(5):
        own.step(joints, goal, no, yes)
    first, second, third = own.step(joints, goal, torch.arange(N) == 0, torch.arange(N) != 1)
    assert first.abs().max() == 0.0 and second.abs().max() == 0.0 and third.abs().max() > 0.0
    goal.pos.add_(1.0)
    for _ in range(400):
        most = own.step(joints, goal, no, yes).abs().max()
    assert most == pytest.approx(MAX_STEP * GAIN / LEAK, rel=1e-4)


@pytest.mark.parametrize("agents", ["whole", "parts"])
def test_a_correction_moves_the_arms_targets_alone(agents):
    env = rookery.make("go2arm-reach", N, seed=0, config={"agents": agents})
    correct = env.correction()
    env.reset(0)
    for _ in range(10):
        actions = {g: 0.1 * torch.ones(N, 1, spec.action.size) for g, spec in env.groups.items()}
        given = {g: a.clone() for g, a in actions.items()}
        out = correct(actions)
        assert all(torch.equal(actions[g], given[g]) for g in given), "the teacher's own actions stay"
        env.step(out)
    task = env.task
    offset = task.state_dict()["settling.offset"]
    whole = {"whole": lambda a: a["robot"], "parts": lambda a: torch.cat((a["legs"], a["arm"]), -1)}[agents]
    change = task.robot.targets(whole(out)[:, 0]) - task.robot.targets(whole(given)[:, 0])
    torch.testing.assert_close(change[:, 12:], offset, rtol=0, atol=1e-6)
    assert change[:, :12].abs().max() == 0.0 and offset.abs().amax(1).min() > 1e-3


@pytest.mark.slow
def test_arms_that_hold_something_are_left_alone():
    env = rookery.make("go2arm-loco-manipulation", 48, seed=0)
    correct = env.correction()
    env.reset(0)
    task = env.task
    for _ in range(5):
        actions = {"robot": torch.zeros(48, 1, 18)}
        out = correct(actions)["robot"]
        env.step({"robot": out})
    family = [task.entries[k].family for k in task.goals.table.family[task.goals.trajectory].tolist()]
    held = torch.tensor([f in HOLDING for f in family])
    moved = out.abs().amax((1, 2)) > 0.0
    assert torch.equal(moved, ~held) and 2 <= held.sum() <= 40


@pytest.mark.slow
def test_a_corrected_arm_is_closer_to_its_goal():
    """Of a robot that stands and keeps its arm where it was."""
    errors = []
    for corrected in (False, True):
        env = rookery.make("go2arm-reach", 24, seed=5, config={"push_s": 0.0, "stand_share": 1.0})
        correct = env.correction() if corrected else lambda actions: actions
        env.reset(5)
        rest = torch.tensor(env.groups["robot"].action.neutral).expand(24, 1, -1)
        seen = []
        for _ in range(150):
            env.step(correct({"robot": rest}))
            seen.append(env.task.position_error.norm(dim=1).mean())
        errors.append(float(torch.stack(seen).mean()))
        assert env.metrics()["fell"].sum() == 0
    assert errors[1] < 0.8 * errors[0]

"""Sweep, sweep-into, door-close, basketball, shelf-place and lever-pull: that they can be done, rewards and success."""

from __future__ import annotations

import math

import pytest
import torch
from sampled import slow_but

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.manipulation.basketball import Basketball
from rookery.tasks.manipulation.door_close import DoorClose
from rookery.tasks.manipulation.lever_pull import LeverPull
from rookery.tasks.manipulation.meta_world import MetaWorldTask
from rookery.tasks.manipulation.shelf_place import ShelfPlace
from rookery.tasks.manipulation.sweep import Sweep, SweepInto

STEPS = {Sweep: 250, SweepInto: 140, DoorClose: 280, Basketball: 310, ShelfPlace: 300, LeverPull: 420}
"""Control steps that the experts get here, of 500."""
LOOSE = {Sweep: 0.05, SweepInto: 0.05, Basketball: 0.08, ShelfPlace: 0.07}
"""m, the radii of success along x."""


def make(cls: type[MetaWorldTask], n: int, seed: int = 0) -> tuple[VecEnv, MetaWorldTask]:
    task = cls()
    env = VecEnv(task, make_world("mujoco", task.scene(), n), seed=seed)
    env.reset()
    return env, task


@pytest.mark.parametrize("cls", slow_but([SweepInto], STEPS))
def test_the_expert_does_it(cls):
    env, task = make(cls, 24)
    act = task.controller()
    obs, _ = env.reset()
    for _ in range(STEPS[cls]):
        obs, reward, *_ = env.step(act(obs))
        assert reward["arm"].min() >= 0.0
        assert reward["arm"].max() <= 10.0
    assert task.ever_done.float().mean() >= 0.95
    assert env.world.failures == 0


@pytest.mark.parametrize("cls", STEPS)
def test_what_is_not_touched_rests(cls):
    env, task = make(cls, 4)
    before = task.first.clone()
    for _ in range(20):
        env.step({"arm": torch.zeros(4, 1, 4)})
    assert (task.first - before)[:, :3].abs().max() < 2e-3


@pytest.mark.parametrize("cls", LOOSE)
def test_a_loose_thing_counts_within_its_radius(cls):
    _, task = make(cls, 2)
    for off, done in ((0.0, True), (LOOSE[cls] - 1e-3, True), (LOOSE[cls] + 1e-3, False)):
        task.first[:, :3] = task.target + torch.tensor([off, 0.0, 0.0])
        terms, success = task.evaluate()
        assert success.all() == done
        assert success.any() == done
        assert off > 0.0 or (terms["score"] == 10.0).all()


def test_a_ball_half_as_high_over_the_hoop_counts_as_far():
    _, task = make(Basketball, 1)
    for up, done in ((0.039, True), (0.041, False)):
        task.first[:, :3] = task.target + torch.tensor([0.0, 0.0, up])
        assert task.evaluate()[1].item() is done


def test_a_cube_under_the_board_is_worth_less_in_the_hand():
    _, task = make(ShelfPlace, 1)
    task.first_0.copy_(task.first[:, :3])
    scores = []
    for y in (-0.16, -0.08, 0.01):
        task.first[:, :3] = task.target + torch.tensor([0.0, y, -0.2])
        task.robot.tool.copy_(task.first[:, :3])
        scores.append(task.evaluate()[0]["score"].item())
    assert scores[0] > scores[1] >= scores[2]
    assert scores[2] == pytest.approx(1.0)  # nothing but having it in the hand


def test_the_lever_counts_when_it_is_upright_and_the_reward_wants_the_hand_there():
    _, task = make(LeverPull, 1)
    task.first_0.copy_(task.first[:, :3])
    for off, done in ((-0.14, False), (-0.12, True), (0.0, True)):
        task.handle.set_state(None, torch.full((1, 1), 0.5 * math.pi + off), torch.zeros(1, 1))
        task.refresh()
        assert task.evaluate()[1].item() is done
        if off == 0.0:
            torch.testing.assert_close(task.first[:, :3], task.target, atol=1e-5, rtol=0.0)
            away = task.evaluate()[0]["score"].item()
            task.robot.tool.copy_(task.target + torch.tensor([0.077, 0.0, 0.0]))
            assert task.evaluate()[0]["score"].item() == pytest.approx(10.0)
            assert away < 8.0


def test_the_door_counts_when_it_is_nearly_shut():
    _, task = make(DoorClose, 1)
    for angle, done in ((0.0, True), (0.16, True), (0.26, False), (0.5 * math.pi, False)):
        task.handle.set_state(None, torch.full((1, 1), angle), torch.zeros(1, 1))
        task.refresh()
        assert task.evaluate()[1].item() is done


def test_what_is_seen_of_the_lever_is_where_it_is():
    env, task = make(LeverPull, 2)
    task.handle.set_state(None, torch.full((2, 1), 0.7), torch.zeros(2, 1))
    task.refresh()
    axle = env.world.mj_data(1).body("furniture/lever")
    end = torch.tensor(axle.xpos + axle.xmat.reshape(3, 3) @ [0.0, -0.2, 0.0])
    torch.testing.assert_close(task.first[1, :3].double(), end, atol=1e-5, rtol=0.0)
    assert abs(float(task.first[1, 3:] @ torch.tensor(axle.xquat).float())) == pytest.approx(1.0, abs=1e-5)

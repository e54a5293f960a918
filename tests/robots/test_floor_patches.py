"""Patches of the floor: feet have the friction of where they stand, and only there."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

import rookery
from rookery.assets.go2 import LEGS
from rookery.sim.random import Streams
from rookery.sim.randomization.patches import FrictionPatches

FEET = [f"go2/{leg}_foot" for leg in LEGS]
N = 3


def made(n: int = N, **fixed: float):
    env = rookery.make("go2-velocity", num_envs=n, fixed=fixed, seed=3, config={"push_s": 0.0})
    env.reset()
    return env


def friction(env) -> torch.Tensor:
    """[N, 4] sliding friction in the simulation."""
    return env.world.params.get("friction", FEET)[..., 0]


def stand_at(env, places) -> torch.Tensor:
    """Friction of feet that stand at places [4, 2] m, in every world."""
    feet = torch.zeros(env.num_envs, 4, 3)
    feet[..., :2] = torch.tensor(places)
    env.task.robot.patches.update(feet)
    return friction(env)


def test_a_patch_is_half_a_metre_square_and_its_own_in_each_world_and_episode():
    env = made(friction=0.8, friction_patches=0.5)
    here = stand_at(env, [(0.01, 0.01), (0.49, 0.49), (0.51, 0.01), (0.01, -0.01)])
    assert torch.equal(here[:, 0], here[:, 1])
    for other in (2, 3):
        assert (here[:, other] != here[:, 0]).all()
    assert len(here[:, 0].unique()) == N
    again = stand_at(env, [(0.2, 0.3), (0.6, 0.4), (0.3, -0.3), (7.0, 7.0)])
    assert torch.equal(again[:, :3], here[:, [0, 2, 3]])
    env.reset()
    assert (stand_at(env, [(0.01, 0.01)] * 4) != here[:, :1]).all()


def test_friction_lies_around_that_of_the_feet_evenly():
    env = made(1, friction_patches=0.5)
    env.randomization.parameters["friction"].write(torch.tensor([0]), torch.tensor([[0.4, 0.8, 1.0, 1.2]]))
    found = [stand_at(env, [(k + 0.1, 0.1), (k + 0.1, 1.1), (k + 0.1, -2.1), (0.1, k + 3.1)]) for k in range(300)]
    shares = torch.cat(found) / torch.tensor([0.4, 0.8, 1.0, 1.2])
    assert stats.kstest(shares.flatten().numpy(), stats.uniform(0.5, 1.0).cdf).pvalue > 0.001


def test_feet_that_walk_feel_the_floor():
    """In the simulation every foot has the friction of its place, by the same number for all of them."""
    env = made(2, friction_patches=0.5)
    twin = FrictionPatches(env.world.params, FEET, LEGS, env.rng, (0.3, 1.6))
    twin.spread[:] = 0.5
    twin._on = True
    for _ in range(20):
        env.step({"robot": torch.zeros(2, 1, 12)})
        now = friction(env).clone()
        twin.update(env.task.robot.foot_pos)
        assert torch.equal(friction(env), now)
    assert (now != 0.8).all()


def test_a_floor_without_patches_is_left_alone():
    env = made()
    before = friction(env)
    version = env.world.params.version
    env.step({"robot": torch.zeros(N, 1, 12)})
    assert env.world.params.version == version
    assert torch.equal(before, env.world.params.nominal("friction", FEET)[:, 0].expand(N, 4))


def test_a_saved_floor_goes_on_alike():
    a = made(friction_patches=0.6)
    action = {"robot": torch.zeros(N, 1, 12)}
    for _ in range(8):
        a.step(action)
    b = made(friction_patches=0.6)
    b.load_state_dict(a.state_dict())
    assert torch.equal(friction(a), friction(b))
    for _ in range(8):
        assert torch.equal(a.step(action)[0]["robot"], b.step(action)[0]["robot"])


@pytest.mark.parametrize("places", [(-1e6, 1e6), (3e4, -3e4)])
def test_patches_exist_everywhere(places):
    env = made(1, friction_patches=0.5)
    assert ((stand_at(env, [places] * 4) >= 0.39) & (friction(env) <= 1.21)).all()


def test_patches_of_many_worlds_are_those_of_few():
    few, many = (
        FrictionPatches(env.world.params, FEET, LEGS, Streams(n, 5), (0.3, 1.6))
        for n, env in ((2, made(2)), (40, made(40)))
    )
    for patches in (few, many):
        patches.spread[:] = 0.3
        patches._on = True
        feet = torch.arange(4.0).view(1, 4, 1).expand(len(patches.spread), 4, 3).contiguous()
        patches.update(feet)
    assert torch.equal(few.in_force, many.in_force[:2])


def test_a_world_has_patches_though_the_others_have_none():
    env = made()
    env.randomization.parameters["friction_patches"].write(torch.tensor([1]), torch.tensor([0.5]))
    found = stand_at(env, [(k + 0.1, 0.1) for k in range(4)])
    assert len(found[1].unique()) == 4 and (found[[0, 2]] == 0.8).all()
    again = made()
    again.load_state_dict(env.state_dict())
    assert len(stand_at(again, [(k + 5.1, 0.1) for k in range(4)])[1].unique()) == 4


def test_the_floor_is_even_unless_patches_are_drawn():
    p = made().randomization.parameters["friction_patches"]
    assert p.nominal == p.low == p.typical[0] == 0.0 < p.typical[1] < p.high < 1.0


def test_patches_of_one_world_alone_are_there_after_a_resume():
    env, again = made(), made()
    env.task.robot.patches.parameters()["friction_patches"].write(torch.tensor([1]), torch.tensor([0.5]))
    again.load_state_dict(env.state_dict())
    places = [(0.1, 0.1), (1.1, 0.1), (2.1, 0.1), (3.1, 0.1)]
    here, there = stand_at(env, places), stand_at(again, places)
    assert torch.equal(here, there)
    assert len(here[1].unique()) == 4 and len(here[0].unique()) == len(here[2].unique()) == 1

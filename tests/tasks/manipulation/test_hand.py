"""Hand-grasp and hand-reorient: grasps that can be reached, rewards worked out by hand, and the expert."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sampled import slow_but
from scipy import stats

from rookery.assets.objects import find_object
from rookery.robots.manipulators.grasps import ALLEGRO
from rookery.robots.manipulators.grasps.surface import sample_surface
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import from_axis_angle, matrix, multiply
from rookery.tasks.manipulation.hand_grasp import LEASHES, STEPS, HandGrasp, HandGraspConfig
from rookery.tasks.manipulation.hand_poses import BACK, SAMPLERS, grasp_list
from rookery.tasks.manipulation.hand_reorient import FALLEN, MIDDLE, HandReorient, HandReorientConfig, cube_symmetries
from rookery.tasks.manipulation.objects import at_rest


def make(task: HandGrasp | HandReorient, n: int = 4, seed: int = 0) -> VecEnv:
    return VecEnv(task, make_world("mujoco", task.scene(), n), seed=seed)


def still(env: VecEnv) -> dict[str, torch.Tensor]:
    return {"hand": torch.zeros(env.num_envs, 1, env.groups["hand"].action.size)}


# Grasps


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_way_to_a_grasp_is_free(sampler):
    item = find_object("mustard_bottle")
    found = grasp_list(item.name, sampler, 8, 0)
    assert 1 <= len(found.position) <= 8
    points, _ = sample_surface(item.mesh, 2000, np.random.default_rng(9))
    axes = matrix(found.quaternion).view(-1, 3, 3).double().numpy()
    for back in (0.0, 0.5 * BACK, BACK):
        at = found.position.numpy() - back * axes[:, :, 2]
        seen = np.einsum("npj,njk->npk", points[None] - at[:, None], axes)
        opening = np.full(len(at), ALLEGRO.width)
        assert not ALLEGRO.inside(seen, opening, 0.004).any()  # other points than those that the grasps were tried with
        assert (at[:, 2] - ALLEGRO.lowest(axes, opening) >= -item.rest_height - 1e-6).all()
    again = grasp_list.__wrapped__(item.name, sampler, 8, 0)
    assert torch.equal(again.position, found.position)
    assert not torch.equal(grasp_list(item.name, sampler, 8, 1).position, found.position)


def test_what_is_out_of_the_palms_reach_is_pinched():
    assert grasp_list("cube_50", "superquadric", 4, 0).tips.all()
    assert not grasp_list("bleach_cleanser", "superquadric", 4, 0).tips.any()


def test_misspelt_objects_and_samplers_are_named():
    with pytest.raises(RookeryError, match="unknown object 'mustard': did you mean 'mustard_bottle'"):
        HandGrasp(HandGraspConfig(object="mustard"))
    with pytest.raises(RookeryError, match="unknown sampler 'antipodial': did you mean 'antipodal'"):
        HandGrasp(HandGraspConfig(sampler="antipodial"))


# Hand-grasp


def test_an_episode_begins_before_the_grasp():
    env = make(HandGrasp(), 16)
    env.reset()
    task = env.task
    approach = matrix(task.grasp_quat).view(-1, 3, 3)[:, :, 2]
    assert torch.allclose(task.hand.grasp.pos[:, 0], task.grasp_pos - BACK * approach, atol=1e-4)
    assert ((task.hand.grasp.quat[:, 0] * task.grasp_quat).sum(1).abs() > 1 - 1e-5).all()
    local = torch.einsum(
        "nji,nj->ni", matrix(task.thing.quat[:, 0]).view(-1, 3, 3), task.grasp_pos - task.thing.pos[:, 0]
    )
    assert torch.allclose(local, task.grasps.position[task.pick], atol=1e-4)
    assert len(task.pick.unique()) > 4


def test_commands_stay_near_the_joints():
    env = make(HandGrasp(), 2)
    env.reset()
    push = {"hand": torch.ones(2, 1, 22)}
    before = env.task.hand.target.clone()
    env.step(push)
    steps = torch.tensor(STEPS)
    leashes = torch.tensor(LEASHES)
    wanted = torch.minimum(before + steps, env.task.hand.upper)
    assert torch.allclose(env.task.hand.target, wanted, atol=1e-5)
    for _ in range(40):
        before = env.task.hand.joints.pos.clone()
        env.step(push)
        assert (env.task.hand.target - before <= leashes + 1e-5).all()


def test_rewards_of_a_lifted_and_of_a_lost_object():
    env = make(HandGrasp(HandGraspConfig(object="cube_50")), 3)
    env.reset()
    task = env.task
    state = task.thing.state.clone()
    state[0, 0, 2] += 0.12  # in the air, above the goal of 0.1, up to which lifting pays
    state[1, 0, 0] += 1.0  # gone
    task.thing.set_state(None, state)
    env.world.forward()
    away = task.centre_distance.clone()
    height = task.height.clone()
    task.advance()
    terms = {name: value[:, 0] for name, value in task.rewards()["hand"].items()}
    assert terms["lift"][:2].tolist() == pytest.approx([0.1, 0.0], abs=2e-3) and not height.any()
    assert terms["goal"].tolist() == [1.0, 0.0, 0.0] and terms["failure"].tolist() == [0.0, 1.0, 0.0]
    assert task.terminated().tolist() == [0, 1, 0]
    assert not terms["contacts"].any()
    assert torch.allclose(terms["near"], away - task.centre_distance)
    assert terms["near"][1] < -0.5 and abs(float(terms["near"][2])) < 1e-3
    task.touched_once[:] = True
    task.advance()
    assert not task.rewards()["hand"]["near"].any()  # nearness pays up to the first touch


@pytest.mark.parametrize("name", slow_but(["potted_meat_can"], ["mustard_bottle", "potted_meat_can"]))
def test_the_expert_grasps_and_holds(name):
    env = make(HandGrasp(HandGraspConfig(object=name)), 8)
    obs, _ = env.reset()
    act = env.task.controller()
    task = env.task
    assert task.expert.phase.tolist() == [0] * 8
    for i in range(env.max_episode_steps - 1):
        obs, *_ = env.step(act(obs))
        if i == env.max_episode_steps - 30:
            before = task.thing.pos[:, 0] - task.hand.grasp.pos[:, 0]
    metrics = task.metrics()
    good = metrics["success"] > 0
    assert good.float().mean() >= 0.75
    assert (metrics["seconds"][good] < 3.5).all() and (metrics["height"][good] >= 0.1).all()
    slip = (task.thing.pos[:, 0] - task.hand.grasp.pos[:, 0] - before).norm(dim=1)
    assert slip[good].max() < 0.004
    assert (task.force[good] > 0.05).sum(1).min() >= 1
    assert env.world.failures == 0


# Hand-reorient


def test_a_cube_has_24_orientations():
    turns = matrix(cube_symmetries()).view(-1, 9)
    assert torch.allclose(turns, turns.round(), atol=1e-6)
    assert len(turns.round().unique(dim=0)) == 24


def test_the_cube_rests_in_the_hand():
    env = make(HandReorient(), 8)
    env.reset()
    for _ in range(40):
        _, _, terminated, _, _ = env.step(still(env))
        assert not terminated.any()
    assert (env.task.cube.pos[:, 0] - MIDDLE).norm(dim=1).max() < 0.5 * FALLEN
    assert env.task.cube.lin_vel.norm(dim=-1).max() < 0.01
    assert env.world.failures == 0


def test_a_goal_that_is_reached_pays_and_another_follows():
    env = make(HandReorient(), 3)
    env.reset()
    task = env.task
    quat = task.cube.quat[:, 0]
    off = from_axis_angle(torch.tensor([[0.0, 0.0, 1.0]] * 3), torch.tensor([0.05, 0.2, 1.2]))
    task.goal.copy_(multiply(off, quat))
    before = task.goal.clone()
    task.advance()
    terms = {name: value[:, 0] for name, value in task.rewards()["hand"].items()}
    assert terms["success"].tolist() == [1.0, 0.0, 0.0]
    dt = task.cfg.control_dt
    assert terms["orientation"].tolist() == pytest.approx([dt, dt, dt * (1 - 1.0 / np.pi)], abs=1e-4)
    assert task.metrics()["successes"].tolist() == [1.0, 0.0, 0.0]
    assert not torch.allclose(task.goal[0], before[0]) and torch.equal(task.goal[1:], before[1:])
    env.world.forward()
    assert torch.allclose(env.world.bodies(["goal/base"]).quat[0, 0].abs(), task.goal[0].abs(), atol=1e-5)


def test_a_dropped_cube_ends_the_episode():
    env = make(HandReorient(HandReorientConfig()), 2)
    env.reset()
    task = env.task
    pos = MIDDLE.expand(2, 3).clone()
    pos[1, 2] -= FALLEN + 0.01
    task.cube.set_state(None, at_rest(pos, task.cube.quat[:, 0].clone()))
    env.world.forward()
    task.advance()
    assert task.terminated().tolist() == [0, 1]
    assert task.rewards()["hand"]["termination"][:, 0].tolist() == pytest.approx([0.0, task.cfg.control_dt])


def test_every_episode_has_a_goal_of_its_own_that_is_shown():
    env = make(HandReorient(), 8)
    env.reset()
    task = env.task
    first = task.goal.clone()
    torch.testing.assert_close(first.norm(dim=1), torch.ones(8))
    assert len(first.round(decimals=3).unique(dim=0)) == 8
    task.reset(torch.tensor([1, 5]))
    changed = (task.goal != first).any(1)
    assert changed.nonzero()[:, 0].tolist() == [1, 5]
    env.world.forward()
    shown = env.world.bodies(["goal/base"]).quat[:, 0]
    torch.testing.assert_close((shown * task.goal).sum(1).abs(), torch.ones(8))


def test_goals_are_uniform_over_all_orientations():
    """Each axis of a uniform rotation is a uniform direction, so that its height is uniform in [-1, 1]."""
    env = make(HandReorient(), 1)
    env.reset()
    goals = []
    for _ in range(600):
        env.task._new_goals(torch.tensor([0]))
        goals.append(env.task.goal[0].clone())
    axes = matrix(torch.stack(goals)).view(-1, 3, 3)
    for k in range(3):
        assert stats.kstest(axes[:, 2, k].numpy(), "uniform", args=(-1.0, 2.0)).pvalue > 1e-4

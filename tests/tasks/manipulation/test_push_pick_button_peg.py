"""Push, pick-place, button-press and peg-insert: rewards at states worked out by hand, starts, and that they can be done."""

from __future__ import annotations

import pytest
import torch
from sampled import slow_but

from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.manipulation.button import ButtonPressTopdown
from rookery.tasks.manipulation.meta_world import PALM, MetaWorldTask
from rookery.tasks.manipulation.peg_insert import GOAL, PegInsertSide, clearance
from rookery.tasks.manipulation.pick_place import PickPlace
from rookery.tasks.manipulation.push import Push
from rookery.tasks.manipulation.reach import Reach

TASKS = {"push": Push, "pick": PickPlace, "button": ButtonPressTopdown, "peg": PegInsertSide}
STEPS = {"push": 140, "pick": 125, "button": 180, "peg": 190}
"""Control steps that the experts get here, of 500."""


def make(cls: type[MetaWorldTask], n: int, seed: int = 0) -> tuple[VecEnv, MetaWorldTask]:
    task = cls()
    env = VecEnv(task, make_world("mujoco", task.scene(), n), seed=seed)
    env.reset()
    return env, task


def still(task: MetaWorldTask) -> None:
    """The state of the first step, at which evaluate may be called with values put in by hand."""
    task.refresh()
    task.first_0.copy_(task.first[:, :3])
    task.closing.zero_()


@pytest.mark.parametrize("name", slow_but(["pick", "button"], TASKS))
def test_the_expert_does_it(name):
    env, task = make(TASKS[name], 40)
    act = task.controller()
    obs, _ = env.reset()
    for _ in range(STEPS[name]):
        obs, *_ = env.step(act(obs))
    assert task.ever_done.float().mean() >= 0.95
    assert env.world.failures == 0


@pytest.mark.parametrize("name", TASKS)
def test_rewards_of_random_actions_are_within_their_range(name):
    env, _ = make(TASKS[name], 16)
    rng = torch.Generator().manual_seed(1)
    for _ in range(100):
        _, reward, *_ = env.step({"arm": torch.rand(16, 1, 4, generator=rng) * 2 - 1})
        assert reward["arm"].min() >= 0.0
        assert reward["arm"].max() <= 10.0
    assert env.world.failures == 0


@pytest.mark.parametrize("cls", [Reach, Push, PickPlace, PegInsertSide])
def test_what_lies_on_the_table_lies_still(cls):
    env, task = make(cls, 4)
    before = task.first.clone()
    for _ in range(40):
        env.step({"arm": torch.zeros(4, 1, 4)})
    assert (task.first - before).abs().max() < 3e-4


@pytest.mark.parametrize("cls", [Reach, *TASKS.values()])
def test_starts_are_within_their_ranges_and_apart(cls):
    _, task = make(cls, 200)
    thing = task.first[:, :3].clone()
    goal = task.target.clone()
    if cls is PegInsertSide:
        thing -= torch.tensor([0.03, 0.0, 0.01])
        goal -= torch.tensor(GOAL)
    if cls is ButtonPressTopdown:
        thing[:, 2] -= 0.193
        goal = thing
    boxes = [(thing, cls.object_box), (goal, cls.goal_box or cls.object_box)]
    if cls is Push:
        assert (goal[:, 2] == 0.02).all()
        boxes[1] = (goal[:, :2], [corner[:2] for corner in cls.goal_box])
    for values, (low, high) in boxes:
        assert (values >= torch.tensor(low) - 1e-5).all()
        assert (values <= torch.tensor(high) + 1e-5).all()
        wide = torch.tensor(high) - torch.tensor(low)
        assert (values.std(0) >= 0.2 * wide).all()  # a uniform spread has 0.29 of it
    assert ((thing - goal)[:, :2].norm(dim=1) >= cls.separation).all()


@pytest.mark.parametrize(("cls", "radius", "full"), [(Push, 0.05, 0.05), (PickPlace, 0.07, 0.05)])
def test_the_puck_at_its_goal_is_worth_ten_and_success_ends_at_its_radius(cls, radius, full):
    _, task = make(cls, 2)
    still(task)
    for off, done, ten in ((0.0, True, True), (full - 1e-3, True, True), (full + 1e-3, radius > full, False),
                           (radius - 1e-3, True, radius <= full), (radius + 1e-3, False, False)):  # fmt: skip
        task.first[:, :3] = task.target + torch.tensor([off, 0.0, 0.0])
        terms, success = task.evaluate()
        assert success.all() == done
        assert (terms["score"] == 10.0).all() == ten


def test_a_puck_in_the_hand_half_way_is_worth_what_the_formula_says():
    # the tool at the puck, fingers 4.4 cm apart: caged is 1, and with the gripper's effort 1 so is the grip. The puck is
    # 5 cm + half the way from the goal, where the long tail gives 1 / (1 + 9 / 4)
    for cls in (Push, PickPlace):
        _, task = make(cls, 1)
        still(task)
        way = task.first_0 - task.target
        task.first[:, :3] = task.target + way * (0.5 + 0.05 / way.norm())
        task.robot.tool.copy_(task.first[:, :3])
        task.robot.opening.fill_(0.044)
        task.closing.fill_(1.0)
        if cls is PickPlace:
            task.first_0[:, 2] = task.first[:, 2] - 0.02  # lifted by 2 cm
            far = (task.first[:, :3] - task.target).norm() - 0.05
            near = 1.0 / (1.0 + 9.0 * (far / (task.first_0 - task.target).norm()) ** 2)
            expected = near + 1.0 + 5.0 * near  # both(1, near) = near
        else:
            expected = torch.tensor(4.0 + 1.0 + 5.0 / (1.0 + 9.0 / 4.0))
        assert task.evaluate()[0]["score"].item() == pytest.approx(float(expected), abs=1e-4)


def test_a_pressed_button_with_closed_fingers_on_it_is_worth_ten():
    _, task = make(ButtonPressTopdown, 1)
    for q, done in ((-0.068, False), (-0.070, True)):
        task.slide.set_state(None, torch.full((1, 1), q))
        task.refresh()
        assert task.evaluate()[1].item() is done
    task.first[:, :3] = task.target
    task.robot.tool.copy_(task.target)
    task.robot.opening.zero_()
    assert task.evaluate()[0]["score"].item() == pytest.approx(10.0)
    # an open gripper gets nothing for being there, and without the tool a pressed button gets nothing
    task.robot.opening.fill_(0.08)
    assert task.evaluate()[0]["score"].item() == pytest.approx(5.0)
    task.robot.tool[:, 2] += 0.031
    assert task.evaluate()[0]["score"].item() == pytest.approx(0.0, abs=1e-6)


def test_the_peg_counts_when_its_head_is_in_the_hole():
    _, task = make(PegInsertSide, 1)
    still(task)
    for off, done in (((0.069, 0.0, 0.0), True), ((0.071, 0.0, 0.0), False), ((0.0, 0.034, 0.0), True),
                      ((0.0, 0.036, 0.0), False)):  # fmt: skip
        task.head.copy_(task.target + torch.tensor(off))
        terms, success = task.evaluate()
        assert success.item() is done
        assert (terms["score"].item() == 10.0) is done


def test_a_peg_about_to_hit_the_block_is_worth_less():
    _, task = make(PegInsertSide, 1)
    still(task)
    foot = task.target - torch.tensor(GOAL)
    task.head.copy_(foot + torch.tensor([0.13, 0.0, 0.053]))  # the middle of the region below the hole: 1/8
    assert float(clearance(task.head, task.target)[0]) == pytest.approx(0.125, abs=1e-4)
    task.head.copy_(foot + torch.tensor([0.13, 0.0, 0.13]))
    assert float(clearance(task.head, task.target)[0]) == 1.0


def test_what_is_seen_is_where_it_is():
    env, task = make(PegInsertSide, 2)
    obs = task.observe()["arm"]
    data = env.world.mj_data(1)
    peg = torch.tensor(data.body("peg/base").xpos)
    assert obs["object_1"][1, 0, :3].tolist() == pytest.approx(
        (peg + torch.tensor([0.03, 0.0, 0.01])).tolist(), abs=1e-5
    )
    assert obs["hand"][1, 0].tolist() == pytest.approx(
        [*data.site("panda/tcp").xpos[:2], data.site("panda/tcp").xpos[2] + PALM], abs=1e-5
    )


@pytest.mark.parametrize(("cls", "body"), [(Push, "puck/base"), (PegInsertSide, "peg/base")])
def test_mass_and_friction_of_the_object_can_differ(cls, body):
    env, task = make(cls, 2)
    parameters = task.parameters()
    parameters["object_mass"].write(torch.tensor([1]), torch.tensor([2.0]))
    parameters["object_friction"].write(torch.tensor([0]), torch.tensor([0.3]))
    mass = env.world.params.get("mass", [body])[:, 0]
    inertia = env.world.params.get("inertia", [body])[:, 0]
    assert mass[1] == pytest.approx(2.0 * float(mass[0]))
    torch.testing.assert_close(inertia[1], 2.0 * inertia[0])
    friction = env.world.params.get("friction", [body.replace("base", body.split("/")[0]), "table"])
    torch.testing.assert_close(friction[:, :, 0], torch.tensor([[0.3, 0.3], [1.0, 1.0]]))
    assert set(cls.default_randomization) <= {*parameters, "observation_noise", "observation_delay", "action_delay"}

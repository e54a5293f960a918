"""Loco-manipulation: things stand where trajectories say, rules judge what happened, the base is led along, tasks are drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import rookery
from rookery.assets.workshop import ALOFT, PARKED
from rookery.sim.errors import RookeryError
from rookery.sim.terms import Quantity
from rookery.tasks.locomanip import generators
from rookery.tasks.locomanip.library_goals import turned
from rookery.tasks.locomanip.task_table import BUTTON, DOOR, DRAWER, FIXTURES, LEVER, LOOSE, TABLE, Signs, chosen
from rookery.tasks.locomanip.tool_pose import tool_in_world

NAME = "go2arm-loco-manipulation"


def make(n=2, **config):
    return rookery.make(NAME, n, config={"per_family": 3, **config})


@pytest.fixture(scope="module")
def env():
    """Every task in worlds of its own: world i is of family i % 9."""
    env = make(18)
    env.task.sampler.draw = lambda u: torch.arange(18)[: len(u)] % len(TABLE)
    return env


def still(env):
    return {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(env.num_envs, 1, -1).contiguous()}


def signs(**values):
    """Signs of one world in which nothing is done."""
    nothing = dict.fromkeys(("lifted", "moved", "drawn", "pressed", "wiped"), torch.zeros(1))
    far = dict.fromkeys(("position", "rotation", "in_hand", "off_goal"), torch.ones(1))
    new = {k: torch.tensor([v]) for k, v in values.items() if k != "door"}
    joints = torch.zeros(1, 5)
    joints[0, DOOR] = values.get("door", 0.0)
    return Signs(**{**nothing, **far, "joints": joints, **new})


@pytest.mark.parametrize(
    ("family", "done", "almost"),
    [
        ("reach", {"position": 0.02, "rotation": 0.1}, {"position": 0.02, "rotation": 0.3}),
        ("pick-ball", {"lifted": 0.2, "in_hand": 0.02}, {"lifted": 0.2, "in_hand": 0.2}),
        ("pick-box", {"lifted": 0.13, "in_hand": 0.02}, {"lifted": 0.11, "in_hand": 0.02}),
        ("push-box", {"moved": 0.85}, {"moved": 0.75}),
        ("pull-drawer", {"drawn": 0.85}, {"drawn": 0.75}),
        ("open-door", {"door": 0.45}, {"door": 0.35}),
        ("press-button", {"pressed": 0.018}, {"pressed": 0.015}),
        ("wipe-board", {"wiped": 0.8}, {"wiped": 0.75}),
        ("carry", {"off_goal": 0.05, "in_hand": 0.1}, {"off_goal": 0.05, "in_hand": 0.01}),
    ],
)
def test_rules(family, done, almost):
    assert TABLE[family].rule(signs(**done)).tolist() == [True]
    assert TABLE[family].rule(signs(**almost)).tolist() == [False]
    assert TABLE[family].rule(signs()).tolist() == [False]


def test_the_table_has_every_family_and_names_are_checked():
    assert list(TABLE) == list(generators.FAMILIES)
    assert [e.family for e in chosen("carry, reach,carry")] == ["carry", "reach"]
    with pytest.raises(RookeryError, match="unknown task of the table 'pick-bal': did you mean 'pick-ball'"):
        make(tasks="pick-bal")
    for bad in ({"per_family": 0}, {"pace": 0.0}, {"library_seed": -1}):
        with pytest.raises(RookeryError, match="give at least 1 trajectory"):
            make(**bad)
    with pytest.raises(RookeryError, match="the library is for the arm airbot_play"):
        make(arm="arx5")


def test_things_stand_where_the_trajectory_says_and_the_rest_is_parked(env):
    env.reset(seed=0)
    t = env.task
    data = [env.world.mj_data(i) for i in range(18)]
    yaw = t.goals.origin[:, 2]
    assert yaw.std() > 0.5
    for i, d in enumerate(data):
        entry = t.entries[i % len(TABLE)]
        k = t.goals.trajectory[i]
        x = generators.generate(entry.family, 3, 0)[int(k) % 3]
        for part in (*LOOSE, *FIXTURES):
            at = torch.tensor(d.body(f"{part}/base").xpos)
            if part != entry.part:
                assert at[2] == pytest.approx(ALOFT if part in LOOSE else PARKED[2])
                continue
            there = torch.tensor(x.object_pos[:1]).float()
            level = turned(yaw[i : i + 1], there[:, :2])[0]  # the robot starts at the world's origin
            torch.testing.assert_close(at.float(), torch.cat((level, there[0, 2:])), atol=1e-5, rtol=0.0)


def test_only_what_is_used_has_weight_and_stays_on_the_ground(env):
    env.reset(seed=0)
    for _ in range(20):
        env.step(still(env))
    t = env.task
    for i in range(18):
        d = env.world.mj_data(i)
        part = t.entries[i % len(TABLE)].part
        for name in LOOSE:
            height = d.body(f"{name}/base").xpos[2]
            half = {"ball": 0.025, "box": 0.03, "crate": 0.12}[name]
            assert height == pytest.approx(half if name == part else ALOFT, abs=2e-3)


def test_the_door_is_latched_until_the_lever_is_down(env):
    env.reset(seed=0)
    t = env.task
    door = list(TABLE).index("open-door")
    worlds = torch.arange(18)

    def push(lever):
        """Hold the lever at an angle and let the door swing at 1 rad/s for two control steps."""
        pos = t.stage.joints.clone()
        vel = torch.zeros(18, 5)
        pos[:, DOOR] = 0.0
        pos[:, LEVER] = lever
        vel[:, DOOR] = 1.0
        for _ in range(2):
            t.stage._joints.set_state(worlds, pos, vel)
            env.step(still(env))
        for _ in range(10):
            env.step(still(env))
        return t.stage.joints[door, DOOR].item()

    assert abs(push(0.1)) < 0.03
    assert not t.stage.free[door]
    assert push(0.5) > 0.05
    assert t.stage.free[door]  # and it stays free though the lever has sprung back


def test_drawn_and_pressed_count(env):
    env.reset(seed=0)
    t = env.task
    names = list(TABLE)
    pos = t.stage.joints.clone()
    goal = t.goals.table
    k = t.goals.trajectory[names.index("pull-drawer")]
    pos[:, DRAWER] = 0.9 * (goal.object_pos[k, 1] - goal.object_pos[k, 0]).norm()
    pos[:, BUTTON] = 0.019
    t.stage._joints.set_state(torch.arange(18), pos, torch.zeros(18, 5))
    t.stage.advance(tool_in_world(t.robot, t.pose))
    metrics = t.metrics()
    assert metrics["done/pull-drawer"][names.index("pull-drawer")] == 0.0  # the first second does not count
    t.counted.fill_(1.0)
    metrics = t.metrics()
    for name in ("pull-drawer", "press-button"):
        assert metrics[f"done/{name}"].nonzero()[0].item() == names.index(name)
        assert metrics["success"][names.index(name)] == 1.0
    share = torch.stack([metrics[f"share/{n}"] for n in names])
    assert torch.equal(share.sum(0), torch.ones(18))


def test_the_base_is_led_back_to_where_the_trajectory_has_it(env):
    env.reset(seed=0)
    t = env.task
    t.robot.refresh()
    most = torch.tensor([0.7, 0.2, 1.2])
    state = t.robot.base.state[:, 0].clone()
    yaw = t.goals.origin[:, 2]
    state[:, :2] -= 0.2 * torch.stack((yaw.cos(), yaw.sin()), dim=1)  # 20 cm behind its start
    t.robot.base.set_state(torch.arange(18), state[:, None])
    t.robot.refresh()
    torch.testing.assert_close(t.goals.base_error(), torch.tensor([0.2, 0.0, 0.0]).expand(18, 3), atol=1e-4, rtol=0.0)
    command = t.goals.command(most)
    assert (command[:, 0] > 0.05).all()
    assert command[:, 1:].abs().max() < 1e-4


def test_goals_do_not_move_with_the_trunk(env):
    env.reset(seed=0)
    t = env.task
    t.robot.refresh()
    t.refresh()
    t.measure()
    before = tool_in_world(t.robot, t.pose) + torch.einsum(
        "nij,nj->ni", t.robot.rotation.view(-1, 3, 3), t.position_error
    )
    state = t.robot.base.state[:, 0].clone()
    state[:, :3] += torch.tensor([0.05, -0.03, 0.02])
    half = torch.full((18,), 0.1)
    state[:, 3:7] = torch.stack((half.cos(), half.sin(), 0 * half, 0 * half), dim=1)
    t.robot.base.set_state(torch.arange(18), state[:, None])
    t.refresh()
    t.measure()
    after = tool_in_world(t.robot, t.pose) + torch.einsum(
        "nij,nj->ni", t.robot.rotation.view(-1, 3, 3), t.position_error
    )
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0.0)


def test_an_episode_ends_with_its_trajectory_and_reports_its_error():
    env = make(4, tasks="press-button", pace=8.0, adaptive=True)
    env.reset(seed=0)
    ended = 0
    for i in range(80):
        *_, terminated, truncated, info = env.step(still(env))
        if "episode" in info:
            short = (env.task.goals.table.steps.float() + 15).mean()
            assert i < 2 * short
            ended += int((truncated | terminated).sum())
    assert ended >= 4
    assert env.task.sampler.draws.sum() >= 4


def test_the_one_task_without_things_is_played_alone():
    env = make(2, tasks="reach")
    env.reset(seed=0)
    env.step(still(env))
    assert env.task.stage.thing.tolist() == [[0.0] * 3] * 2
    assert env.task.metrics()["share/reach"].tolist() == [1.0, 1.0]


def test_adaptive_draws_prefer_what_goes_badly():
    env = make(2, tasks="reach,carry", adaptive=True)
    fair = make(2, tasks="reach,carry")
    for e in (env, fair):
        e.task.sampler.report(torch.tensor([0, 1]), torch.tensor([0.01, 0.2]))
    assert env.task.sampler.probabilities()[1] > 0.9
    torch.testing.assert_close(fair.task.sampler.probabilities(), torch.full((2,), 0.5, dtype=torch.float64))


def test_without_the_future_there_is_something_to_predict():
    env = make(2, future=False, history=3)
    obs, _ = env.reset(seed=0)
    spec = env.groups["robot"]
    assert [t.name for t in spec.targets] == ["base_velocity", "to_goal_in_0.2_s", "to_goal_in_0.5_s"]
    assert spec.history == 3
    for name in ("to_goal_soon", "rotation_to_goal_soon"):
        assert not obs["robot"][..., spec.slices()[name]].any()
    t = env.task
    torch.testing.assert_close(t.observe_privileged()["robot"]["to_goal_in_0.2_s"][:, 0], t.soon[0] - t.pose.pos)
    assert env.reveal_future_mask.tolist() == [False, False]
    given = make(2, predictor=True)
    given.reset(seed=0)
    assert given.reveal_future_mask.tolist() == [True, True]
    assert given.groups["robot"].history == 5


def test_a_history_needs_no_predictor():
    env = make(2, history=3)
    spec = env.groups["robot"]
    obs, _ = env.reset(seed=0)
    assert (spec.history, spec.targets, env.reveal_future_mask) == (3, (), None)
    assert obs["robot"].shape == (2, 1, 3 * spec.frame_size)
    assert obs["robot"][..., spec.slices()["to_goal_soon"]].any(), "and hides nothing"


def test_terms_are_those_of_reach_and_the_gripper():
    ours = make(1).groups["robot"]
    reach = rookery.make("go2arm-reach", 1).groups["robot"]
    own = {"gait", "last_action"}  # each stands still by its own limits of the command, and begins with its own action
    common = {"initial": "", "drift": 0.0, "drift_of": ""}  # goals in the room drift, see test_odometry_drift
    for ours_, theirs in zip(ours.observation[:-1], reach.observation, strict=True):
        assert (ours_.value != theirs.value) == (ours_.name in own)
        meaning = {"value": Quantity("own", ours_.size, ours_.unit, ours_.frame)} if ours_.name in own else {}
        assert replace(ours_, **common, **meaning) == replace(theirs, **common, **meaning)
    clocks = [next(t.clock for t in g.observation if t.name == "gait") for g in (ours, reach)]
    assert replace(clocks[0], runs=None) == replace(clocks[1], runs=None)
    last = [next(t.value for t in g.observation if t.name == "last_action") for g in (ours, reach)]
    assert replace(last[0], initial="") == replace(last[1], initial="")
    assert ours.observation[-1].name == "gripper"
    assert ours.action.names == reach.action.names
    assert not ours.targets

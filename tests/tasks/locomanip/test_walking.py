"""go2-velocity and go2arm-reach: what their rewards, ends and figures say of states set by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import from_axis_angle, matrix, multiply, rotation_error
from rookery.tasks.locomanip.gait import gait_terms, short_of, swing_height
from rookery.tasks.locomanip.reach import AHEAD_S

CALM = {"push_s": 0.0, "start_joints": 0.0, "start_yaw": 0.0, "stand_share": 0.0, "resample_s": 1000.0}


def walker(n: int = 4, task: str = "go2-velocity", **config: Any):
    env = rookery.make(task, n, config={**CALM, **config})
    env.reset(seed=0)
    return env


def home(env) -> dict[str, torch.Tensor]:
    return {g: torch.tensor(s.action.neutral).expand(env.num_envs, s.count, -1).clone() for g, s in env.groups.items()}


def put(env, **values: tuple[int, list[float]]) -> None:
    """Write parts of the trunk's state, by name: (first column, values)."""
    state = env.task.robot.base.state.clone()
    for first, v in values.values():
        state[:, 0, first : first + len(v)] = torch.tensor(v)
    env.task.robot.base.set_state(None, state)
    env.world.forward()


def test_the_tracking_reward_is_one_at_the_command_and_falls_with_the_error() -> None:
    env = walker()
    task = env.task
    task.command.copy_(torch.tensor([[0.5, 0.0, 0.0], [0.7, 0.0, 0.0], [0.5, 0.2, 0.0], [0.0, 0.0, 0.0]]))
    put(env, speed=(7, [0.5, 0.0, 0.0]), spin=(10, [0.0, 0.0, 0.0]))
    task.refresh()
    linear = gait_terms(task)["tracking_lin_vel"][:, 0]
    assert linear.tolist() == pytest.approx([1.0, 0.67032, 0.67032, 0.082085], rel=1e-3)


def test_commands_are_in_the_frame_of_the_heading() -> None:
    env = walker()
    half = 2**-0.5
    put(env, turn=(3, [half, 0.0, 0.0, half]), speed=(7, [0.0, 0.5, 0.0]))  # heading +y, moving +y
    env.task.refresh()
    assert torch.allclose(env.task.level_velocity(), torch.tensor([0.5, 0.0]).expand(4, 2), atol=1e-5)
    assert torch.allclose(env.task.robot.velocity, torch.tensor([0.5, 0.0, 0.0]).expand(4, 3), atol=1e-5)


@pytest.mark.parametrize(
    ("fallen", "quat", "height"),
    [(False, [1.0, 0, 0, 0], 0.15), (True, [0.0, 1.0, 0, 0], 0.15), (True, [1.0, 0, 0, 0], 0.32)],
)
def test_who_has_fallen(fallen: bool, quat: list[float], height: float) -> None:
    """On its feet, on its back, and with the trunk lower than `height`."""
    env = walker(fall_height_m=height)
    put(env, height=(2, [0.3]), turn=(3, quat))
    _, reward, terminated, _, info = env.step(home(env))
    assert bool(terminated.all()) == fallen
    assert not fallen or (info["episode"]["metrics"]["fell"] == 1).all()
    assert not fallen or reward["robot"].max() < 0


def test_feet_on_the_ground_are_in_contact_and_lifted_ones_are_not() -> None:
    env = walker()
    for _ in range(50):
        env.task.command.zero_()
        env.step(home(env))
    assert env.task.contact.all()
    assert env.task.clearance.abs().max() < 0.004
    put(env, height=(2, [0.5]))
    env.step(home(env))
    assert not env.task.contact.any()


def test_on_stairs_a_foot_must_rise_before_the_step_and_may_rise_above_a_lower_one() -> None:
    env = walker(256, terrain="stairs_up", terrain_level=2, terrain_rows=3, terrain_columns=2)
    task = env.task
    wanted = torch.full((256, 4), 0.1)
    state = task.robot.base.state.clone()
    state[:, 0, :2] += 2.0 * torch.rand(256, 2, generator=torch.Generator().manual_seed(0)) - 1.0
    task.robot.base.set_state(None, state)
    env.world.forward()
    task.refresh()
    here = (wanted - task.clearance).clamp_min(0.0)
    short = short_of(task, wanted)
    assert (short >= here - 1e-6).all()
    near = short > here + 0.05  # an edge that comes nearer than EDGE_M asks for its own height
    assert 0.05 < near.float().mean() < 0.95
    state[..., 2] += 1.0
    task.robot.base.set_state(None, state)
    env.world.forward()
    task.refresh()
    assert (short_of(task, wanted) == 0.0).all()


def test_feet_rise_and_land_without_speed() -> None:
    """Front left and rear right swing in the first half of the phase, the others in the second; 8 cm in the middle."""
    phase = torch.linspace(0.0, 1.0, 401)[:-1]
    height = swing_height(phase, 0.08)
    assert torch.equal(height[:, 0], height[:, 3]) and torch.equal(height[:, 1], height[:, 2])
    assert torch.allclose(height[:, 0].roll(200), height[:, 1], atol=1e-7)
    assert float(height[100, 0]) == pytest.approx(0.08) and (height[200:, 0] == 0.0).all()
    slope = height[1:201, 0].diff() * 400  # m in a whole phase
    assert (
        slope[0].abs() < 0.03
        and slope[-1].abs() < 0.03
        and slope.abs().max() == pytest.approx(0.08 * 2 * 3.1416, rel=0.01)
    )


def test_the_gait_counts_only_while_moving() -> None:
    env = walker(2)
    env.task.command.copy_(torch.tensor([[0.5, 0, 0], [0, 0, 0]]))
    before = env.task.phase.clone()
    env.step(home(env))
    moved = (env.task.phase - before) % 1.0
    assert moved.tolist() == pytest.approx([2.0 * 0.02, 0.0], abs=1e-6)
    gait = env.task.observe()["robot"]["gait"]
    assert gait[0].norm() == pytest.approx(1.0, abs=1e-5)
    assert gait[1].norm() == 0.0


def test_who_is_never_told_to_go_sideways_or_to_turn_still_walks() -> None:
    env = walker(8, max_vy=0.0, max_yaw_rate=0.0, max_back=0.0)
    assert (env.task.command[:, 1:] == 0.0).all()
    assert (env.task.moving == (env.task.command[:, 0] > 0.05)).all() and env.task.moving.any()


def test_pushes_change_the_speed_by_at_most_what_is_said() -> None:
    env = walker(64, push_s=0.1, push_speed=0.5)
    task = env.task
    biggest = 0.0
    for _ in range(10):
        before = task.robot.base.lin_vel[:, 0, :2].clone()
        task.next_push.copy_(task.steps)
        task._push()
        change = (task.robot.base.lin_vel[:, 0, :2] - before).norm(dim=1)
        assert change.max() <= 0.5 + 1e-5
        biggest = max(biggest, float(change.max()))
    assert biggest > 0.4


def test_gait_commands_beyond_limits_are_clipped_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    env = walker(max_vx=9.0, gait_hz=2.5)
    assert env.task.cfg.max_vx == 3.5
    assert env.task.cfg.gait_hz == 2.5
    assert capsys.readouterr().err == "rookery: max_vx 9.0 is beyond what a quadruped here can do: clipped to 3.5.\n"
    with pytest.raises(RookeryError, match=r"max_vy is -1\.0: give"):
        walker(max_vy=-1.0)


def test_live_commands_beyond_limits_are_clipped_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    env = walker()
    for wish, given in (([9.0, -5.0, 7.0], [3.5, -1.5, 4.0]), ([-9.0, 5.0, -7.0], [-2.0, 1.5, -4.0])):
        env.task.command.copy_(torch.tensor([[0.5, 0.1, -0.2], wish, wish, [0.0, 0.0, 0.0]]))
        env.step(home(env))
        want = torch.tensor([[0.5, 0.1, -0.2], given, given, [0.0, 0.0, 0.0]])
        torch.testing.assert_close(env.task.command, want, rtol=0.0, atol=0.0)
        assert torch.equal(env.task.observe()["robot"]["command"][:, 0], want)
    err = capsys.readouterr().err
    assert err.count("beyond what a quadruped here can do") == 1
    assert "the command (9.0, -5.0, 7.0) (m/s, m/s, rad/s)" in err and "clipped to (3.5, -1.5, 4.0)" in err


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(RookeryError, match="unknown terrain 'stair_up': did you mean 'stairs_up'"):
        walker(terrain="stair_up")
    with pytest.raises(RookeryError, match="unknown arm 'airbot': did you mean 'airbot_play'"):
        walker(arm="airbot")


@pytest.mark.slow
def test_a_moving_arm_moves_and_a_held_one_does_not() -> None:
    spread = {}
    for motion in ("hold", "move"):
        env = walker(4, arm="airbot_play", arm_motion=motion, max_vx=0.1)
        seen = []
        for _ in range(200):
            env.task.command.zero_()
            env.step(home(env))
            seen.append(env.task.robot.target[:, 12:].clone())
        spread[motion] = torch.stack(seen).std(0).max()
        assert env.groups["robot"].action.size == 12
    assert spread["hold"] == 0.0
    assert spread["move"] > 0.1


def test_every_world_starts_on_its_own_tile_and_sees_the_ground() -> None:
    env = walker(16, terrain="mixed")
    task = env.task
    places = task.robot.base.pos[:, 0, :2]
    assert (torch.cdist(places, places) + 10 * torch.eye(16)).min() > 1.0
    task.refresh()
    assert torch.allclose(task.height, torch.full((16,), 0.32), atol=0.01)
    heights = env.observe_terms()["robot"]["heights"]
    assert heights.shape == (16, 1, 35)
    assert heights[..., 17].abs().max() < 0.05  # the point below the trunk: STAND_HEIGHT under it


def reacher(n: int = 4, **config: Any):
    return walker(n, "go2arm-reach", **config)


def test_the_goal_is_where_its_marker_is_and_the_tool_where_mujoco_has_it() -> None:
    env = reacher()
    rng = torch.Generator().manual_seed(0)
    for _ in range(25):
        env.step({"robot": home(env)["robot"] + 0.2 * torch.randn(4, 1, 18, generator=rng)})
    task = env.task
    task.refresh()
    task.measure()
    for i in range(4):
        data = env.world.mj_data(i)
        site = env.world.model.site("arm/tcp").id
        trunk = data.body("go2/base")
        tool = trunk.xmat.reshape(3, 3).T @ (data.site_xpos[site] - trunk.xpos)
        assert task.pose.pos[i].numpy() == pytest.approx(tool, abs=1e-4)
        turn = trunk.xmat.reshape(3, 3).T @ data.site_xmat[site].reshape(3, 3)
        assert matrix(task.pose.quat[i : i + 1]).view(3, 3).numpy() == pytest.approx(turn, abs=1e-3)
        marker = torch.tensor(task.markers(i)[0]["pos"]).double().numpy()
        goal = trunk.xmat.reshape(3, 3).T @ (marker - trunk.xpos)
        assert task.goal[0][i].numpy() == pytest.approx(goal, abs=1e-3)


def test_goals_are_seen_as_rotations_in_torch_have_them() -> None:
    """The compiled way from the stance frame to the trunk's, and the errors, against the same in torch."""
    env = reacher(64)
    task = env.task
    rng = torch.Generator().manual_seed(1)
    quat = torch.nn.functional.normalize(torch.randn(64, 4, generator=rng) * torch.tensor([1.0, 0.4, 0.4, 1.0]), dim=1)
    put_all = env.task.robot.base.state.clone()
    put_all[:, 0, 3:7] = quat
    task.robot.base.set_state(None, put_all)
    task.robot.joints.set_state(None, task.robot.home + 0.5 * torch.randn(64, 18, generator=rng))
    task.goals.clock.copy_(2.0 * torch.rand(64, generator=rng))
    task.refresh()
    task.measure()
    pose = task.tool.forward(task.robot.pos[:, 12:])
    torch.testing.assert_close(task.pose.pos, pose.pos, rtol=0, atol=2e-6)
    half = 0.5 * task.robot.yaw
    back = multiply(quat * torch.tensor([1.0, -1, -1, -1]), from_axis_angle(torch.eye(3)[2].expand(64, 3), 2 * half))
    for ahead_s, goal, off, turned in (
        (0.0, task.goal, task.position_error, task.rotation_error),
        (AHEAD_S, task.soon, task.position_error_soon, task.rotation_error_soon),
    ):
        at, turn = task.goals.pose(ahead_s)
        at = at - task.height[:, None] * torch.eye(3)[2]
        pos = (matrix(back).view(-1, 3, 3) @ at[..., None])[..., 0]
        torch.testing.assert_close(goal.pos, pos, rtol=0, atol=2e-6)
        assert rotation_error(multiply(back, turn), goal.quat).abs().max() < 2e-6
        torch.testing.assert_close(off, pos - pose.pos, rtol=0, atol=4e-6)
        torch.testing.assert_close(turned, rotation_error(multiply(back, turn), pose.quat), rtol=0, atol=1e-4)


def test_the_product_needs_place_and_orientation_and_its_width_follows_the_error() -> None:
    env = reacher(4)
    task = env.task
    task.refresh()
    task.measure()
    task.widths.copy_(torch.tensor([0.1, 0.4]))
    task.position_error.copy_(torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [0.0, 0, 0], [0.1, 0, 0]]))
    task.rotation_error.copy_(torch.tensor([[0.0, 0, 0], [0, 0, 0], [0, 0, 0.6], [0, 0, 0.6]]))
    e = 2.718281828
    track = task.rewards()["robot"]["tracking_tool_pose"][:, 0]
    assert track.tolist() == pytest.approx([1.0, 1 / e, 1 / e, 1 / e**2], rel=1e-4)
    task.widths.copy_(torch.tensor([0.2, 0.4]))
    assert task.rewards()["robot"]["tracking_tool_pose"][1, 0] == pytest.approx(e**-0.25, rel=1e-4)


def test_legs_and_arm_can_be_two_agents() -> None:
    whole = reacher()
    parts = reacher(agents="parts")
    assert {g: s.action.size for g, s in parts.groups.items()} == {"legs": 12, "arm": 6}
    action = 0.3 * torch.randn(4, 1, 18, generator=torch.Generator().manual_seed(0))
    for _ in range(5):
        a = whole.step({"robot": action})
        b = parts.step({"legs": action[..., :12], "arm": action[..., 12:]})
    assert torch.equal(a[0]["robot"], b[0]["legs"])
    assert torch.equal(a[1]["robot"], b[1]["arm"])


class Draws:
    """In place of a task's random streams: the same numbers for every use."""

    def __init__(self, *rows: tuple[float, ...]) -> None:
        self.rows = torch.tensor(rows)

    def __call__(self, ids: torch.Tensor) -> Draws:
        return self

    def uniform(self, low: float, high: float, shape: tuple[int, ...] = ()) -> torch.Tensor:
        return self.rows if shape else torch.full((len(self.rows),), 0.5 * (low + high))


def test_pushes_go_where_they_are_drawn() -> None:
    """Turns left of the world's x axis, and the share of the disc of 0.5 m/s that is slower."""
    env = walker(4, push_s=1.0, push_speed=0.5)
    task = env.task
    task.next_push.copy_(torch.tensor([0, 0, 0, 1]))
    before = task.robot.base.state.clone()
    task.rng = Draws((0.0, 1.0), (0.25, 0.25), (0.5, 0.49))  # the last world's push is due in the next step
    task._push()
    change = (task.robot.base.state - before)[:, 0]
    expected = torch.zeros(4, 13)
    expected[0, 7] = 0.5
    expected[1, 8] = 0.25
    expected[2, 7] = -0.35
    torch.testing.assert_close(change, expected, atol=1e-6, rtol=0.0)
    assert task.next_push.tolist() == [50, 50, 50, 1]  # the mean wait: 1 s of 0.02 s


def test_stairs_rise_by_the_height_that_is_given_and_go_both_ways() -> None:
    task = walker(
        8, terrain="stairs", terrain_step_m=0.12, terrain_rows=1, terrain_columns=2, terrain_start_rows=1
    ).task
    heights = torch.from_numpy(task.terrain.heights)
    steps = torch.unique((heights[1:] - heights[:-1]).abs().round(decimals=4))
    assert torch.allclose(steps, torch.tensor([0.0, 0.12]), atol=1e-4)
    assert heights.min() < -0.5 and heights.max() > 0.5  # a pit and a pyramid


@pytest.mark.parametrize(
    ("error", "fell", "commanded", "change"),
    [
        (0.19, False, 4.1, 1),
        (0.21, False, 4.1, 0),
        (0.19, True, 4.1, -1),
        (0.19, False, 3.9, 0),
        (0.36, False, 9.0, -1),
    ],
)
def test_worlds_change_rows_by_how_well_commands_were_followed(error, fell, commanded, change) -> None:
    env = walker(3, terrain="stairs", terrain_rows=4, terrain_columns=2)
    task = env.task
    terrain = task.curriculum
    terrain.level.fill_(1)
    terrain.ticks.fill_(500)
    terrain.commanded.fill_(commanded)
    terrain.walked.fill_(0.1)  # it may have walked in circles
    task.squared.fill_(500 * error**2)
    task.counted.fill_(500.0)
    task.fallen.fill_(fell)
    task.reset(torch.tensor([0, 2]))
    assert terrain.level.tolist() == [1 + change, 1, 1 + change]


def test_the_trunk_s_height_does_not_jump_at_the_edge_of_a_step() -> None:
    """A trunk that is carried level over stairs of 15 cm: over an edge its height changes by at most half a step at once."""
    env = walker(1, terrain="stairs_down", terrain_step_m=0.15, terrain_rows=1, terrain_columns=1)
    task = env.task
    heights = []
    for i in range(80):
        put(env, at=(0, [0.02 * i, 0.0, 1.5]))
        task.refresh()
        heights.append(float(task.height[0]))
    rise = torch.tensor(heights).diff().abs()
    assert 0.01 < rise.max() < 0.08


def test_physics_steps_on_terrain_are_short_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert walker(1, terrain="rough", terrain_rows=1, terrain_columns=1, dt=0.01).task.cfg.dt == 0.005
    assert "physics steps of 0.01 s are too long for terrain: 0.005 s" in capsys.readouterr().err
    assert walker(1, dt=0.01).task.cfg.dt == 0.01
    assert walker(1, terrain="rough", terrain_rows=1, terrain_columns=1, dt=0.0025).task.cfg.dt == 0.0025
    assert not capsys.readouterr().err

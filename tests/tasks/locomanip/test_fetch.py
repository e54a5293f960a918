"""go2arm-fetch: where balls lie, goals that lead the tool, a hand that closes by itself, and how episodes end."""

from __future__ import annotations

import math

import pytest
import torch

import rookery
from rookery.robots.arms.kinematics import Place
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import matrix, rotation_error
from rookery.tasks.locomanip.fetch import BALL_RADIUS, LIFTED_M
from rookery.tasks.locomanip.fetch_script import commands
from rookery.tasks.locomanip.tool_leads import LEAD_M, LEAD_RAD, RATE, SPEED, led, pitched


@pytest.fixture(scope="module")
def env() -> Env:
    return rookery.make("go2arm-fetch", 8, seed=2)


def angle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """[N] rad, between orientations, by their matrices."""
    turn = matrix(a).view(-1, 3, 3).transpose(1, 2) @ matrix(b).view(-1, 3, 3)
    return ((turn.diagonal(dim1=1, dim2=2).sum(1) - 1.0) / 2.0).clamp(-1.0, 1.0).acos()


def test_balls_lie_on_the_floor_where_the_config_says(env: Env) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    for seed in range(5):
        env.reset(seed)
        base = task.robot.base.pos[:, 0]
        off = task.ball.pos[:, 0] - base
        distance = off[:, :2].norm(dim=1)
        assert ((distance > task.cfg.near_m - 1e-4) & (distance < task.cfg.far_m + 1e-4)).all()
        aside = torch.atan2(off[:, 1], off[:, 0]) - task.robot.yaw
        assert (torch.atan2(aside.sin(), aside.cos()).abs() < task.cfg.side_rad + 1e-4).all()
        assert torch.allclose(task.ball.pos[:, 0, 2], torch.tensor(BALL_RADIUS))
        assert torch.equal(task.start[:, :2], base[:, :2])


def test_leads_go_straight_to_their_targets_and_end_there() -> None:
    g = torch.Generator().manual_seed(0)
    n = 50
    tool = Place(torch.randn(n, 3, generator=g), torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=1))
    far = Place(
        tool.pos + torch.randn(n, 3, generator=g), torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=1)
    )
    for ahead in (0.0, 0.2):
        out = led(tool, far, ahead)
        way = (out.pos - tool.pos).norm(dim=1)
        assert torch.allclose(way, torch.tensor(LEAD_M + SPEED * ahead), atol=1e-6)
        straight = (far.pos - tool.pos).norm(dim=1)
        assert torch.allclose((far.pos - out.pos).norm(dim=1), (straight - way).abs(), atol=1e-5)
        turned = angle(tool.quat, out.quat)
        assert torch.allclose(turned, torch.full((n,), LEAD_RAD + RATE * ahead), atol=2e-3)
        assert torch.allclose(angle(out.quat, far.quat), angle(tool.quat, far.quat) - turned, atol=2e-3)
    there = led(tool, tool, 0.2)
    assert torch.allclose(there.pos, tool.pos, atol=1e-6)
    assert rotation_error(there.quat, tool.quat).norm(dim=1).max() < 1e-5


def test_a_pitched_tool_points_down_and_to_the_side() -> None:
    yaw = torch.tensor([0.0, 0.7, -2.0])
    x = matrix(pitched(1.2, yaw)).view(-1, 3, 3)[:, :, 0]
    wanted = torch.stack((math.cos(1.2) * yaw.cos(), math.cos(1.2) * yaw.sin(), torch.full((3,), -math.sin(1.2))), 1)
    assert torch.allclose(x, wanted, atol=1e-6)


def _put(env: Env, world: int, off: tuple[float, float, float]) -> None:
    """Put a ball `off` m (world axes) from the tool centre of its world."""
    task = env.unwrapped.task  # type: ignore[attr-defined]
    task.measure()
    state = task.ball.state[world : world + 1].clone()
    state[0, 0, :3] = task.tool_in_world()[world] + torch.tensor(off)
    state[0, 0, 7:] = 0.0
    task.ball.set_state(torch.tensor([world]), state)


def test_the_hand_closes_on_what_is_between_its_fingers_and_opens_without_it(env: Env) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    env.reset(3)
    rest = torch.tensor(env.groups["robot"].action.neutral).expand(env.num_envs, 1, -1)
    for _ in range(30):  # until it is open
        env.step(rest)
    _put(env, 0, (0.0, 0.0, 0.005))
    *_, info = env.step(rest)
    assert info["events"]["gripped"].tolist() == [True] + [False] * 7
    assert task.closed.tolist() == [True] + [False] * 7
    width = task.fingers.pos.sum(1)
    for _ in range(25):
        env.step(rest)
    narrow = task.fingers.pos.sum(1)
    assert float(narrow[0]) < float(width[0]) - 0.01
    assert float(narrow[1]) == pytest.approx(float(width[1]), abs=0.005)
    assert float(env.unwrapped.observe_terms()["robot"]["closed"][0]) == 1.0  # type: ignore[attr-defined]
    _put(env, 0, (0.0, 0.0, -0.15))
    *_, info = env.step(rest)
    assert info["events"]["dropped"].tolist() == [True] + [False] * 7
    assert not task.closed[0]


def test_an_episode_ends_with_a_ball_that_is_carried_back(env: Env) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    env.reset(4)
    rest = torch.tensor(env.groups["robot"].action.neutral).expand(env.num_envs, 1, -1)
    for world in (0, 1):
        _put(env, world, (0.0, 0.0, 0.0))
    away = task.start.clone()
    away[1, 0] += 1.5  # the start of world 1 is elsewhere now
    task.start.copy_(away)
    task.measure()
    assert task.ball.pos[:2, 0, 2].min() > LIFTED_M
    ended: dict[int, int] = {}
    reward = torch.zeros(env.num_envs)
    for _ in range(10):
        _, earned, *_, info = env.step(rest)
        reward += earned["robot"][:, 0]
        if "episode" in info:
            episode = info["episode"]
            ended |= dict(zip(episode["ids"].tolist(), episode["cause"].tolist(), strict=True))
            assert episode["metrics"]["success"].tolist() == [1.0]
            break
    reach = float(task.cfg.goal_m)
    if not ended:  # the ready tool is farther ahead than goal_m: the start comes to it
        task.start[0, :2] = task.ball.pos[0, 0, :2] + torch.tensor([0.5 * reach, 0.0])
        _, earned, *_, info = env.step(rest)
        reward += earned["robot"][:, 0]
        episode = info["episode"]
        ended = dict(zip(episode["ids"].tolist(), episode["cause"].tolist(), strict=True))
    assert ended == {0: 1 + task.causes.index("delivered")}
    assert float(reward[0]) > task.cfg.reward["delivered"]
    assert float(env.metrics()["gripped"][1]) == 1.0 and float(env.metrics()["success"][1]) == 0.0


@pytest.mark.slow
def test_two_skills_of_the_stored_policy_bring_balls_back() -> None:
    """By decisions of the script: when to walk, and where, and when to stand and grasp."""
    env = rookery.make("go2arm-fetch", 12, seed=1, skills="go2arm-fetch")
    task = env.unwrapped.task  # type: ignore[attr-defined]
    action = env.groups["robot"].action
    assert action.choices[0].options == ("walk", "grasp")
    low, high = torch.tensor(action.low), torch.tensor(action.high)
    env.reset(seed=1)
    back = torch.zeros(12, dtype=torch.bool)
    for _ in range(1400):
        command, grasps = commands(task)
        numbers = 2.0 * (command - low) / (high - low) - 1.0
        *_, info = env.step(torch.cat((grasps.float()[:, None], numbers), 1)[:, None])
        if "episode" in info:
            episode = info["episode"]
            back[episode["ids"][episode["metrics"]["success"] > 0.5]] = True
    assert int(back.sum()) >= 9
    env.close()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"arm": "arx5"}, "is for the arm airbot_play on flat ground"),
        ({"terrain": "stairs"}, "is for the arm airbot_play on flat ground"),
        ({"goal_m": 1.5}, "must grow in this order"),
        ({"far_m": 5.0}, "must grow in this order"),
    ],
)
def test_what_cannot_be_fetched_is_refused(config: dict[str, object], message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        rookery.make("go2arm-fetch", 1, config=config)

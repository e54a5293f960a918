"""go2arm-fetch: where balls lie, goals that lead the tool, a hand that closes by itself, and how episodes end."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import rookery
from rookery.robots.arms.kinematics import Place
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import matrix, rotation_error
from rookery.tasks.locomanip.fetch import BALL_RADIUS, LIFTED_M
from rookery.tasks.locomanip.fetch_script import commands
from rookery.tasks.locomanip.tool_leads import LEAD_M, LEAD_RAD, RATE, SPEED, led, pitched
from rookery.tasks.locomanip.tool_pose import tool_in_world


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
    state[0, 0, :3] = tool_in_world(task.robot, task.pose)[world] + torch.tensor(off)
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


def _numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"\d+(?:\.\d+)?", text)]


def test_a_robots_computer_finds_the_goals_by_what_the_contract_says_of_them(env: Env) -> None:
    """Words of the contract, followed in numpy, give the quantities that the simulation does."""
    task = env.unwrapped.task  # type: ignore[attr-defined]
    env.reset(5)
    rest = torch.tensor(env.groups["robot"].action.neutral).expand(env.num_envs, 1, -1)
    _put(env, 0, (0.02, 0.03, -0.05))  # near: neither the way nor the height is at its limit everywhere
    _put(env, 1, (0.0, 0.004, -0.02))
    _put(env, 2, (0.003, 0.0, -0.012))
    env.step(rest)
    said = {q.name: q.doc for t in env.groups["robot"].observation for q in t.expression.leaves()}
    given = {name: value[:, 0].double().numpy() for name, value in task.quantities().items()}
    ball, tool, trunk = (given[name] for name in ("ball", "tool's position", "position"))
    axes = Rotation.from_quat(given["rotation"][:, [1, 2, 3, 0]]).as_matrix()
    heading = np.arctan2(axes[:, 1, 0], axes[:, 0, 0])
    turned = Rotation.from_quat(given["tool's rotation"][:, [1, 2, 3, 0]])
    for what, soon in itertools.product(("grasp", "stow"), ("", " in 0.2 s")):
        gain, most, *of = _numbers(said[what + soon])
        if what == "grasp":
            above, funnel, level, highest = of
            aside = np.linalg.norm(ball[:, :2] - tool[:, :2], axis=1)
            target = ball + np.outer(above + np.clip(funnel * (aside - level), 0.0, highest), [0.0, 0.0, 1.0])
            yaw = np.arctan2(*(ball - trunk)[:, [1, 0]].T)
        else:
            ahead, up = of
            target = np.stack(
                (trunk[:, 0] + ahead * np.cos(heading), trunk[:, 1] + ahead * np.sin(heading), 0.0 * yaw + up), 1
            )
            yaw = heading
        way = gain * (target - tool)
        way *= np.minimum(1.0, most / np.linalg.norm(way, axis=1))[:, None]
        np.testing.assert_allclose(given[what + soon], tool + way, atol=1e-4)
        gain, most, pitch = _numbers(said[f"rotation of the {what}{soon}"])
        x = np.stack((math.cos(pitch) * np.cos(yaw), math.cos(pitch) * np.sin(yaw), 0.0 * yaw - math.sin(pitch)), 1)
        y = np.stack((-np.sin(yaw), np.cos(yaw), 0.0 * yaw), 1)
        wanted = Rotation.from_matrix(np.stack((x, y, np.cross(x, y)), 2))
        turn = gain * (wanted * turned.inv()).as_rotvec()
        turn *= np.minimum(1.0, most / np.linalg.norm(turn, axis=1))[:, None]
        found = Rotation.from_quat(given[f"rotation of the {what}{soon}"][:, [1, 2, 3, 0]])
        assert (found * (Rotation.from_rotvec(turn) * turned).inv()).magnitude().max() < 2e-3


def test_a_robots_computer_moves_the_hand_by_what_the_contract_says_of_it(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = env.unwrapped.task  # type: ignore[attr-defined]
    said = {q.name: q.doc for t in env.groups["robot"].observation for q in t.expression.leaves()}
    _, near, far, _, narrow, _, wide = _numbers(said["hand closed"])
    rest = torch.tensor(env.groups["robot"].action.neutral).expand(env.num_envs, 1, -1)
    told: list[float] = []
    monkeypatch.setattr(task.robot.gripper, "set_control", lambda control: told.append(float(control[0, 0])))
    env.reset(6)
    for _ in range(30):  # until the tool rests
        env.step(rest)
    for closed, off in ((False, near + 0.01), (True, near - 0.01), (True, far - 0.01), (False, far + 0.01)):
        _put(env, 0, (0.0, 0.0, -off))
        env.step(rest)
        assert bool(task.closed[0]) is closed
        env.step(rest)  # told in the control step after
        assert told[-1] == pytest.approx(narrow if closed else wide, abs=1e-6)

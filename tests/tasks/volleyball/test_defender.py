"""The board that defends in set-and-spike-hard: its limits, its strokes against closed forms, and what wins the point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from drift import without_drift
from torch import Tensor
from volley_table import STILL, Table, make

from rookery.sim.envs.vec_env import VecEnv
from rookery.tasks.volleyball import defender as board
from rookery.tasks.volleyball import rally
from rookery.tasks.volleyball.rules import PLAY
from rookery.tasks.volleyball.set_and_spike import ATTACKER, THROUGH, VolleySetAndSpikeEasy
from rookery.tasks.volleyball.set_and_spike_hard import VolleySetAndSpikeHard

DT = 0.02
COURT = board.Court(DT, 0.1, 0.2, 9.0, 4.5)


def spiked(pos: Tensor, vel: Tensor, **config: Any) -> VecEnv:
    """Worlds in which the attacker has just sent the ball from pos [N, 3] m with vel [N, 3] m/s."""
    env = make(VolleySetAndSpikeHard, len(pos), **{**STILL, **config})
    env.reset()
    task: Any = env.task
    state = task.ball.state.clone()
    state[:, 0, :3] = pos
    state[:, 0, 7:10] = vel
    task.ball.set_state(None, state)
    r = task.referee
    r.turn[:] = THROUGH
    r.phase[:] = PLAY
    r.total[:] = 2
    r.last_hitter[:] = ATTACKER
    r.before.copy_(pos)
    return env


def fly(env: VecEnv) -> tuple[Any, ...]:
    """One control step of hovering drones."""
    hover = torch.tensor(env.task.action.neutral).expand(env.num_envs, 2, 4)  # type: ignore[attr-defined]
    return env.step({"drone": hover})


def lobs(n: int, time: tuple[float, float], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Balls that come down to 1.1 m all over the middle of the far court, after times (s) within a range."""
    u = torch.rand(n, 6, generator=torch.Generator().manual_seed(seed))
    start = torch.stack((-0.5 - u[:, 0], 4 * u[:, 1] - 2, 3 + u[:, 2]), 1)
    end = torch.stack((-2 - 4 * u[:, 3], 6 * u[:, 4] - 3, torch.full((n,), 1.1)), 1)
    t = (time[0] + (time[1] - time[0]) * u[:, 5])[:, None]
    vel = (end - start) / t
    vel[:, 2] += 0.5 * 9.81 * t[:, 0]
    return start, vel


def segment_distance(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """[N] m from p [3] to the segments from a to b [N, 3]."""
    way = b - a
    t = (((p - a) * way).sum(1) / way.square().sum(1).clamp_min(1e-12)).clamp(0, 1)
    return (a + t[:, None] * way - p).norm(dim=1)


def meet(
    at: tuple[float, ...], velocity: tuple[float, ...], begin: tuple[float, ...], end: tuple[float, ...],
    until: float = math.inf,
) -> tuple[float, np.ndarray]:  # fmt: skip
    """One step of a ball on a straight line and a board from pose `begin` to `end`; gives when, and the ball after it."""
    ball, after = np.zeros((2, 13))
    ball[0:3] = at
    ball[7:10] = velocity
    after[:] = ball
    after[0:3] += DT * after[7:10]
    u = board.strike(np.array(begin), np.array(end), ball, after, until, COURT, np.empty((6, 3)))
    return u, after


# The stroke


def test_nothing_passes_through_the_board():
    """Balls at 20 m/s, from all sides, whatever the phase of the control step: all are turned back, none gets in."""
    r = np.random.default_rng(0)
    for _ in range(300):
        tilt = r.uniform(-0.9, 0.9, 2)
        pose = (-4.0, 0.5, 1.5, *tilt)
        way = r.normal(size=3)
        way /= np.linalg.norm(way)
        at = np.array(pose[:3]) + 0.1 * r.normal(size=3) - way * r.uniform(0.7, 1.1)
        for _ in range(4):
            u, after = meet(tuple(at), tuple(20 * way), pose, pose)
            if u >= 0:
                break
            at = after[0:3]
        assert u >= 0
        local = np.empty(3)
        board.rotate_back(tilt, after[0:3] - pose[:3], local)
        outside = math.hypot(
            max(math.hypot(*local[:2]) - board.RADIUS, 0.0), max(abs(local[2]) - board.HALF_HEIGHT, 0.0)
        )
        assert outside > 0.1 - 5e-3  # gravity in the rest of the step
        assert way @ after[7:10] < 20 - 1e-6


@pytest.mark.parametrize("rise", [-3.0, 0.0, 5.0])
def test_a_bounce_off_a_level_board(rise):
    """v' = u + 0.8 (u - v) along the normal at the moment of contact; nothing across it."""
    z, h = 0.5, board.HALF_HEIGHT + 0.1
    u, after = meet((-4.1, 0.2, z + h + 0.1), (2.0, -1.0, -10.0), (-4, 0, z, 0, 0), (-4, 0, z + rise * DT, 0, 0))
    assert u * DT == pytest.approx(0.1 / (10 + rise))
    left = (1 - u) * DT
    assert after[7:9] == pytest.approx([2.0, -1.0])
    assert after[9] == pytest.approx(rise + 0.8 * (rise + 10) - 9.81 * left)
    contact = z + h + 0.1 - 10 * u * DT
    assert after[2] == pytest.approx(contact + (rise + 0.8 * (rise + 10)) * left - 0.5 * 9.81 * left**2)


@pytest.mark.parametrize(("axis", "at"), [(0, (0.0, 0.3)), (1, (0.3, 0.0))])
def test_a_turning_board_moves_under_the_ball(axis, at):
    """The touched point moves with w x r: up at y > 0 for a roll, down at x > 0 for a pitch."""
    w = 4.0
    lean = [0.0, 0.0]
    lean[axis] = 0.5 * w * DT
    begin = (-4, 0, 1, -lean[0], -lean[1])
    end = (-4, 0, 1, *lean)
    h = board.HALF_HEIGHT + 0.1
    u, after = meet((-4 + at[0], at[1], 1 + h + 0.1), (0.0, 0.0, -10.0), begin, end)
    surface = w * (at[1] - at[0])
    assert u == pytest.approx(0.5, abs=0.03)  # level there
    assert after[9] == pytest.approx(surface + 0.8 * (surface + 10) - 9.81 * (1 - u) * DT, abs=0.06)


def test_a_ball_that_is_down_or_elsewhere_is_not_met():
    pose = (-4, 0, 0.5, 0, 0)
    falling = (0.0, 0.0, -10.0)
    assert meet((-4, 0, 0.85), falling, pose, pose)[0] >= 0
    assert meet((-4, 0, 0.85), falling, pose, pose, until=0.005)[0] == -1  # it met something else before
    assert meet((-4, 0, 0.85), falling, pose, pose, until=0.015)[0] >= 0
    assert meet((-4, 0.7, 0.85), falling, pose, pose)[0] == -1
    low = (-4, 0, -0.15, 0, 0)
    assert meet((-4, 0, 0.25), falling, low, low)[0] == -1  # below 2 r it has landed
    out = (-9.2, 0, 0.5, 0, 0)
    assert meet((-9.1, 0, 0.85), falling, out, out)[0] == -1


def test_the_tilt_is_a_rotation_and_its_normal_is_the_planned_one():
    ball = np.zeros(13)
    goal = np.zeros(5)
    ball[0:3] = (-2, 1.5, 3)
    ball[7:10] = (-5, 2, 1)
    assert board.plan(ball, COURT, goal, np.empty((5, 3)))
    normal = np.empty(3)
    back = np.empty(3)
    board.rotate(goal[3:5], np.array([0.0, 0.0, 1.0]), normal)
    board.rotate_back(goal[3:5], normal, back)
    assert back == pytest.approx([0, 0, 1])
    t = (1 + math.sqrt(1 + 2 * 9.81 * 1.9)) / 9.81
    v = np.array([-5, 2, 1 - 9.81 * t])
    rise = math.sqrt(2 * 9.81 * 2.9)
    drop = math.sqrt(2 * 9.81 * 2.7)
    whole = (rise + drop) / 9.81
    away = np.array([(3 + 2 + 5 * t) / whole, (1 - 1.5 - 2 * t) / whole, rise])
    assert normal == pytest.approx((away - v) / np.linalg.norm(away - v))


# The board in play


def test_the_board_keeps_its_limits():
    env = spiked(*lobs(32, (0.3, 0.9)))
    d: Any = env.task.defender
    fastest = quickest = 0.0
    for _ in range(45):
        pos = d.pos.clone()
        tilt = d.tilt.clone()
        fly(env)
        same = env.steps > 0  # not a new rally
        fastest = max(fastest, float((d.pos - pos)[same].norm(dim=1).amax()) / DT)
        quickest = max(quickest, float((d.tilt - tilt)[same].abs().amax()) / DT)
    assert fastest == pytest.approx(board.MAX_SPEED, rel=1e-3)  # reached, and not exceeded
    assert quickest == pytest.approx(board.MAX_SPIN, rel=1e-3)


def nearest_to_aim(env: VecEnv) -> Tensor:
    """[N] m, how near to the aim the balls of the first rallies come after the board has met them: all in time."""
    task: Any = env.task
    nearest = torch.full((env.num_envs,), math.inf)
    aim = torch.tensor(board.AIM)
    running = torch.ones(env.num_envs, dtype=torch.bool)
    for _ in range(170):
        before = task.ball.pos[:, 0].clone()
        back = task.defender.returned.clone()
        *_, info = fly(env)
        running &= env.steps > 0
        here = segment_distance(before, task.ball.pos[:, 0], aim)
        nearest = torch.where(running & back, torch.minimum(nearest, here), nearest)
        if "episode" in info:
            assert info["episode"]["metrics"]["returned"].all()
            assert not info["episode"]["metrics"]["success"].any()
    assert not running.any()
    return nearest


def test_with_time_the_ball_is_played_to_the_aim():
    assert float(nearest_to_aim(spiked(*lobs(48, (1.0, 1.4)))).max()) < 0.01


def test_a_ball_in_air_is_met_but_falls_short():
    """The defense expects no drag: it corrects itself on the way to the ball, but not what drag does to its return."""
    nearest = nearest_to_aim(spiked(*lobs(16, (1.0, 1.2)), ball="realistic"))
    assert float(nearest.max()) < 3.0
    assert float(nearest.min()) > 0.3


def test_balls_that_go_out_are_left_alone():
    env = spiked(torch.tensor([[-1.0, 0.0, 3.5]]), torch.tensor([[-4.0, 8.0, 1.0]]))
    task: Any = env.task
    for _ in range(20):
        fly(env)
    assert task.defender.pos[0].tolist() == pytest.approx(board.HOME)
    assert not task.defender.returned[0]


def test_before_the_spike_the_board_waits():
    env = spiked(torch.tensor([[-4.0, 0.0, 2.0]]), torch.tensor([[0.0, 0.0, -3.0]]))
    task: Any = env.task
    task.referee.turn[:] = ATTACKER
    for _ in range(8):
        fly(env)
    assert task.defender.pos[0].tolist() == pytest.approx(board.HOME)
    assert not task.defender.returned[0]


def finish(env: VecEnv) -> tuple[dict[str, float], str, float]:
    """Metrics, cause and reward for the point of the first episode of world 0."""
    for _ in range(200):
        *_, info = fly(env)
        if "episode" in info:
            e = info["episode"]
            metrics = {name: float(v[0]) for name, v in e["metrics"].items()}
            return metrics, env.task.causes[int(e["cause"][0]) - 1], float(e["reward_terms"]["drone/in_target"][0])
    raise AssertionError("the rally does not end")


def test_a_fast_ball_far_from_the_board_scores():
    env = spiked(torch.tensor([[0.4, -3.0, 3.2]]), torch.tensor([[-14.0, -2.5, -4.0]]))
    metrics, cause, paid = finish(env)
    assert (cause, paid) == ("ball_landed", 5.0)
    assert without_drift(metrics) == {"success": 1.0, "returned": 0.0, "hits": 2.0, "crossed": 1.0}


def test_a_returned_ball_that_lands_on_the_near_side_does_not():
    env = spiked(torch.tensor([[-0.5, 0.0, 3.0]]), torch.tensor([[-4.0, 0.0, 2.0]]))
    metrics, cause, paid = finish(env)
    assert (cause, paid) == ("ball_landed", 0.0)
    assert without_drift(metrics) == {"success": 0.0, "returned": 1.0, "hits": 2.0, "crossed": 1.0}
    lines = env.task.play_by_play(0, 1)  # type: ignore[attr-defined]
    assert [("the defense returns" in s, "crosses" in s, "lands in the court" in s) for s in lines[1:]] == [
        (True, False, False), (False, True, False), (False, False, True),
    ]  # fmt: skip
    times = [float(s.split()[0]) for s in lines]
    assert times == sorted(times)


# The point


class Rally(Table):
    """A table on which the attacker has spiked."""

    def __init__(self) -> None:
        super().__init__(VolleySetAndSpikeHard)
        self.task.referee.turn[0] = THROUGH

    def step(self, *args: Any, **others: Any) -> dict[str, list[float]]:
        self.task.apply({"drone": torch.zeros(1, 2, 4)})
        return super().step(*args, **others)


@pytest.mark.parametrize(
    ("way", "cause", "untouched", "played"),
    [
        (((-7.0, -3.0, 0.3), (-7.0, -3.0, 0.1)), "ball_landed", 1.0, 1.0),
        (((3.0, 1.0, 0.3), (3.0, 1.0, 0.1)), "ball_landed", 0.0, 0.0),
        (((3.0, 4.4, 2.0), (3.0, 4.6, 2.0)), "ball_out", 0.0, 1.0),
        (((-0.3, 1.0, 2.0), (0.0, 1.0, 2.0)), "ball_in_net", 0.0, 1.0),
        (((3.0, 1.0, 15.9), (3.0, 1.0, 16.1)), "ball_too_high", 0.0, 0.0),
    ],
)
def test_who_wins_the_point(way, cause, untouched, played):
    for returned, won in ((False, untouched), (True, played)):
        table = Rally()
        table.step(way[0])
        table.task.defender.returned[0] = returned
        terms = table.step(way[1])
        assert table.cause == cause
        assert (terms["in_target"], table.metrics["success"]) == ([won, won], won)
        assert terms["ball_fault"] == [1.0, 1.0]
        assert "landing" not in terms


def test_without_a_spike_nothing_is_won():
    table = Rally()
    table.task.referee.turn[0] = ATTACKER
    table.step((-7.0, -3.0, 0.3))
    assert table.step((-7.0, -3.0, 0.1))["in_target"] == [0.0, 0.0]


def test_a_ball_that_would_have_reached_the_ground_in_the_same_step_is_saved():
    """The engine knows nothing of the board: what it let the ball touch after that did not happen."""
    table = Rally()
    task = table.task
    table.step((-4.0, 0.0, 0.9), (0.0, 0.0, -42.0))
    task._begin.copy_(task.ball.state[:, 0])
    task.touches.when.fill_(math.inf)
    task.touches.when[0, task.touched.index("ground")] = 0.019
    task.advance()
    assert task.defender.returned[0]
    assert task.referee.fault[0] == 0
    assert task.ball.state[0, 0, 9] > 30.0


# The environment


def test_observations_are_those_of_the_easy_task():
    hard = make(VolleySetAndSpikeHard, 2)
    easy = make(VolleySetAndSpikeEasy, 2)
    assert hard.groups["drone"].observation_size == easy.groups["drone"].observation_size == 39
    assert torch.equal(hard.reset(seed=3)[0]["drone"], easy.reset(seed=3)[0]["drone"])


def test_a_new_rally_finds_the_board_at_home():
    env = spiked(*lobs(4, (0.8, 1.0)))
    d: Any = env.task.defender
    for _ in range(60):
        fly(env)
    assert d.returned.all()
    d.reset(torch.tensor([1, 3]))
    assert d.returned.tolist() == [True, False, True, False]
    assert d.pos[1].tolist() == pytest.approx(board.HOME)
    assert d.tilt[[1, 3]].abs().max() == 0
    assert d.tilt[[0, 2]].abs().max() > 0.1


@pytest.mark.parametrize("cut", [15, 45])
def test_runs_resume_and_repeat(cut):
    """Cut while the boards move to the balls, and after the first ones are played."""
    first, second, third = (spiked(*lobs(8, (0.8, 1.1))) for _ in range(3))
    for _ in range(cut):
        fly(first)
        fly(third)
    second.load_state_dict(first.state_dict())
    for _ in range(50):
        outs = [fly(env) for env in (first, second, third)]
        for other in outs[1:]:
            assert torch.equal(outs[0][0]["drone"], other[0]["drone"])
            assert torch.equal(outs[0][1]["drone"], other[1]["drone"])
    a, b = first.state_dict(), second.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert first.task.defender.returned.any()  # type: ignore[attr-defined]
    assert int((first.task.log.event == rally.DEFENDER_RETURN).sum()) >= 8  # type: ignore[attr-defined]


def test_films_show_where_the_board_is():
    env = spiked(*lobs(1, (0.8, 0.9)))
    for _ in range(30):
        fly(env)
    task: Any = env.task
    points = torch.tensor([m["pos"] for m in task.markers(0)])
    assert points.mean(0).tolist() == pytest.approx(task.defender.pos[0].tolist(), abs=1e-5)
    tilt = task.defender.tilt[0].double().numpy()
    normal = np.empty(3)
    board.rotate(tilt, np.array([0.0, 0.0, 1.0]), normal)
    assert (points - task.defender.pos[0]).numpy() @ normal == pytest.approx(np.zeros(len(points)), abs=1e-5)

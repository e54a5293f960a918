"""The scripted team: tables of commands against least squares, strokes against the bounce, and real rallies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sampled import slow_but

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.tasks.volleyball import plays
from rookery.tasks.volleyball.ballistics import bounce, fall
from rookery.tasks.volleyball.flight import STEP, Steering, Tolerance, chain, hardest, matrix, rows
from rookery.tasks.volleyball.strokes import stroke

DT = 0.02


@pytest.fixture(scope="module")
def double():
    """A double integrator (m, m/s; command in m/s^2)."""
    return chain(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([0.0, 1.0]), [0.01, 0.1], 2.0, DT)


@pytest.mark.parametrize("k", [3, 8, 100, 403])
def test_tables_are_the_least_squares_solution(double, k):
    """Against a solver, from commands held for `DT`, the last one for what is left."""
    time = k * STEP
    missed = torch.tensor([0.3, -0.5])
    begin = np.arange(0.0, time - 1e-9, DT)
    end = np.minimum(begin + DT, time)
    held = end - begin
    effect = np.stack((held * (time - 0.5 * (begin + end)), held))
    weight = np.diag([1 / 0.01, 1 / 0.1])
    system = np.concatenate((weight @ effect, np.diag(np.sqrt(held) / 2.0)))
    wanted = np.concatenate((weight @ missed.numpy(), np.zeros(len(held))))
    commands, *_ = np.linalg.lstsq(system, wanted, rcond=None)
    assert (double.gain[k] @ missed).item() == pytest.approx(commands[0], rel=1e-3)
    assert (double.reach[k] @ missed).numpy() == pytest.approx(effect @ commands, rel=1e-3, abs=1e-5)
    cost = np.square(system @ commands - wanted).sum()
    assert (missed @ double.cost[k] @ missed).item() == pytest.approx(cost, rel=1e-3)
    assert double.free[k].numpy() == pytest.approx(np.array([[1.0, time], [0.0, 1.0]]), abs=1e-5)


def test_a_chain_arrives_when_it_is_asked_anew_at_each_step(double):
    x = torch.tensor([0.4, -1.0])
    wanted = torch.tensor([0.0, 0.5])
    for left in range(50, 0, -1):
        k = int(rows(torch.tensor(left * DT)))
        c = double.gain[k] @ (wanted - double.free[k] @ x)
        x = torch.stack((x[0] + DT * x[1] + 0.5 * DT**2 * c, x[1] + DT * c))
    assert torch.allclose(x, wanted, atol=0.02)


def test_hardest_is_the_larger_end_of_an_even_change():
    time = 0.8
    first = 3.0
    last = -5.0
    now = 0.4
    end = 0.4 + 0.5 * time * (first + last)
    way = now * time + time**2 * (first / 3 + last / 6)
    value = hardest(torch.tensor(way), torch.tensor(now), torch.tensor(end), torch.tensor(time))
    assert value.item() == pytest.approx(5.0, rel=1e-5)


def test_matrices_turn_the_body_as_quaternions_do():
    half = math.radians(15.0)
    m = matrix(torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0]))  # 30 degrees about y
    assert m[:, 2].tolist() == pytest.approx([0.5, 0.0, math.sqrt(0.75)], abs=1e-6)
    assert torch.allclose(m @ m.T, torch.eye(3), atol=1e-6)


def hovering(tilt: float = 0.0) -> Steering:
    env = rookery.make("volley-solo-bump", 1)
    env.reset()
    state = torch.zeros(1, 1, 13)
    state[..., 2] = 2.0
    state[..., 3] = math.cos(tilt / 2)
    state[..., 5] = math.sin(tilt / 2)
    env.task.drones.reset(torch.tensor([0]), state)
    steering = Steering(env.task.drones, DT, Tolerance())
    steering.look()
    return steering


def test_a_hovering_drone_is_seen_at_rest_and_keeps_hovering():
    s = hovering()
    assert s.sideways[0, 0].abs().max() < 1e-5
    assert s.upwards[0, 0].tolist() == pytest.approx([2.0, 0.0, 0.0], abs=1e-4)
    neutral = torch.tensor(s.drones.spec.neutral)
    assert torch.allclose(s.actions(torch.zeros(1, 1, 2), torch.zeros(1, 1))[0, 0], neutral, atol=1e-4)


def test_a_tilted_drone_is_seen_tilted_and_carries_its_weight():
    s = hovering(math.radians(20.0))
    assert s.sideways[0, 0, 0, 2].item() == pytest.approx(math.sin(math.radians(20.0)), abs=1e-5)
    thrust = s.drones.physical(s.actions(torch.zeros(1, 1, 2), torch.zeros(1, 1))).sum().item()
    assert thrust == pytest.approx(s.drones.drone.mass * GRAVITY / math.cos(math.radians(20.0)), rel=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_turning_comes_out_as_commanded(axis):
    """Torques over inertia give the second derivative of the tilt that was asked for."""
    s = hovering()
    wanted = torch.zeros(1, 1, 2)
    wanted[..., axis] = 8.0
    wrench = s.drones.physical(s.actions(wanted, torch.zeros(1, 1)))[0, 0] @ s.share.T
    twist = wrench[1:3] / s.inertia[:2]
    assert [twist[1].item(), -twist[0].item()] == pytest.approx(wanted[0, 0].tolist(), abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_state_in_which_late_commands_act_is_the_engine_s(seed):
    """Rotors that lag, torques of all axes; and the turning that is seen is what the next physics step makes."""
    env = rookery.make("volley-solo-bump", 1)
    env.reset()
    drones = env.task.drones
    generator = torch.Generator().manual_seed(seed)
    actions = torch.tensor(drones.spec.neutral) + torch.rand(1, 1, 4, generator=generator) - 0.5
    for _ in range(2):
        env.step(actions)
    steering = Steering(drones, DT, Tolerance())
    given = drones.physical(actions)
    for _ in range(2):
        steering.note(given, torch.tensor([drones.physics_steps]))
    before = drones.bodies.state.clone()
    steering.look()
    seen = steering.state.clone()
    env.step(actions)
    after = drones.bodies.state
    turned = (after - before)[..., 10:13]
    assert turned.abs().amin() > 1e-4, "all axes turn"
    assert ((seen - after)[..., 10:13].abs() < 0.05 * turned.abs()).all()
    assert (seen - after).abs().amax() < 2e-3


@pytest.mark.parametrize("drag", [0.0, 0.02])
def test_a_stroke_sends_the_ball_to_its_target(drag):
    ball = torch.tensor([[1.0, 0.5, 4.0, -1.0, 0.3, 1.0]])
    target = torch.tensor([[[-2.0, 1.0, 2.0]]])
    out = torch.zeros(1, 1, 8)
    stroke(
        ball.numpy(), np.full((1, 1), 2.3, np.float32), target.numpy(), np.full((1, 1), 5.0, np.float32),
        np.zeros((1, 1), np.float32), GRAVITY, drag, 0.8, 0.99, out.numpy(),
    )  # fmt: skip
    p, v = ball[0, :3].double().numpy(), ball[0, 3:].double().numpy()
    time = fall(p, v, 2.3, GRAVITY, drag)
    assert out[0, 0, :4].tolist() == pytest.approx([time, *p], abs=1e-4)
    normal = out[0, 0, 4:7].double().numpy()
    assert np.linalg.norm(normal) == pytest.approx(1.0, abs=1e-5)
    bounce(v, out[0, 0, 7].item() * normal, normal, 0.8, 0.99)
    fall(p, v, 2.0, GRAVITY, drag)
    assert p == pytest.approx([-2.0, 1.0, 2.0], abs=0.02)


def test_a_ball_that_stays_below_is_not_played():
    out = torch.zeros(1, 1, 8)
    one = np.ones((1, 1), np.float32)
    ball = np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]], np.float32)
    stroke(ball, 2 * one, np.zeros((1, 1, 3), np.float32), 4 * one, 0 * one, GRAVITY, 0.0, 0.8, 1.0, out.numpy())
    assert out[0, 0, 0] == -1.0


def test_other_action_kinds_are_refused():
    env = rookery.make("volley-solo-bump", 1, config={"action": "ctbr"})
    with pytest.raises(RookeryError, match="commands rotor_thrust, not ctbr"):
        env.task.controller()


def first_episodes(task: str, n: int, metric: str, **config: float) -> torch.Tensor:
    """[n] a metric of each world's first episode, flown by the script."""
    env = rookery.make(task, n, seed=5, config=config)
    controller = env.task.controller()
    values = torch.zeros(n)
    open_ = torch.ones(n, dtype=torch.bool)
    obs, _ = env.reset()
    while open_.any():
        obs, *_, info = env.step(controller(obs))
        if "episode" in info:
            ids = info["episode"]["ids"]
            values[ids] = torch.where(open_[ids], info["episode"]["metrics"][metric], values[ids])
            open_[ids] = False
    return values


@pytest.mark.parametrize(
    ("task", "seconds", "least"),
    [
        ("volley-solo-bump", 4.0, 3),
        pytest.param("volley-bump-and-pass", 4.5, 4, marks=pytest.mark.slow),
        pytest.param("volley-1v1", 6.0, 5, marks=pytest.mark.slow),
        pytest.param("volley-3v3", 5.0, 3, marks=pytest.mark.slow),
        pytest.param("volley-6v6", 5.0, 3, marks=pytest.mark.slow),
    ],
)
def test_most_rallies_go_on(task, seconds, least):
    assert (first_episodes(task, 8, "hits", episode_s=seconds) >= least).float().mean() >= 0.7


SPIKES = [("volley-set-and-spike-easy", 0.9), ("volley-set-and-spike-hard", 0.7)]


@pytest.mark.parametrize(("task", "least"), slow_but(SPIKES[:1], SPIKES))
def test_spikes_win_points(task, least):
    assert first_episodes(task, 32, "success").mean() >= least


def test_an_attacker_leaves_the_net_after_its_spike():
    env = rookery.make("volley-set-and-spike-easy", 2)
    env.reset()
    team = env.task.controller()
    env.task.referee.turn[:] = torch.tensor([1, 2], dtype=torch.int32)
    team.plan()
    assert team.goals.home[1, 1, 0] - team.goals.home[0, 1, 0] == pytest.approx(1.0)


def test_a_first_stroke_goes_a_part_of_the_way():
    env = rookery.make("volley-bump-and-pass", 2)
    env.reset()
    team = plays.TakeTurns(env.task, serve_way=0.5)
    team.players.see()
    team.plan()
    ball = env.task.ball.pos[:, 0, :2]
    aim = env.task.places[1, :2]
    goal = team.goals.target[:, 0, :2]
    assert torch.allclose(goal, 0.5 * (ball + aim), atol=1e-5)


def test_drones_of_a_team_make_room_where_the_ball_comes_down():
    env = rookery.make("volley-6v6", 4)
    env.reset()
    team = env.task.controller()
    assert isinstance(team, plays.MatchPlay)
    team.plan()
    away = team.goals.home[..., :2] - team.landing()[:, None, :2]
    assert away.norm(dim=-1).sort(1).values[:, 1].min() >= 1.5 - 1e-4  # but for the server, below the ball

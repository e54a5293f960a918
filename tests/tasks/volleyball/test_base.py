"""What all volleyball tasks share, on the engines' real physics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from volley_table import STILL, make

from rookery.robots.drones.controller import CascadeController
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import from_axis_angle, matrix, multiply
from rookery.tasks.volleyball import kernels
from rookery.tasks.volleyball.ball import BALLS
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.bump_and_pass import VolleyBumpAndPass
from rookery.tasks.volleyball.competitive import Volley1v1, Volley3v3
from rookery.tasks.volleyball.hit import VolleyHit
from rookery.tasks.volleyball.rules import OVER
from rookery.tasks.volleyball.solo_bump import VolleySoloBump
from rookery.tasks.volleyball.state import drone_state

G = 9.81


def hover(env):
    """One control step of flight at the drones' places."""
    if not hasattr(env, "test_controller"):
        env.test_controller = CascadeController(env.task.drones, env.control_dt)
    return env.step({"drone": env.test_controller.act(env.task.places.expand(env.num_envs, -1, -1))})


def random_drones(n: int, a: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, a, 13, generator=rng)
    x[..., 3:7] /= x[..., 3:7].norm(dim=-1, keepdim=True)
    return x, torch.rand(n, a, 4, generator=rng)


# Observations


def test_the_state_vector():
    x, u = random_drones(50, 2)
    out = torch.empty(50, 2, 23)
    drone_state(np.arange(len(x)), x.numpy(), u.numpy(), torch.tensor([False, False]).numpy(), out.numpy())
    r = matrix(x[..., 3:7]).unflatten(-1, (3, 3))
    quat = x[..., 3:7] * torch.where(x[..., 3:4] < 0, -1.0, 1.0)
    spin = (r @ x[..., 10:13, None]).squeeze(-1)
    want = torch.cat((x[..., :3], quat, x[..., 7:10], spin, r[..., 0], r[..., 2], 2 * u - 1), dim=-1)
    assert torch.allclose(out, want, atol=1e-5)


def test_the_turned_state_is_that_of_a_turned_world():
    """A drone of the far side sees what its mirror image on the near side sees."""
    x, u = random_drones(50, 1)
    half = torch.tensor([0.0, 0.0, 0.0, 1.0])
    turned = x.clone()
    turned[..., :2] *= -1
    turned[..., 7:9] *= -1
    turned[..., 3:7] = multiply(half, x[..., 3:7])
    a, b = torch.empty(50, 1, 23), torch.empty(50, 1, 23)
    drone_state(np.arange(len(x)), x.numpy(), u.numpy(), torch.tensor([False]).numpy(), a.numpy())
    drone_state(np.arange(len(x)), turned.numpy(), u.numpy(), torch.tensor([True]).numpy(), b.numpy())
    assert torch.allclose(a, b, atol=1e-6)


def test_starts_are_places_with_a_box_and_yaw_pitch_and_roll():
    n, a = 20, 2
    u = torch.rand(n, a, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
    places = torch.tensor([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0]])
    heading = torch.tensor([0.0, math.pi])
    box, tilt, yaw = (0.5, 0.4, 0.3), 0.7, 1.1
    state = torch.full((n, a, 13), math.nan)
    kernels.starts(u.numpy(), places.numpy(), heading.numpy(), box, tilt, yaw, state.numpy())
    axes = torch.eye(3)
    roll, pitch = (from_axis_angle(axes[i], tilt * u[..., 3 + i]) for i in range(2))
    want = multiply(multiply(from_axis_angle(axes[2], heading + yaw * u[..., 5]), pitch), roll)
    assert torch.allclose(state[..., 3:7], want, atol=1e-6)
    assert torch.allclose(state[..., :3], places + torch.tensor(box) * u[..., :3], atol=1e-6)
    assert (state[..., 7:] == 0).all()
    servers, ball = torch.arange(n) % 2, torch.full((n, 1, 13), math.nan)
    kernels.balls_above(state.numpy(), servers.numpy(), 1.5, ball.numpy())
    assert torch.allclose(ball[:, 0, :3], state[torch.arange(n), servers, :3] + torch.tensor([0.0, 0.0, 1.5]))
    assert torch.equal(ball[:, 0, 3:], torch.eye(10)[:1].expand(n, 10))


def test_faults_count_against_those_who_commit_them():
    kinds = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    fault, culprit, partner = np.int32([[0, 1, 2, 2, 3], [-1, 2, 0, 1, -1], [-1, -1, -1, 2, -1]])
    hit, drone, ball = (np.full((5, 3), np.nan, np.float32) for _ in range(3))
    kernels.blame(fault, culprit, partner, kinds, hit, drone, ball)
    assert hit.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert drone.tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert ball.tolist() == [[0] * 3] * 4 + [[1] * 3]


def test_relative_positions_have_the_published_signs():
    env = make(VolleyHit, 3)
    env.reset()
    terms = env.task.observe()["drone"]
    task = env.task
    pos = task.drones.bodies.pos
    ball = task.ball.pos
    assert torch.allclose(terms["from_anchor"], pos - torch.tensor([4.5, 0.0, 2.0]))
    assert torch.allclose(terms["from_ball"], pos - ball)
    assert (terms["from_ball"][..., 2] < -2.9).all()


def test_thrust_is_linear_in_the_action():
    """VolleyBots' PRT: a command c gives the throttle sqrt((c + 1) / 2), so the thrust (c + 1) / 2 of the most."""
    env = make(VolleyHit, 1, **STILL)
    env.reset()
    for _ in range(12):  # 0.24 s are 7 time constants of the rotors
        env.step({"drone": torch.tensor([[[-1.0, -0.5, 0.0, 1.0]]])})
    throttle = env.task.drones.rotor_speed[0, 0]
    assert throttle.tolist() == pytest.approx([0.0, math.sqrt(0.25), math.sqrt(0.5), 1.0], abs=2e-3)


def test_rates_reach_144_degrees_a_second():
    env = make(VolleyHit, 1, action="ctbr")
    assert env.groups["drone"].action.high[:3] == pytest.approx([math.radians(144.0)] * 3)


# Starts


def test_starts_fill_the_published_box():
    env = make(VolleyBumpAndPass, 400)
    env.reset()
    task = env.task
    state = task.drones.bodies.state
    off = state[..., :3] - task.places
    for axis, half in enumerate((0.5, 0.5, 0.2)):
        assert 0.95 * half < off[..., axis].abs().max() <= half
    up = matrix(state[..., 3:7])[..., 8]
    most = math.cos(0.1 * math.pi) ** 2  # roll and pitch at their limits
    assert most - 1e-4 <= up.min() < most + 0.05
    heading = task.observe()["drone"]["heading"]
    assert heading[..., 0].min() < -0.8 < 0.8 < heading[..., 0].max()
    assert (state[..., 7:] == 0).all()
    above = task.ball.state[:, 0]
    assert torch.allclose(above[:, :3], state[:, 0, :3] + torch.tensor([0.0, 0.0, 2.0]), atol=1e-5)
    assert (above[:, 7:] == 0).all()


# Physics


@pytest.mark.parametrize("engine", ["rotor", "mujoco"])
@pytest.mark.parametrize("dt", [0.002, 0.005])
def test_a_ball_that_falls_on_a_hovering_drone_is_hit_when_it_should(engine, dt):
    env = make(VolleySoloBump, 1, engine, dt=dt, **STILL)
    env.reset()
    while env.task.referee.total[0] == 0:
        hover(env)
        assert env.task.steps[0] < 50
    (_, (time, *_)) = env.task.log.events(0)
    racket = env.world.model.geom("drone_0/racket")
    fall = 2.0 - (racket.pos[2] + racket.size[1]) - 0.1
    assert time == pytest.approx(math.sqrt(2 * fall / G), abs=0.01)
    assert "with the racket" in env.task.play_by_play(0)[-1]


def test_coarse_physics_miss_nothing():
    """One physics step a control step, as the published simulator has."""
    env = make(VolleySoloBump, 1, dt=0.02, **STILL)
    env.reset()
    for _ in range(40):
        hover(env)
    assert env.task.referee.total[0] == 1


def test_bounces_have_the_published_restitution():
    env = make(VolleySoloBump, 1, **STILL)
    env.reset()
    for _ in range(60):
        hover(env)
    rise = env.task.referee.apex[0] - 2.16
    m = env.task.drone.mass
    ball = BALLS["volleybots"].mass
    speed = (1.8 * m - (m + ball) * 0.0) / (m + ball) - 1.0  # of a ball of speed 1 on a free body at rest
    assert rise == pytest.approx(speed**2 * (2.0 - 0.16), rel=0.06)  # the drone hovers, it is not quite at rest


def test_a_ball_beside_the_racket_is_played_with_the_body():
    env = make(VolleyBumpAndPass, 1, **STILL)
    env.reset()
    state = env.task.ball.state.clone()
    state[0, 0, :3] += torch.tensor([0.235, 0.0, -1.5])  # the body's radius is 0.25 m, the racket's 0.2 m
    env.task.ball.set_state(None, state)
    for _ in range(30):
        *_, info = hover(env)
        if "episode" in info:
            break
    assert env.task.causes[int(info["episode"]["cause"][0]) - 1] == "not_racket"


@pytest.mark.parametrize("engine", ["rotor", "mujoco"])
def test_a_solid_net_returns_the_ball_and_ends_the_rally(engine):
    env = make(VolleyBumpAndPass, 1, engine, solid_net=True, **STILL)
    env.reset()
    state = env.task.ball.state.clone()
    state[0, 0, :3] = torch.tensor([1.0, 0.0, 2.2])
    state[0, 0, 7] = -20.0
    env.task.ball.set_state(None, state)
    env.task.referee.start(torch.tensor([0]), state[:, 0], torch.tensor([0]))
    for _ in range(10):
        *_, info = hover(env)
        if "episode" in info:
            break
    assert env.task.causes[int(info["episode"]["cause"][0]) - 1] == "ball_in_net"
    assert info["final_observation"]["drone"][0, 0, env.groups["drone"].slices()["ball_velocity"]][0] > 0


def test_the_real_ball_feels_the_air():
    real = make(VolleySoloBump, 1, ball="realistic", **STILL)
    light = make(VolleySoloBump, 1, **STILL)
    speeds = []
    for env in (real, light):
        env.reset()
        for _ in range(25):
            hover(env)
        speeds.append(-env.task.ball.lin_vel[0, 0, 2].item())
    assert speeds[1] == pytest.approx(0.5 * G, rel=1e-3)
    k = 0.5 * 1.225 * 0.47 * math.pi * 0.04**2 / 0.0472
    terminal = math.sqrt(G / k)
    assert speeds[0] == pytest.approx(terminal * math.tanh(G * 0.5 / terminal), rel=5e-3)
    assert real.world.model.geom("ball/ball").size[0] == pytest.approx(0.04)


def test_the_mass_of_the_ball_can_be_changed():
    env = make(VolleyHit, 2)
    p = env.task.parameters()["ball_mass"]
    p.write(torch.tensor([1]), torch.tensor([2.0]))
    assert env.world.params.get("mass", ["ball/base"])[:, 0].tolist() == pytest.approx([0.005, 0.01])


def test_a_new_rally_follows_in_the_same_step_and_the_last_one_can_be_read():
    env = make(VolleyHit, 2, **STILL)
    env.reset()
    zero = -torch.ones(2, 1, 4)
    for _ in range(60):
        *_, terminated, _, _ = env.step({"drone": zero})
        if terminated.any():
            break
    assert terminated.all()
    assert env.task.play_by_play(0, back=1)[-1].endswith("drone 0 flies too low")
    assert len(env.task.play_by_play(0)) == 1
    assert not (env.task.referee.phase == OVER).any()


# Bad input


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"drone": "irs"}, "unknown drone 'irs': did you mean 'iris'"),
        ({"ball": "real"}, "unknown ball 'real': did you mean 'realistic'"),
        ({"effects": "volleybot"}, "did you mean 'volleybots'"),
        ({"court_length_m": 8.0}, "a drone's place at"),
        ({"court_width_m": 0.0}, "the court's width must be positive"),
        ({"net_height_m": 12.0}, "higher than the court is wide"),
        ({"net_band_m": 3.0}, "band"),
        ({"racket_radius_m": 0.0}, "racket_radius_m must be positive"),
        ({"start_box_m": (0.1, 0.1)}, "three values"),
        ({"ball_above_m": 0.1}, "puts the ball into the drone"),
    ],
)
def test_configs_that_cannot_be(config, message):
    with pytest.raises(RookeryError, match=message):
        VolleyHit(VolleyHit.Config(**config))


def test_a_task_needs_rules():
    class Bare(VolleyTask):
        Config = VolleyConfig
        groups = setup = rewards = metrics = observe = None

    with pytest.raises(NotImplementedError, match="Bare has no rules"):
        VolleyTask.rules(Bare.__new__(Bare))


@pytest.mark.parametrize("task", [VolleyHit, VolleyBumpAndPass, Volley1v1, Volley3v3])
def test_agents_may_observe_where_the_ball_comes_down(task):
    """A ball rises at 2 m/s from 3 m: when it is at a racket is the root of a quadratic. The far side sees it turned."""
    env = make(task, 2, observe_landing=True)
    env.reset()
    t = env.task
    state = t.ball.state.clone()
    state[:, 0, :3] = torch.tensor([0.4, -0.3, 3.0])
    state[:, 0, 7:10] = torch.tensor([1.5, 0.5, 2.0])
    t.ball.set_state(None, state)
    env.world.forward()
    if hasattr(t, "_outdated"):
        t._outdated.move()
    seen = t.observe()["drone"]
    pos = t.drones.bodies.pos
    fall = 3.0 - pos[..., 2] - t.ball_kind.radius - 0.5 * t.drone.body_height
    time = (2.0 + (4.0 + 2.0 * G * fall).sqrt()) / G
    off = torch.tensor([0.4, -0.3]) + time[..., None] * torch.tensor([1.5, 0.5]) - pos[..., :2]
    side = torch.where(t._turned, -1.0, 1.0)[:, None] if task in (Volley1v1, Volley3v3) else 1.0
    torch.testing.assert_close(seen["landing_in"][..., 0], time, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(seen["to_landing"], off * side, rtol=1e-4, atol=1e-4)
    terms = {x.name: x.size for x in env.groups["drone"].observation}
    assert (terms["to_landing"], terms["landing_in"]) == (2, 1)

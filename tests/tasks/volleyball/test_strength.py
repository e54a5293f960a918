"""What the scripted players find out about their drones, and where they expect them: against the engine's own physics."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rookery
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.tasks.volleyball.ahead import balls_ahead, drones_ahead
from rookery.tasks.volleyball.rotors import lead

SIDE = 0.02


def flown(steps: int, **fixed: float) -> rookery.sim.env.Env:
    """A rally of the script in worlds with these parameters, with the team that plays it."""
    env = rookery.make("volley-solo-bump", 4, seed=3, fixed=fixed)
    obs, _ = env.reset()
    team = env.task.controller()
    for _ in range(steps):
        obs, *_ = env.step(team(obs))
    env.team = team
    return env


@pytest.mark.parametrize(("mass", "thrust", "inertia"), [(1.0, 1.0, 1.0), (1.1, 0.95, 0.9), (0.9, 1.05, 1.2)])
def test_factors_are_found_within_a_second(mass, thrust, inertia):
    strength = flown(60, mass=mass, thrust_coefficient=thrust, inertia=inertia).team.players.steering.strength
    assert strength.thrust.flatten().tolist() == pytest.approx([thrust / mass] * 4, rel=0.02)
    assert strength.turning.flatten().tolist() == pytest.approx([thrust / inertia] * 4, rel=0.08)


@pytest.mark.parametrize("delay", [0.0, 0.015, 0.03])
@pytest.mark.parametrize("lag", [0.7, 1.0, 1.5])
def test_the_lag_of_rotors_is_found_within_a_second(lag, delay):
    """Whatever part of the step before, or of the one before that, the commands of a control step act in."""
    strength = flown(50, rotor_lag=lag, action_delay=delay).team.players.steering.strength
    assert strength.lag.flatten().tolist() == pytest.approx([lag] * 4, rel=0.02)


@pytest.mark.parametrize("lag", [0.7, 1.0, 1.5])
def test_rotors_come_where_nominal_ones_would(lag):
    """In the engine, with a lag that is made up for, and with a nominal one and no more than the command."""
    worlds, steps = 8, 5
    nominal = rookery.make("volley-solo-bump", worlds, seed=1, fixed={"rotor_lag": 1.0})
    other = rookery.make("volley-solo-bump", worlds, seed=1, fixed={"rotor_lag": lag})
    nominal.reset(seed=1)
    other.reset(seed=1)
    drones = nominal.task.drones
    kind = drones.drone
    time_constant = 0.5 * (kind.tau_up + kind.tau_down)
    factor = torch.full((worlds, 1), lag)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        action = 0.15 * torch.randn(worlds, 1, 4, generator=rng)  # such that no rotor is asked for more than it has
        command = lead(
            drones.physical(action), other.task.drones.rotor_speed, factor, kind.max_thrust, time_constant,
            nominal.task.cfg.control_dt,
        )  # fmt: skip
        nominal.step({"drone": action})
        other.step({"drone": drones.normalized(command)})
        assert torch.allclose(other.task.drones.rotor_speed, drones.rotor_speed, atol=2e-4)


def test_the_pull_of_tilted_gravity_is_found():
    env = flown(150, gravity_tilt=SIDE)
    gravity = env.task.world.params.get("gravity")[:, None, :2]
    pull = env.team.players.steering.strength.pull
    assert gravity.norm(dim=-1).flatten().tolist() == pytest.approx([GRAVITY * np.sin(SIDE)] * 4, rel=1e-4)
    assert (pull - gravity).norm(dim=-1).max() < 0.08


def test_nothing_is_learned_over_the_end_of_an_episode():
    env = flown(20, mass=1.1, rotor_lag=1.5)
    env.team.players.reset(torch.tensor([0, 2]))
    strength = env.team.players.steering.strength
    assert strength.thrust[[0, 2]].flatten().tolist() == [1.0, 1.0]
    assert strength.lag[[0, 2]].flatten().tolist() == [1.0, 1.0]
    assert strength.thrust[[1, 3]].max() < 0.95
    assert strength.lag[[1, 3]].min() > 1.2
    env.task.world.reset()
    env.team.players.steering.look()
    assert strength.thrust[[0, 2]].flatten().tolist() == [1.0, 1.0]
    assert strength.lag[[0, 2]].flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("mass", "thrust"), [(1.0, 1.0), (1.1, 0.9)])
def test_drones_are_expected_where_they_come(mass, thrust):
    """A control step's commands carried out ahead, against the engine."""
    env = rookery.make("volley-solo-bump", 8, seed=1, fixed={"mass": mass, "thrust_coefficient": thrust})
    env.reset()
    task = env.task
    steering = task.controller().players.steering
    rng = torch.Generator().manual_seed(0)
    for _ in range(5):  # rotors away from hover, drones in rotation
        env.step({"drone": 0.3 * torch.randn(8, 1, 4, generator=rng) + 0.3})
    x, u = task.drones.bodies.state.clone(), task.drones.rotor_speed.clone()
    action = 0.3 * torch.randn(8, 1, 4, generator=rng) + 0.3
    given = task.drones.physical(action.clamp(-1.0, 1.0)).expand(3, -1, -1, -1).contiguous()
    env.step({"drone": action})
    k = task.physics_steps
    steering.late.fill_(k)
    steering.given.copy_(given)
    steering.strength.thrust.fill_(thrust / mass)
    steering.strength.turning.fill_(thrust)
    steering._ahead(x, u)
    assert (steering.speed - task.drones.rotor_speed).abs().max() < 1e-5
    away = (steering.state - task.drones.bodies.state).abs().amax((0, 1))
    assert away[:3].max() < 1e-4  # m
    assert away[3:7].max() < 1e-3
    assert away[7:10].max() < 5e-3  # m/s
    assert away[10:].max() < 0.02  # rad/s


def test_late_commands_are_those_of_the_step_before():
    """Beyond one control step of delay the older commands act first."""
    states = np.zeros((1, 1, 13), np.float32)
    states[..., 3] = 1.0
    speeds = np.full((1, 1, 4), 0.5, np.float32)
    given = np.stack((np.full((1, 1, 4), 1.0), np.full((1, 1, 4), 4.0))).astype(np.float32)
    one, none = np.ones((1, 1), np.float32), np.zeros((1, 1, 2), np.float32)
    places = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]])
    drone = (1.0, np.ones(3), places, np.zeros(4), 4.0, 1e-6, 0.0)  # rotors without lag
    speed = {}
    for late in (0, 4, 5):
        out, u = np.zeros_like(states), np.zeros_like(speeds)
        drones_ahead(states, speeds, given, np.array([late]), 4, 0.005, one, one, none, one, drone, out, u)
        speed[late] = out[0, 0, 9]
        assert u[0, 0, 0] == pytest.approx(0.5)
    assert speed[0] == 0.0
    assert speed[4] == pytest.approx(4 * 0.005 * 4.0, rel=1e-5)
    assert speed[5] == pytest.approx(4 * 0.005 * 4.0 + 0.005 * 16.0, rel=1e-5)


def test_balls_fly_on():
    balls = np.array([[0.0, 0.0, 3.0, 1.0, 0.0, 2.0], [0.0, 0.0, 3.0, 1.0, 0.0, 2.0]], np.float32)
    balls_ahead(balls, np.array([0, 6]), 0.005, GRAVITY, 0.0)
    assert balls[0].tolist() == [0.0, 0.0, 3.0, 1.0, 0.0, 2.0]
    time = 0.03
    assert balls[1].tolist() == pytest.approx(
        [time, 0.0, 3.0 + 2.0 * time - 0.5 * GRAVITY * time**2, 1.0, 0.0, 2.0 - GRAVITY * time], abs=1e-5
    )


def test_the_script_hears_how_late_its_commands_are():
    """15 ms of the command's and 5 of the measurement's, in physics steps of 5 ms; also after a restored state."""
    fixed = {"action_delay": 0.015, "observation_delay": 0.005}
    env = rookery.make("volley-solo-bump", 2, seed=0, fixed=fixed)
    obs, _ = env.reset()
    team = env.task.controller()
    for _ in range(3):
        action = team(obs)
        obs, *_ = env.step(action)
    team(obs)
    assert team.players.steering.late.tolist() == [4, 4]
    assert torch.allclose(team.players.steering.given[0], env.task.drones.physical(action["drone"].clamp(-1.0, 1.0)))
    again = rookery.make("volley-solo-bump", 2, seed=1, fixed=fixed)
    other = again.task.controller()
    again.reset()
    again.load_state_dict(env.state_dict())
    assert torch.equal(other(obs)["drone"], team(obs)["drone"])


@pytest.mark.slow
def test_a_bump_that_falls_short_is_followed_by_higher_ones():
    """By the ball's own highest point after each hit: rotors that are weak and slow reach 3.5 m as well."""
    env = rookery.make("volley-solo-bump", 4, seed=3, fixed={"thrust_coefficient": 0.85, "mass": 1.1, "rotor_lag": 1.5})
    obs, _ = env.reset()
    team = env.task.controller()
    tops, top = [], torch.zeros(4)
    for _ in range(700):
        obs, *_ = env.step(team(obs))
        hit = env.task.referee.hit_now[:, 0].bool()
        if hit.any():
            tops.append(torch.where(hit, top, torch.nan))
        top = torch.where(hit, 0.0, torch.maximum(top, env.task.ball.pos[:, 0, 2]))
    after = [column[~column.isnan()][3:] for column in torch.stack(tops).T]
    assert min(len(column) for column in after) >= 8
    assert min(float((column > 3.5).float().mean()) for column in after) > 0.9
    assert max(float(column.max()) for column in after) < 4.5

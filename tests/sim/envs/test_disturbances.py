"""Pushes and wrenches: as often and as strong as drawn, and nothing where nothing is drawn."""

from __future__ import annotations

import math

import pytest
import torch

import rookery
from rookery.sim.random import Streams

every_engine = pytest.mark.parametrize("engine", ["rotor", "mujoco"])
NO_AIR = {"effects": "none", "action": "ctbr", "integrated_yaw": False}


def env_with(n: int = 256, engine: str = "rotor", task: str = "drone-hover", config=NO_AIR, **settings: float):
    env = rookery.make(task, num_envs=n, engine=engine, fixed=settings, config=config, seed=5)
    env.reset()
    return env


@every_engine
def test_a_push_changes_velocity_and_rates_by_what_is_drawn(engine):
    env = env_with(64, engine, push_rate=5.0, push_speed=0.7, push_spin=1.5)
    view = env.task.drones.bodies
    before = view.state.clone()
    env.disturbances.wait.fill_(1)  # one is due
    env.disturbances.act()
    change = view.state - before
    assert torch.allclose(change[..., 7:10].norm(dim=-1), torch.tensor(0.7), atol=1e-5)
    assert torch.allclose(change[..., 10:13].norm(dim=-1), torch.tensor(1.5), atol=1e-5)
    assert change[..., :7].abs().max() < 1e-6  # quaternions are written at unit length
    mean = change[..., 7:10].mean((0, 1))
    assert mean.norm() < 4 * 0.7 / math.sqrt(64)  # directions go all ways


def vectors(words: torch.Tensor, size: float) -> torch.Tensor:
    """Vectors [N, 3] of a length from two uniform numbers [N, 2] each: height on the sphere, and angle around it."""
    z = 2.0 * words[:, 0] - 1.0
    angle = math.tau * words[:, 1]
    across = (1.0 - z * z).sqrt()
    return size * torch.stack((across * angle.cos(), across * angle.sin(), z), -1)


def test_an_event_follows_from_the_worlds_numbers():
    """Four numbers give the directions of a push, the fifth the steps to the next one; a wrench takes four."""
    settings = {"push_rate": 4.0, "push_speed": 0.7, "push_spin": 1.5}
    settings |= {"wrench_rate": 3.0, "wrench_force": 0.3, "wrench_torque": 0.002, "wrench_time": 0.05}
    env = env_with(300, **settings)
    d = env.disturbances
    drawn = Streams(300, 0)
    drawn.keys[:], drawn.counters[:] = d.rng.keys, d.rng.counters
    words = drawn(None).uniform(0.0, 1.0, (9,))
    before = env.task.drones.bodies.state.clone()
    d.wait.fill_(1)
    d.act()
    change = (env.task.drones.bodies.state - before)[:, 0]
    close = {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(change[:, 7:10], vectors(words[:, 0:2], 0.7), **close)
    torch.testing.assert_close(change[:, 10:13], vectors(words[:, 2:4], 1.5), **close)
    weight = env.task.drone.mass * 9.81
    torch.testing.assert_close(d.wrench[:, 0, :3], vectors(words[:, 5:7], 0.3 * weight), **close)
    torch.testing.assert_close(d.wrench[:, 0, 3:], vectors(words[:, 7:9], 0.002 * weight), rtol=1e-3, atol=1e-7)
    again = 1 + (torch.log1p(-words[:, 4].double()) / math.log1p(-4.0 * env.control_dt)).long()
    assert torch.equal(d.wait[0, :, 0], again)
    assert (d.wait[1, :, 0] == round(0.05 / env.control_dt)).all()
    assert (d.rng.counters == drawn.counters).all()


def test_pushes_come_with_their_rate():
    env = env_with(2000, push_rate=2.0, push_speed=0.1)
    pushed = 0
    for _ in range(50):
        before = env.task.drones.bodies.state.clone()
        env.disturbances.act()
        pushed += int((env.task.drones.bodies.state != before).any(-1).sum())
    want = 2000 * 50 * 2.0 * env.control_dt
    assert pushed == pytest.approx(want, abs=4 * math.sqrt(want))


@every_engine
def test_a_wrench_accelerates_by_its_share_of_gravity_and_ends(engine):
    env = env_with(32, engine, wrench_rate=5.0, wrench_force=0.3, wrench_time=0.05)
    d = env.disturbances
    d.wait.fill_(1)
    d.act()  # all begin
    force = d.wrench[:, 0, :3]
    weight = env.task.drone.mass * 9.81
    assert torch.allclose(force.norm(dim=-1), torch.tensor(0.3 * weight), rtol=1e-4)
    assert (d.wrench[..., 3:] == 0.0).all()
    twin = env_with(32, engine, wrench_rate=5.0, wrench_force=0.0, wrench_time=0.05)
    for e in (env, twin):
        e.world.step(1)
    pull = (env.task.drones.bodies.lin_vel - twin.task.drones.bodies.lin_vel)[:, 0] / env.world.dt
    torch.testing.assert_close(pull, force / env.task.drone.mass, rtol=0.02, atol=0.02)
    d.wait.fill_(1)
    d.act()
    assert (d.wrench == 0.0).all()


def test_a_wrench_lasts_as_long_as_drawn():
    env = env_with(512, wrench_rate=1.0, wrench_force=0.1, wrench_time=0.1)
    d = env.disturbances
    steps = round(0.1 / env.control_dt)
    lengths, running = [], torch.zeros(512, dtype=torch.int64)
    for _ in range(60):
        d.act()
        pulled = (d.wrench[:, 0] != 0.0).any(-1)
        lengths += running[~pulled & (running > 0)].tolist()
        running = torch.where(pulled, running + 1, 0)
    assert lengths
    assert set(lengths) == {steps}


def test_nothing_is_drawn_and_nothing_moves_where_nothing_is_asked_for():
    env = env_with(4)
    before = env.task.drones.bodies.state.clone()
    counters = env.disturbances.rng.counters.copy()
    env.disturbances.act()
    assert torch.equal(env.task.drones.bodies.state, before)
    assert (env.disturbances.rng.counters == counters).all()


def test_rates_and_sizes_are_0_at_least_and_unless_drawn():
    parameters = env_with(1).randomization.parameters
    for name in ("push_rate", "push_speed", "push_spin", "wrench_rate", "wrench_force", "wrench_torque", "wrench_time"):
        p = parameters[name]
        assert p.nominal == p.low == p.typical[0] == 0.0 < p.typical[1] < p.high


def test_disturbed_episodes_repeat_and_resume_bit_by_bit():
    settings = {"push_rate": 3.0, "push_speed": 0.5, "wrench_rate": 3.0, "wrench_force": 0.3, "wrench_time": 0.1}
    a, b = (env_with(8, **settings) for _ in range(2))
    action = {"drone": torch.zeros(8, 1, 4)}
    for _ in range(20):
        x, y = a.step(action)[0]["drone"], b.step(action)[0]["drone"]
        assert torch.equal(x, y)
    c = rookery.make("drone-hover", num_envs=8, fixed=settings, config=NO_AIR, seed=9)  # that has not begun
    c.load_state_dict(a.state_dict())
    for _ in range(20):
        x, y = a.step(action)[0]["drone"], c.step(action)[0]["drone"]
        assert torch.equal(x, y)


@pytest.mark.parametrize(("task", "pushed"), [("go2-velocity", True), ("table-push", False), ("hand-reorient", True)])
def test_all_families_can_be_disturbed(task, pushed):
    env = rookery.make(task, num_envs=2)
    assert ("push_rate" in env.randomization.parameters) == pushed
    assert "wrench_force" in env.randomization.parameters
    assert all(w > 0 for w in env.disturbances._weight)


def test_pushes_of_one_world_alone_go_on_after_a_resume():
    env, again = env_with(3), env_with(3)
    env.reset()
    again.reset()
    again.load_state_dict(env.state_dict())
    assert not again.disturbances.on
    env.disturbances.parameters()["push_rate"].write(torch.tensor([1]), torch.tensor([40.0]))
    env.disturbances.parameters()["push_speed"].write(torch.tensor([1]), torch.tensor([1.0]))
    again.load_state_dict(env.state_dict())
    assert env.disturbances.on and again.disturbances.on
    again.load_state_dict(env.state_dict())
    assert again.disturbances.on
    action = {"drone": torch.zeros(3, 1, 4)}
    for _ in range(20):
        assert torch.equal(env.step(action)[0]["drone"], again.step(action)[0]["drone"])

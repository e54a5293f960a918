"""drone-track: paths, their speeds, the look-ahead, errors and success."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy.spatial.transform import Rotation

import rookery
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.tasks.drones.track import Track

PATHS = ["figure-eight", "circle", "random"]
every_path = pytest.mark.parametrize("path", PATHS)


def make(n: int = 4, **config: Any) -> VecEnv:
    env = rookery.make("drone-track", n, config={"bounds_m": 1000.0, "episode_s": 100.0, **config})
    env.reset(seed=0)
    return env


def neutral(env: VecEnv) -> torch.Tensor:
    g = env.groups["drone"]
    return torch.tensor(g.action.neutral, dtype=torch.float32).expand(env.num_envs, g.count, 4)


def look_ahead(env: VecEnv) -> torch.Tensor:
    """[N, A, 3 T] m: the observation turned into world axes, by SciPy's rotations."""
    values = env.task.observe()["drone"]["reference_ahead"].clone()
    frame = next(t.frame for t in env.groups["drone"].observation if t.name == "reference_ahead")
    if frame.startswith("world"):
        return values
    quat = Rotation.from_quat(env.task.drones.bodies.quat.reshape(-1, 4).double().numpy(), scalar_first=True)
    turn = torch.from_numpy(quat.as_matrix()).float().view(*values.shape[:2], 1, 3, 3)
    return (turn @ values.unflatten(-1, (-1, 3, 1))).squeeze(-1).flatten(-2)


def reference(task: Track, later: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """The references' places and velocities [N, A, 3] `later` s from now, from their amplitudes, frequencies and phases."""
    amplitude, frequency, phase = (x.double() for x in (task.amplitude, task.frequency, task.phase))
    angle = frequency * (task.clock.double() * task.cfg.control_dt + later)[:, None, None, None] + phase
    position = (amplitude * angle.sin()).sum(-1) + task.places
    return position.float(), (amplitude * frequency * angle.cos()).sum(-1).float()


@pytest.mark.parametrize("n", [1, 7, 20])
def test_the_reference_is_the_sum_of_its_harmonics(n):
    times = (0.15, 0.6)
    env = make(n, path="random", look_ahead_s=times, num_drones=2)
    task = env.task
    for _ in range(30):
        env.step(neutral(env))
        for value, want in zip((task.target, task.velocity), reference(task), strict=True):
            torch.testing.assert_close(value, want, atol=3e-6, rtol=0)
        ahead = torch.cat([reference(task, t)[0] - reference(task)[0] for t in times], dim=-1)
        torch.testing.assert_close(task._future, ahead, atol=5e-6, rtol=0)


def follow(env: VecEnv, steps: int, offset: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The reference's positions and velocities [T + 1, N, A, 3] and the look-ahead in world axes, with the drone put on
    the reference at every step."""
    task = env.task
    pos = [task.target.clone()]
    vel = [task.velocity.clone()]
    ahead = [look_ahead(env)]
    for _ in range(steps):
        state = torch.zeros(*task.target.shape[:2], 13)
        state[..., :3] = task.target
        state[..., 3] = 1.0
        state[..., 0] += offset
        task.drones.bodies.set_state(torch.arange(env.num_envs), state)
        env.step(neutral(env))
        pos.append(task.target.clone())
        vel.append(task.velocity.clone())
        ahead.append(look_ahead(env))
    return torch.stack(pos), torch.stack(vel), torch.stack(ahead)


@every_path
def test_velocity_is_the_slope_of_the_positions(path):
    env = make(path=path, num_drones=2)
    pos, vel, _ = follow(env, 150)
    slope = (pos[2:].double() - pos[:-2].double()) / (2 * env.control_dt)
    assert torch.allclose(slope.float(), vel[1:-1], atol=2e-3)
    assert vel.norm(dim=-1).mean() > 0.3


@every_path
def test_the_look_ahead_is_where_the_reference_will_be(path):
    """At each of the announced times, from where it is now."""
    times = (0.05, 0.2, 0.7)
    env = make(path=path, look_ahead_s=times, num_drones=2)
    pos, _, ahead = follow(env, 150)
    assert (
        env.groups["drone"].slices()["reference_ahead"].stop - env.groups["drone"].slices()["reference_ahead"].start
        == 9
    )
    for i, t in enumerate(times):
        later = round(t / env.control_dt)
        assert torch.allclose(ahead[:-later, ..., 3 * i : 3 * i + 3], pos[later:] - pos[:-later], atol=1e-4)


@pytest.mark.parametrize(
    ("path", "speed", "size"), [("figure-eight", 1.0, 1.0), ("figure-eight", 0.5, 0.7), ("circle", 1.5, 1.2)]
)
def test_closed_paths_close_and_are_flown_at_the_mean_speed(path, speed, size):
    env = make(2, path=path, speed=speed, size_m=size)
    frequency = env.task.frequency[0, 0, 0, 0].item()  # rad/s, of the motion in x
    steps = round(2 * math.pi / frequency / env.control_dt)
    pos, vel, _ = follow(env, steps)
    assert (pos[-1] - pos[0]).norm(dim=-1).max() < speed * env.control_dt
    length = (pos[1:] - pos[:-1]).norm(dim=-1).sum(0)
    assert torch.allclose(length / (steps * env.control_dt), torch.tensor(speed), rtol=5e-3)
    assert vel[:-1].norm(dim=-1).mean().item() == pytest.approx(speed, rel=5e-3)
    half = (pos.amax(0) - pos.amin(0)) / 2
    wanted = [size, 0.5 * size if path == "figure-eight" else size, 0.0]
    assert torch.allclose(half, torch.tensor(wanted).expand_as(half), atol=2e-3)
    assert torch.allclose((pos.amax(0) + pos.amin(0)) / 2, env.task.places.expand_as(half), atol=2e-3)


def test_a_circle_is_round_and_an_eight_crosses_itself():
    circle, _, _ = follow(make(3, path="circle"), 200)
    radius = (circle - torch.tensor([0.0, 0, 2])).norm(dim=-1)
    assert (radius - 1).abs().max() < 1e-4
    env = make(3, path="figure-eight")
    eight, vel, _ = follow(env, 800)
    centre = (eight - env.task.places).norm(dim=-1) < 0.02
    for i in range(3):  # through the middle in two directions that mirror each other
        through = vel[centre[:, i, 0], i, 0]
        slopes = through[:, 1] / through[:, 0]
        assert slopes.min() < -0.5
        assert slopes.max() > 0.5


def test_random_paths_have_the_rms_speed_and_stay_near():
    env = make(32, path="random", speed=0.8, num_drones=2)
    amplitude = env.task.amplitude
    frequency = env.task.frequency
    rms = ((amplitude * frequency).square().sum((-1, -2)) / 2).sqrt()
    assert torch.allclose(rms, torch.full_like(rms, 0.8), rtol=1e-4)
    pos, vel, _ = follow(env, 300)
    assert vel.square().sum(-1).mean().sqrt().item() == pytest.approx(0.8, rel=0.1)
    assert (pos - env.task.places).abs().max() < 1.4
    jerk = (vel[2:] - 2 * vel[1:-1] + vel[:-2]).norm(dim=-1) / env.control_dt
    assert jerk.max() < 0.2  # m/s^2 a control step: smooth


def test_paths_differ_between_worlds_drones_and_episodes():
    for path in PATHS:
        env = make(6, path=path, num_drones=2)
        a = env.task.observe()["drone"]["reference_ahead"].flatten(0, 1).clone()
        assert (torch.cdist(a, a) + torch.eye(12)).min() > 1e-3
        env.reset()
        assert (env.task.observe()["drone"]["reference_ahead"].flatten(0, 1) - a).norm(dim=-1).min() > 1e-4


def test_mixed_draws_all_kinds():
    env = make(300, path="mixed")
    harmonics = (env.task.amplitude[:, 0] > 0).sum((-1, -2))
    eight = torch.isclose(env.task.frequency[:, 0, 1, 0], 2 * env.task.frequency[:, 0, 0, 0])
    random = harmonics == 9
    counts = [(eight & ~random).sum(), random.sum(), (~eight & ~random).sum()]
    assert sum(counts) == 300
    assert min(counts) > 60
    reset = torch.arange(0, 300, 2)
    kept = env.task.amplitude[1::2].clone()
    env.task.reset(reset)
    assert torch.equal(env.task.amplitude[1::2], kept)


def test_unknown_paths_are_named():
    with pytest.raises(RookeryError, match="unknown path 'figure-eigth': did you mean 'figure-eight'"):
        make(path="figure-eigth")


def test_starts_are_around_the_path():
    env = make(500)
    s = env.task.drones.bodies.state[:, 0]
    away = (s[:, :3] - env.task.target[:, 0]).abs()
    assert 0.95 < away.max() <= 1.0 + 1e-5
    assert s[:, 7:10].abs().max() <= 0.5
    assert s[:, 10:13].abs().max() <= 1.0


def test_error_and_success_count_after_settling():
    env = make(3, episode_s=0.6, settle_s=0.2)
    offsets = torch.tensor([0.0, 0.08, 0.15])
    errors = []
    for k in range(60):
        ahead, _ = reference(env.task, env.control_dt)  # where it will be after the step
        state = torch.zeros(3, 1, 13)
        state[..., :3] = ahead
        state[..., 3] = 1.0
        state[:, 0, 2] += 1.0 if k < 20 else 2 * offsets if k < 25 else offsets
        env.task.drones.bodies.set_state(torch.arange(3), state)
        *_, info = env.step(neutral(env))
        seen = (
            info["final_observation"]["drone"][..., :3]
            if "episode" in info
            else env.task.target - env.task.drones.bodies.pos
        )
        errors.append(seen.norm(dim=-1)[:, 0])
    wanted = torch.stack(errors[20:]).mean(0)
    assert torch.allclose(wanted, offsets * 45 / 40, atol=3e-3)
    m = info["episode"]["metrics"]
    assert torch.allclose(m["error_m"], wanted, atol=1e-6)
    assert m["success"].tolist() == [1, 1, 0]


def test_leaving_the_path_behind_is_a_crash():
    env = make(2, bounds_m=1.5)
    state = torch.zeros(2, 1, 13)
    state[..., :3] = env.task.target
    state[..., 3] = 1.0
    state[1, 0, 2] += 1.6
    env.task.drones.bodies.set_state(torch.arange(2), state)
    *_, terminated, _, info = env.step(neutral(env))
    assert terminated.tolist() == [False, True]
    assert env.task.causes[info["episode"]["cause"][0] - 1] == "out_of_bounds"
    assert info["episode"]["metrics"]["success"].tolist() == [0]


def test_an_episode_that_ends_before_any_error_counts_is_judged_by_its_end():
    """The settle time alone: one drone on the path and one 20 cm above it."""
    env = make(2, episode_s=0.2, settle_s=0.2)
    for _ in range(20):
        ahead, _ = reference(env.task, env.control_dt)
        state = torch.zeros(2, 1, 13)
        state[..., :3] = ahead
        state[..., 3] = 1.0
        state[1, 0, 2] += 0.2
        env.task.drones.bodies.set_state(torch.arange(2), state)
        *_, info = env.step(neutral(env))
    metrics = info["episode"]["metrics"]
    assert metrics["success"].tolist() == [1, 0]
    assert metrics["error_m"].tolist() == pytest.approx([0.0, 0.2], abs=0.02)


def test_velocity_counts_against_the_references_velocity():
    env = make(4)
    env.step(neutral(env))
    terms = env.task.rewards()["drone"]
    b = env.task.drones.bodies
    assert torch.allclose(terms["velocity_error"], (b.lin_vel - env.task.velocity).norm(dim=-1))
    assert torch.allclose(terms["distance"], (b.pos - env.task.target).norm(dim=-1))


def test_the_pilot_follows_the_eight():
    env = rookery.make("drone-track", 16, config={"episode_s": 8.0})
    controller = env.task.controller()
    obs, _ = env.reset()
    for _ in range(env.max_episode_steps):
        obs, *_, info = env.step(controller(obs))
    assert len(info["episode"]["ids"]) == 16
    assert info["episode"]["metrics"]["error_m"].mean() < 0.2


def test_episodes_of_staggered_clocks_start_near_their_reference():
    """Trainers spread the clocks after a reset: the reference must not jump away from under the drones."""
    env = rookery.make("drone-track", 20)
    env.reset()
    env.stagger()
    before = (env.task.target - env.task.drones.bodies.pos).norm(dim=-1)
    env.step(neutral(env))
    after = (env.task.target - env.task.drones.bodies.pos).norm(dim=-1)
    assert (after - before).abs().max() < 0.1

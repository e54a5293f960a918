"""Every reward and observation term of go2-velocity on states set by hand: value, sign, axes and unit; see legged_states."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch
from legged_states import BODY_VELOCITY, CALM, FEET, LeggedScene, N

import rookery
from rookery.tasks.locomanip.velocity import VelocityConfig
from rookery.tasks.strain import STRAIN_METRICS


@pytest.fixture(scope="module")
def scene() -> LeggedScene:
    return LeggedScene("go2-velocity", 12)


TERMS = tuple(VelocityConfig().reward)
GOOD = {"tracking_lin_vel", "tracking_ang_vel", "alive"}


@pytest.mark.parametrize("term", TERMS)
def test_reward_terms(scene, term):
    got = scene.task.rewards()["robot"][term]
    expected = scene.rewards(sigma=0.1)[term]
    assert got.shape == (N, 1)
    np.testing.assert_allclose(got[:, 0], expected, rtol=2e-4, atol=2e-5)
    assert np.ptp(expected) > 0, "the states do not tell this term's faults"


@pytest.mark.parametrize("term", TERMS)
def test_following_is_rewarded_and_everything_else_costs(term):
    weight = VelocityConfig().reward[term]
    assert weight > 0 if term in GOOD else weight < 0


def test_observation_terms(scene):
    expected = scene.observations()
    got = scene.task.observe()["robot"]
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name][:, 0], value, rtol=1e-4, atol=1e-5, err_msg=name)
    privileged = scene.task.observe_privileged()["robot"]["base_velocity"][:, 0]
    np.testing.assert_allclose(privileged, BODY_VELOCITY, rtol=1e-4, atol=1e-5)


def test_state_of_a_critic(scene):
    assert scene.feet.min() < -0.1 and scene.feet.max() > 0.2, "beyond the limits of the feet's heights"
    np.testing.assert_allclose(scene.task.state(), scene.state(), rtol=1e-3, atol=1e-4)


def test_home_is_the_manufacturers_stance(scene):
    """Hips 0.1 rad outward, thighs forward, knees bent, alike on both sides."""
    legs = scene.home.reshape(4, 3)
    assert legs[:, 0] == pytest.approx([0.1, -0.1, 0.1, -0.1])
    assert (legs[:, 1] > 0.5).all() and (legs[:, 2] < -1.2).all()
    assert (legs[0, 1:] == legs[1, 1:]).all() and (legs[2, 1:] == legs[3, 1:]).all()


def test_slip_is_the_speed_of_the_feet_that_are_down():
    env = rookery.make("go2-velocity", 2, config=CALM)
    env.reset(seed=0)
    actions = {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(2, 1, -1).clone()}
    for _ in range(40):
        env.step(actions)
    state = env.task.robot.base.state.clone()
    state[1, 0, 7:9] = torch.tensor([0.6, -0.3])  # m/s: the second one is shoved
    env.task.robot.base.set_state(None, state)
    env.world.forward()
    env.step(actions)
    expected = []
    for i in range(2):
        data, model = env.mj_data(i), env.world.model
        total = 0.0
        for name in FEET:
            velocity = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, model.site(name).id, velocity, 0)
            down = data.site(name).xpos[2] - model.geom(name).size[0] < 0.004
            total += down * (velocity[3] ** 2 + velocity[4] ** 2)
        expected.append(total)
    got = env.task.rewards()["robot"]["feet_slip"][:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
    assert expected[1] > 100 * expected[0]


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.0), (0.3, 0.22, 0.38), (1.0, 1.0, 1.0)])
def test_the_share_of_commands_to_stand(share, low, high):
    """Of 32 worlds' commands, new every control step."""
    env = rookery.make("go2-velocity", 32, config={**CALM, "stand_share": share, "resample_s": 0.02})
    env.reset(seed=1)
    actions = {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(32, 1, -1).clone()}
    commands = []
    for _ in range(16):
        env.step(actions)
        commands.append(env.task.command.clone())
    stand = (torch.stack(commands) == 0.0).all(-1).float().mean()
    assert low <= stand <= high


def test_rewards_are_for_the_command_that_was_in_force():
    """Not for one that is drawn at the step's end, which the next action is the first to know of."""
    config = {**CALM, "resample_s": 0.04, "stand_share": 0.5}
    env = rookery.make("go2-velocity", 8, config=config, seed=1)
    env.reset()
    terms: dict[str, torch.Tensor] = {}
    env.record_terms(lambda what, named: terms.update(named["robot"]) if what == "reward" else None)
    task, changes = env.task, 0
    for _ in range(8):
        before = task.command.clone()
        env.step(torch.zeros(8, 1, 12))
        changes += int((task.command != before).any(1).sum())
        velocity, spin, moving = task.robot.velocity, task.robot.base.ang_vel[:, 0, 2], (before != 0.0).any(1)
        off = (velocity[:, :2] - before[:, :2]).square().sum(1)
        sigma = task.cfg.tracking_sigma
        torch.testing.assert_close(terms["tracking_lin_vel"][:, 0], torch.exp(-off / sigma))
        turn = (spin - before[:, 2]).square()
        torch.testing.assert_close(terms["tracking_ang_vel"][:, 0], torch.exp(-turn / (2.0 * sigma)))
        assert not terms["stand_still"][moving].any()
    assert changes > 10
    env.close()


def test_commands_fill_their_ranges():
    """Forward -0.6 to 1, sideways -0.4 to 0.4 m/s, turning -0.8 to 0.8 rad/s."""
    env = rookery.make("go2-velocity", 256, config=CALM)
    env.reset(seed=1)
    least, most = env.task.command.amin(0).tolist(), env.task.command.amax(0).tolist()
    assert least == pytest.approx([-0.6, -0.4, -0.8], abs=0.03) and most == pytest.approx([1.0, 0.4, 0.8], abs=0.03)
    assert min(least[0] + 0.6, least[1] + 0.4, least[2] + 0.8) >= 0 and most[0] <= 1 and most[1] <= 0.4


def test_the_velocity_error_is_that_behind_a_low_pass_of_0_2_seconds():
    """A command of 0.5 m/s to a robot at rest, smoothed over 0.2 s, one control step of 0.02 s after the speed is set."""
    env = rookery.make("go2-velocity", 2, config={**CALM, "settle_s": 0.0})
    env.reset(seed=0)
    task = env.task
    task.steps.fill_(60)
    task.command.copy_(torch.tensor([[0.5, 0.0, 0.2]]).expand(2, 3))
    task.smooth.zero_()
    state = task.robot.base.state.clone()
    state[:, 0, 7:10] = torch.tensor([0.4, 0.1, 0.0])
    state[:, 0, 10:13] = torch.tensor([0.0, 0.0, 0.3])
    task.robot.base.set_state(None, state)
    env.world.forward()
    task.advance()
    figures = task.metrics()
    forward, left, turn = 0.1 * 0.4, 0.1 * 0.1, 0.1 * 0.3  # a tenth of the way: 0.02 s of 0.2 s
    assert figures["velocity_error"].tolist() == pytest.approx([math.hypot(0.5 - forward, left)] * 2, rel=1e-3)
    assert figures["turn_error"].tolist() == pytest.approx([0.2 - turn] * 2, rel=1e-3)
    assert figures["velocity_error_all"].tolist() == pytest.approx([math.hypot(0.5 - 0.4, 0.1)] * 2, rel=1e-3)
    assert figures["turn_error_all"].tolist() == pytest.approx([0.3 - 0.2] * 2, rel=1e-3)


def test_the_error_over_all_time_counts_from_the_settle_time_after_the_start():
    env = rookery.make("go2-velocity", 1, config={**CALM, "settle_s": 0.1})
    env.reset(seed=0)
    task = env.task
    squares = []
    for step in range(12):
        task.steps.fill_(step)
        task.command.fill_(0.1 * step)
        before = task.command.clone()
        task.advance()
        squares.append(float((task.level_velocity() - before[:, :2]).square().sum()))
    figures = task.metrics()
    assert float(figures["velocity_error_all"]) == pytest.approx(math.sqrt(sum(squares[5:]) / 7), rel=1e-4)


def test_metrics_are_roots_of_means_and_success_needs_0_15_m_s_and_no_fall():
    env = rookery.make("go2-velocity", 4, config=CALM)
    env.reset(seed=0)
    task = env.task
    for name, value in (
        ("squared", [0.16, 0.25, 0.16, 0.0]), ("rate_squared", [4.0, 9.0, 0.0, 0.0]), ("counted", [10.0, 10.0, 10.0, 0.0]),
        ("squared_all", [5.0, 20.0, 0.0, 0.0]), ("rate_squared_all", [20.0, 5.0, 0.0, 0.0]), ("counted_all", [20.0] * 4),
        ("change_sum", [5.0, 10.0, 0.0, 20.0]), ("torque_peak", [1.0, 2.0, 3.0, 4.0]), ("steps", [50, 50, 50, 0]),
        ("fallen", [False, False, True, False]),
        ("smooth", [[0.0, 0.0, 0.0]] * 3 + [[0.4, 0.0, 0.1]]),
        ("command", [[1.0, 0.0, 0.0]] * 3 + [[0.1, -0.4, 0.4]]),
    ):  # fmt: skip
        getattr(task, name).copy_(torch.tensor(value))
    task.posture.height_squared.copy_(torch.tensor([0.5, 2.0, 0.0, 0.0]))
    # of the last one nothing has counted: the error now, (0.3, 0.4) m/s and 0.3 rad/s
    expected = {
        "success": [1, 0, 0, 0], "velocity_error": [math.sqrt(0.016), math.sqrt(0.025), math.sqrt(0.016), 0.5],
        "turn_error": [math.sqrt(0.4), math.sqrt(0.9), 0, 0.3], "velocity_error_all": [0.5, 1, 0, 0],
        "turn_error_all": [1, 0.5, 0, 0], "height_error": [0.1, 0.2, 0, 0], "fell": [0, 0, 1, 0],
        "action_change": [0.1, 0.2, 0, 20], "torque_peak": [1, 2, 3, 4],
    }  # fmt: skip
    got = task.metrics()
    assert set(got) == {*expected, "knee_height", *STRAIN_METRICS}
    for name, value in expected.items():
        assert got[name].tolist() == pytest.approx(value, rel=1e-5), name


def test_the_height_error_is_of_every_control_step():
    """Beside the engine's own height of the trunk; the robot stands at 0.29 m, and lets itself down by its shins."""
    env = rookery.make("go2-velocity", 1, config=CALM)
    env.reset(seed=0)
    heights = env.world.batch.bind("qpos")[:, 2]
    shins_in = torch.zeros(1, 1, 12)
    shins_in[..., 2::3] = -0.5
    squares = []
    for _ in range(12):
        env.step({"robot": shins_in})
        squares.append(float((heights[0] - 0.29) ** 2))
    error = env.task.metrics()["height_error"].item()
    env.close()
    assert error == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-4)
    assert error > 0.01


def test_the_torque_peak_is_of_every_physics_step():
    """Beside the engine's own forces, read between the physics steps."""
    env = rookery.make("go2-velocity", 2, config=CALM)
    env.reset(seed=0)
    forces = env.world.batch.bind("actuator_force")
    every, last = np.zeros(2), np.zeros(2)
    env.world.inner_loops += (lambda _: np.maximum(every, np.abs(forces).max(1), out=every),)
    generator = torch.Generator().manual_seed(0)
    for _ in range(12):
        env.step({"robot": torch.rand(2, 1, 12, generator=generator) * 2 - 1})
        last = np.maximum(last, np.abs(forces).max(1))
    peak = env.task.metrics()["torque_peak"].numpy()
    env.close()
    np.testing.assert_allclose(peak, np.maximum(every, last), rtol=1e-6)
    assert (peak > 1.02 * last).any()  # than the largest at the ends of control steps


def test_an_early_fall_has_the_error_of_its_end():
    """Nothing has counted after 0.1 s of the settle time of 1 s; 0 m/s would lower the mean of all episodes."""
    env = rookery.make("go2-velocity", 2, config={**CALM, "fall_height_m": 1.0})
    env.reset(seed=0)
    env.task.command.copy_(torch.tensor([[0.8, 0.0, 0.5], [-0.6, 0.0, 0.0]]))
    neutral = torch.tensor(env.groups["robot"].action.neutral).expand(2, 1, -1).clone()
    episode = env.step({"robot": neutral})[4]["episode"]
    figures = {name: v.tolist() for name, v in episode["metrics"].items()}
    assert figures["fell"] == [1, 1] and figures["success"] == [0, 0]
    for name, expected in (("velocity_error", [0.8, 0.6]), ("velocity_error_all", [0.8, 0.6])):
        assert figures[name] == pytest.approx(expected, abs=0.1), name
    assert figures["turn_error_all"] == pytest.approx([0.5, 0.0], abs=0.2)


def test_after_a_reset_nothing_has_happened():
    """In the worlds that are reset; what the others remember stays."""
    env = rookery.make("go2-velocity", 2, config=CALM)
    env.reset(seed=0)
    task = env.task
    names = ("contact", "touchdown", "fallen", "slip", "squared", "counted", "change_sum", "torque_peak")
    for name in names:
        getattr(task, name).fill_(1)
    task.reset(torch.tensor([1]))
    for name in names:
        value = getattr(task, name)
        assert value[0].all() and not value[1].any(), name
    assert not any(event[1].any() for event in task.events().values())

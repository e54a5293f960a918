"""The library of reward terms: closed forms, properties, shapes. Meta-World's are in test_meta_world_rewards.py."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
import torch

from rookery.tasks import rewards

N, A = 5, 3


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(got: torch.Tensor, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-6, atol=1e-6)


def test_sums_of_squares_and_sizes_are_numpys():
    x, y = numbers(N, A, 6), numbers(N, A, 6, seed=1)
    a, b = x.double().numpy(), y.double().numpy()
    for f in (rewards.joint_torques_l2, rewards.joint_vel_l2, rewards.action_l2):
        close(f(x), np.linalg.norm(a, axis=-1) ** 2)
    close(rewards.ang_vel_l2(x[..., :3]), np.linalg.norm(a[..., :3], axis=-1) ** 2)
    for f in (rewards.action_rate_l2, rewards.joint_deviation_l2):
        close(f(x, y), np.linalg.norm(a - b, axis=-1) ** 2)
    close(rewards.joint_deviation_l1(x, y), np.linalg.norm(a - b, ord=1, axis=-1))
    close(rewards.distance(x[..., :3], y[..., :3]), np.linalg.norm(a[..., :3] - b[..., :3], axis=-1))


def test_terms_of_a_trunk_see_their_own_axes_alone():
    unit = torch.eye(3)  # along x, y, z
    assert rewards.lin_vel_z_l2(2.0 * unit).tolist() == [0.0, 0.0, 4.0]
    assert rewards.ang_vel_xy_l2(2.0 * unit).tolist() == [4.0, 4.0, 0.0]
    tilt = torch.tensor([0.0, 0.3, 1.2])
    for axis in (0, 1):
        up = torch.zeros(3, 3)
        up[:, axis], up[:, 2] = tilt.sin(), tilt.cos()
        close(rewards.flat_orientation_l2(up), np.sin([0.0, 0.3, 1.2]) ** 2)
    close(rewards.base_height_l2(torch.tensor([0.25, 0.3, 0.5]), 0.3), np.array([0.0025, 0.0, 0.04]))


def test_motors_give_power_and_take_none_back():
    torque, vel = torch.tensor([[2.0, -2.0, 1.0], [-3.0, 0.0, 4.0]]), torch.tensor([[3.0, 3.0, 0.5], [-1.0, 9.0, -1.0]])
    assert rewards.joint_power(torque, vel).tolist() == [6.5, 3.0]


def test_velocities_that_are_met_are_worth_1_and_less_by_a_bell():
    command = numbers(N, 2)
    std = 0.4
    velocity = torch.cat((command, numbers(N, 1, seed=3)), dim=1)  # whatever it is upward
    assert torch.equal(rewards.track_lin_vel_xy_exp(velocity, command, std), torch.ones(N))
    off = velocity + torch.tensor([0.6 * std, -0.8 * std, 0.0])
    close(rewards.track_lin_vel_xy_exp(off, command, std), np.full(N, math.exp(-1.0)))
    assert torch.equal(rewards.track_ang_vel_z_exp(command[:, 0], command[:, 0], std), torch.ones(N))
    for sign in (1.0, -1.0):
        off = command[:, 0] + sign * 2.0 * std
        close(rewards.track_ang_vel_z_exp(off, command[:, 0], std), np.full(N, math.exp(-4.0)))


@pytest.mark.parametrize(
    ("near", "half"),
    [
        (lambda d: rewards.closeness_exp(d, 0.2), 0.2 * math.log(2.0)),
        (lambda d: rewards.closeness_tanh(d, 0.2), 0.2 * math.atanh(0.5)),
        (rewards.closeness_inverse, 1.0),
        (lambda d: rewards.proximity_l2(d, 0.4), 0.4 * (1.0 - math.sqrt(0.5))),
    ],
)
def test_what_is_near_is_worth_1_half_of_it_where_it_should_be_and_falls(near, half):
    d = torch.linspace(0.0, 0.39, 40)
    value = near(d)
    assert value[0] == 1.0 and (value.diff() < 0.0).all() and (value >= 0.0).all()
    assert near(torch.tensor(half)).item() == pytest.approx(0.5, rel=1e-5)


def test_a_safe_gap_costs_nothing():
    assert rewards.proximity_l2(torch.tensor([0.4, 0.41, 3.0]), 0.4).tolist() == [0.0, 0.0, 0.0]


def test_a_gait_is_followed_by_feet_down_in_stance_and_up_in_swing():
    swing = torch.tensor([[True, False, False, True]]).expand(4, 4)
    contact = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
    assert rewards.feet_gait(contact, swing).tolist() == [0.0, 0.25, 1.0, 0.5]


def test_feet_count_where_they_should():
    v = torch.tensor([[[3.0, 4.0, 9.0], [0.0, 1.0, -2.0], [0.0, 0.0, -3.0], [9.0, 9.0, 2.0]]])
    on = torch.tensor([[True, True, False, False]])
    assert rewards.feet_slide_l2(v, on).tolist() == [26.0]
    assert rewards.feet_landing_l2(v, ~on).tolist() == [9.0]  # the fourth rises
    error = torch.tensor([[0.1, -0.2, 5.0, 5.0]])
    assert rewards.feet_clearance_l2(error, on).item() == pytest.approx(0.05)


def test_long_steps_pay_when_they_end():
    air = torch.tensor([[0.7, 0.2, 0.9, 0.1]])
    down = torch.tensor([[True, True, False, False]])
    assert rewards.feet_air_time(air, down, 0.5).item() == pytest.approx(0.2 - 0.3)
    assert rewards.feet_air_time(air, ~down & False, 0.5).item() == 0.0


def test_only_low_knees_kneel():
    knees = torch.tensor([[1.0, 0.7, 0.6, 0.9], [0.5, 0.2, 1.0, 1.0]])
    torch.testing.assert_close(rewards.kneeling(knees, 0.6), torch.tensor([0.0, 0.5]))


def test_flags_are_numbers():
    ended = torch.tensor([True, False])
    assert rewards.is_terminated(ended).tolist() == [1.0, 0.0]
    assert rewards.is_alive(ended).tolist() == [0.0, 1.0]
    assert rewards.undesired_contacts(torch.tensor([0, 1, 7])).tolist() == [0.0, 1.0, 1.0]


CALLS = {
    "feet_gait": lambda f, x: f(x > 0.0, x > 0.5),
    "feet_slide_l2": lambda f, x: f(x.unflatten(-1, (2, 3)), x[..., :2] > 0.0),
    "feet_landing_l2": lambda f, x: f(x.unflatten(-1, (2, 3)), x[..., :2] > 0.0),
    "feet_air_time": lambda f, x: f(x, x > 0.0, 0.3),
    "feet_clearance_l2": lambda f, x: f(x, x > 0.0),
    "track_lin_vel_xy_exp": lambda f, x: f(x, x[..., 3:5], 0.5),
    "is_alive": lambda f, x: f(x[..., 0] > 0.0),
    "tolerance": lambda f, x: f(x[..., 0], 0.0, 0.1, 0.5),
}
"""How terms are called that take other than numbers [..., 6], or [...]."""
OF_ONE_NUMBER = {
    "base_height_l2",
    "track_ang_vel_z_exp",
    "closeness_exp",
    "closeness_tanh",
    "closeness_inverse",
    "proximity_l2",
}
OF_ONE_NUMBER |= {"undesired_contacts", "is_terminated", "hamacher_product"}


def call(name: str, x: torch.Tensor) -> torch.Tensor:
    f = getattr(rewards, name)
    if name in CALLS:
        return CALLS[name](f, x)
    count = len(inspect.signature(f).parameters)
    given = [x[..., i] for i in range(count)] if name in OF_ONE_NUMBER else [x + i for i in range(count)]
    if list(inspect.signature(f).parameters)[-1] in ("std", "safe", "target", "least"):
        given[-1] = 0.7
    return f(*given)


@pytest.mark.parametrize("name", [n for n in rewards.__all__ if n != "gripper_caging"])
def test_each_robot_is_judged_alone_in_any_number_of_worlds_and_agents(name):
    x = numbers(N, A, 6)
    before = x.clone()
    whole = call(name, x)
    assert whole.shape == (N, A) and whole.dtype == torch.float32
    assert torch.equal(x, before)  # nothing is written
    for n in range(N):
        torch.testing.assert_close(call(name, x[n]), whole[n])
        torch.testing.assert_close(call(name, x[n, 1]), whole[n, 1])

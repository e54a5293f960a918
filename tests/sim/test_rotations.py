"""Rotations against SciPy's."""

from __future__ import annotations

import torch
from scipy.spatial.transform import Rotation, Slerp

from rookery.sim.random import Streams
from rookery.sim.rotations import from_axis_angle, matrix, multiply, slerp


def random_quaternions(*shape: int, seed: int = 0) -> torch.Tensor:
    q = Streams(shape[0], seed)().normal((*shape[1:], 4))
    return q / q.norm(dim=-1, keepdim=True)


def scipy(q: torch.Tensor) -> Rotation:
    return Rotation.from_quat(q.reshape(-1, 4).double().numpy(), scalar_first=True)


def test_matrix():
    q = random_quaternions(50, 3)
    wanted = torch.from_numpy(scipy(q).as_matrix()).float().reshape(50, 3, 9)
    assert torch.allclose(matrix(q), wanted, atol=1e-6)
    assert torch.allclose(matrix(-q), wanted, atol=1e-6)
    assert matrix(q[0, 0]).shape == (9,)
    assert torch.equal(matrix(torch.tensor([1.0, 0, 0, 0])), torch.eye(3).flatten())


def test_a_matrix_does_not_depend_on_those_beside_it():
    q = random_quaternions(200)
    whole = matrix(q)
    for size in range(1, 9):
        assert all(
            torch.equal(matrix(part), wanted) for part, wanted in zip(q.split(size), whole.split(size), strict=True)
        )


def test_multiply_turns_by_the_second_first():
    a, b = random_quaternions(40), random_quaternions(40, seed=1)
    wanted = (scipy(a) * scipy(b)).as_matrix()
    assert torch.allclose(matrix(multiply(a, b)), torch.from_numpy(wanted).float().reshape(40, 9), atol=2e-6)
    assert torch.allclose(multiply(a, b).norm(dim=-1), torch.ones(40))


def test_from_axis_angle():
    axis = Streams(60, 0)().unit_vectors()
    angle = torch.linspace(-3, 3, 60)
    q = from_axis_angle(axis, angle)
    wanted = Rotation.from_rotvec((axis * angle[:, None]).double().numpy()).as_matrix()
    assert torch.allclose(matrix(q), torch.from_numpy(wanted).float().reshape(60, 9), atol=1e-6)
    one_axis = from_axis_angle(torch.tensor([0.0, 0.0, 1.0]).expand(5, 2, 3), torch.ones(5, 2))
    assert one_axis.shape == (5, 2, 4)


def test_slerp_turns_evenly_on_the_short_way():
    start, end = random_quaternions(30), random_quaternions(30, seed=1)
    shares = torch.linspace(0.0, 1.0, 5)
    got = slerp(start[:, None], end[:, None], shares[:, None])
    assert torch.equal(slerp(start[:, None], -end[:, None], shares[:, None]), got)
    for i in range(30):
        between = Slerp([0.0, 1.0], Rotation.concatenate([scipy(start[i]), scipy(end[i])]))(shares.numpy())
        assert ((scipy(got[i]) * between.inv()).magnitude() < 2e-3).all()
    assert (got.norm(dim=-1) - 1.0).abs().max() < 1e-6


def test_slerp_between_orientations_that_are_alike():
    q = random_quaternions(20)
    near = multiply(from_axis_angle(torch.tensor([1.0, 0.0, 0.0]), torch.full((20,), 1e-5)), q)
    for end in (q, near, -q):
        got = slerp(q, end, torch.full((20, 1), 0.3))
        assert torch.minimum((got - q).norm(dim=1), (got + q).norm(dim=1)).max() < 1e-5

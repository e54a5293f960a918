"""The compiled algebra of rewards against the formulas of Meta-World, world by world."""

from __future__ import annotations

import math

import pytest
import torch

from rookery.tasks.manipulation.shaping import both, cage, distance, nearness, tolerance


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_value_is_whole_within_its_bounds_and_a_tenth_at_the_margin(gaussian: bool) -> None:
    x = torch.tensor([0.1, 0.2, 0.4, 0.0, 0.5, 0.45])
    tenth = math.exp(math.log(0.1) / 4) if gaussian else 1.0 / (1.0 + 9.0 / 4)
    got = tolerance(x, 0.1, 0.4, 0.1, gaussian)
    assert got.tolist() == pytest.approx([1.0, 1.0, 1.0, 0.1, 0.1, tenth], abs=1e-6)
    assert torch.equal(tolerance(x, 0.1, 0.4, torch.full((6,), 0.1), gaussian), got)


def test_shapes_and_margins_of_each_value() -> None:
    x = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))[:, ::2]  # not side by side in memory
    margin = torch.tensor([0.0, 0.1, 0.2, 0.4]).expand(5, 4)
    got = tolerance(x, 0.0, 0.25, margin)
    off = (x - 0.25).clamp_min(0.0)
    torch.testing.assert_close(got, 1.0 / (1.0 + 9.0 * (off / margin.clamp_min(1e-6)).square()))
    assert (got[:, 0] < 1e-6).equal(x[:, 0] > 0.25)  # a margin of nothing leaves nothing


def test_distance_is_that_of_a_calculation_in_twice_the_digits() -> None:
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(500, 3, generator=g), torch.randn(500, 4, generator=g)[:, :3]  # not side by side in memory
    exact = (a.double() - b.double()).square().sum(1).sqrt()
    torch.testing.assert_close(distance(a, b).double(), exact, rtol=3e-7, atol=0.0)


def test_nearness_is_the_tolerance_of_a_distance_with_that_of_the_beginning_as_margin() -> None:
    g = torch.Generator().manual_seed(0)
    place, target, place_0 = torch.randn(3, 500, 3, generator=g)
    target[:20] = place[:20] + 0.01
    error, near = nearness(place, target, place_0, 0.05)
    assert torch.equal(error, distance(place, target))
    assert torch.equal(near, tolerance(error, 0.0, 0.05, distance(place_0, target)))
    assert (near[:20] == 1.0).all() and (near[20:] < 1.0).all()


def test_both_is_the_hamacher_product() -> None:
    a, b = torch.tensor([0.0, 0.0, 1.0, 0.5, 1.0]), torch.tensor([0.0, 0.7, 0.3, 0.5, 1.0])
    assert both(a, b).tolist() == pytest.approx([0.0, 0.0, 0.3, 1.0 / 3.0, 1.0])
    assert torch.equal(both(a, b), both(b, a))


def caged(opening: float, off: tuple[float, float, float], effort: float, **form: float) -> float:
    """`cage` of a tool at the origin that began 10 cm over and beside a thing `off` it, in one of two worlds."""
    origin = torch.zeros(2, 3)
    thing = torch.tensor([off, (0.3, 0.3, 0.3)])
    start = torch.tensor([0.1, 0.1, 0.1])
    got = cage(
        origin, torch.full((2,), opening), thing, origin + start, thing, torch.full((2,), effort),
        radius=0.015, pad=0.05, beside=0.005, **form,
    )  # fmt: skip
    assert float(got[1]) < 0.1
    return float(got[0])


@pytest.mark.parametrize("form", [{}, {"opening_0": 0.08}])
def test_fingers_around_a_thing_are_worth_half_and_a_grip_the_rest(form: dict[str, float]) -> None:
    around = (0.0, 0.0, 0.0)
    assert caged(0.04, around, -1.0, **form) == pytest.approx(0.5)
    assert caged(0.04, around, 2.0, **form) == pytest.approx(1.0)
    assert caged(0.04, around, 0.5, **form) == pytest.approx(0.75)
    assert caged(0.04, (0.02, 0.0, 0.02), 1.0, **form) < 0.5  # beside it, along x and z, a grip is worth nothing
    # two pads on one side are beside it in the first form alone: in the other one is 45 mm from where it counts, of 60 mm
    expected = 0.5 / (1.0 + 9.0 * 0.75**2) if form else 0.5
    assert caged(0.0, (0.0, 0.03, 0.0), -1.0, **form) == pytest.approx(expected, abs=1e-3)

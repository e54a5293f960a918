"""Categorical value distributions against a loop over their values, and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.policies.nn.categorical import Categorical

CPU = torch.device("cpu")


def projected(probabilities, low, high, shift, discount):
    """Algorithm 1 of Bellemare et al. (2017), one value after the other."""
    atoms = len(probabilities)
    gap = (high - low) / (atoms - 1)
    out = [0.0] * atoms
    for j, p in enumerate(probabilities):
        b = (min(max(shift + discount * (low + j * gap), low), high) - low) / gap
        lower = min(math.floor(b + 1e-12), atoms - 1)
        share = max(b - lower, 0.0)
        out[lower] += p * (1.0 - share)
        if lower + 1 < atoms:
            out[lower + 1] += p * share
    return out


@settings(max_examples=60, deadline=None)
@given(st.floats(-30, 30), st.floats(0, 1), st.integers(2, 12), st.integers(0, 10**6))
def test_projection_is_the_papers_algorithm(shift, discount, atoms, seed):
    c = Categorical(-3.0, 5.0, atoms, CPU)
    p = torch.rand(1, atoms, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    got = c.project(p, torch.tensor([shift]), torch.tensor([discount]))
    wanted = torch.tensor([projected(p[0].double().tolist(), -3.0, 5.0, shift, discount)], dtype=torch.float32)
    torch.testing.assert_close(got, wanted, atol=2e-5, rtol=0.0)
    assert float(got.sum()) == pytest.approx(1.0, abs=1e-5) and float(got.min()) >= 0.0


def test_the_mean_moves_as_the_values_do_where_nothing_is_cut_off():
    c = Categorical(-10.0, 10.0, 51, CPU)
    p = torch.rand(20, 51, generator=torch.Generator().manual_seed(0)).softmax(-1)
    shift = torch.linspace(-1.0, 1.0, 20)
    got = c.project(p, shift, torch.full((20,), 0.7))
    torch.testing.assert_close(got @ c.values, shift + 0.7 * (p @ c.values), atol=1e-4, rtol=0.0)


def test_mass_beyond_the_values_goes_to_the_last():
    c = Categorical(0.0, 4.0, 5, CPU)
    p = torch.full((2, 5), 0.2)
    got = c.project(p, torch.tensor([100.0, -100.0]), torch.ones(2))
    assert got.tolist() == [[0.0] * 4 + [pytest.approx(1.0)], [pytest.approx(1.0)] + [0.0] * 4]


def test_loss_is_least_at_the_target_itself():
    c = Categorical(-1.0, 1.0, 3, CPU)
    target = torch.tensor([[0.2, 0.5, 0.3]])
    logits = target.log().clone().requires_grad_()
    loss = c.loss(logits, target).sum()
    assert loss.item() == pytest.approx(-sum(x * math.log(x) for x in (0.2, 0.5, 0.3)), abs=1e-6)
    loss.backward()
    torch.testing.assert_close(logits.grad, torch.zeros(1, 3), atol=1e-6, rtol=0.0)
    assert float(c.mean(torch.tensor([5.0, 5.0, 5.0]))) == pytest.approx(0.0, abs=1e-6)
    assert float(c.mean(torch.tensor([0.0, -1e4, -1e4]))) == pytest.approx(-1.0)

"""Batch normalization against torch.nn.BatchNorm1d, network by network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rookery.policies.nn.batch_norm import EPS, MOMENTUM, BatchNorm

G = torch.Generator().manual_seed(0)
ROWS = 12
WIDTH = 5


def pair() -> tuple[BatchNorm, list[nn.BatchNorm1d]]:
    """Ours of two networks, and torch's of each, with the same random gains and shifts."""
    mine = BatchNorm(2, WIDTH)
    theirs = []
    for k in range(2):
        layer = nn.BatchNorm1d(WIDTH, eps=EPS, momentum=MOMENTUM)
        for own, its in ((mine.gain, layer.weight), (mine.shift, layer.bias)):
            own.data[k, 0].normal_(generator=G)
            its.data.copy_(own.data[k, 0])
        theirs.append(layer)
    return mine, theirs


@pytest.mark.parametrize("counting", [None, [True] * 7 + [False] * 5])
def test_values_gradients_and_running_statistics_are_torchs(counting):
    """Rows that do not count take no part: torch is given the others."""
    mine, theirs = pair()
    counted = torch.tensor(counting or [True] * ROWS)
    n = int(counted.sum())
    for _ in range(3):
        x = (3.0 * torch.randn(2, ROWS, WIDTH, generator=G) + 1.0).requires_grad_()
        weight = torch.randn(2, n, WIDTH, generator=G)
        out = mine(x, counted)
        gradient = torch.autograd.grad((out[:, counted] * weight).sum(), x)[0]
        assert counting is None or (gradient[:, ~counted] == 0.0).all()
        for k, layer in enumerate(theirs):
            own = x[k, counted].detach().requires_grad_()
            wanted = layer(own)
            torch.testing.assert_close(out[k, counted], wanted)
            torch.testing.assert_close(
                gradient[k, counted], torch.autograd.grad((wanted * weight[k]).sum(), own)[0], atol=1e-5, rtol=1e-4
            )
    for k, layer in enumerate(theirs):
        torch.testing.assert_close(mine.mean[k, 0], layer.running_mean)
        kept = (1.0 - MOMENTUM) ** 3
        batches = (layer.running_var - kept) * (n - 1) / n  # torch estimates the variance of what the batch is from
        torch.testing.assert_close(mine.variance[k, 0], kept + batches)
        layer.eval()
        x = torch.randn(4, WIDTH, generator=G)
        layer.running_var.copy_(mine.variance[k, 0])
        torch.testing.assert_close(mine(x.expand(2, -1, -1))[k], layer(x))


def test_running_statistics_stay_in_evaluation_mode_and_where_no_row_counts():
    mine, _ = pair()
    x = torch.randn(2, ROWS, WIDTH, generator=G)
    mine(x, torch.ones(ROWS, dtype=torch.bool))
    before = mine.mean.clone(), mine.variance.clone()
    assert torch.isfinite(mine(x, torch.zeros(ROWS, dtype=torch.bool))).all()
    mine(x)
    mine.eval()(x, torch.ones(ROWS, dtype=torch.bool))
    assert torch.equal(before[0], mine.mean) and torch.equal(before[1], mine.variance)
    assert not torch.equal(before[0], torch.zeros(2, 1, WIDTH))

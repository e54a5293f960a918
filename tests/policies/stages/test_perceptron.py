"""The perceptron of deployed policies."""

from __future__ import annotations

import torch

from rookery.policies.stages.perceptron import dense


def test_tanh_without_gradients_is_tanh():
    """Computed in another way; of large numbers, infinite ones and none as well. What is given stays as it is."""
    weights = {"weight_0": torch.eye(1), "bias_0": torch.zeros(1), "weight_1": torch.eye(1), "bias_1": torch.zeros(1)}
    x = torch.cat(
        (torch.linspace(-12.0, 12.0, 4001), torch.tensor([1e-8, 1e4, -3e38, torch.inf, -torch.inf, torch.nan]))
    )
    given = x.clone().unsqueeze(1)
    with torch.no_grad():
        out = dense(weights, given, 1, "tanh").squeeze(1)
    torch.testing.assert_close(out, torch.tanh(x.double()).float(), rtol=0.0, atol=3e-7, equal_nan=True)
    torch.testing.assert_close(given.squeeze(1), x, rtol=0.0, atol=0.0, equal_nan=True)

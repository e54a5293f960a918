"""An ensemble against torch's own layers, network by network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rookery.policies.nn.ensemble import Ensemble


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("activation", "layer"), [("relu", nn.ReLU), ("tanh", nn.Tanh), ("elu", nn.ELU)])
def test_each_network_is_the_chain_of_torchs_layers(layer_norm, activation, layer):
    g = torch.Generator().manual_seed(0)
    ensemble = Ensemble(3, (4, 7, 5, 2), activation, g, layer_norm)
    for parameter in (*ensemble.gains, *ensemble.shifts):
        parameter.data.normal_(generator=g)
    x = torch.randn(6, 4, generator=g)
    out = ensemble(x)
    assert out.shape == (3, 6, 2)
    for k in range(3):
        chain = nn.Sequential()
        for i, (inputs, outputs) in enumerate(((4, 7), (7, 5), (5, 2))):
            linear = nn.Linear(inputs, outputs)
            linear.weight.data, linear.bias.data = ensemble.weights[i].data[k].T, ensemble.biases[i].data[k, 0]
            chain.append(linear)
            if i < 2 and layer_norm:
                norm = nn.LayerNorm(outputs)
                norm.weight.data, norm.bias.data = ensemble.gains[i].data[k, 0], ensemble.shifts[i].data[k, 0]
                chain.append(norm)
            if i < 2:
                chain.append(layer())
        torch.testing.assert_close(out[k], chain(x))


def test_initial_weights_are_within_the_bounds_of_a_linear_layer():
    ensemble = Ensemble(2, (16, 100, 3), "relu", torch.Generator().manual_seed(0))
    for parameter, inputs in ((ensemble.weights[0], 16), (ensemble.biases[0], 16), (ensemble.weights[1], 100)):
        assert 0.9 / inputs**0.5 < parameter.abs().max() <= 1 / inputs**0.5
        assert parameter.mean().abs() < 0.1 / inputs**0.5


def test_dropout_zeroes_its_share_of_units_and_keeps_the_mean():
    """With weights of 1 and biases of 0 the output is the sum over the hidden units, each 1 without dropout."""
    ensemble = Ensemble(2, (1, 4000, 1), "relu", torch.Generator(), dropout=0.3)
    for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
        weight.data.fill_(1.0)
        bias.data.fill_(0.0)
    x = torch.ones(5, 1)
    assert torch.equal(ensemble(x), torch.full((2, 5, 1), 4000.0)), "none without a generator"
    out = ensemble(x, torch.Generator().manual_seed(1))
    # every sum has mean 4000 and a standard deviation of sqrt(4000 * 0.3 / 0.7) = 41
    assert (out - 4000.0).abs().max() < 5 * 41
    assert out.unique().numel() > 7, "each network and row loses units of its own"
    assert torch.equal(out, ensemble(x, torch.Generator().manual_seed(1)))

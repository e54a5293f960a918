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


def test_batch_norm_stands_before_the_activation_and_on_the_inputs():
    """Against the chain of torch's layers, with the statistics of the batch and with running ones."""
    g = torch.Generator().manual_seed(2)
    ensemble = Ensemble(2, (3, 6, 4, 2), "relu", g, batch_norm=True)
    assert len(ensemble.biases) == 1
    x = 2.0 * torch.randn(20, 3, generator=g) - 1.0
    counted = torch.ones(20, dtype=torch.bool)
    chains = []
    for k in range(2):
        chain = nn.Sequential(nn.BatchNorm1d(3, eps=1e-3, momentum=0.01))
        for i, (inputs, outputs) in enumerate(((3, 6), (6, 4), (4, 2))):
            linear = nn.Linear(inputs, outputs, bias=i == 2)
            linear.weight.data = ensemble.weights[i].data[k].T
            chain.append(linear)
            if i < 2:
                chain.extend((nn.BatchNorm1d(outputs, eps=1e-3, momentum=0.01), nn.ReLU()))
        linear.bias.data = ensemble.biases[0].data[k, 0]
        chains.append(chain)
    torch.testing.assert_close(ensemble(x, None, counted), torch.stack([c(x) for c in chains]))
    for k, chain in enumerate(chains):
        layers = [layer for layer in chain.eval() if isinstance(layer, nn.BatchNorm1d)]
        for layer, own in zip(layers, ensemble.norms, strict=True):
            layer.running_var.copy_(own.variance[k, 0])
    torch.testing.assert_close(ensemble(x), torch.stack([c(x) for c in chains]))


def lengths(ensemble: Ensemble) -> torch.Tensor:
    """Of the weights of every unit."""
    return torch.cat([w.detach().square().sum(1).sqrt().flatten() for w in ensemble.weights])


@pytest.mark.parametrize("options", [{"unit_weights": True}, {"hypersphere": True}])
def test_units_have_weights_of_length_one_at_first_and_when_projected(options):
    ensemble = Ensemble(2, (3, 8, 8, 5), "relu", torch.Generator().manual_seed(3), **options)
    torch.testing.assert_close(lengths(ensemble), torch.ones_like(lengths(ensemble)))
    before = [w.clone() for w in ensemble.weights]
    for weight in ensemble.weights:
        weight.data *= torch.linspace(0.1, 5.0, weight.shape[2])
    ensemble.project()
    for weight, old in zip(ensemble.weights, before, strict=True):
        torch.testing.assert_close(weight, old)


def test_a_hypersphere_is_what_the_paper_writes():
    """Row by row in float64, with random gains and rates."""
    width, blocks = 6, 2
    g = torch.Generator().manual_seed(4)
    ensemble = Ensemble(2, (3, width, width, 4), "relu", g, hypersphere=True).double()
    first = (2.0 / width) ** 0.5
    wanted = [first, *[first / 2.0] * blocks, 1.0]
    for gain, value in zip(ensemble.gains, wanted, strict=True):
        torch.testing.assert_close(gain.detach(), torch.full_like(gain, value), rtol=1e-6, atol=0.0)
    for rate in ensemble.rates:
        torch.testing.assert_close(rate * width**0.5 / (blocks + 1), torch.full_like(rate, 1 / 3), rtol=1e-6, atol=0.0)
    for parameter in (*ensemble.gains, *ensemble.rates, *ensemble.biases):
        parameter.data.normal_(generator=g)
    x = torch.randn(5, 3, generator=g, dtype=torch.float64)
    out = ensemble(x)
    for k in range(2):
        weights = [w[k].T for w in ensemble.weights]
        gains = [v[k, 0] for v in ensemble.gains]
        rates = [v[k, 0] * width**0.5 / (blocks + 1) for v in ensemble.rates]
        for row, got in zip(x, out[k], strict=True):
            h = torch.cat((row, torch.tensor([3.0], dtype=torch.float64)))
            h = gains[0] * (weights[0] @ (h / h.norm()))
            h = h / h.norm()
            for b in range(blocks):
                found = weights[2 + 2 * b] @ (gains[1 + b] * (weights[1 + 2 * b] @ h)).relu()
                h = h + rates[b] * (found / found.norm() - h)
                h = h / h.norm()
            value = weights[-1] @ (gains[-1] * (weights[-2] @ h)) + ensemble.biases[0][k, 0]
            torch.testing.assert_close(got, value)
    assert [tuple(w.shape[1:]) for w in ensemble.weights] == [
        (4, 6),
        (6, 24),
        (24, 6),
        (6, 24),
        (24, 6),
        (6, 6),
        (6, 4),
    ]

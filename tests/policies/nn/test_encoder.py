"""Encoders of pictures: sizes, values by the definition of a convolution, gradients by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies_spot import COLUMNS, ROWS, spot_group

from rookery.policies.algorithms.chains import _beside_rest
from rookery.policies.nn.build import build, parts_of, weight_count
from rookery.policies.nn.encoder import Encoded
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.stages.chain import Beside, Link, StageChain
from rookery.policies.stages.gru import GRU
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.pictures import Convolutions, Picture, pictures_of
from rookery.policies.stages.standard import trunk
from rookery.policies.stages.torch_chain import ChainModule
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group, Term


def pictures(group: Group, channels=(3, 2), kernels=(3, 2), strides=(2, 1), activation="tanh") -> Convolutions:
    found = tuple(pictures_of((t.size, t.shape) for t in group.observation))
    return Convolutions(group.frame_size, group.history, found, channels, kernels, strides, activation)


def behind(spec: Convolutions, before: int) -> list[Link]:
    """The stage with its numbers, and so many others before them."""
    return _beside_rest(spec.beside_numbers(), before, spec.inputs, 0)


def by_definition(encoder: ChainModule, spec: Convolutions, before: int, row: np.ndarray, act) -> np.ndarray:
    """Numbers and features of one row, value by value."""
    frames = row[before:].reshape(-1, spec.frame)
    taken = {p.start + i for p in spec.pictures for i in range(p.size)}
    out = [*row[:before], *(frame[i] for frame in frames for i in range(spec.frame) if i not in taken)]
    weights = {name: x.detach().numpy() for name, x in encoder.part("pictures").named_parameters()}
    for camera, p in enumerate(spec.pictures):
        y = {}
        for f, frame in enumerate(frames):
            for r in range(p.rows):
                for c in range(p.columns):
                    for k in range(p.channels):
                        place = p.start + (r * p.columns + c) * p.channels + k
                        y[f * p.channels + k, r, c] = frame[place]
        channels, rows, columns = len(frames) * p.channels, p.rows, p.columns
        for k, stride in enumerate(spec.strides):
            weight, bias = weights[f"weight_{camera}_{k}"], weights[f"bias_{camera}_{k}"]
            outputs, _, kernel, _ = weight.shape
            rows, columns = (rows - kernel) // stride + 1, (columns - kernel) // stride + 1
            y = {
                (o, r, c): act(
                    bias[o]
                    + sum(
                        weight[o, i, a, b] * y[i, r * stride + a, c * stride + b]
                        for i in range(channels)
                        for a in range(kernel)
                        for b in range(kernel)
                    )
                )
                for o in range(outputs)
                for r in range(rows)
                for c in range(columns)
            }
            channels = outputs
        out += [y[o, r, c] for o in range(channels) for r in range(rows) for c in range(columns)]
    return np.array(out)


@pytest.mark.parametrize(("cameras", "channels", "history", "before"), [(1, 1, 1, 0), (2, 1, 1, 3), (2, 3, 2, 4)])
def test_values_are_those_of_the_definition(cameras, channels, history, before):
    spec = pictures(spot_group(1, cameras, channels, history))
    inputs = before + history * spec.frame
    torch.manual_seed(0)
    encoder = ChainModule(behind(spec, before))
    x = torch.randn(3, inputs)
    got = encoder(x).detach().numpy()
    assert got.shape == (3, encoder.chain.outputs)
    assert got.shape[1] == before + 3 * history + cameras * 2 * 1 * 4  # 6 x 12 -> 2 x 5 -> 1 x 4
    for mine, row in zip(got, x.numpy(), strict=True):
        np.testing.assert_allclose(mine, by_definition(encoder, spec, before, row, np.tanh), rtol=1e-4, atol=1e-5)


def doubles(links: list[Link], networks: int):
    parameters = torch.zeros(networks, weight_count(links), dtype=torch.float64)
    gradients = torch.zeros_like(parameters)
    network = build(links, parameters, gradients)
    network.initialize(torch.Generator().manual_seed(3), 0.5)
    return network, parameters, gradients


@pytest.mark.parametrize("networks", [1, 2])
@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize(("module", "activation"), [("", "elu"), ("", "tanh"), ("policies_spot_head:make", "elu")])
def test_gradients_are_slopes(networks, memory, module, activation):
    """Of weights and inputs along random directions, by central differences in double precision."""
    group = spot_group(1, 2, 1, 2)
    before = 2
    inputs = before + group.observation_size
    encoder = behind(pictures(group, activation=activation), before)
    links = [*encoder, *trunk(encoder[-1].outputs, 3, (6,), activation, memory, module)]
    network, parameters, gradients = doubles(links, networks)
    chance = torch.Generator().manual_seed(1)
    x, move = (torch.randn(networks, 8, inputs, generator=chance, dtype=torch.float64) for _ in range(2))
    pull = torch.randn(networks, 8, 3, generator=chance, dtype=torch.float64)
    first = torch.arange(8).expand(networks, 8) % 4 == 0
    state = torch.randn(networks, 2, memory, generator=chance, dtype=torch.float64)

    def out(rows):
        return network.forward(rows, first, state) if memory else network.forward(rows)

    assert isinstance(network, Recurrent if memory else Encoded)
    direction = torch.randn(parameters.shape, generator=chance, dtype=torch.float64)
    gradients.fill_(0.25)  # backward adds
    out(x)
    input_grad = network.backward(pull.clone(), input_grad=True)
    assert input_grad is not None
    slope = ((gradients - 0.25) * direction).sum() + (input_grad * move).sum()
    e = 1e-5
    values = []
    kept = parameters.clone()
    for sign in (1.0, -1.0):
        parameters.copy_(kept + sign * e * direction)
        values.append((out(x + sign * e * move) * pull).sum())
    assert slope.item() == pytest.approx((values[0] - values[1]).item() / (2.0 * e), rel=1e-4)
    assert slope.abs() > 1e-2
    assert not parameters[:, : weight_count(parts_of(links)[0])].eq(0.0).all()


def test_the_weights_of_two_networks_and_of_two_cameras_are_their_own():
    encoder = pictures(spot_group(1, 2)).beside_numbers()
    assert encoder[0].inputs == 3 + 2 * ROWS * COLUMNS
    network, parameters, _ = doubles([*encoder, *trunk(encoder[0].outputs, 1, (4,), "tanh")], 2)
    assert not torch.equal(parameters[0], parameters[1])
    modules = [ChainModule(encoder) for _ in range(2)]
    for g, module in enumerate(modules):
        network.encoder.write_to(module.parameters(), g)
    weights = [module.part("pictures").get_parameter(f"weight_{k}_0") for module in modules for k in range(2)]
    assert all(not torch.equal(a, b) for i, a in enumerate(weights) for b in weights[:i])
    gains = weights[0].flatten(1) @ weights[0].flatten(1).T  # orthogonal rows of gain sqrt 2
    torch.testing.assert_close(gains, 2.0 * torch.eye(3), rtol=1e-4, atol=1e-4)


def test_pixels_of_one_channel_are_normalized_together():
    group = spot_group(1, 1, 2, 2)
    pools = pictures(group).pools()
    frame = group.frame_size
    assert len(pools) == 2 * frame and max(pools) < len(pools)
    first, second = pools[1 : frame - 2], pools[frame + 1 : 2 * frame - 2]
    assert first == second and set(first[::2]) != set(first[1::2]) and len(set(first)) == 2
    others = [pools[i] for i in (0, frame - 2, frame - 1, frame, 2 * frame - 2, 2 * frame - 1)]
    assert len({*others, *first}) == len(others) + 2


def test_an_encoder_survives_json():
    spec = pictures(spot_group(1, 2, 3))
    assert StageChain.from_json(StageChain(tuple(spec.beside_numbers())).to_json()).links == tuple(
        spec.beside_numbers()
    )
    assert spec.pictures == (Picture(1, 6, 12, 3), Picture(217, 6, 12, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernels": (8, 4), "strides": (4, 2)}, "a picture of 6 rows and 12 columns is too small .* convolution 1"),
        ({"kernels": (3, 3)}, "convolution 2 gets 2 x 5 values, and its kernel is 3 x 3"),
        ({"channels": (3,)}, "as many channels as kernels"),
        ({"channels": (), "kernels": (), "strides": ()}, "as many channels as kernels"),
        ({"strides": (2, 0)}, "all of at least 1"),
    ],
)
def test_encoders_that_cannot_be(settings, message):
    with pytest.raises(RookeryError, match=message):
        pictures(spot_group(), **settings)


@pytest.mark.parametrize("shape", [(2, 3, 1), (1, 2, 3, 2), (1, 0, 6, 1)])
def test_a_term_has_the_shape_of_its_size(shape):
    action = spot_group().action
    with pytest.raises(ValueError, match="cannot have the shape"):
        Group(1, (Term("depth", 6, shape=shape),), action)


@pytest.mark.parametrize("beside", [False, True])
def test_two_memories_are_refused(beside):
    """One after the other, or side by side."""
    links = [Beside(((GRU(3, 4),), (GRU(3, 5),)))] if beside else [GRU(3, 4), GRU(4, 5)]
    with pytest.raises(RookeryError, match="only one GRU between other stages can be trained, one of --memory gru"):
        parts_of([*links, Perceptron(links[-1].outputs, (), 1, "tanh")])

"""Compiled passes of critics with layer normalization and dropout against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.policies.nn import compiled_critic, dropout
from rookery.policies.nn import compiled_mlp as c
from rookery.policies.nn.elementwise import ACTIVATIONS
from rookery.policies.nn.ensemble import Ensemble


def block(memory: np.ndarray, start: int, rows: int, columns: int) -> np.ndarray:
    return memory[start : start + rows * columns].reshape(rows, columns)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [1, 13, 64])
def test_passes_equal_autograd(activation: str, rows: int, layer_norm: bool, share: float) -> None:
    """Of the second of two networks, whose rows come after the first one's."""
    g = torch.Generator().manual_seed(0)
    sizes = (20, 33, 64, 2)
    ensemble = Ensemble(2, sizes, activation, g, layer_norm, share)
    for p in ensemble.parameters():
        p.data += 0.5 * torch.randn(p.shape, generator=g)
    x = torch.randn(rows, sizes[0], generator=g, requires_grad=True)
    delta = torch.randn(rows, sizes[-1], generator=g)
    y = ensemble(x, torch.Generator().manual_seed(7))[1]
    y.backward(delta)

    parameters = list(ensemble.parameters())
    flat = torch.cat([p.detach()[1].flatten() for p in parameters]).numpy()
    starts = np.cumsum([0] + [p[1].numel() for p in parameters]).tolist()
    norms = list(zip(starts[6:8], starts[8:10], strict=True)) if layer_norm else None
    arena = c.Arena()
    table = c.layer_table(sizes, starts[:3], starts[3:6], rows, arena, norms=norms)
    memory = arena.allocate()
    first, last = table[0], table[-1]
    block(memory, first[c.INPUT], rows, first[c.IN_PAD])[:, : sizes[0]] = x.detach()
    seed = int(dropout.draw_seed(torch.Generator().manual_seed(7)))
    settings = (rows, ACTIVATIONS[activation], share, seed, rows)
    gradients = np.full_like(flat, 7.0)
    for _ in range(2):  # nothing is left over from the first time
        c.pack(table, flat, memory, True)
        compiled_critic.critic_forward(table, memory, *settings)
        block(memory, last[c.OUTPUT_GRAD], rows, last[c.OUT_PAD])[:, : sizes[-1]] = delta
        c.zero_gradients(table, memory)
        compiled_critic.critic_backward(table, memory, *settings, True, True)
        c.read_gradients(table, memory, gradients)
    got = block(memory, last[c.OUTPUT], rows, last[c.OUT_PAD])[:, : sizes[-1]]
    by_input = block(memory, first[c.INPUT_GRAD], rows, first[c.IN_PAD])[:, : sizes[0]]
    want = torch.cat([p.grad[1].flatten() for p in parameters if p.grad is not None])
    for mine, reference in ((got, y.detach()), (by_input, x.grad), (gradients, want)):
        assert reference is not None
        scale = reference.abs().max().item()
        torch.testing.assert_close(torch.from_numpy(mine.copy()), reference, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 123_456_789, 2**32 - 1])
def test_both_drop_the_same_units(seed: int, share: float) -> None:
    networks, rows, width, stride = 3, 40, 50, 64
    kept = dropout.kept_units(torch.Size((networks, rows, width)), share, torch.tensor([seed]), 2)
    for n in range(networks):
        x = np.ones((rows, stride), np.float32)
        compiled_critic.drop(x.reshape(-1), rows, stride, width, share, seed, 2, n * rows)
        want = kept[n] / (1.0 - share)
        torch.testing.assert_close(torch.from_numpy(x[:, :width].copy()), want.float())
        assert (x[:, width:] == 1.0).all()


def test_units_are_dropped_as_if_at_random() -> None:
    """Shares, and products of neighbours' drops along rows, units, layers and seeds, within five standard deviations."""
    share, shape = 0.2, torch.Size((2, 500, 100))
    masks = {
        (seed, layer): ~dropout.kept_units(shape, share, torch.tensor([seed]), layer)
        for seed in (5, 1 << 20, 3_000_000_000)
        for layer in (0, 1)
    }
    spread = (share * (1.0 - share) / shape.numel()) ** 0.5
    both = (share**2 * (1.0 - share**2) / shape.numel()) ** 0.5
    for (seed, layer), mask in masks.items():
        assert abs(mask.float().mean() - share) < 5.0 * spread
        for axis in range(3):
            assert abs((mask & mask.roll(1, axis)).float().mean() - share**2) < 6.0 * both
        for other in (masks[seed, 1 - layer], masks[5 if seed != 5 else 1 << 20, layer]):
            assert abs((mask & other).float().mean() - share**2) < 6.0 * both
        for axis in (1, 2):  # sums over a row or a unit spread as those of independent draws
            rest = [a for a in range(3) if a != axis]
            sums = mask.sum(rest).float()
            variance = shape.numel() / shape[axis] * share * (1.0 - share)
            assert 0.5 < sums.var() / variance < 1.6
    assert len({m.numpy().tobytes() for m in masks.values()}) == len(masks)


def test_a_seed_is_one_draw_below_two_to_the_32() -> None:
    g = torch.Generator().manual_seed(0)
    seeds = torch.cat([dropout.draw_seed(g) for _ in range(500)])
    assert seeds.min() >= 0 and 2**31 < seeds.max() < 2**32 and seeds.unique().numel() == 500

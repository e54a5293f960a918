"""Compiled products, activations, passes and optimizer against torch."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from rookery.policies.nn import compiled_mlp as c
from rookery.policies.nn.compiled_adam import Optimized, adam_step
from rookery.policies.nn.elementwise import ACTIVATIONS, activate
from rookery.policies.nn.gemm import ADD, BIAS, COLUMN_PAD, ROW_PAD, ZERO, multiply

TORCH = {"tanh": torch.tanh, "elu": torch.nn.functional.elu, "relu": torch.relu}


@pytest.mark.parametrize(("m", "n", "k"), [(8, 16, 1), (16, 48, 7), (24, 64, 33), (8, 128, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("start", [ZERO, ADD, BIAS])
def test_products(m: int, n: int, k: int, order: str, start: int) -> None:
    g = np.random.default_rng(0)
    a = np.asarray(g.normal(size=(m, k)), np.float32, order=order)  # type: ignore[call-overload]
    b = g.normal(size=(k, n)).astype(np.float32)
    out = g.normal(size=(m, n + COLUMN_PAD)).astype(np.float32)
    bias = g.normal(size=n).astype(np.float32)
    begin = {ZERO: np.zeros((m, n)), ADD: out[:, :n].copy(), BIAS: np.tile(bias, (m, 1))}[start]
    beside = out[:, n:].copy()
    want = begin + a.astype(np.float64) @ b
    address = [x.ctypes.data for x in (a, b, out, bias)]
    strides = (k, 1) if order == "C" else (1, m)
    multiply(address[0], *strides, address[1], n, address[2], n + COLUMN_PAD, m, n, k, start, address[3])
    np.testing.assert_allclose(out[:, :n], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out[:, n:], beside)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    x = torch.cat((torch.linspace(-100.0, 100.0, 4001), torch.linspace(-2.0, 2.0, 4001), torch.tensor([1e30, -1e30])))
    y = x.numpy().copy()
    activate(y, ACTIVATIONS[name])
    torch.testing.assert_close(torch.from_numpy(y), TORCH[name](x), rtol=3e-7, atol=3e-7)
    nan = np.full(16, np.nan, np.float32)
    activate(nan, ACTIVATIONS[name])
    assert np.isnan(nan).all()


def block(memory: np.ndarray, start: int, rows: int, columns: int) -> np.ndarray:
    return memory[start : start + rows * columns].reshape(rows, columns)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", [(5, 3), (3, 17, 1), (20, 64, 64, 8), (33, 128, 7, 50, 2)])
@pytest.mark.parametrize("rows", [1, 13, 64])
def test_passes_equal_autograd(activation: str, sizes: tuple[int, ...], rows: int) -> None:
    torch.manual_seed(0)
    weights = [torch.randn(i, o, requires_grad=True) for i, o in pairwise(sizes)]
    biases = [torch.randn(o, requires_grad=True) for o in sizes[1:]]
    x = torch.randn(rows, sizes[0], requires_grad=True)
    delta = torch.randn(rows, sizes[-1])
    y = x
    for k, (w, b) in enumerate(zip(weights, biases, strict=True)):
        y = y @ w + b
        y = TORCH[activation](y) if k < len(weights) - 1 else y
    y.backward(delta)

    ordered = [t for pair in zip(weights, biases, strict=True) for t in pair]
    flat = torch.cat([t.detach().flatten() for t in ordered]).numpy()
    starts = np.cumsum([0] + [t.numel() for t in ordered]).tolist()
    arena = c.Arena()
    table = c.layer_table(sizes, starts[:-1:2], starts[1::2], rows, arena)
    memory = arena.allocate()
    first, last = table[0], table[-1]
    block(memory, first[c.INPUT], rows, first[c.IN_PAD])[:, : sizes[0]] = x.detach()
    kind = ACTIVATIONS[activation]
    gradients = np.full_like(flat, 7.0)
    for _ in range(2):  # nothing is left over from the first time
        c.pack(table, flat, memory, True)
        c.forward(table, memory, rows, kind)
        block(memory, last[c.OUTPUT_GRAD], rows, last[c.OUT_PAD])[:, : sizes[-1]] = delta
        c.zero_gradients(table, memory)
        c.backward(table, memory, rows, kind, True, True)
        c.read_gradients(table, memory, gradients)
    got = block(memory, last[c.OUTPUT], rows, last[c.OUT_PAD])[:, : sizes[-1]]
    by_input = block(memory, first[c.INPUT_GRAD], rows, first[c.IN_PAD])[:, : sizes[0]]
    want = torch.cat([t.grad.flatten() for t in ordered if t.grad is not None])
    for mine, reference in ((got, y.detach()), (by_input, x.grad), (gradients, want)):
        assert reference is not None
        scale = reference.abs().max().item()
        torch.testing.assert_close(torch.from_numpy(mine.copy()), reference, rtol=1e-5, atol=1e-5 * scale)


def test_memory_is_aligned_and_padded() -> None:
    arena = c.Arena()
    starts = [arena.add(n) for n in (1, 17, 16)]
    assert starts == [0, 16, 48] and arena.allocate().size == 64
    assert arena.allocate().ctypes.data % 64 == 0 and ROW_PAD % 8 == 0


@pytest.mark.parametrize("max_norm", [math.inf, 100.0, 0.5])
def test_adam_equals_torch(max_norm: float) -> None:
    """With the norm not clipped, below the limit, and above it."""
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(37))
    optimizer = torch.optim.Adam([parameter], 0.01, eps=1e-5)
    mine = Optimized(parameter.detach().numpy().copy(), *np.zeros((3, 37), np.float32))
    for step in range(1, 30):
        gradient = torch.randn(37)
        parameter.grad = gradient.clone()
        assert 0.5 < gradient.norm() < 100.0
        torch.nn.utils.clip_grad_norm_([parameter], max_norm)
        optimizer.step()
        mine.gradients[:] = gradient
        adam_step(mine, step, 0.01, 1e-5, max_norm)
    torch.testing.assert_close(torch.from_numpy(mine.parameters), parameter.detach(), rtol=1e-5, atol=1e-6)

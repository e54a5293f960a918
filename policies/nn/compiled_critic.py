"""Passes of critics inside compiled kernels: those of compiled_mlp.py, with what an Ensemble may have between a hidden
layer's product and its activation, dropout and layer normalization, in this order.

Each is a function of its own that works on one layer, and is passed over where a network has none. Which units a pass
drops is found from its seed alone (dropout.py), in `critic_backward` again.
"""

from __future__ import annotations

import numba
import numpy as np

from rookery.policies.nn.compiled_mlp import (
    GAIN,
    GAIN_GRAD,
    INPUT,
    INVERSE_STD,
    NORMALIZED,
    OUT,
    OUT_PAD,
    OUTPUT,
    OUTPUT_GRAD,
    PACKED_GAIN,
    PACKED_SHIFT,
    SHIFT_GRAD,
    linear,
    linear_backward,
)
from rookery.policies.nn.dropout import GOLDEN, MULTIPLIER, SPAN
from rookery.policies.nn.elementwise import activate, activate_backward

_EPS = np.float32(1e-5)  # as in torch.nn.functional.layer_norm
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_HALF_BITS = np.uint32(16)
_MULTIPLIER = np.uint32(MULTIPLIER)
_GOLDEN = np.uint32(GOLDEN)
_SPAN = float(SPAN)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _mix(x):  # type: ignore[no-untyped-def]
    """See dropout.py; the casts keep 32 bits, so that loops over it are vectorized."""
    x = np.uint32(np.uint32(x ^ (x >> _HALF_BITS)) * _MULTIPLIER)
    x = np.uint32(np.uint32(x ^ (x >> _HALF_BITS)) * _MULTIPLIER)
    return np.uint32(x ^ (x >> _HALF_BITS))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def drop(x, rows, stride, width, share, seed, layer, first):  # type: ignore[no-untyped-def]
    """Make dropped units zero and scale the others up, in place.

    Args:
        x: [rows, stride], flat, of which `width` columns are units.
        rows, stride, width: its sizes.
        share: of the units that are dropped.
        seed, layer: see dropout.py.
        first: number of the first row among those of all networks.
    """
    least = np.uint32(share * _SPAN)
    scale = np.float32(1.0 / (1.0 - share))
    base = _mix(np.uint32(seed + layer))
    for b in range(rows):
        key = _mix(np.uint32(base + np.uint32(first + b)))
        row = x[b * stride : b * stride + width]
        for o in range(width):
            mixed = _mix(np.uint32(key + np.uint32(np.uint32(o) * _GOLDEN)))
            row[o] = row[o] * scale if mixed >= least else _ZERO


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def normalize(layer, memory, rows):  # type: ignore[no-untyped-def]
    """Layer normalization of a layer's outputs in place; `normalize_backward` needs what it leaves."""
    width, stride = layer[OUT], layer[OUT_PAD]
    gain = memory[layer[PACKED_GAIN] : layer[PACKED_GAIN] + width]
    shift = memory[layer[PACKED_SHIFT] : layer[PACKED_SHIFT] + width]
    share = _ONE / np.float32(width)
    for b in range(rows):
        x = memory[layer[OUTPUT] + b * stride : layer[OUTPUT] + b * stride + width]
        normal = memory[layer[NORMALIZED] + b * stride : layer[NORMALIZED] + b * stride + width]
        total = _ZERO
        for o in range(width):
            total += x[o]
        mean = total * share
        squares = _ZERO
        for o in range(width):
            squares += (x[o] - mean) * (x[o] - mean)
        inverse = _ONE / np.sqrt(squares * share + _EPS)
        memory[layer[INVERSE_STD] + b] = inverse
        for o in range(width):
            n = (x[o] - mean) * inverse
            normal[o] = n
            x[o] = n * gain[o] + shift[o]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def normalize_backward(layer, memory, rows, weight_grad):  # type: ignore[no-untyped-def]
    """Carry the derivatives by a layer's outputs back through the latest `normalize`, in place; adds to those by its gains
    and shifts on request.

    With n the normalized units, s the inverse standard deviation and d = delta gain: s (d - mean(d) - n mean(d n)).
    """
    width, stride = layer[OUT], layer[OUT_PAD]
    gain = memory[layer[PACKED_GAIN] : layer[PACKED_GAIN] + width]
    gain_grad = memory[layer[GAIN_GRAD] : layer[GAIN_GRAD] + width]
    shift_grad = memory[layer[SHIFT_GRAD] : layer[SHIFT_GRAD] + width]
    share = _ONE / np.float32(width)
    for b in range(rows):
        delta = memory[layer[OUTPUT_GRAD] + b * stride : layer[OUTPUT_GRAD] + b * stride + width]
        normal = memory[layer[NORMALIZED] + b * stride : layer[NORMALIZED] + b * stride + width]
        if weight_grad:
            for o in range(width):
                gain_grad[o] += delta[o] * normal[o]
                shift_grad[o] += delta[o]
        mean = _ZERO
        along = _ZERO
        for o in range(width):
            d = delta[o] * gain[o]
            mean += d
            along += d * normal[o]
        mean *= share
        along *= share
        inverse = memory[layer[INVERSE_STD] + b]
        for o in range(width):
            delta[o] = inverse * (delta[o] * gain[o] - mean - normal[o] * along)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def critic_forward(table, memory, rows, activation, dropout, seed, first):  # type: ignore[no-untyped-def]
    """Outputs of the inputs in the network's memory, as compiled_mlp.forward.

    Args:
        table, memory: the network.
        rows: of the batch.
        activation: of the hidden layers.
        dropout: share of the hidden units that is zero.
        seed, first: see `drop`.
    """
    last = table.shape[0] - 1
    for k in range(last + 1):
        layer = table[k]
        linear(layer, memory, rows)
        if k == last:
            break
        stride = layer[OUT_PAD]
        out = memory[layer[OUTPUT] : layer[OUTPUT] + rows * stride]
        if dropout > 0.0:
            drop(out, rows, stride, layer[OUT], dropout, seed, k, first)
        if layer[GAIN] >= 0:
            normalize(layer, memory, rows)
        activate(out, activation)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def critic_backward(table, memory, rows, activation, dropout, seed, first, weight_grad, input_grad):  # type: ignore[no-untyped-def]
    """Carry d loss / d output [rows, OUT_PAD] of the latest `critic_forward` with the same arguments back, as
    compiled_mlp.backward."""
    for k in range(table.shape[0] - 1, -1, -1):
        linear_backward(table[k], memory, rows, weight_grad, k > 0 or input_grad)
        if k == 0:
            break
        layer = table[k - 1]
        stride = layer[OUT_PAD]
        size = rows * stride
        delta = memory[layer[OUTPUT_GRAD] : layer[OUTPUT_GRAD] + size]
        activate_backward(delta, memory[table[k, INPUT] : table[k, INPUT] + size], activation)
        if layer[GAIN] >= 0:
            normalize_backward(layer, memory, rows, weight_grad)
        if dropout > 0.0:
            drop(delta, rows, stride, layer[OUT], dropout, seed, k - 1, first)

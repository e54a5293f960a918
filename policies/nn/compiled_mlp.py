"""Forward and backward passes of small perceptrons inside compiled kernels.

The weights stay where torch has them, in a flat vector. A gradient step packs them into padded matrices (and their
transposes), which costs as much as a few rows; everything between lives in one arena that is allocated once. A network is
a table of offsets, one row for each layer, so that several networks can share inputs and working memory.
"""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np

from rookery.policies.nn.elementwise import activate, activate_backward
from rookery.policies.nn.gemm import ADD, BIAS, COLUMN_PAD, ROW_PAD, ZERO, multiply

# Columns of a network's table. Of the parameters: widths and offsets of weights [in, out] and biases [out], and of gains and
# shifts [out] of a layer normalization, -1 without (compiled_critic.py).
IN, OUT, WEIGHT, BIAS_AT, GAIN, SHIFT = range(6)
# Of the arena: padded widths; packed weights [in, OUT_PAD], their transposes [out, IN_PAD] and biases; their gradients; the
# layer's input [rows, IN_PAD], output [rows, OUT_PAD], and derivatives of the loss by both. Of a normalized layer besides:
# gains and shifts, their gradients, normalized outputs [rows, OUT_PAD] and inverse standard deviations [rows].
IN_PAD, OUT_PAD, PACKED, TRANSPOSED, PACKED_BIAS, WEIGHT_GRAD, BIAS_GRAD = range(6, 13)
INPUT, OUTPUT, INPUT_GRAD, OUTPUT_GRAD = range(13, 17)
PACKED_GAIN, PACKED_SHIFT, GAIN_GRAD, SHIFT_GRAD, NORMALIZED, INVERSE_STD = range(17, 23)
COLUMNS = 23
WORKING = (INPUT, OUTPUT, INPUT_GRAD, OUTPUT_GRAD, NORMALIZED, INVERSE_STD)
"""What a pass writes."""


def padded(size: int, to: int) -> int:
    """The least multiple of `to` that is not below `size`."""
    return -(-size // to) * to


class Arena:
    """Working memory of a kernel, laid out once.

    Attributes:
        memory: float32, zero, and aligned to 64 bytes; made by `allocate`.
    """

    def __init__(self) -> None:
        self._size = 0

    def add(self, size: int) -> int:
        """Offset of that many more floats, a multiple of 16."""
        at = self._size
        self._size += padded(size, 16)
        return at

    def allocate(self) -> np.ndarray:
        """The memory."""
        raw = np.zeros(self._size + 16, np.float32)
        skip = -raw.ctypes.data % 64 // 4
        return raw[skip : skip + self._size]


def layer_table(
    sizes: tuple[int, ...],
    weights: list[int],
    biases: list[int],
    rows: int,
    arena: Arena,
    like: np.ndarray | None = None,
    norms: list[tuple[int, int]] | None = None,
) -> np.ndarray:
    """A network's table, [layers, COLUMNS] int64.

    Args:
        sizes: layer widths, input and output included.
        weights, biases: offsets of each layer's in the flat parameters.
        rows: most rows of a batch.
        arena: gets the network's memory.
        like: table of a network of the same input width whose input memory this one uses as well; None for its own.
        norms: offsets of each hidden layer's gains and shifts in the flat parameters; None without layer normalization.
    """
    table = np.zeros((len(sizes) - 1, COLUMNS), np.int64)
    rows = padded(rows, ROW_PAD)
    for k, (i, o) in enumerate(pairwise(sizes)):
        layer = table[k]
        layer[[IN, OUT, WEIGHT, BIAS_AT, GAIN, SHIFT]] = i, o, weights[k], biases[k], -1, -1
        i_pad = padded(i, COLUMN_PAD)
        o_pad = padded(o, COLUMN_PAD)
        layer[[IN_PAD, OUT_PAD]] = i_pad, o_pad
        layer[PACKED] = arena.add(i * o_pad)
        layer[TRANSPOSED] = arena.add(o * i_pad)
        layer[PACKED_BIAS] = arena.add(o_pad)
        layer[WEIGHT_GRAD] = arena.add(i_pad * o_pad)
        layer[BIAS_GRAD] = arena.add(o_pad)
        if k == 0:
            layer[INPUT] = arena.add(rows * i_pad) if like is None else like[0, INPUT]
            layer[INPUT_GRAD] = arena.add(rows * i_pad)
        else:
            layer[INPUT] = table[k - 1, OUTPUT]
            layer[INPUT_GRAD] = table[k - 1, OUTPUT_GRAD]
        layer[OUTPUT] = arena.add(rows * o_pad)
        layer[OUTPUT_GRAD] = arena.add(rows * o_pad)
        if norms is not None and k < len(table) - 1:
            layer[[GAIN, SHIFT]] = norms[k]
            for column in (PACKED_GAIN, PACKED_SHIFT, GAIN_GRAD, SHIFT_GRAD):
                layer[column] = arena.add(o_pad)
            layer[NORMALIZED] = arena.add(rows * o_pad)
            layer[INVERSE_STD] = arena.add(rows)
    return table


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _pack_transpose(layer, parameters, memory):  # type: ignore[no-untyped-def]
    """In squares that stay in the cache, each through a copy of it: so both matrices are read and written row by row."""
    size_in, size_out, start = layer[IN], layer[OUT], layer[WEIGHT]
    square = np.empty((COLUMN_PAD, COLUMN_PAD), np.float32)
    for i in range(0, size_in, COLUMN_PAD):
        rows = min(COLUMN_PAD, size_in - i)
        for o in range(0, size_out, COLUMN_PAD):
            columns = min(COLUMN_PAD, size_out - o)
            for r in range(rows):
                source = start + (i + r) * size_out + o
                for c, x in enumerate(parameters[source : source + columns]):
                    square[c, r] = x
            for c in range(columns):
                target = layer[TRANSPOSED] + (o + c) * layer[IN_PAD] + i
                memory[target : target + rows] = square[c, :rows]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pack(table, parameters, memory, transposes):  # type: ignore[no-untyped-def]
    """Copy a network's weights [P] to its matrices, and to their transposes, which `backward` needs, on request."""
    for k in range(table.shape[0]):
        layer = table[k]
        size_in, size_out, start = layer[IN], layer[OUT], layer[WEIGHT]
        for i in range(size_in):
            row = layer[PACKED] + i * layer[OUT_PAD]
            memory[row : row + size_out] = parameters[start + i * size_out : start + (i + 1) * size_out]
        if transposes:
            _pack_transpose(layer, parameters, memory)
        bias = layer[BIAS_AT]
        memory[layer[PACKED_BIAS] : layer[PACKED_BIAS] + size_out] = parameters[bias : bias + size_out]
        if layer[GAIN] >= 0:
            gain, shift = layer[GAIN], layer[SHIFT]
            memory[layer[PACKED_GAIN] : layer[PACKED_GAIN] + size_out] = parameters[gain : gain + size_out]
            memory[layer[PACKED_SHIFT] : layer[PACKED_SHIFT] + size_out] = parameters[shift : shift + size_out]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def linear(layer, memory, rows):  # type: ignore[no-untyped-def]
    """A layer's outputs before its activation, for the inputs in its memory."""
    base = memory.ctypes.data
    i_pad, o_pad = layer[IN_PAD], layer[OUT_PAD]
    multiply(
        base + 4 * layer[INPUT], i_pad, 1, base + 4 * layer[PACKED], o_pad, base + 4 * layer[OUTPUT], o_pad,
        -(-rows // ROW_PAD) * ROW_PAD, o_pad, layer[IN], BIAS, base + 4 * layer[PACKED_BIAS],
    )  # fmt: skip


@numba.njit(cache=True, nogil=True, error_model="numpy")
def forward(table, memory, rows, activation):  # type: ignore[no-untyped-def]
    """Outputs of the inputs in the network's memory, [rows, IN_PAD] to [rows, OUT_PAD]."""
    last = table.shape[0] - 1
    for k in range(last + 1):
        layer = table[k]
        linear(layer, memory, rows)
        if k < last:
            activate(memory[layer[OUTPUT] : layer[OUTPUT] + rows * layer[OUT_PAD]], activation)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def zero_gradients(table, memory):  # type: ignore[no-untyped-def]
    """Forget the gradients of a network's weights."""
    for k in range(table.shape[0]):
        layer = table[k]
        memory[layer[WEIGHT_GRAD] : layer[WEIGHT_GRAD] + layer[IN_PAD] * layer[OUT_PAD]] = 0.0
        memory[layer[BIAS_GRAD] : layer[BIAS_GRAD] + layer[OUT_PAD]] = 0.0
        if layer[GAIN] >= 0:
            memory[layer[GAIN_GRAD] : layer[GAIN_GRAD] + layer[OUT_PAD]] = 0.0
            memory[layer[SHIFT_GRAD] : layer[SHIFT_GRAD] + layer[OUT_PAD]] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def linear_backward(layer, memory, rows, weight_grad, input_grad):  # type: ignore[no-untyped-def]
    """Carry the derivatives by a layer's outputs before its activation back to its weights and its inputs, on request."""
    base = memory.ctypes.data
    i_pad, o_pad = layer[IN_PAD], layer[OUT_PAD]
    delta = base + 4 * layer[OUTPUT_GRAD]
    if weight_grad:
        multiply(
            base + 4 * layer[INPUT], 1, i_pad, delta, o_pad, base + 4 * layer[WEIGHT_GRAD], o_pad,
            -(-layer[IN] // ROW_PAD) * ROW_PAD, o_pad, rows, ADD, base,
        )  # fmt: skip
        total = memory[layer[BIAS_GRAD] : layer[BIAS_GRAD] + o_pad]
        for r in range(rows):
            row = memory[layer[OUTPUT_GRAD] + r * o_pad : layer[OUTPUT_GRAD] + (r + 1) * o_pad]
            for o in range(o_pad):
                total[o] += row[o]
    if input_grad:
        multiply(
            delta, o_pad, 1, base + 4 * layer[TRANSPOSED], i_pad, base + 4 * layer[INPUT_GRAD], i_pad,
            -(-rows // ROW_PAD) * ROW_PAD, i_pad, layer[OUT], ZERO, base,
        )  # fmt: skip


@numba.njit(cache=True, nogil=True, error_model="numpy")
def backward(table, memory, rows, activation, weight_grad, input_grad):  # type: ignore[no-untyped-def]
    """Carry d loss / d output [rows, OUT_PAD] of the latest `forward` back.

    Args:
        table, memory: the network.
        rows: of the batch.
        activation: of the hidden layers.
        weight_grad: whether to add to the gradients of the weights.
        input_grad: whether to compute d loss / d input as well.
    """
    for k in range(table.shape[0] - 1, -1, -1):
        layer = table[k]
        linear_backward(layer, memory, rows, weight_grad, k > 0 or input_grad)
        if k > 0:
            size = rows * layer[IN_PAD]
            below = memory[layer[INPUT_GRAD] : layer[INPUT_GRAD] + size]
            activate_backward(below, memory[layer[INPUT] : layer[INPUT] + size], activation)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def read_gradients(table, memory, gradients):  # type: ignore[no-untyped-def]
    """Copy the gradients of a network's weights to their places in the flat vector [P]."""
    for k in range(table.shape[0]):
        layer = table[k]
        for i in range(layer[IN]):
            source = layer[WEIGHT_GRAD] + i * layer[OUT_PAD]
            target = layer[WEIGHT] + i * layer[OUT]
            gradients[target : target + layer[OUT]] = memory[source : source + layer[OUT]]
        out, bias = layer[OUT], layer[BIAS_AT]
        gradients[bias : bias + out] = memory[layer[BIAS_GRAD] : layer[BIAS_GRAD] + out]
        if layer[GAIN] >= 0:
            gain, shift = layer[GAIN], layer[SHIFT]
            gradients[gain : gain + out] = memory[layer[GAIN_GRAD] : layer[GAIN_GRAD] + out]
            gradients[shift : shift + out] = memory[layer[SHIFT_GRAD] : layer[SHIFT_GRAD] + out]

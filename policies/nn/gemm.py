"""Matrix products of small float32 matrices for compiled kernels, without a call out of them.

``c = a b`` is computed in tiles of TILE_ROWS rows by 16 or 32 columns that stay in vector registers while k runs; each
element of c is one sum over k in ascending order, whatever the tile, so that results do not depend on it. The caller pads c
to whole tiles: rows to a multiple of ROW_PAD, columns of b and c to a multiple of COLUMN_PAD.

Numba's own loops keep a tile in memory, hence the intrinsic: it writes the tile's LLVM vectors out.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

COLUMN_PAD = 16
ROW_PAD = 8

_WIDE = bool(llvm.get_host_cpu_features().get("avx512f", False))
_LANES = 16 if _WIDE else 8
TILE_ROWS = 8 if _WIDE else 4
"""Rows of a tile: with 32 (or 16) columns the most that the registers of this processor hold."""
TILE_COLUMNS = 32 if _WIDE else 16

ZERO, ADD, BIAS = 0, 1, 2
"""What a product starts from: zeros, the present c, or a row that is the same for all rows of c."""


def _tile(columns: int) -> Any:
    """An intrinsic that multiplies one tile of `columns` columns."""

    @intrinsic
    def multiply_tile(typingctx, a, a_row, a_k, b, b_row, c, c_row, k, start, bias):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return _emit_tile(builder, columns // _LANES, *args)

        return types.void(*[types.intp] * 10), codegen

    return multiply_tile


def _emit_tile(builder, vectors, a, a_row, a_k, b, b_row, c, c_row, k, start, bias):  # type: ignore[no-untyped-def]
    """The tile's code: a, b, c and bias are addresses, strides count elements."""
    scalar = ir.FloatType()
    vector = ir.VectorType(scalar, _LANES)
    fma_type = ir.FunctionType(vector, [vector] * 3)
    fma = cgutils.get_or_insert_function(builder.module, fma_type, f"llvm.fma.v{_LANES}f32")
    tile = [(r, v) for r in range(TILE_ROWS) for v in range(vectors)]

    def address(base, stride, index, v=0):  # type: ignore[no-untyped-def]
        """Number of vector v of the row at ``base + index * stride``."""
        index = ir.Constant(a.type, index) if isinstance(index, int) else index
        elements = builder.add(builder.mul(stride, index), ir.Constant(a.type, _LANES * v))
        return builder.add(base, builder.mul(elements, ir.Constant(a.type, 4)))

    def load(at, kind):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(at, kind.as_pointer()), align=4)

    def repeat(x):  # type: ignore[no-untyped-def]
        """A vector of x in all lanes."""
        lane = ir.IntType(32)
        first = builder.insert_element(ir.Constant(vector, ir.Undefined), x, lane(0))
        return builder.shuffle_vector(
            first, ir.Constant(vector, ir.Undefined), ir.VectorType(lane, _LANES)([0] * _LANES)
        )

    sums = {place: cgutils.alloca_once(builder, vector) for place in tile}  # LLVM keeps them in registers
    for place in tile:
        builder.store(vector([0.0] * _LANES), sums[place])
    with builder.if_then(builder.icmp_signed("==", start, a.type(ADD))):
        for r, v in tile:
            builder.store(load(address(c, c_row, r, v), vector), sums[r, v])
    with builder.if_then(builder.icmp_signed("==", start, a.type(BIAS))):
        for r, v in tile:
            builder.store(load(address(bias, c_row, 0, v), vector), sums[r, v])
    with cgutils.for_range(builder, k) as loop:
        columns = [load(address(b, b_row, loop.index, v), vector) for v in range(vectors)]
        for r in range(TILE_ROWS):
            x = repeat(load(address(address(a, a_row, r), a_k, loop.index), scalar))
            for v in range(vectors):
                builder.store(builder.call(fma, [x, columns[v], builder.load(sums[r, v])]), sums[r, v])
    for r, v in tile:
        at = builder.inttoptr(address(c, c_row, r, v), vector.as_pointer())
        builder.store(builder.load(sums[r, v]), at, align=4)
    return ir.Constant(ir.IntType(8).as_pointer(), None)


_wide_tile = _tile(TILE_COLUMNS)
_narrow_tile = _tile(COLUMN_PAD)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def multiply(a, a_row, a_k, b, b_row, c, c_row, m, n, k, start, bias):  # type: ignore[no-untyped-def]
    """``c = a b`` (start ZERO), ``c += a b`` (ADD) or ``c = bias + a b`` (BIAS).

    Args:
        a: address of [m, k], element (i, j) at i a_row + j a_k.
        a_row, a_k, b_row, c_row: strides in elements.
        b: address of [k, n], rows contiguous.
        c: address of [m, n], rows contiguous.
        m: a multiple of ROW_PAD.
        n: a multiple of COLUMN_PAD.
        k: any.
        start: ZERO, ADD or BIAS.
        bias: address of [n].
    """
    j = 0
    while j < n:
        wide = j + TILE_COLUMNS <= n
        b_at = b + 4 * j
        bias_at = bias + 4 * j
        for i in range(0, m, TILE_ROWS):
            a_at = a + 4 * i * a_row
            c_at = c + 4 * (i * c_row + j)
            if wide:
                _wide_tile(a_at, a_row, a_k, b_at, b_row, c_at, c_row, k, start, bias_at)
            else:
                _narrow_tile(a_at, a_row, a_k, b_at, b_row, c_at, c_row, k, start, bias_at)
        j += TILE_COLUMNS if wide else COLUMN_PAD

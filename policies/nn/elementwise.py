"""Elementwise functions of compiled networks, in float32 and free of calls, so that LLVM vectorizes the loops over them."""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

ACTIVATIONS = {"relu": 0, "tanh": 1, "elu": 2}
"""Number of each activation in the kernels."""

_TANH = ACTIVATIONS["tanh"]
_ELU = ACTIVATIONS["elu"]

_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_ZERO = np.float32(0.0)
_LOG2_E = np.float32(1.4426950408889634)
# log 2 in two parts, the first of few bits: its products with small integers are exact (Cody and Waite 1980).
_LOG_2_HIGH = np.float32(0.693359375)
_LOG_2_LOW = np.float32(0.6931471805599453 - 0.693359375)
_EXP_MIN = np.float32(-87.0)
_EXP_MAX = np.float32(88.0)
_OFFSET = np.float32(128.0)
_ROUND = np.float32(128.5)
_BIAS = np.float32(127.0)
_MANTISSA = np.float32(2.0**23)
# Of the power series of exp; with |r| <= log(2) / 2 the remainder is below 1e-8.
_C2 = np.float32(1 / 2)
_C3 = np.float32(1 / 6)
_C4 = np.float32(1 / 24)
_C5 = np.float32(1 / 120)
_C6 = np.float32(1 / 720)
_C7 = np.float32(1 / 5040)


@intrinsic
def _float_of_bits(typingctx: Any, bits: Any) -> Any:
    """The float32 with these 32 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def exp32(x):  # type: ignore[no-untyped-def]
    """exp x = 2^n exp(x - n log 2), with x limited to the range of float32; relative error below 2e-7."""
    x = _EXP_MIN if x < _EXP_MIN else x
    x = _EXP_MAX if x > _EXP_MAX else x
    n = np.float32(np.int32(x * _LOG2_E + _ROUND)) - _OFFSET
    r = x - n * _LOG_2_HIGH - n * _LOG_2_LOW
    series = _C4 + r * (_C5 + r * (_C6 + r * _C7))
    series = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * series)))
    return series * _float_of_bits(np.int32((n + _BIAS) * _MANTISSA))  # type: ignore[call-arg]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def tanh32(x):  # type: ignore[no-untyped-def]
    """tanh x, absolute error below 2e-7."""
    return _ONE - _TWO / (exp32(_TWO * x) + _ONE)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def activate(x, kind):  # type: ignore[no-untyped-def]
    """Apply an activation to x in place, a flat array; NaN stays NaN."""
    if kind == _TANH:
        for i in range(x.size):
            x[i] = tanh32(x[i])
    elif kind == _ELU:
        for i in range(x.size):
            x[i] = exp32(x[i]) - _ONE if x[i] < _ZERO else x[i]
    else:
        for i in range(x.size):
            x[i] = _ZERO if x[i] < _ZERO else x[i]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def activate_backward(delta, y, kind):  # type: ignore[no-untyped-def]
    """Multiply delta by the activation's slope in place, where y is the activation's result."""
    if kind == _TANH:
        for i in range(y.size):
            delta[i] *= _ONE - y[i] * y[i]
    elif kind == _ELU:
        for i in range(y.size):
            delta[i] *= y[i] + _ONE if y[i] < _ZERO else _ONE
    else:
        for i in range(y.size):
            delta[i] = delta[i] if y[i] > _ZERO else _ZERO

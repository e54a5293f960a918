"""Operators of torch that a normalizer and a perceptron consist of in TorchScript, each as a step of the row that goes through.

Each takes what torch's operator of that name takes, of which one value may be the row; the others are constants.
"""

from __future__ import annotations

import math
import operator as comparison
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rookery.policies.imports import steps
from rookery.policies.imports.steps import Activation, Clip, Step
from rookery.sim.untrusted import Damaged


@dataclass
class Row:
    """The one row that goes through, as the steps that it has gone; operators that work in place change it."""

    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> Row:
        return Row((*self.steps, step))


def operator(name: str) -> Callable[..., Any] | None:
    """One of torch's operators by its qualified name, those that work in place among them; None for any other."""
    own = name.removeprefix("torch.")
    if own == name:
        return None
    if own in OPERATORS:
        return OPERATORS[own]
    step = OPERATORS.get(own.removesuffix("_"))
    if step is None:
        return None

    def in_place(row: Any, *given: Any, **named: Any) -> Row:
        _row(row).steps = _row(step(row, *given, **named)).steps
        return _row(row)

    return in_place


def _number(x: Any) -> Tensor:
    """A constant as float32."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return x.float()
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return torch.tensor(float(x))
    raise Damaged("it computes with something that is no number")


def _fit(x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape and 1 not in (x.numel(), y.numel()):
        raise Damaged("it computes with constants of different shapes")


def _add(x: Any, y: Any, alpha: Any = 1) -> Any:
    if alpha != 1:
        raise Damaged("it adds with a factor")
    if isinstance(x, Row) and isinstance(y, Row):
        raise Damaged("it adds two results")
    if isinstance(x, Row) or isinstance(y, Row):
        row, other = (x, y) if isinstance(x, Row) else (y, x)
        return row.then(steps.added(_number(other)))
    a, b = _number(x), _number(y)
    _fit(a, b)
    return a + b


def _sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    if isinstance(y, Row):
        raise Damaged("it subtracts a result")
    return _add(x, -_number(y), alpha)


def _mul(x: Any, y: Any) -> Any:
    if isinstance(x, Row) and isinstance(y, Row):
        raise Damaged("it multiplies two results")
    if isinstance(x, Row) or isinstance(y, Row):
        row, other = (x, y) if isinstance(x, Row) else (y, x)
        return row.then(steps.multiplied(_number(other)))
    a, b = _number(x), _number(y)
    _fit(a, b)
    return a * b


def _div(x: Any, y: Any) -> Any:
    if isinstance(y, Row):
        raise Damaged("it divides by a result")
    return _mul(x, 1.0 / _number(y))


def _row(x: Any) -> Row:
    if not isinstance(x, Row):
        raise Damaged("it computes without its input")
    return x


def _linear(x: Any, weight: Any, bias: Any = None) -> Row:
    return _row(x).then(steps.linear(_number(weight), None if bias is None else _number(bias)))


def _addmm(bias: Any, x: Any, weight: Any, beta: Any = 1, alpha: Any = 1) -> Row:
    if beta != 1 or alpha != 1:
        raise Damaged("a layer has factors")
    return _linear(x, _transposed(weight), bias)


def _transposed(x: Any) -> Tensor:
    x = _number(x)
    if x.dim() != 2:
        raise Damaged("it transposes what is no matrix")
    return x.T


def _activation(name: str) -> Callable[..., Any]:
    def step(x: Any) -> Row:
        return _row(x).then(Activation(name))

    return step


def _elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Row:
    if not alpha == scale == input_scale == 1:
        raise Damaged(f"it has an elu with alpha {alpha!s:.20}")
    return _row(x).then(Activation("elu"))


def _clamp(x: Any, min: Any = None, max: Any = None) -> Row:
    low, high = (-math.inf if min is None else float(min)), (math.inf if max is None else float(max))
    return _row(x).then(Clip(low, high))


def _dropout(x: Any, p: Any, train: Any) -> Any:
    if train is not False:
        raise Damaged("it has dropout that is on: call eval() before it is saved")
    return x


def _flatten(x: Any, start_dim: Any = 0, end_dim: Any = -1) -> Any:
    if start_dim != 1 or end_dim != -1:
        raise Damaged("it joins rows")
    return x


def _sqrt(x: Any) -> Tensor:
    return _number(x).sqrt()


def _same(x: Any) -> Any:
    return x


def _compare(holds: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    """A comparison of numbers that the code holds."""

    def step(x: Any, y: Any) -> bool:
        if not isinstance(x, (int, float)) or not isinstance(y, (int, float)):
            raise Damaged("it compares what it computes")
        return holds(x, y)

    return step


def _is(x: Any, y: Any) -> bool:
    if y is not None and x is not None:
        raise Damaged("it compares values")
    return x is None and y is None


def _flag(x: Any) -> bool:
    if not isinstance(x, bool):
        raise Damaged("it branches on what it computes")
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "linear": _linear, "addmm": _addmm, "t": _transposed,
    "matmul": lambda x, w: _linear(x, _transposed(w)), "mm": lambda x, w: _linear(x, _transposed(w)),
    "relu": _activation("relu"), "tanh": _activation("tanh"), "elu": _elu, "clamp": _clamp, "hardtanh": _clamp,
    "dropout": _dropout, "flatten": _flatten, "contiguous": _same, "detach": _same, "alias": _same, "sqrt": _sqrt,
    "gt": _compare(comparison.gt), "lt": _compare(comparison.lt), "eq": _compare(comparison.eq),
    "__is__": _is, "__isnot__": lambda x, y: not _is(x, y), "__not__": lambda x: not _flag(x),
}  # fmt: skip
"""By the name that follows ``torch.``, without the underscore of those that work in place."""

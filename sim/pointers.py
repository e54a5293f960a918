"""Tensors as rows of integers, so that one compiled kernel serves any number of them.

A kernel that took tensors as arguments would be compiled anew for every number of terms, and each array costs a third of a
microsecond on its way in. A `TensorTable` has a row of int64 for each tensor (address of its memory, strides), and kernels
read and write through it with `load` and `floats`. Addresses of registered buffers (see `Buffers`) never change.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the compiled functions from what they are given; annotations would say less.
from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_not
from struct import Struct
from typing import Any

import numpy as np
import torch
from numba import carray, types
from numba.extending import intrinsic
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.random_kernels import inlined

_intrinsic: Any = intrinsic  # its stubs count the typing context as an argument of the call

ADDRESS = 0
STRIDES = 1
COLUMNS = 4
"""Row of a table: address, then the strides of up to three axes, in elements."""
_NONE_YET = object()


@_intrinsic
def _pointer(context, address):
    """An address as a pointer."""

    def code(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), code


@_intrinsic
def load(context, address, index):
    """The float32 number `index` of the memory at an address."""

    def code(context, builder, signature, args):
        base = builder.inttoptr(args[0], context.get_value_type(types.CPointer(types.float32)))
        return builder.load(builder.gep(base, [args[1]]))

    return types.float32(types.int64, types.int64), code


@inlined
def floats(address, count):
    """float32 array [count] over the memory at an address."""
    return carray(_pointer(address), (count,), np.float32)


@inlined
def matrix(address, rows, columns):
    """float32 array [rows, columns] over the memory at an address."""
    return carray(_pointer(address), (rows, columns), np.float32)


@inlined
def integers(address, count):
    """int64 array [count] over the memory at an address."""
    return carray(_pointer(address), (count,), np.int64)


@inlined
def flags(address, count):
    """bool array [count] over the memory at an address."""
    return carray(_pointer(address), (count,), np.bool_)


@inlined
def copy(target, t, source, s, count):
    """`count` numbers from source[s] on to target[t] on; quick for the few of a world, for which vector code has no time to
    begin."""
    j = 0
    while j + 4 <= count:
        target[t + j] = source[s + j]
        target[t + j + 1] = source[s + j + 1]
        target[t + j + 2] = source[s + j + 2]
        target[t + j + 3] = source[s + j + 3]
        j += 4
    while j < count:
        target[t + j] = source[s + j]
        j += 1


def _shown(given: object) -> str:
    if not isinstance(given, Tensor):
        return "nothing" if given is None else f"a {type(given).__name__}, which is no tensor"
    return f"shape {tuple(given.shape)}" + ("" if given.is_cpu else f" on device {given.device}")


class TensorTable:
    """A row for each of some named tensors that are given anew at every step.

    Tensors that are the same objects as last time cost nothing; others are looked at and, if they are not float32, converted.

    Args:
        names: of the tensors, in the order of the rows.
        shapes: wanted, of up to three axes each.
        what: for messages, such as "observes".

    Attributes:
        rows: [len(names), COLUMNS] int64.
    """

    def __init__(self, names: Sequence[str], shapes: Sequence[tuple[int, ...]], what: str) -> None:
        self.names = tuple(names)
        self._shapes = tuple(torch.Size(s) for s in shapes)
        self._what = what
        self.rows = np.zeros((len(self.names), COLUMNS), np.int64)
        self._memory = self.rows.data.cast("B") if self.names else memoryview(b"")
        self._rows = [Struct(f"{1 + len(s)}q") for s in self._shapes]
        self._places = [i * COLUMNS * 8 for i in range(len(self.names))]
        self._last: list[Tensor | object] = [_NONE_YET] * len(self.names)
        self._kept: list[Tensor | None] = [None] * len(self.names)  # keeps alive what the rows point to

    def update(self, tensors: Mapping[str, Tensor]) -> None:
        """Let the rows point to these tensors; names that the table lacks are passed over.

        Raises:
            RookeryError: a tensor is missing, elsewhere than in the processor's memory, no tensor, or has another shape.
        """
        last = self._last
        if any(map(is_not, map(tensors.get, self.names), last)):
            for i, name in enumerate(self.names):
                tensor = tensors.get(name)
                if tensor is not last[i]:
                    self._point(i, tensor)

    def _point(self, i: int, tensor: Tensor | None) -> None:
        if not isinstance(tensor, Tensor) or not tensor.is_cpu or tensor.shape != self._shapes[i]:
            raise RookeryError(
                f"the task {self._what} {self.names[i]!r} with {_shown(tensor)}, not {tuple(self._shapes[i])}."
            )
        self._last[i] = tensor
        if tensor.dtype is not torch.float32:
            tensor = tensor.float()
            self._last[i] = _NONE_YET  # a copy does not follow what is written to it
        self._kept[i] = tensor
        self._rows[i].pack_into(self._memory, self._places[i], tensor.data_ptr(), *tensor.stride())

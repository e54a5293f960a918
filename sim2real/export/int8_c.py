"""Weights of 8 bits in C: integers, and a scale for each row of the matrices of dense layers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages.c_text import table

if TYPE_CHECKING:
    from rookery.policies.stages.chain import StageChain

Array = NDArray[np.float32]
LARGEST = 127
_DENSE = re.compile(r"\bdense\((\w+), ")


def quantized(weight: Array) -> tuple[NDArray[np.int8], Array]:
    """Integers [rows, columns] and scales [rows] of a matrix; of what they stand for they are the same again."""
    rows = np.asarray(weight, np.float32).reshape(len(weight), -1)
    scale = (np.abs(rows).max(axis=1).astype(np.float64) / LARGEST).astype(np.float32)
    safe = np.where(scale > 0.0, scale, 1.0).astype(np.float64)
    return np.rint(rows / safe[:, None]).clip(-LARGEST, LARGEST).astype(np.int8), scale


def dense_tables(chain: StageChain) -> set[str]:
    """C names of the matrices that `dense` multiplies with."""
    return set(_DENSE.findall("\n".join(leaf.stage.code(leaf.name) for leaf in chain.leaves)))


def int8_tables(name: str, weight: Array) -> list[str]:
    """Constant arrays of a matrix."""
    q, scale = quantized(weight)
    words = [str(v) for v in q.ravel().tolist()]
    lines = [", ".join(words[i : i + 20]) for i in range(0, len(words), 20)]
    numbers = f"static const signed char {name}[{len(words)}] = {{\n    " + ",\n    ".join(lines) + "\n};"
    return [numbers, table(f"{name}_scale", scale)]


def int8_code(texts: Iterable[str]) -> list[str]:
    """C of stages, with the layers of 8 bits."""
    return [_DENSE.sub(r"dense_int8(\1, \1_scale, ", text) for text in texts]

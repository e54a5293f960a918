"""Which C of a bundle may run: that which Rookery itself generates from the bundle's contract and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_bytes
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source
from rookery.sim2real.export.cpp_header import cpp_header
from rookery.sim2real.export.native import Header

Array = NDArray[np.float32]
MOST_NUMBERS = 1 << 26
"""Of all weights: what a contract asks for is allocated."""
GENERATED = "it is not what Rookery generates from its contract.json and policy.onnx"


def write_source(
    folder: Path, files: Mapping[str, str], contract: Contract, group: str, header: Header, weights: Mapping[str, Array],
    build: Path, run_c: bool,
) -> Path:  # fmt: skip
    """Put the C of a bundle and its headers into the folder `build`, if it may run.

    Args:
        folder, files: the bundle, and the names of the group's files.
        contract: of the bundle.
        group: agent group.
        header: of `read_header`.
        weights: float32 arrays of policy.onnx.
        build: temporary folder.
        run_c: accept C that Rookery does not generate from contract and weights.

    Returns:
        The C file in `build`.

    Raises:
        RookeryError: the C may not run.
    """
    given = {files[kind]: _bytes(folder / files[kind]) for kind in ("c", "h", "hpp")}
    wanted = _generated(files, contract, group, header, weights)
    if given != wanted and not run_c:
        changed = folder / next((n for n in given if n in wanted and given[n] != wanted[n]), files["c"])
        raise RookeryError(
            f"{changed} is not run, for {GENERATED}: export the bundle again, or if you trust who wrote it, say --run-c."
        )
    for name, text in given.items():
        (build / name).write_bytes(text)
    return build / files["c"]


def _generated(
    files: Mapping[str, str], contract: Contract, group: str, header: Header, weights: Mapping[str, Array]
) -> dict[str, bytes]:
    """C and headers by file name; nothing where contract and weights give none."""
    shapes = {name: weight.shape for name, weight in contract.groups[group].trained.weights().items()}
    if sum(math.prod(shape) for shape in shapes.values()) > MOST_NUMBERS:
        return {}
    arrays = with_zeros(contract, group, weights)
    if any(name not in arrays or arrays[name].shape != shape for name, shape in shapes.items()):
        return {}
    if not all(np.isfinite(a).all() for a in arrays.values()):
        return {}
    try:
        code, declarations = c_source(contract, group, arrays, header.prefix, files["h"])
    except RookeryError:
        return {}
    texts = {"c": code, "h": declarations, "hpp": cpp_header(contract, group, header.prefix, files["h"])}
    return {files[kind]: text.encode("ascii") for kind, text in texts.items()}


def with_zeros(contract: Contract, group: str, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights of the stages in policy.onnx, with the biases that are zero, which ONNX's exporter leaves out."""
    shapes = {name: weight.shape for name, weight in contract.groups[group].trained.weights().items()}
    zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if ".bias" in name}
    return {name: x for name, x in {**zeros, **weights}.items() if name in shapes}


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except (OSError, ValueError) as error:
        raise RookeryError(f"cannot read {path} ({error}): export the bundle again.") from error

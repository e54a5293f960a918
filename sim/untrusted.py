"""Reads files that somebody else may have made: bounds on size, depth, numbers and shapes hold before memory is taken.

Nothing here executes what a file holds. Every function raises `Damaged`, a ValueError, which the caller turns into a
`RookeryError` with the file's name and the way out, and OSError where a file cannot be read at all.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import struct
import tomllib
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx
    from torch import Tensor

TEXT_BYTES = 64 << 20
"""Largest JSON, TOML, CSV or source file."""
ARRAY_BYTES = 512 << 20
"""Most bytes of all arrays of an .npz file, unpacked."""
ONNX_BYTES = 256 << 20
"""Largest ONNX file."""
DEPTH = 64
"""Deepest nesting of lists and objects."""
DIGITS = 40
"""Longest whole number; 128 bits of a random generator's state have 39 digits."""
DTYPES = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "I64": 8,
    "U64": 8, "F64": 8,
}  # fmt: skip
"""Bytes of a number of each safetensors type that is read."""


class Damaged(ValueError):
    """A file is not what it claims to be; the message says why in a few words."""


def read_bytes(path: Path, most: int = TEXT_BYTES) -> bytes:
    """The bytes of an ordinary file.

    Raises:
        Damaged: it is no ordinary file, or has more than `most` bytes. OSError: it cannot be read.
    """
    require_file(path)
    with open(path, "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if size > most:
            raise Damaged(f"it has more than {most >> 20} MiB")
        return opened.read(size)  # with a size, for read() makes room for all that it is asked for


def read_text(path: Path, most: int = TEXT_BYTES) -> str:
    """The text of a UTF-8 file.

    Raises:
        Damaged: too long, or no UTF-8. OSError: it cannot be read.
    """
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Damaged("it is no UTF-8 text") from error


def read_json(path: Path) -> Any:
    """The values of a JSON file, see `parse_json`."""
    return parse_json(read_bytes(path))


def parse_json(text: bytes | str) -> Any:
    """The values of a JSON text.

    Raises:
        Damaged: no JSON; nested deeper than DEPTH; a number that is not finite or longer than DIGITS; or half of a
            surrogate pair.
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        values = json.loads(text, parse_float=_finite, parse_int=_whole, parse_constant=_refuse_constant)
    except Damaged:
        raise
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is no JSON: {_short(error)}") from error
    _check_nesting(values, leaves=_refuse_surrogates if "\\ud" in text.lower() else None)
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file.

    Raises:
        Damaged: no TOML; nested deeper than DEPTH; a number beyond float64 or a whole one longer than DIGITS.
        OSError: it cannot be read.
    """
    try:
        values = tomllib.loads(read_text(path), parse_float=_toml_float)
    except Damaged:
        raise
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is no TOML: {_short(error)}") from error
    _check_nesting(values, leaves=_refuse_long)
    return values


def read_npz(path: Path, most: int = ARRAY_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file.

    Raises:
        Damaged: it is no zip of arrays, an array is of Python objects or of another size than its header says, or all
            together exceed `most` bytes. OSError: it cannot be read.
    """
    require_file(path)
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            names = [m.filename for m in members]
            if len(set(names)) != len(names) or len(names) > 1000:
                raise Damaged("it is no zip of arrays of different names")
            if sum(m.file_size for m in members) > most:
                raise Damaged(f"its arrays have more than {most >> 20} MiB")
            return {m.filename.removesuffix(".npy"): _member(file, m) for m in members}
    except Damaged:
        raise
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, ValueError, struct.error) as error:
        raise Damaged(f"it is no zip of arrays: {_short(error)}") from error
    except (NotImplementedError, RuntimeError, IndexError, OverflowError) as error:  # encrypted, unknown compression
        raise Damaged(f"it is no plain zip of arrays: {_short(error)}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a member that begins before the file
            raise
        raise Damaged("it is no zip of arrays: a member is out of place") from error
    except Exception as error:
        if type(error).__module__ in ("zlib", "_lzma", "lzma"):  # what these raise derives from Exception alone
            raise Damaged(f"its packed data are damaged: {_short(error)}") from error
        raise


def _member(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array; its header must describe just the bytes that follow it."""
    if not info.filename.endswith(".npy") or info.flag_bits & 1:
        raise Damaged(f"{info.filename!r} is no array")
    with file.open(info) as opened:
        try:
            readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, fortran, dtype = readers[np.lib.format.read_magic(opened)](opened)
        except Exception as error:  # NumPy parses the header as Python, with all that its tokenizer raises
            raise Damaged(f"{info.filename!r} has no header of an array: {_short(error)}") from error
        if dtype.hasobject or dtype.kind not in "biufUS":
            raise Damaged(f"{info.filename!r} holds neither numbers nor text")
        data = opened.read(info.file_size)
    if any(n < 0 for n in shape) or len(shape) > 16 or math.prod(shape) * dtype.itemsize != len(data):
        raise Damaged(f"{info.filename!r} is of another size than its header says")
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype) if math.prod(shape) < 1000 else _refuse_empty(info.filename)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C").copy()


def _refuse_empty(name: str) -> NDArray[Any]:
    raise Damaged(f"{name!r} holds text without letters")


def safetensors_header(data: bytes | Path) -> tuple[dict[str, tuple[str, tuple[int, ...]]], dict[str, str]]:
    """Types and shapes by name, and the metadata, of a safetensors file or its bytes.

    Raises:
        Damaged: the header is no such one, or does not describe just the bytes that follow it. OSError: it cannot be read.
    """
    if isinstance(data, Path):
        require_file(data)
        size = data.stat().st_size
        with open(data, "rb") as opened:
            head = opened.read(8)
            length = _header_length(head, size)
            text = opened.read(length)
    else:
        size = len(data)
        length = _header_length(data[:8], size)
        text = data[8 : 8 + length]
    values = parse_json(text)
    if not isinstance(values, dict):
        raise Damaged("its header is no object")
    metadata = values.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Damaged("its metadata are no texts by name")
    entries = {name: _entry(name, line) for name, line in values.items()}
    if sum(end - start for _, _, (start, end) in entries.values()) != size - 8 - length:
        raise Damaged("its arrays have other sizes than its header says")
    return {name: (dtype, shape) for name, (dtype, shape, _) in entries.items()}, metadata


def read_safetensors(
    path: Path, names: Collection[str] | None = None
) -> tuple[dict[str, Tensor], dict[str, str]]:  # fmt: skip
    """Tensors by name on the CPU, all or those named, and the metadata.

    Raises:
        Damaged: as `safetensors_header`; or a name is not there. OSError: it cannot be read.
    """
    import safetensors

    header, metadata = safetensors_header(path)
    chosen = header if names is None else names
    if missing := [name for name in chosen if name not in header]:
        raise Damaged(f"it lacks {missing[0]!r}")
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in chosen}, metadata
    except (safetensors.SafetensorError, RuntimeError, TypeError) as error:
        raise Damaged(_short(error)) from error


def _header_length(head: bytes, size: int) -> int:
    length = int.from_bytes(head, "little")
    if len(head) < 8 or not 2 <= length <= min(size - 8, TEXT_BYTES):
        raise Damaged("it is cut short, or no safetensors file")
    return length


def _entry(name: str, line: object) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """Type, shape and place of one tensor."""
    try:
        assert isinstance(line, dict)
        dtype = line["dtype"]
        shape = tuple(line["shape"])
        start, end = line["data_offsets"]
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (*shape, start, end))
        right = (
            whole
            and len(shape) <= 16
            and max(shape, default=0) < 1 << 40
            and end - start == math.prod(shape) * DTYPES[dtype]
        )
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"its header has a wrong entry {name[:60]!r}") from error
    if not right:
        raise Damaged(f"its array {name[:60]!r} is of another size than its shape says")
    return dtype, shape, (start, end)


def read_onnx(path: Path) -> onnx.ModelProto:
    """An ONNX model whose data are all in the file and whose graph has no branches or loops.

    Raises:
        Damaged: no such model, too long, data in other files, or operators with graphs of their own.
        OSError: it cannot be read.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load_model_from_string(read_bytes(path, ONNX_BYTES))
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Damaged("it is no ONNX model") from error
    if not model.graph.node or model.functions or model.training_info:
        raise Damaged("it is no ONNX model of plain operators")
    if model.graph.sparse_initializer:
        raise Damaged("it holds sparse arrays")
    tensors = list(model.graph.initializer)
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            raise Damaged(f"it uses an operator of {node.domain[:60]!r}")
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                raise Damaged(f"its operator {node.op_type[:60]!r} has a graph of its own")
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                raise Damaged("it holds sparse arrays")
            tensors += [attribute.t, *attribute.tensors]
    if any(t.external_data or t.data_location == onnx.TensorProto.EXTERNAL for t in tensors):
        raise Damaged("its data are in another file")
    return model


def onnx_arrays(model: onnx.ModelProto) -> dict[str, NDArray[np.float32]]:
    """The float32 initializers of a model by name.

    Raises:
        Damaged: one is of another size than its shape says.
    """
    arrays = {}
    for tensor in model.graph.initializer:
        values = onnx_tensor(tensor)
        if values is not None:
            arrays[tensor.name] = values
    return arrays


def onnx_tensor(tensor: onnx.TensorProto) -> NDArray[np.float32] | None:
    """The numbers of an ONNX tensor of float32; None for one of another type.

    Raises:
        Damaged: it is of another size than its shape says.
    """
    import onnx

    if tensor.data_type != onnx.TensorProto.FLOAT:
        return None
    size = 4 * math.prod(tensor.dims)
    given = len(tensor.raw_data) if tensor.HasField("raw_data") else 4 * len(tensor.float_data)
    if any(n < 0 for n in tensor.dims) or size != given:
        raise Damaged(f"its array {tensor.name[:60]!r} is of another size than its shape says")
    return np.asarray(onnx.numpy_helper.to_array(tensor), np.float32)


def require_file(path: Path) -> None:
    """Refuse what is no ordinary file: a pipe or a device would never end.

    Raises:
        Damaged: it is none. OSError: it is a folder, or cannot be looked at.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise Damaged("it is no ordinary file")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Damaged(f"the number {text[:20]} is beyond float64")
    return value


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise Damaged(f"a whole number has {len(text)} digits")
    return int(text)


def _refuse_constant(text: str) -> None:
    raise Damaged(f"{text} is no number of JSON")


def _toml_float(text: str) -> float:
    return float(text) if re.search("inf|nan", text) else _finite(text)


def _refuse_long(value: object) -> None:
    if isinstance(value, int) and abs(value) >= 10**DIGITS:
        raise Damaged(f"a whole number has more than {DIGITS} digits")


def _refuse_surrogates(value: object) -> None:
    if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
        raise Damaged("a text has half of a surrogate pair")


def _check_nesting(values: object, leaves: Callable[[object], None] | None) -> None:
    """Not deeper than DEPTH; `leaves` gets every key and every value that is no container."""
    stack: list[tuple[object, int]] = [(values, 0)]
    while stack:
        value, depth = stack.pop()
        if isinstance(value, Mapping):
            inner = [*value.values(), *value] if leaves else list(value.values())
        elif isinstance(value, list):
            inner = value
        else:
            if leaves:
                leaves(value)
            continue
        if depth == DEPTH:
            raise Damaged(f"it is nested deeper than {DEPTH}")
        stack.extend((v, depth + 1) for v in inner if leaves or isinstance(v, (Mapping, list)))


def _short(error: BaseException) -> str:
    """The first line of an error, without line breaks of the file."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]

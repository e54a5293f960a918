"""Files that somebody else may have made: each bound and each guard on its own, on the smallest file that it is there for."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.sim.untrusted import (
    DEPTH,
    DIGITS,
    Damaged,
    parse_json,
    read_bytes,
    read_json,
    read_npz,
    read_safetensors,
    read_text,
    read_toml,
    safetensors_header,
)

# Files


@pytest.mark.parametrize("read", [read_bytes, read_text, read_json, read_toml, read_npz, read_safetensors])
def test_what_is_no_file_is_never_opened(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Damaged, match="it is no ordinary file"):
        read(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "gone")


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (1 << 20))
    assert len(read_bytes(tmp_path / "file", 1 << 20)) == 1 << 20
    for read in (read_bytes, read_text):
        with pytest.raises(Damaged, match="more than 0 MiB"):
            read(tmp_path / "file", (1 << 20) - 1)


def test_text_is_utf8(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("Größe".encode("latin1"))
    with pytest.raises(Damaged, match="it is no UTF-8 text"):
        read_text(tmp_path / "file")


# JSON and TOML


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is no JSON"),
        (b"\xff", "it is no JSON"),
        (nested(100_000), "it is no JSON|nested deeper"),
        (nested(DEPTH + 1), f"nested deeper than {DEPTH}"),
        ('{"a": ' * (DEPTH + 1) + "1" + "}" * (DEPTH + 1), f"nested deeper than {DEPTH}"),
        ("[1e999]", "the number 1e999 is beyond float64"),
        ("[-1e999]", "beyond float64"),
        ("[NaN]", "NaN is no number of JSON"),
        ("[-Infinity]", "-Infinity is no number of JSON"),
        ("1" * (DIGITS + 1), f"a whole number has {DIGITS + 1} digits"),
        ('["\\ud800"]', "half of a surrogate pair"),
        ('{"\\uDFFF": 1}', "half of a surrogate pair"),
        ('{"a": [[["\\ud800 x"]]]}', "half of a surrogate pair"),
    ],
)
def test_json_that_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        parse_json(text)


def test_json_that_is_read() -> None:
    assert parse_json("1" * DIGITS) == int("1" * DIGITS)
    assert parse_json(nested(DEPTH)) == json.loads(nested(DEPTH))
    assert parse_json('{"\\ud83d\\ude00": "\\ud83d\\ude00"}') == {"\N{GRINNING FACE}": "\N{GRINNING FACE}"}
    assert parse_json('["\\\\ud800"]') == ["\\ud800"]  # a backslash, and no surrogate
    assert parse_json(b"[1e308, 0.5, 3]") == [1e308, 0.5, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "it is no TOML"),
        (f"a = {nested(DEPTH)}", f"nested deeper than {DEPTH}"),
        (f"a = {nested(5000)}", "it is no TOML|nested deeper"),
        ("a = 1e999", "the number 1e999 is beyond float64"),
        ("a = 1" + "0" * DIGITS, f"a whole number has more than {DIGITS} digits"),
        ("a = [{b = -1" + "0" * DIGITS + "}]", f"a whole number has more than {DIGITS} digits"),
    ],
)
def test_toml_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(Damaged, match=message):
        read_toml(tmp_path / "file")


def test_toml_may_say_infinity(tmp_path: Path) -> None:
    """What takes no infinity refuses it by its name; a bound of the user's own may be one."""
    (tmp_path / "file").write_text(f"a = inf\nb = -inf\nc = nan\nd = -{'9' * DIGITS}\n")
    values = read_toml(tmp_path / "file")
    assert values["d"] == -(10**DIGITS) + 1
    assert (values["a"], values["b"]) == (np.inf, -np.inf) and np.isnan(values["c"])


# Arrays


def npy(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, values, allow_pickle=True)
    return out.getvalue()


def header(shape: str, dtype: str = "<f4", data: bytes = b"") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(folder: Path, *members: tuple[str, bytes], packed: int = zipfile.ZIP_STORED) -> Path:
    file = folder / "file.npz"
    with zipfile.ZipFile(file, "w", packed) as out:
        for name, data in members:
            out.writestr(name, data)
    return file


ONE = npy(np.arange(4.0))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.npy", ONE), ("a.npy", ONE)], "arrays of different names"),
        ([(f"{i}.npy", b"") for i in range(1001)], "arrays of different names"),
        ([("a.txt", ONE)], "'a.txt' is no array"),
        ([("a.npy", b"text")], "has no header of an array"),
        ([("a.npy", header("(__import__('os'),)"))], "has no header of an array"),
        ([("a.npy", b"\x93NUMPY\x03\x00" + ONE[8:])], "has no header of an array"),
        ([("a.npy", npy(np.array([{}], object)))], "neither numbers nor text"),
        ([("a.npy", npy(np.array([1j])))], "neither numbers nor text"),
        ([("a.npy", npy(np.array([(1,)], [("x", "<i4")])))], "neither numbers nor text|no header"),
        ([("a.npy", ONE[:-1])], "of another size than its header says"),
        ([("a.npy", ONE + b"x")], "of another size than its header says"),
        ([("a.npy", header("(-2, -1)", data=bytes(8)))], "of another size than its header says"),
        ([("a.npy", header(str((1,) * 17), data=bytes(4)))], "of another size than its header says"),
        ([("a.npy", header("(1000,)", "<U0"))], "text without letters"),
    ],
)
def test_archives_that_are_refused(tmp_path: Path, members: list[tuple[str, bytes]], message: str) -> None:
    with pytest.raises(Damaged, match=message):
        read_npz(zipped(tmp_path, *members))


def test_arrays_have_a_bound_together_when_they_are_unpacked(tmp_path: Path) -> None:
    big = npy(np.zeros(1 << 18, np.float32))
    file = zipped(tmp_path, ("a.npy", big), ("b.npy", big), packed=zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 1 << 14
    assert len(read_npz(file, 2 * len(big))) == 2
    with pytest.raises(Damaged, match="more than 2 MiB"):
        read_npz(file, 2 * len(big) - 1)


@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_within_an_archive_is_told(tmp_path: Path, packed: int) -> None:
    file = zipped(tmp_path, ("a.npy", npy(np.arange(5000.0) % 7)), packed=packed)
    assert np.array_equal(read_npz(file)["a"], np.arange(5000.0) % 7)
    good = file.read_bytes()
    for place in range(20, len(good), max(1, len(good) // 300)):
        file.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        try:
            read_npz(file)  # the name of the array may be another one, or its time
        except Damaged:
            continue
    for length in (0, 10, len(good) // 2, len(good) - 1):
        file.write_bytes(good[:length])
        with pytest.raises(Damaged, match="it is no zip of arrays"):
            read_npz(file)


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_packed_stream_that_is_no_longer_one_is_told(tmp_path: Path, packed: int) -> None:
    """Where it breaks behind the array's header, the library that unpacks it says so, or the checksum does."""
    file = zipped(tmp_path, ("a.npy", npy(np.sqrt(np.arange(4000.0)))), packed=packed)
    good = file.read_bytes()
    said = []
    for place in range(5000, len(good) - 500, 800):
        file.write_bytes(good[:place] + bytes(range(100, 140)) + good[place + 40 :])
        with pytest.raises(Damaged) as damaged:
            read_npz(file)
        said.append(str(damaged.value))
    assert any("its packed data are damaged" in message for message in said), said


@pytest.mark.parametrize(
    ("place", "value"), [(6, 1), (8, 99)]
)  # the flag of an encrypted member, an unknown compression
def test_archives_that_cannot_be_unpacked(tmp_path: Path, place: int, value: int) -> None:
    file = zipped(tmp_path, ("a.npy", ONE))
    data = bytearray(file.read_bytes())
    for begin, more in ((data.index(b"PK\x03\x04"), 0), (data.index(b"PK\x01\x02"), 2)):
        data[begin + place + more] = value
    file.write_bytes(data)
    with pytest.raises(Damaged, match=r"is no array|it is no plain zip of arrays"):
        read_npz(file)


def test_arrays_come_as_they_were_written(tmp_path: Path) -> None:
    values = {
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "text": np.array(["a", "bc"]), "none": np.zeros((0, 3)),
        "number": np.array(3), "empty text": np.array(["", ""]), "sixteen": np.ones((1,) * 16, np.int8),
    }  # fmt: skip
    np.savez(tmp_path / "file.npz", **values)
    found = read_npz(tmp_path / "file.npz")
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].shape == value.shape and np.array_equal(found[name], value), name
    found["number"][...] = 4  # a copy, which may be written


# Tensors


def tensors(text: Any, data: bytes = b"") -> bytes:
    """The bytes of a safetensors file with this header."""
    packed = text if isinstance(text, bytes) else json.dumps(text).encode()
    return len(packed).to_bytes(8, "little") + packed + data


def entry(shape: Any = (2,), offsets: Any = (0, 8), dtype: Any = "F32") -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut short"),
        ((2).to_bytes(7, "little"), "cut short"),
        ((1).to_bytes(8, "little") + b"{}", "cut short"),
        ((3).to_bytes(8, "little") + b"{}", "cut short"),
        ((1 << 60).to_bytes(8, "little") + b"{}", "cut short"),
        (tensors(b"[]"), "its header is no object"),
        (tensors(b"{x"), "it is no JSON"),
        (tensors({"__metadata__": []}), "its metadata are no texts by name"),
        (tensors({"__metadata__": {"a": 1}}), "its metadata are no texts by name"),
        (tensors({"a": [1]}), "a wrong entry 'a'"),
        (tensors({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "a wrong entry 'a'"),
        (tensors(entry(dtype="C64"), bytes(8)), "a wrong entry 'a'"),
        (tensors(entry(dtype=["F32"]), bytes(8)), "a wrong entry 'a'"),
        (tensors(entry(shape=3), bytes(8)), "a wrong entry 'a'"),
        (tensors(entry(offsets=[0, 4, 8]), bytes(8)), "a wrong entry 'a'"),
        (tensors(entry(shape=[2.0]), bytes(8)), "of another size than its shape says"),
        (tensors(entry(shape=[True, 2]), bytes(8)), "of another size than its shape says"),
        (tensors(entry(shape=[-1, -2]), bytes(8)), "of another size than its shape says"),
        (tensors(entry(offsets=[-8, 0])), "of another size than its shape says"),
        (tensors(entry(shape=[1] * 16 + [2]), bytes(8)), "of another size than its shape says"),
        (tensors(entry(shape=[0, 1 << 40], offsets=[0, 0])), "of another size than its shape says"),
        (tensors(entry(shape=[3]), bytes(8)), "of another size than its shape says"),
        (tensors(entry(), bytes(9)), "its arrays have other sizes than its header says"),
        (tensors(entry(), bytes(7)), "its arrays have other sizes than its header says"),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(data)
    for source in (data, tmp_path / "file"):
        with pytest.raises(Damaged, match=message):
            safetensors_header(source)


def test_tensors_that_overlap_are_refused(tmp_path: Path) -> None:
    """The sizes add up; the library looks at the places."""
    both = entry() | {"b": entry()["a"]}
    (tmp_path / "file").write_bytes(tensors(both, bytes(16)))
    with pytest.raises(Damaged, match=r"."):
        read_safetensors(tmp_path / "file")


def test_tensors_are_read_by_name(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save

    values = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(True), "c": torch.zeros(0, 3, dtype=torch.int8)}
    (tmp_path / "file").write_bytes(save(values, {"kind": "test"}))
    found, metadata = read_safetensors(tmp_path / "file")
    assert metadata == {"kind": "test"}
    assert all(torch.equal(found[name], value) and found[name].dtype == value.dtype for name, value in values.items())
    assert read_safetensors(tmp_path / "file", ["b"])[0].keys() == {"b"}
    with pytest.raises(Damaged, match="it lacks 'd'"):
        read_safetensors(tmp_path / "file", ["a", "d"])
    shapes, _ = safetensors_header((tmp_path / "file").read_bytes())
    assert shapes == {"a": ("F32", (2, 3)), "b": ("BOOL", ()), "c": ("I8", (0, 3))}

"""Seeded mutations of bytes, JSON values and archives: what accidents and strangers do to files."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

HUGE_NUMBERS = (b"1e999", b"-1e400", b"9" * 5000, b"NaN", b"Infinity", b"18446744073709551616", b"-1", b"0")
NASTY: tuple[Any, ...] = (
    None, True, "", "x", "../../etc/passwd", "\x00", "\ud800", "x" * 10_000, 0, -1, 1, 2**31, 2**63, 2**64, 10**38, -(10**18),
    0.5, 1e308, -1e308, 1e-320, [], {}, [[]], [None], {"": None}, [1, 2, 3], "inf", "T",
)  # fmt: skip


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to four small changes anywhere."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        length = rng.choice((1, 2, 8, 100))
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + length]
        elif kind == 4:
            out[at:at] = rng.choice(HUGE_NUMBERS)
        elif kind == 5:
            out[at:at] = rng.randbytes(length)
        elif kind == 6:
            out[at:at] = out[at : at + length]
        else:
            out[at : at + length] = b"\xff" * length
    return bytes(out)


COUNTS = (0, 2, 100, 10**6, 10**8, 10**9, 2**31 - 1, 2**31, 2**32 - 1, 10**12, 2**63)
"""What a file may say that it holds."""


def mutate_counts(data: bytes, rng: random.Random) -> bytes:
    """A mesh whose whole numbers, in its text or in four bytes of its binary part, say otherwise; or with other types."""
    if rng.random() < 0.3:
        at = rng.choice((80, rng.randrange(max(1, len(data) - 4))))
        return data[:at] + (rng.choice(COUNTS) & 0xFFFFFFFF).to_bytes(4, "little") + data[at + 4 :]
    if rng.random() < 0.2:
        kinds = re.sub(rb"list (\w+) (\w+)", lambda m: b"list %b %b" % tuple(rng.choices(PLY_TYPES, k=2)), data)
        return re.sub(rb"property (float|int)\b", lambda m: b"property " + rng.choice(PLY_TYPES), kinds, count=1)
    found = list(re.finditer(rb"(?<![\w.-])\d+(?![\w.-])", data[:100_000]))
    if not found:
        return mutate_bytes(data, rng)
    for match in sorted(rng.sample(found, min(len(found), rng.choice((1, 1, 3)))), key=lambda m: -m.start()):
        data = data[: match.start()] + str(rng.choice(COUNTS)).encode() + data[match.end() :]
    return data


PLY_TYPES = (b"char", b"uchar", b"short", b"ushort", b"int", b"uint", b"float", b"double", b"list uint int")


def mutate_json(value: Any, rng: random.Random) -> Any:
    """A copy with one value replaced, swapped with another, repeated, renamed, nested or removed."""
    value = json.loads(json.dumps(value))
    places = list(_places(value))
    if not places:
        return rng.choice(NASTY)
    parent, key = rng.choice(places)
    kind = rng.randrange(7)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        other, place = rng.choice(places)
        parent[key] = json.loads(json.dumps(other[place]))
    elif kind == 2:
        deep: Any = parent[key]
        for _ in range(rng.choice((1, 70, 3000))):
            deep = [deep] if rng.random() < 0.5 else {"x": deep}
        parent[key] = deep
    elif kind == 3 and isinstance(parent, dict):
        parent[rng.choice(("", "x", str(key) + "s", "\x00", "size"))] = parent.pop(key)
    elif kind == 4 and isinstance(parent[key], list):
        parent[key] = parent[key] * rng.choice((2, 50))
    elif kind == 5 and isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        parent[key] = rng.choice((-parent[key], parent[key] + 1, parent[key] * 1000, float(parent[key]) + 0.5))
    else:
        parent[key] = rng.choice(NASTY)
    return value


def json_text(value: Any, rng: random.Random) -> bytes:
    """Its text, deep nesting included; at times with a number no float holds."""
    text = _dump(value)
    if rng.random() < 0.1:
        text = text.replace(b"1", rng.choice(HUGE_NUMBERS), 1)
    return text


def mutate_json_text(data: bytes, rng: random.Random) -> bytes:
    """A JSON file with other values, or other bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    return json_text(mutate_json(json.loads(data), rng), rng)


def mutate_safetensors(data: bytes, rng: random.Random) -> bytes:
    """The header changed as JSON with its length put right, or bytes."""
    if rng.random() < 0.4:
        return mutate_bytes(data, rng)
    length = int.from_bytes(data[:8], "little")
    header = json_text(mutate_json(json.loads(data[8 : 8 + length]), rng), rng)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def mutate_npz(data: bytes, rng: random.Random) -> bytes:
    """Members dropped, renamed, repeated or changed inside, with right checksums; or bytes of the archive."""
    if rng.random() < 0.4:
        return mutate_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    i = rng.randrange(len(members))
    name, inside = members[i]
    kind = rng.randrange(6)
    if kind == 0:
        del members[i]
    elif kind == 1:
        members[i] = (rng.choice(("x.npy", name + "x", "../x.npy", "x" * 1000 + ".npy")), inside)
    elif kind == 2:
        members[i] = (name, _other_header(inside, rng))
    elif kind == 3:
        members[i] = (name, members[rng.randrange(len(members))][1])
    else:
        members[i] = (name, mutate_bytes(inside, rng))
    out = io.BytesIO()
    packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(out, "w", packing) as new:
        for member, text in members:
            new.writestr(zipfile.ZipInfo(member), text, packing)  # of no date: the same file at any time
    return out.getvalue()


def either(*mutators: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    """One of them at random."""
    return lambda data, rng: rng.choice(mutators)(data, rng)


def _other_header(array: bytes, rng: random.Random) -> bytes:
    """An .npy file that declares another type or shape."""
    end = 10 + int.from_bytes(array[8:10], "little")
    dtype = rng.choice(("<f4", "<f8", "|O", "<i8", "<U9999", "|V0", "<U0", "<M8[s]", "<c16", ">f4", "f4,f4"))
    shape = rng.choice(
        ("()", "(0,)", "(1 << 60,)", f"({2**62}, 2)", f"({10**30},)", "(-1,)", "(1,)" * 1, "(3, 3, 3)", "x")
    )
    text = f"{{'descr': {dtype!r}, 'fortran_order': {rng.choice(('True', 'False', '7'))}, 'shape': {shape}, }}"
    head = text.encode().ljust(118) + b"\n"
    return array[:8] + len(head).to_bytes(2, "little") + head + array[end:]


def _places(value: Any, depth: int = 0) -> Any:
    """Every (parent, key) in it."""
    if depth > 100:
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key], depth + 1)


def _dump(value: Any) -> bytes:
    """json.dumps, for values nested deeper than it takes."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b'{"x": ' * 3000 + b"0" + b"}" * 3000

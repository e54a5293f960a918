"""The size of what a glTF file unpacks to, from its own numbers, before a reader makes room for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rookery.assets.errors import RookeryError

MAX_VERTICES = 20_000_000
"""Most vertices and indices of all nodes together; 10 million triangles make 0.5 GB."""
_MAGIC = b"glTF"
_HEADER = 20


def check_gltf(path: Path) -> None:
    """Refuse a glTF file that asks for more room than it may.

    A few bytes can ask for any number of vertices: an accessor without data means zeros, and nodes repeat meshes.

    Raises:
        RookeryError: it does, or it is no glTF.
    """
    try:
        model = json.loads(_text(path.read_bytes()))
        vertices = _vertices(model)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise RookeryError(f"{path} cannot be read as a glTF file ({error!s:.200}): export it again.") from error
    if vertices > MAX_VERTICES:
        raise RookeryError(
            f"{path} has {vertices} vertices and indices, and at most {MAX_VERTICES} are read: thin it out."
        )


def _text(data: bytes) -> bytes:
    """The JSON of a .gltf file, or of a .glb file's first chunk."""
    if data[:4] != _MAGIC:
        return data
    length = int.from_bytes(data[12:16], "little")
    return data[_HEADER : _HEADER + length]


def _vertices(model: dict[str, Any]) -> int:
    """Numbers of the accessors, and of the meshes as often as nodes show them."""
    counts = [_count(accessor) for accessor in model.get("accessors", [])]
    sizes = []
    for mesh in model.get("meshes", []):
        parts = mesh.get("primitives", [])
        used = [
            i for part in parts for i in (*part.get("attributes", {}).values(), part.get("indices")) if i is not None
        ]
        sizes.append(sum(counts[i] for i in used))
    shown = [sizes[node["mesh"]] for node in model.get("nodes", []) if "mesh" in node]
    return sum(counts) + sum(shown)


def _count(accessor: dict[str, Any]) -> int:
    count = accessor["count"]
    if not isinstance(count, int) or count < 0:
        raise TypeError("an accessor's count is no number")
    return count

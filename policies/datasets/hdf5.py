"""HDF5 files that somebody else may have made, read in a child process: what is damaged can abort the C library.

Read are groups, attributes of text and numbers, and arrays of plain numbers. Links of any kind, data in other files, virtual
arrays and filters from plugins are refused before anything of them is read.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rookery.sim.limited import run_limited
from rookery.sim.untrusted import ARRAY_BYTES, Damaged, parse_json, read_safetensors, read_text

SECONDS = 60
"""s, of the clock and of the processor, for a file."""
MEMORY = 3 << 30
"""Bytes of the child's address space."""
MOST_OBJECTS = 100_000
"""Groups and arrays in a file."""
MOST_COLUMNS = 4096
"""Numbers in a row of an array; those with more, and pictures, are named and not read."""
DEEPEST = 6
"""Groups inside of each other."""
MOST_TEXT = 1 << 20
"""Bytes of an attribute."""

_READ = """
import json, sys
import h5py
import numpy as np
from safetensors.numpy import save_file
source, out, most_objects, most_columns, most_bytes, deepest, most_text = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
known = [getattr(h5py.h5z, "FILTER_" + name) for name in ("DEFLATE", "SHUFFLE", "FLETCHER32", "LZF", "SCALEOFFSET")]
arrays, tree, total = [], {"attributes": {}, "arrays": {}, "left": {}}, 0

def refuse(why):
    print(why[:200].replace("\\n", " "))
    sys.exit(1)

def attributes(item, name):
    kept = {}
    for key in item.attrs:
        value = item.attrs.get_id(key)
        if value.get_storage_size() > most_text or value.shape not in ((), (1,)):
            continue
        value = item.attrs[key]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, (str, int, float, np.integer, np.floating)):
            kept[key] = value if isinstance(value, str) else float(value)
    if kept:
        tree["attributes"][name] = kept

def read(item, name):
    global total
    plist = item.id.get_create_plist()
    if plist.get_external_count() or item.is_virtual:
        refuse(f"{name} has its data in other files")
    if any(plist.get_filter(i)[0] not in known for i in range(plist.get_nfilters())):
        refuse(f"{name} is packed by a plugin")
    shape, kind = item.shape, item.dtype
    plain = shape is not None and kind.kind in "biuf" and len(shape) in (1, 2) and max(shape[1:], default=1) <= most_columns
    if not plain:
        tree["left"][name] = f"{kind}, {shape}"[:80]
        return
    kept = np.float32 if kind.kind == "f" and kind.itemsize <= 4 else np.float64
    total += int(np.prod(shape, dtype=object)) * np.dtype(kept).itemsize
    if total > most_bytes:
        refuse(f"its arrays have more than {most_bytes >> 20} MiB")
    tree["arrays"][name] = len(arrays)
    arrays.append(np.ascontiguousarray(item[()], kept))

def walk(group, path, depth):
    attributes(group, path)
    for key in group:
        name = f"{path}/{key}" if path else key
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            refuse(f"{name} is a link")
        if len(tree["arrays"]) + len(tree["left"]) + len(seen) > most_objects:
            refuse("it has too many groups and arrays")
        item = group[key]
        if isinstance(item, h5py.Group):
            where = h5py.h5o.get_info(item.id).addr
            if where in seen or depth >= deepest:
                refuse(f"{name} is nested too deep or in itself")
            seen.add(where)
            walk(item, name, depth + 1)
        elif isinstance(item, h5py.Dataset):
            read(item, name)
        else:
            refuse(f"{name} is no group or array")

seen = set()
try:
    with h5py.File(source, "r", locking=False) as file:
        walk(file, "", 0)
    save_file({f"a{i}": x for i, x in enumerate(arrays)}, out + ".safetensors")
    with open(out + ".json", "w") as opened:
        json.dump(tree, opened)
except (OSError, MemoryError, RuntimeError, ValueError, KeyError, TypeError, OverflowError) as error:
    refuse((str(error).splitlines() or ["damaged"])[0])
"""


@dataclass(frozen=True)
class Contents:
    """Contents of an HDF5 file, by path.

    Args:
        attributes: of groups; "" is the file's own.
        arrays: of numbers, with one or two axes.
        left: arrays that were not read, with type and shape in words.
    """

    attributes: dict[str, dict[str, Any]]
    arrays: dict[str, NDArray[Any]]
    left: dict[str, str]


def read_hdf5(path: Path) -> Contents:
    """The groups and arrays of an HDF5 file.

    Raises:
        Damaged: it cannot be read, refers to other files, or is larger than the limits. OSError: it is missing.
    """
    if not path.is_file():
        raise Damaged("it is no ordinary file")
    with tempfile.TemporaryDirectory(prefix="rookery-hdf5-") as folder:
        out = Path(folder) / "read"
        limits = (MOST_OBJECTS, MOST_COLUMNS, ARRAY_BYTES, DEEPEST, MOST_TEXT)
        command = [sys.executable, "-P", "-c", _READ, str(path.resolve()), str(out), *map(str, limits)]
        done = run_limited(command, Path(folder), SECONDS, MEMORY, ARRAY_BYTES + (1 << 20))
        if done.status != 0:
            said = done.output.splitlines() if done.status == 1 else []
            raise Damaged(said[-1][:200] if said else done.reason)
        tree = parse_json(read_text(out.with_suffix(".json")))
        arrays, _ = read_safetensors(out.with_suffix(".safetensors"))
        return Contents(
            tree["attributes"], {name: arrays[f"a{i}"].numpy() for name, i in tree["arrays"].items()}, tree["left"]
        )

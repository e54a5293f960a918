"""Identity of a policy of the zoo, of its task and of the code, by which figures and films are told from those of others."""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from pathlib import Path

from machine import PACKAGE, commit

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
CODE = (*PACKAGE, ":(exclude)policies/zoo")
"""The package without the zoo: to store a policy is no change of the code."""
Key = dict[str, str]
"""SHA-256, abbreviated, of "policy" and "task", and the "commit" of the code."""


def policies() -> list[str]:
    """Names of the policies that come with the package."""
    return sorted(f.parent.name for f in ZOO.glob("*/contract.json"))


def weights(folder: Path) -> str:
    """SHA-256 of a policy's tensors, abbreviated: of their shapes and bytes, whatever they are called.

    Raises:
        FileNotFoundError: there are none.
    """
    files = sorted(folder.glob("policy*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no policy.")
    return _short(b"".join(digest(file.read_bytes()) for file in files))


def digest(raw: bytes) -> bytes:
    """SHA-256 of the tensors in a safetensors file: a header's size in 8 bytes, the header as JSON, the tensors' bytes."""
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    tensors = [(v["shape"], v["data_offsets"]) for name, v in header.items() if name != "__metadata__"]
    data = memoryview(raw)[8 + size :]
    parts = [hashlib.sha256(repr(shape).encode() + data[begin:end]).digest() for shape, (begin, end) in tensors]
    return hashlib.sha256(b"".join(sorted(parts))).digest()


@functools.cache
def task_files(task: str) -> str:
    """SHA-256 of a task's own files, abbreviated: its class, the bases of that and their configs."""
    from rookery.sim2real.task_source import task_source

    return _short(json.dumps(dict(task_source(task).sha256), sort_keys=True).encode())


def task_of(policy: str) -> str:
    """The task that a policy was trained for; of a task that has none, itself."""
    if not (ZOO / policy).is_dir():
        return policy
    return str(json.loads((ZOO / policy / "contract.json").read_text())["task_id"])


@functools.cache
def code() -> str:
    """The commit of the package's code, "-dirty" where it has changes."""
    return commit(*CODE)


def key(policy: str) -> Key:
    """Identity of a policy of the zoo, and of what judges it; of a task alone without weights."""
    return {
        "policy": weights(ZOO / policy) if (ZOO / policy).is_dir() else "",
        "task": task_files(task_of(policy)),
        "commit": code(),
    }


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]

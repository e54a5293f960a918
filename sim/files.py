"""Files that are whole after a power cut and on a full disk: written beside and renamed, with everything on the disk."""

from __future__ import annotations

import os
from pathlib import Path


def write(file: Path, data: bytes) -> None:
    """Write and wait until it is on the disk."""
    with open(file, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def replace(file: Path, data: bytes) -> None:
    """Write so that at any moment the file is either the old or the new one, whole."""
    temporary = file.with_name(f".{file.name}.writing")
    try:
        write(temporary, data)
        temporary.replace(file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush(file.parent)


def make_folder(folder: Path) -> None:
    """Make a folder with its missing parents, and wait until they are on the disk."""
    missing = [made for made in (folder, *folder.parents) if not made.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        flush(made.parent)


def flush(path: Path) -> None:
    """Wait until a file's data or a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Paths of the files of a LeRobot dataset, by the templates that its metadata have for them."""

from __future__ import annotations

import re
import string
from pathlib import Path

from rookery.sim.untrusted import Damaged

WIDTH = re.compile(r"0?[0-9]{0,2}d?")
"""A number's format that pads it to at most 99 digits."""


def place_of(folder: Path, template: object, **at: object) -> Path:
    """A file of a dataset.

    Args:
        folder: of the dataset.
        template: such as ``data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet``.
        at: what it may name.

    Raises:
        Damaged: it is no such template, or leads out of the folder, by itself or by a link.
    """
    if not isinstance(template, str) or len(template) > 1000:
        raise Damaged("a template of paths is no short text")
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise Damaged(f"a template of paths is wrong: {error}") from error
    for _, name, width, conversion in parts:
        if name is None:
            continue
        if name not in at:
            raise Damaged(f"a template of paths names {name[:60]!r}")
        number = isinstance(at[name], int)
        if conversion or (width and not (number and WIDTH.fullmatch(width))):
            raise Damaged(f"a template of paths writes {name!r} as {width[:60]!r}" if width else "a template is wrong")
    try:
        path = folder / template.format(**at)
        inside = path.resolve().is_relative_to(folder.resolve())
    except (ValueError, OSError, RuntimeError) as error:
        raise Damaged(f"a template of paths names no file: {error}") from error
    if not inside:
        raise Damaged("a template of paths leads out of the folder")
    return path

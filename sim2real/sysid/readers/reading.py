"""One log from any file that is known, by the end of its name and by what is in it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged
from rookery.sim2real.sysid.table import Table

READERS = {
    ".npz": "arrays", ".csv": "csv_file", ".txt": "csv_file", ".mcap": "mcap_file", ".ulg": "ulog", ".db3": "ros2", "": "ros2"
}  # fmt: skip
"""Module of this package by the end of a file's name; a folder is a ROS 2 bag. Each has `read(path) -> Table`."""


def read_table(path: Path) -> Table:
    """The columns of a log.

    Raises:
        RookeryError: the file is not there, of no known kind, or damaged; a package that reads it is not installed.
    """
    if not path.exists():
        raise RookeryError(f"there is no log {path}.")
    suffix = "" if path.is_dir() else path.suffix.lower()
    if suffix not in READERS or (suffix == "" and not path.is_dir()):
        kinds = ", ".join(s for s in READERS if s)
        raise RookeryError(f"{path} is of no kind that is read ({kinds}, or the folder of a ROS 2 bag).")
    module = importlib.import_module(f"rookery.sim2real.sysid.readers.{READERS[suffix]}")
    read = cast(Callable[[Path], Table], module.read)
    try:
        return read(path)
    except Damaged as error:
        raise RookeryError(f"{path} cannot be read as {suffix or 'a bag'}: {error}.") from error
    except OSError as error:
        raise RookeryError(f"cannot read {path}: {error.strerror or error}.") from error


def needs(package: str, path: Path) -> RookeryError:
    """The error where a package is not installed."""
    return RookeryError(f"{path} needs {package}: pip install 'rookery[sysid]'.")

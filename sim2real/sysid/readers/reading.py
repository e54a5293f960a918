"""One log from any file that is known, by the end of its name and by what is in it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

from rookery.sim.errors import RookeryError
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
        table = read(path)
    except RookeryError:
        raise
    except OSError as error:
        raise RookeryError(f"cannot read {path}: {one_line(error.strerror or error)}.") from error
    # what stands in a file may be of any type and anywhere missing, and libraries have errors of their own
    except Exception as error:
        raise RookeryError(f"{path} cannot be read as {suffix or 'a bag'}: {one_line(error)}.") from error
    _check_lengths(table)
    return table


def one_line(error: object) -> str:
    """An error of another library as a part of one sentence; its name where it says nothing."""
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return said if len(said) <= 200 else said[:197] + "..."


def _check_lengths(table: Table) -> None:
    """Every column has a value in every sample."""
    lengths = {name: len(values) for name, values in table.columns.items()}
    if not lengths or not all(lengths.values()):
        raise RookeryError(f"{table.source} has no samples.")
    first, length = next(iter(lengths.items()))
    for name, other in lengths.items():
        if other != length:
            raise RookeryError(
                f"{table.source} has {length} samples of {first} and {other} of {name}: a log has as many of each."
            )


def needs(package: str, path: Path) -> RookeryError:
    """The error where a package is not installed."""
    return RookeryError(f"{path} needs {package}: pip install 'rookery[sysid]'.")

"""Text tables: a line of names, then numbers; separated by commas, semicolons or tabs. Logs of the Crazyflie's client are known
by their names."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from rookery.sim.untrusted import Damaged, read_text
from rookery.sim2real.sysid.readers.crazyflie import crazyflie_columns
from rookery.sim2real.sysid.table import Table

MOST_BYTES = 256 << 20


def read(path: Path) -> Table:
    """The columns of a file that hold numbers; see rookery.sim2real.sysid.readers.reading."""
    lines = read_text(path, MOST_BYTES).removeprefix("\ufeff").splitlines()
    if len(lines) < 2:
        raise Damaged("it needs a line of names and lines of numbers")
    delimiter = max(",;\t", key=lines[0].count)
    rows = csv.reader(lines, delimiter=delimiter)
    names = [name.strip() for name in next(rows)]
    while names and not names[-1]:
        names.pop()
    if len(set(names)) < len(names):
        raise Damaged(f"two columns have the name {next(n for n in names if names.count(n) > 1)!r}")
    table = np.full((len(lines) - 1, len(names)), math.nan)
    count = 0
    for number, row in enumerate(rows, 2):
        if not row or not any(row):
            continue
        if len(row) < len(names):
            raise Damaged(f"line {number} has {len(row)} values for {len(names)} columns")
        for column, text in enumerate(row[: len(names)]):
            if text.strip():
                table[count, column] = _number(text, number, names[column])
        count += 1
    columns = {name: table[:count, i] for i, name in enumerate(names)}
    columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    known = crazyflie_columns(columns)
    return Table(str(path), columns if known is None else known)


def _number(text: str, line: int, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Damaged(f"line {line} has {text.strip()[:40]!r} for {name}, which is no number") from None

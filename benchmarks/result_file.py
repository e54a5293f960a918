"""The file that a benchmark writes: its rows, and what they were measured by."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from machine import commit, machine

RESULTS = Path(__file__).resolve().parent / "results"


def write_result(
    out: Path,
    command: str,
    start: float,
    columns: Sequence[Mapping[str, str]],
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, str],
    **more: Any,
) -> None:
    """Write a benchmark's result as JSON, for tables.py.

    Args:
        out: the file; its stem is the name of the table.
        command: that measures it again.
        start: `time.perf_counter()` at its beginning.
        columns: "key", "title" and "format" of each column.
        rows: values by key; keys that are no column stay in the file alone.
        metrics: what columns mean.
        more: further entries of the file, such as "note".
    """
    result = {
        "name": out.stem,
        "command": command,
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": dict(metrics),
        "columns": list(columns),
        "rows": list(rows),
        **more,
    }
    out.write_text(json.dumps(result, indent=1) + "\n")

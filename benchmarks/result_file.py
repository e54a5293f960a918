"""The file that a benchmark writes: its rows, and what they were measured by."""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Callable, Mapping, Sequence
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


def measure_cases(
    script: Path,
    about: str,
    run: Path,
    episodes: int,
    cases: Sequence[str],
    row: Callable[[Path, str, int, int], dict[str, Any]],
    out: Path,
    columns: Sequence[Mapping[str, str]],
    metrics: Mapping[str, str],
) -> None:
    """The command line of a benchmark whose rows are a policy's figures in some cases; rows that are not measured stay.

    Args:
        script: of the benchmark.
        about: what it measures, for --help.
        run: folder of the policy, by default.
        episodes: of a case, by default.
        cases: their names, in the order of the table.
        row: the figures of a run in a case, for a number of episodes and a seed.
        out, columns, metrics: see `write_result`.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("run", type=Path, nargs="?", default=run)
    parser.add_argument("--episodes", type=int, default=episodes)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(cases), choices=cases)
    parser.add_argument("--out", type=Path, default=out)
    args = parser.parse_args()
    start = time.perf_counter()
    rows = {r["case"]: r for r in json.loads(args.out.read_text())["rows"]} if args.out.exists() else {}
    command = f"python benchmarks/{script.name} --episodes {args.episodes} --seed {args.seed}"
    for case in args.only:
        rows[case] = row(args.run, case, args.episodes, args.seed)
        print(rows[case], flush=True)
        write_result(args.out, command, start, columns, [rows[c] for c in cases if c in rows], metrics)

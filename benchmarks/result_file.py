"""The file that a benchmark writes: its rows, and what they were measured by."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from machine import commit, machine

from rookery.cli.main import guarded
from rookery.experiments.runs import find_run
from rookery.sim.errors import RookeryError

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
        more: further entries of the file, such as "note", or in place of those above.
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
) -> int:
    """The command line of a benchmark whose rows are a policy's figures in some cases; rows that are not measured stay.

    Every row keeps the command, the commit and the seconds of its own measurement, and a digest of the policy: rows of two
    policies are refused in one file.

    Args:
        script: of the benchmark.
        about: what it measures, for --help.
        run: folder of the policy, by default.
        episodes: of a case, by default.
        cases: their names, in the order of the table.
        row: the figures of a run in a case, for a number of episodes and a seed.
        out, columns, metrics: see `write_result`.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("run", type=Path, nargs="?", default=run)
    parser.add_argument("--episodes", type=int, default=episodes)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=list(cases), choices=cases)
    parser.add_argument("--out", type=Path, default=out)
    args = parser.parse_args()

    def measure() -> int:
        policy = digest(find_run(args.run))
        rows = kept_rows(args.out, [c for c in cases if c not in args.only], policy)
        words = ["python", f"benchmarks/{script.name}", _shown(args.run)]
        words += ["--episodes", str(args.episodes), "--seed", str(args.seed)]
        words += ["--only", *args.only] if len(set(args.only)) < len(cases) else []
        source = {"command": shlex.join(words), "policy_sha256": policy}

        def figures(case: str) -> dict[str, Any]:
            return row(args.run, case, args.episodes, args.seed) | source

        for ordered, start in measured(rows, cases, args.only, figures):
            command, commits = ("; ".join(dict.fromkeys(r[key] for r in ordered)) for key in ("command", "commit"))
            more = told(ordered) | {"commit": commits}
            write_result(args.out, command, start, columns, ordered, metrics, **more)
        return 0

    return guarded(measure)


def measure_tasks(
    script: str,
    episodes: int,
    tasks: Sequence[str],
    row: Callable[[str, int, int], dict[str, Any]],
    out: Path,
    columns: Sequence[Mapping[str, str]],
    metrics: Mapping[str, str],
    arguments: Sequence[str] | None = None,
) -> int:
    """The command line of a benchmark with a row for each task; rows that are not measured stay, and each tells its commit.

    Args:
        script: what is typed between `python benchmarks/` and the options.
        episodes: of a task, by default.
        tasks: their names, in the order of the table; a row has its own as "case".
        row: the figures of a task, for a number of episodes and a seed.
        out, columns, metrics: see `write_result`.
        arguments: of the command line; those of the process without them.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=episodes)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=list(tasks), choices=tasks)
    parser.add_argument("--out", type=Path, default=out)
    args = parser.parse_args(arguments)
    rows = {r["case"]: r for r in json.loads(args.out.read_text())["rows"]} if args.out.exists() else {}

    def figures(task: str) -> dict[str, Any]:
        return row(task, args.episodes, args.seed) | {"episodes": args.episodes}

    for ordered, start in measured(rows, tasks, args.only, figures):
        numbers = " or ".join(str(n) for n in sorted({r["episodes"] for r in ordered}))
        command = f"python benchmarks/{script} --episodes {numbers} --seed {args.seed}"
        write_result(args.out, command, start, columns, ordered, metrics, **told(ordered))
    return 0


def measured(
    rows: dict[Any, dict[str, Any]], order: Sequence[Any], only: Iterable[Any], figures: Callable[[Any], dict[str, Any]]
) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """Measure rows one after the other, each with its commit and seconds.

    Args:
        rows: those there are, by case; changed.
        order: of the cases in the table.
        only: cases that are measured.
        figures: of a case.

    Yields:
        after each, all rows in order, and the time at which its measurement began.
    """
    for case in only:
        start = time.perf_counter()
        rows[case] = figures(case) | {"commit": commit()}
        rows[case]["wall_s"] = round(time.perf_counter() - start, 1)
        print(rows[case], flush=True)
        yield [rows[c] for c in order if c in rows], start


def told(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The commits of rows that tell theirs, and the sum of their seconds; none where one does not tell it."""
    times = [r.get("wall_s") for r in rows]
    wall = None if None in times else round(sum(times), 1)
    return {"commit": ", ".join(dict.fromkeys(r["commit"] for r in rows)), "wall_s": wall}


def digest(run: Path) -> str:
    """SHA-256 of a policy's weights and contract, abbreviated."""
    files = sorted([*run.glob("policy*.safetensors"), run / "contract.json"])
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]


def kept_rows(out: Path, cases: Sequence[str], policy: str) -> dict[str, dict[str, Any]]:
    """Rows of a result file that are not measured anew, by case.

    Raises:
        RookeryError: one is of another policy, or does not say of which.
    """
    rows = json.loads(out.read_text())["rows"] if out.exists() else []
    kept = {r["case"]: r for r in rows if r["case"] in cases}
    other = [case for case, r in kept.items() if r.get("policy_sha256") != policy]
    if other:
        raise RookeryError(
            f"{out} has rows of another policy, or of one that it does not tell ({', '.join(other)}): give another --out, or "
            "leave --only out."
        )
    return kept


def _shown(run: Path) -> str:
    """A run's folder as it is typed in the checkout's root."""
    root = RESULTS.parents[1]
    return str(run.resolve().relative_to(root)) if run.resolve().is_relative_to(root) and run.exists() else str(run)

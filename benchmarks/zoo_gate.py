"""Runs the transfer gate on every policy that comes with the package: one table.

    python benchmarks/zoo_gate.py [--only drone-hover table-push] [--again] [--episodes 16]

Each policy is judged by `rookery gate` in a process of its own, against the profile of its task's robot. Its report is kept in
--cache: an interrupted run goes on with the next policy, and a second process takes policies that the first has not locked.
--again judges anew. What is written is benchmarks/results/zoo-gate.json; rows of policies without a report stay in it.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import commit, machine

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = [
    {"key": "policy", "title": "policy"},
    {"key": "profile", "title": "profile"},
    {"key": "verdict", "title": "verdict"},
    {"key": "score", "title": "score", "format": ".2f"},
    {"key": "nominal", "title": "nominal", "format": ".2f"},
    {"key": "mean", "title": "combinations", "format": ".2f"},
    {"key": "worst", "title": "worst", "format": ".2f"},
    {"key": "factors", "title": "factors that fail: margin of required"},
    {"key": "cases", "title": "engines, physics step"},
    {"key": "c", "title": "exported C"},
    {"key": "trained", "title": "commit of its training"},
    {"key": "episodes", "title": "episodes", "format": "d"},
]
SHOWN = 3
"""Factors in a row of the table; the JSON file has all."""


@contextmanager
def locked(file: Path) -> Iterator[bool]:
    """Whether this process alone works at what the lock file stands for."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def judge(name: str, options: list[str]) -> dict[str, Any]:
    """What `rookery gate` says of a policy; where it refuses, its sentence as `refused`."""
    command = [sys.executable, "-m", "rookery", "gate", str(ZOO / name), "--json", *options]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        lines = [line for line in done.stderr.splitlines() if line.startswith("rookery: ")]
        if done.returncode != 2 or not lines:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
        report: dict[str, Any] = {"refused": lines[-1].removeprefix("rookery: ")}
    else:
        report = json.loads(done.stdout)
    return report | {"commit": commit(), "wall_s": round(time.perf_counter() - start, 1)}


def trained(name: str) -> str:
    """The commit that a policy's contract records, abbreviated; "-dirty" where the checkout had changes."""
    found = json.loads((ZOO / name / "contract.json").read_text())["provenance"]["commit"]
    if not found:
        return "not recorded"
    return str(found[:7]) + "-dirty" * found.endswith("-dirty")


def row(name: str, report: dict[str, Any]) -> dict[str, Any]:
    """A policy's row of the table."""
    from rookery.sim2real.gate.page import number

    head = {"policy": name, "commit": report["commit"], "wall_s": report["wall_s"], "trained": trained(name)}
    if "refused" in report:
        return head | {"verdict": "not judged", "factors": report["refused"]}
    cases = {c["name"]: c for c in report["cases"]}
    combinations = report["combinations"] or {}
    required = [m for m in report["margins"] if m["required"] is not None]
    failing = sorted((m for m in required if m["verdict"] in ("fail", "no effect")), key=lambda m: m["coverage"])
    texts = [
        f"{m['factor']} " + ("has no effect" if m["verdict"] == "no effect" else
        f"{number(m['value'], m['unit'])} of {number(m['required'], m['unit'])}") for m in failing
    ]  # fmt: skip
    if cases["nominal"]["verdict"] == "fail":
        texts = ["not swept: nominal fails"]
    exported = cases.pop("exported C")
    others = [f"{_short(k)} {_rate(c)}" for k, c in cases.items() if k != "nominal"]
    more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return head | {
        "profile": report["profile"],
        "verdict": report["verdict"],
        "score": report["score"],
        "nominal": cases["nominal"]["success"],
        "mean": combinations.get("success"),
        "worst": combinations.get("worst_success"),
        "factors": "; ".join(texts[:SHOWN] + more),
        "cases": ", ".join(others),
        "c": exported["note"].removeprefix("largest difference of actions from torch ") or exported["verdict"],
        "episodes": report["episodes"],
        "failures": report["failures"],
        "margins": [{k: m[k] for k in ("factor", "direction", "required", "value", "coverage", "verdict")} for m in required],
        "without_effect": report["without_effect"],
        "lacking": report["lacking"],
    }  # fmt: skip


def _short(case: str) -> str:
    return case.removeprefix("engine ").replace("physics step", "step")


def _rate(case: dict[str, Any]) -> str:
    return str(case["verdict"]) if case["success"] is None else f"{case['success']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=(), help="policies; all without it")
    parser.add_argument("--episodes", type=int, default=16, help="at each point")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--combinations", type=int, default=32)
    parser.add_argument("--engines", nargs="*", default=(), help="as of rookery gate; none: no other")
    parser.add_argument("--again", action="store_true", help="also policies that have a report")
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / "zoo-gate")
    args = parser.parse_args()
    names = sorted(f.parent.name for f in ZOO.glob("*/contract.json"))
    options = ["--episodes", str(args.episodes), "--rounds", str(args.rounds), "--combinations", str(args.combinations)]
    options += ["--interval", "0.5", "--required-only", *(word for e in args.engines for word in ("--engines", e))]
    for name in args.only or names:
        kept = args.cache / f"{name}.json"
        with locked(args.cache / f"{name}.lock") as mine:
            if not mine or (kept.exists() and not args.again):
                continue
            report = judge(name, [*options, "--out", str(args.cache / name)])
            kept.write_text(json.dumps(report, indent=1) + "\n")
            print(f"{name:28} {report.get('verdict', 'not judged')} {report['wall_s']} s", flush=True)
    write({name: json.loads(f.read_text()) for name in names if (f := args.cache / f"{name}.json").exists()}, args)


def write(reports: dict[str, dict[str, Any]], args: argparse.Namespace) -> None:
    """The result: a row for every report, and those that the file has of other policies."""
    file = RESULTS / "zoo-gate.json"
    old = json.loads(file.read_text()) if file.exists() else {"rows": []}
    found = {r["policy"]: r for r in old["rows"] if (ZOO / r["policy"]).is_dir()}
    found |= {name: row(name, report) for name, report in reports.items()}
    rows = [found[name] for name in sorted(found)]
    count = {v: sum(r["verdict"] == v for r in rows) for v in ("pass", "fail", "incomplete", "not judged")}
    result = {
        "name": "zoo-gate",
        "command": f"python benchmarks/zoo_gate.py --episodes {args.episodes} --rounds {args.rounds} "
        f"--combinations {args.combinations}",
        "commit": " ".join(sorted({r["commit"] for r in rows})),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(sum(r["wall_s"] for r in rows), 1),
        "metrics": {
            "verdict": ", ".join(f"{v}: {n}" for v, n in count.items() if n)
            + "; of `rookery gate --required-only` with as many episodes at each point as the row says",
            "combinations": "mean success over combinations drawn from the profile; worst: success at the worst one found",
            "factors": f"the farthest value at which at least 0.9 succeed, of what the profile requires; the {SHOWN} that "
            "reach least, all are in the JSON file",
            "cases": "success with another engine and with other physics steps, at least 0.9 to pass",
            "c": "largest difference of its actions from torch's, at most 1e-4",
            "trained": "as the policy's contract records it; dirty: with changes that were not committed, so that the commit "
            "alone does not give the policy again",
        },
        "columns": COLUMNS,
        "rows": rows,
    }
    missing = [f.parent.name for f in sorted(ZOO.glob("*/contract.json")) if f.parent.name not in found]
    notes = [f"not judged yet: {', '.join(missing)}."] if missing else []
    notes += [re.sub(r"^not judged yet: [^.]*[.]\s*", "", old.get("notes", ""))]  # what was written by hand
    result["notes"] = " ".join(filter(None, notes))
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

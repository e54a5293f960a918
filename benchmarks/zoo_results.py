"""The files that zoo.py writes: benchmarks/results/zoo.json, benchmarks/results/zoo-gate.json and docs/films.json.

Each figure and film keeps the identity of its policy, of the task and of the code (policy_key.py): zoo.py does again what is
not current, and a test finds what is older than its policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zoo_gate
from machine import machine
from policy_key import ROOT, ZOO, policies, weights
from zoo_parts import CASES, Job, files, today

RESULTS = ROOT / "benchmarks" / "results"
COLUMNS = [
    {"key": "policy", "title": "policy"},
    {"key": "nominal", "title": "nominal physics", "format": ".3f"},
    {"key": "default", "title": "default randomization", "format": ".3f"},
    {"key": "delay", "title": "delays", "format": ".3f"},
    {"key": "engine", "title": "another engine", "format": ".3f"},
    {"key": "engine_name", "title": "which"},
    {"key": "metric_name", "title": "figure"},
    {"key": "metric", "title": "nominal", "format": ".4g"},
    {"key": "metric_default", "title": "default randomization", "format": ".4g"},
    {"key": "length", "title": "episode, steps", "format": ".0f"},
    {"key": "gate", "title": "gate"},
    {"key": "episodes", "title": "episodes"},
    {"key": "commits", "title": "commits"},
]
METRICS = {
    "nominal": "success rate: share of episodes that meet the task's success criterion, as the task's guide and docstring "
    "define it; of table-* tasks Meta-World's: at any time of the episode; none of matches that a policy "
    "plays against itself",
    "delay": "the same with observations and actions late at once, each by the most that the gate's profile has (which asks "
    "for each alone, and for combinations drawn between)",
    "engine": "the same on the first other engine of the task; pybullet with 16 episodes",
    "metric": "mean over episodes of the metric in the column before; the JSON file holds all metrics",
    "gate": "the verdict of the table below",
}


class Zoo:
    """What is known of all policies.

    Args:
        root: of the checkout whose files are read and written.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.figures_file = root / "benchmarks" / "results" / "zoo.json"
        self.gate_file = root / "benchmarks" / "results" / "zoo-gate.json"
        self.films_file = root / "docs" / "films.json"
        self.parts: dict[str, dict[str, Any]] = {
            r["policy"]: dict(r["parts"]) for r in _rows(self.figures_file) if "parts" in r
        }
        self.gates: dict[str, dict[str, Any]] = {r["policy"]: r for r in _rows(self.gate_file)}
        self.films: dict[str, dict[str, Any]] = _read(self.films_file, {})

    def record(self, job: Job) -> dict[str, Any] | None:
        """What is known from an earlier job: of films of the one that was made first, and only if all are there."""
        if job.part in CASES:
            return self.parts.get(job.policy, {}).get(job.part)
        if job.part == "gate":
            return self.gates.get(job.policy)
        found = [self.films.get(name) for name in files(job)]
        if None in found or len({json.dumps(f["key"]) for f in found if f}) > 1:
            return None
        return found[0]

    def put(self, job: Job, record: dict[str, Any]) -> None:
        """Take the record of a job."""
        if job.part in CASES:
            self.parts.setdefault(job.policy, {})[job.part] = record
        elif job.part == "gate":
            self.gates[job.policy] = {"policy": job.policy, "trained": trained(job.policy)} | record
        else:
            key = {k: v for k, v in record["key"].items() if k != "commit"}
            seconds = round(record["wall_s"] / len(files(job)), 1)
            for name in files(job):
                self.films[name] = {"of": job.policy, "key": key, "date": today(), "wall_s": seconds}

    def save(self, command: str) -> None:
        """Write the three files, each whole or not at all; of policies that are there still."""
        rows = [self._row(name) for name in policies() if name in self.parts]
        _write_table(self.figures_file, "zoo", command, rows, COLUMNS, METRICS, "")
        gates = [self.gates[name] for name in policies() if name in self.gates]
        count = {v: sum(r["verdict"] == v for r in gates) for v in ("pass", "fail", "incomplete", "not judged")}
        verdicts = {"verdict": ", ".join(f"{v}: {n}" for v, n in count.items() if n)}
        missing = [name for name in policies() if name not in self.gates]
        note = f"not judged yet: {', '.join(missing)}." if missing else ""
        shown = [{c["key"]: None for c in zoo_gate.COLUMNS} | r for r in gates]
        _write_table(self.gate_file, "zoo-gate", command, shown, zoo_gate.COLUMNS, verdicts | zoo_gate.METRICS, note)
        _write(self.films_file, dict(sorted(self.films.items())))

    def _row(self, name: str) -> dict[str, Any]:
        parts = self.parts[name]
        shown = {case: parts[case].get("success") for case in CASES if case in parts}
        first = parts.get("nominal", next(iter(parts.values())))
        row = {c["key"]: None for c in COLUMNS} | {"policy": name} | shown
        row |= {k: first.get(k) for k in ("metric_name", "metric", "length")}
        row["metric_default"] = parts.get("default", {}).get("metric")
        row["engine_name"] = parts.get("engine", {}).get("engine")
        row["gate"] = self.gates.get(name, {}).get("verdict", "not judged yet")
        numbers = dict.fromkeys(str(p["episodes"]) for p in parts.values() if "episodes" in p)
        row["episodes"] = ", ".join(numbers)
        row["commits"] = ", ".join(dict.fromkeys(p["commit"] for p in parts.values()))
        return row | {"wall_s": round(sum(p["wall_s"] for p in parts.values()), 1), "parts": parts}


def trained(name: str) -> str:
    """The commit that a policy's contract records, abbreviated; "-dirty" where the checkout had changes."""
    found = json.loads((ZOO / name / "contract.json").read_text())["provenance"]["commit"]
    if not found:
        return "not recorded"
    return str(found[:7]) + "-dirty" * found.endswith("-dirty")


def stale(zoo: Zoo) -> list[str]:
    """Figures, verdicts, films and pictures that are of other weights than the policy of their name."""
    now = {name: weights(ZOO / name) for name in policies()}
    records = [(f"{name} {case}", name, p) for name, parts in zoo.parts.items() for case, p in parts.items()]
    records += [(f"{name} gate", name, row) for name, row in zoo.gates.items()]
    records += [(file, film["of"], film) for file, film in zoo.films.items() if film["key"].get("policy")]
    return [what for what, name, record in records if record["key"]["policy"] != now.get(name)]


def _rows(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _read(file, {"rows": []})["rows"]
    return rows


def _read(file: Path, otherwise: Any) -> Any:
    return json.loads(file.read_text()) if file.exists() else otherwise


def _write_table(
    file: Path, name: str, command: str, rows: list[dict[str, Any]], columns: list[dict[str, str]],
    metrics: Mapping[str, str], note: str,
) -> None:  # fmt: skip
    commits = [
        c for r in rows for c in ([r["commit"]] if "commit" in r else [p["commit"] for p in r["parts"].values()])
    ]
    times = [r.get("wall_s") for r in rows]
    result = {
        "name": name,
        "command": command,
        "commit": ", ".join(dict.fromkeys(commits)),
        "machine": machine(),
        "date": today(),
        "wall_s": None if None in times else round(sum(times), 1),
        "metrics": dict(metrics),
        "columns": columns,
        "rows": rows,
    }
    _write(file, result | ({"notes": note} if note else {}))


def _write(file: Path, value: Any) -> None:
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    os.replace(partial, file)

"""Tables of docs/results.md and README.md from the JSON files in benchmarks/results.

    python benchmarks/tables.py            # rewrite the tables in place
    python benchmarks/tables.py --check    # exit code 1 where a page is not what this script writes

A page marks the place of a table with two comments, `<!-- results: begin NAME -->` and `<!-- results: end NAME -->`.
NAME is a file of benchmarks/results without its suffix, `readme` for the selection in `README_ROWS`, `variants` for the
algorithms with names of their own, or `drones-beside-success` for what the gate bounds beside success. The files hold:

    name, command, commit, machine, date (ISO 8601), wall_s     where the figures come from
    metrics     {column key: definition}
    columns     [{"key", "title", "format"}], the table's columns in order; format as in Python's format()
    rows        [{column key: value, or null}]; may hold more keys than there are columns
    notes       optional text
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.experiments.zoo import INDEX, built_zoo_index, zoo_folder

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "results",
            "off_policy",
            "other_libraries",
            "volleyball",
            "own_robot",
            "viewer",
            "manipulation",
            "demonstrations",
            "scaling",
            "fly",
            "gate",
            "sysid",
        )
    ),
)
BLOCK = re.compile(
    r"(<!-- results: begin (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- results: end (?P=name) -->)", re.DOTALL
)

README_ROWS = (
    ("a Crazyflie hovers, with memory", "drone-hover-gru"),
    ("a Crazyflie flies a path, with memory", "drone-track-gru"),
    ("four drones surround a target", "swarm-surround"),
    ("two drones set and spike a ball", "volley-set-and-spike-easy"),
    ("a Go2 follows velocity commands", "go2-velocity"),
    ("a Go2 climbs stairs of 5 to 10 cm", "go2-stairs"),
    ("a Go2 with an arm: nine tasks", "go2arm-loco-manipulation"),
    ("a Go2 with an arm: brings a ball back, a hierarchy", "go2arm-fetch"),
    ("a Panda lifts a cube", "panda-lift"),
    ("a Panda: the ten tasks of MT10", "MT10"),
)
"""Rows of README's table: what the robot does, policy of the zoo."""


def load(name: str) -> dict[str, Any]:
    """A results file."""
    return json.loads((RESULTS / f"{name}.json").read_text())  # type: ignore[no-any-return]


def cell(value: Any, spec: str = "") -> str:
    """A value as it stands in a table; nothing for null."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str) else format(value, spec)


def table(name: str) -> str:
    """The table of a results file, with definitions, source and notes below it."""
    if name == "readme":
        return readme()
    if name == "variants":
        return variants()
    if name == "drones-beside-success":
        return drones_beside_success()
    data = load(name)
    columns = data["columns"]
    lines = [
        "| " + " | ".join(c["title"] for c in columns) + " |",
        "|" + "---|" * len(columns),
        *(
            "| " + " | ".join(cell(row.get(c["key"]), c.get("format", "")) for c in columns) + " |"
            for row in data["rows"]
        ),
        "",
    ]
    titles = {c["key"]: c["title"] for c in columns}
    lines += [f"- {titles.get(key, key)}: {text}." for key, text in data["metrics"].items()]
    wall = f", {data['wall_s']:,.0f} s" if data["wall_s"] else ""
    lines.append(f"- Source: `{data['command']}`, commit {data['commit']}, {data['date']}{wall}.")
    if data.get("notes"):
        lines.append(f"- Note: {data['notes']}")
    return "\n".join(lines) + "\n"


def readme() -> str:
    """README's selection of success rates, from the table of the zoo.

    Raises:
        LookupError: a policy has no figures with nominal physics and with the default randomization.
    """
    lines = ["| what it does | policy | nominal physics | default randomization |", "|---|---|---|---|"]
    rows = {r["policy"]: r for r in load("zoo")["rows"]}
    for text, policy in README_ROWS:
        figures = [rows.get(policy, {}).get(case) for case in ("nominal", "default")]
        if None in figures:
            raise LookupError(
                f"zoo.json lacks a figure of {policy} that README.md needs: run benchmarks/zoo.py --only {policy}."
            )
        lines.append(f"| {text} | `{policy}` | " + " | ".join(f"{f:.2f}" for f in figures) + " |")
    return "\n".join(lines) + "\n"


def drones_beside_success() -> str:
    """What the gate found of the drones' turning and of the change of actions, from the table of the gate."""
    lines = ["| policy | `yaw_drift`, rad/s | `action_change` | episodes |", "|---|---|---|---|"]
    for row in load("zoo-gate")["rows"]:
        figures = {f["name"]: f["value"] for f in row.get("figures") or []}
        if "yaw_drift" in figures:
            change = cell(figures.get("action_change"), ".3f")
            lines.append(f"| `{row['policy']}` | {figures['yaw_drift']:.3f} | {change} | {row['episodes']} |")
    return "\n".join(lines) + "\n"


def variants() -> str:
    """The settings of every variant of an algorithm, as options of `rookery train`."""
    from rookery.policies.algorithms import VARIANTS

    lines = ["| `--algorithm` | is | with | from |", "|---|---|---|---|"]
    for name, variant in VARIANTS.items():
        options = " ".join(option(*pair) for pair in (variant.run | variant.config).items())
        lines.append(f"| `{name}` | `{variant.algorithm}` | `{options}` | {variant.source} |")
    return "\n".join(lines) + "\n"


def option(name: str, value: Any) -> str:
    """A setting as it is typed."""
    word = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return word if value else f"--no-{word[2:]}"
    return f"{word} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"


def rewritten(page: str) -> str:
    """A page with all its tables as the results files give them."""
    return BLOCK.sub(lambda m: m[1] + table(m["name"]) + m[4], page)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args(words)
    stale = []
    for page in PAGES:
        old = page.read_text()
        new = rewritten(old)
        if new != old:
            stale.append(page.name)
            if not args.check:
                page.write_text(new)
    index = zoo_folder() / INDEX
    text = built_zoo_index(load("zoo")["rows"])
    if not index.is_file() or index.read_text() != text:
        stale.append(index.name)
        if not args.check:
            index.write_text(text)
    if stale:
        print(f"{'stale' if args.check else 'rewritten'}: {', '.join(stale)}")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

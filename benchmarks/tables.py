"""Tables of docs/results.md and README.md from the JSON files in benchmarks/results.

    python benchmarks/tables.py            # rewrite the tables in place
    python benchmarks/tables.py --check    # exit code 1 where a page is not what this script writes

A page marks the place of a table with two comments, `<!-- results: begin NAME -->` and `<!-- results: end NAME -->`.
NAME is a file of benchmarks/results without its suffix, `readme` for the selection in `README_ROWS`, or `variants` for the
algorithms with names of their own. The files hold:

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
from pathlib import Path
from typing import Any

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
        )
    ),
)
BLOCK = re.compile(
    r"(<!-- results: begin (?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- results: end (?P=name) -->)", re.DOTALL
)

README_ROWS: tuple[tuple[str, str, dict[str, Any], str, str], ...] = (
    ("`drone-hover`, success rate, seed 0", "hover-rotor", {"seed": 0}, "success", ""),
    ("`drone-hover`, training, seed 0", "hover-rotor", {"seed": 0}, "wall_s", "s"),
    ("`drone-track`, figure-eight at 1 m/s, position error", "drone-track", {"path": "figure-eight, rotor"}, "error_cm",
     "cm"),
    ("the same by a policy with memory, `drone-track-gru`", "zoo", {"policy": "drone-track-gru", "randomize": "none"},
     "metric", "m"),
    ("the same path, PID cascade on mujoco", "drone-track", {"controller": "PID cascade", "path": "figure-eight"},
     "error_cm", "cm"),
    ("`volley-back-and-forth`, targets (published 10.04)", "volleyball", {"case": "volley-back-and-forth"}, "value", ""),
    ("`volley-solo-bump`, high hits (published 10.83)", "volleyball", {"case": "volley-solo-bump"}, "value", ""),
    ("`volley-hit`, distance (published 11.40)", "volleyball", {"case": "volley-hit"}, "value", "m"),
    ("`volley-bump-and-pass`, passes (published 13.71)", "volleyball", {"case": "volley-bump-and-pass"}, "value", ""),
    ("`volley-set-and-spike-easy`, success rate (published 0.99)", "volleyball", {"case": "volley-set-and-spike-easy"},
     "value", ""),
    ("`volley-set-and-spike-hard`, success rate (published 0.75; our own defender)", "volleyball",
     {"case": "volley-set-and-spike-hard"}, "value", ""),
    ("`MT10`, one policy for ten table-top tasks, default randomization, success rate", "mt10", {"task": "all"}, "default", ""),
    ("`swarm-surround`, 4 drones, success rate", "swarm-counts", {"task": "swarm-surround"}, "n4", ""),
    ("`go2-velocity`, velocity error, all time", "walking", {"case": "nominal"}, "all", "m/s"),
    ("the same, low-passed, settled time", "walking", {"case": "nominal"}, "settled", "m/s"),
    ("the same on pybullet", "walking", {"case": "pybullet"}, "settled", "m/s"),
    ("`go2-velocity`, yaw rate error, all time", "walking", {"case": "nominal"}, "turn_all", "rad/s"),
    ("`go2arm-reach`, walking at 0.3 m/s, position error", "reach", {"speed": 0.3}, "position_cm", "cm"),
    ("`go2arm-loco-manipulation`, nine tasks, success rate", "loco-manipulation", {"case": "nominal"}, "success",
     ""),
    ("the same under the default randomization", "loco-manipulation", {"case": "default randomization"}, "success", ""),
    ("`table-pick-place`, success rate", "tabletop-learning", {"task": "table-pick-place"}, "success", ""),
    ("`table-reach`, 256 worlds on two cores", "tabletop-speed", {"task": "reach"}, "two", "steps/s"),
    ("engine `rotor`, 50 steps per call, two threads", "rotor-engine", {"case": "rotor_thrust", "steps": 50}, "two",
     "M steps/s"),
    ("PPO, samples per second over Stable-Baselines3", "ppo-vs-sb3", {"epochs": 10}, "ratio", ""),
)  # fmt: skip
"""Rows of README's table: text, file, the row's values that select it, column key, unit."""


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
    """README's selection of figures.

    Raises:
        LookupError: a row is not there exactly once.
    """
    lines = ["| figure | value |", "|---|---|"]
    for text, name, wanted, key, unit in README_ROWS:
        data = load(name)
        rows = [r for r in data["rows"] if all(r.get(k) == v for k, v in wanted.items())]
        if len(rows) != 1:
            raise LookupError(f"{name}.json has {len(rows)} rows with {wanted}, and README.md needs one.")
        spec = next(c.get("format", "") for c in data["columns"] if c["key"] == key)
        lines.append(f"| {text} | {cell(rows[0][key], spec)}{' ' + unit if unit else ''} |")
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args()
    stale = []
    for page in PAGES:
        old = page.read_text()
        new = rewritten(old)
        if new != old:
            stale.append(page.name)
            if not args.check:
                page.write_text(new)
    if stale:
        print(f"{'stale' if args.check else 'rewritten'}: {', '.join(stale)}")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

"""The table of everything that randomization can change, by family of tasks, read from the tasks themselves.

`python docs/site/factors.py` writes it into docs/randomization.md, between its two marks; a test holds the page to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import rookery
from rookery.sim.randomization.distributions import Choice, Normal, Range
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import DEFAULT, typical_ranges

PAGE = Path(__file__).resolve().parents[1] / "randomization.md"
BEGIN, END = "<!-- factors: begin -->", "<!-- factors: end -->"
FAMILIES: dict[str, tuple[str, dict[str, object], str]] = {
    "Drones": ("drone-hover", {}, ""),
    "Volleyball": ("volley-1v1", {}, "Drones"),
    "Cameras, also those of table-top tasks": ("drone-hover", {"obs": "rgb"}, "Drones"),
    "Go2": ("go2-velocity", {}, ""),
    "Go2 with an arm": ("go2arm-loco-manipulation", {"per_family": 1}, "Go2"),
    "Table-top": ("table-push", {}, ""),
    "Hand": ("hand-reorient", {}, ""),
}
"""By family, a task that has its factors, values of its config, and the family whose factors are not repeated."""
COLUMNS = ("factor", "what it is", "unit", "components", "accepted", "`default`", "`all`")


class _Family:
    """The factors of a task, and what the two levels draw of them."""

    def __init__(self, task: str, config: Mapping[str, object]) -> None:
        env = rookery.make(task, 1, config=dict(config)).unwrapped
        own = env.task.default_randomization
        self.parameters: dict[str, Parameter] = env.randomization.parameters
        self.default = {k: r for k, r in (DEFAULT if own is None else own).items() if k in self.parameters}
        self.all = typical_ranges(self.parameters, self.default, self.default)
        env.close()

    def row(self, name: str) -> str:
        p = self.parameters[name]
        components = f"{len(p.components)}: {_some(p.components)}" if p.components else ""
        levels = (_range(level.get(name), p) for level in (self.default, self.all))
        return _line(f"`{name}`", p.summary, p.unit, components, f"{_number(p.low)} to {_number(p.high)}", *levels)


def table() -> str:
    """Markdown: what all tasks share, then each family's own."""
    families = {title: _Family(task, config) for title, (task, config, _) in FAMILIES.items()}
    rows = {title: {name: f.row(name) for name in f.parameters} for title, f in families.items()}
    first, *others = rows.values()
    common = {name: row for name, row in first.items() if all(other.get(name) == row for other in others)}
    parts = [_section("Every task", list(common.values()))]
    for title, (task, _, parent) in FAMILIES.items():
        seen = common | rows.get(parent, {})
        note = f"As of `{task}`" + (f"; those that are as under {parent} are left out." if parent else ".")
        parts.append(_section(title, [row for name, row in rows[title].items() if seen.get(name) != row], note))
    return "\n".join(parts)


def page(text: str) -> str:
    """The text of the page with the table of today between its marks."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def _section(title: str, rows: list[str], note: str = "") -> str:
    head = f"### {title}\n\n{note}\n" if note else f"### {title}\n"
    return "\n".join([head, _line(*COLUMNS), "|" + "---|" * len(COLUMNS), *rows, ""])


def _line(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, ..., {names[-1]}"


def _range(r: Range | None, p: Parameter) -> str:
    """A distribution in a cell, by the values that can be in force; "" where it is not drawn."""
    if r is None:
        return ""
    each = ", each" if r.each else ""
    if isinstance(r, Choice):
        return f"one of {', '.join(map(_number, r.values))}{each}"
    if isinstance(r, Normal):
        return f"normal, mean {_number(r.mean)}, std {_number(r.std)}{each}"
    if r.low == r.high:
        return _number(r.low) + each
    kind = "" if r.name == Range.name else f", {r.name}"
    return f"{_number(p.in_force(r.low))} to {_number(p.in_force(r.high))}{kind}{each}"


def _number(x: float) -> str:
    for multiple, name in ((math.tau, "2 pi"), (math.pi, "pi")):
        if math.isclose(abs(x), multiple, rel_tol=1e-6):
            return f"-{name}" if x < 0.0 else name
    return f"{x:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

"""The policies that come with the package, and how often they succeed.

policies/zoo/index.json holds for each its task and its success rates, those of docs/results.md, since to read all contracts
takes time and benchmark results are not installed. ``python benchmarks/tables.py`` writes it with the tables; a test holds it
equal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

INDEX = "index.json"


@dataclass(frozen=True)
class ZooPolicy:
    """A policy of the zoo.

    Args:
        name: that every command takes in place of a run's folder.
        task: that it was trained for.
        success: by the spread of the physics, "none" or "default", where it was measured.
    """

    name: str
    task: str
    success: dict[str, float]


def zoo_folder() -> Path:
    """Folder of the zoo."""
    import rookery.policies

    return Path(rookery.policies.__file__).parent / "zoo"


def zoo() -> dict[str, Path]:
    """Folders of policies that come with the package, by name: that of their task, or for a second one of a task its own."""
    return {f.parent.name: f.parent for f in sorted(zoo_folder().glob("*/contract.json"))}


def zoo_policies() -> list[ZooPolicy]:
    """All policies of the zoo, sorted by name."""
    lines = json.loads((zoo_folder() / INDEX).read_text())
    return [ZooPolicy(name, line["task"], line["success"]) for name, line in sorted(lines.items())]


def built_zoo_index(rows: list[dict[str, object]]) -> str:
    """The text that `INDEX` is to have.

    Args:
        rows: of benchmarks/results/zoo.json, with `policy`, and the success rates `nominal` and `default`.
    """
    lines = []
    for name, folder in zoo().items():
        task = json.loads((folder / "contract.json").read_text())["task_id"]
        (mine,) = [row for row in rows if row["policy"] == name] or [{}]
        success = {
            spread: round(float(str(mine[key])), 4)
            for spread, key in (("none", "nominal"), ("default", "default"))
            if mine.get(key) is not None
        }
        lines.append(f"{json.dumps(name)}: {json.dumps({'task': task, 'success': success})}")
    return "{\n" + ",\n".join(lines) + "\n}\n"

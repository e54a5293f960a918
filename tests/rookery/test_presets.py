"""Presets of all tasks, and of all algorithms for some: a changed value changes what `rookery train TASK` makes.

They are written down in presets.json beside this file, as what differs from RunSettings of the same algorithm without a task.
After a change on purpose, `python tests/rookery/test_presets.py` writes them anew; look at the difference, and say so in
CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.experiments.recipes import preset
from rookery.experiments.settings import RunSettings
from rookery.policies.algorithms import ALGORITHMS, VARIANTS
from rookery.tasks.registry import OWN_TASKS

FILE = Path(__file__).parent / "presets.json"
WRITTEN = json.loads(FILE.read_text()) if FILE.exists() else {}
DEFAULTS = "no task"
OF_ALL_ALGORITHMS = ("drone-hover", "go2-velocity", "MT10")
"""A task with a preset of its own for SAC, one whose network imitations take over, and a set."""


def names() -> list[str]:
    """TASK, or TASK and ALGORITHM."""
    others = [f"{task} {algorithm}" for task in OF_ALL_ALGORITHMS for algorithm in (*ALGORITHMS, *VARIANTS)]
    return [DEFAULTS, *sorted(OWN_TASKS), *others]


def values(name: str) -> dict[str, Any]:
    """The settings of a preset that are not the defaults."""
    if name == DEFAULTS:
        return written(RunSettings())
    settings = preset(*name.split())
    return changes(written(settings), written(RunSettings(algorithm=settings.algorithm)))


def written(settings: RunSettings) -> dict[str, Any]:
    return dict(json.loads(json.dumps(settings.to_values())))


def changes(values: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(base.get(name), dict):
            value = changes(value, base[name]) or base[name]
        if value != base.get(name):
            out[name] = value
    return out


def test_every_preset_is_written_down() -> None:
    assert sorted(WRITTEN) == sorted(names())


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_presets_are_those_written_down(name: str) -> None:
    assert values(name) == WRITTEN[name]


if __name__ == "__main__":
    rows = [f" {json.dumps(name)}: {json.dumps(values(name))}" for name in names()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")

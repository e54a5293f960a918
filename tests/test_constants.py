"""Constants that stand in no config: thresholds, places, cameras, tables, as module constants or as attributes of classes. They
are part of what a task, a robot or an algorithm is: results of before and after a change of one cannot be compared.

They are written down in constants.json beside this file. After a change on purpose, `python tests/test_constants.py` writes it
anew; look at the difference, and say so in CHANGELOG.md.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import math
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

FILE = Path(__file__).parent / "constants.json"
PACKAGES = (
    "assets",
    "policies.algorithms",
    "policies.imitation",
    "policies.nn",
    "policies.other_libraries",
    "robots",
    "sim.adapters",
    "sim.randomization",
    "sim2real.gate",
    "tasks",
)
MOST_NUMBERS = 60
"""Larger arrays are written as their sum and the sum of their squares."""
ELSEWHERE = {"TASKS", "OWN_TASKS", "DEFAULT_RANDOMIZATION", "default_randomization"}
"""What other tests compare."""


def numbers(value: Any) -> Any:
    """A value as JSON where numbers are all that it consists of, beside names; None for others."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor | np.ndarray):
        array = np.asarray(value)
        if array.dtype.kind not in "bifu":
            return None
        large = [round(float(array.sum()), 6), round(float(np.square(array.astype(float)).sum()), 6)]
        return np.round(array.astype(float), 9).tolist() if array.size <= MOST_NUMBERS else large
    if isinstance(value, frozenset | set):
        value = sorted(value, key=str)
    if isinstance(value, tuple | list):
        items = [numbers(v) for v in value]
        return None if any(v is None for v in items) else items
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        pairs = {str(k): numbers(v) for k, v in value.items()}
        return {k: v for k, v in pairs.items() if v is not None}
    return None


def has_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_number, value.values()))
    return any(map(has_number, value)) if isinstance(value, list) else isinstance(value, int | float)


def found(module: Any) -> Iterator[tuple[str, Any]]:
    """Constants of a module and of the classes that it defines, by name; those of configs are in defaults.json."""
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.ClassDef) and not statement.name.endswith("Config"):
            for name, value in vars(getattr(module, statement.name)).items():
                if not name.startswith(("__", "_abc")) and not callable(value) and name not in ELSEWHERE:
                    yield f"{statement.name}.{name}", value
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in ELSEWHERE:
                    yield node.id, getattr(module, node.id, None)


def constants() -> dict[str, dict[str, Any]]:
    """By module and name."""
    out = {}
    for package in PACKAGES:
        at = importlib.import_module(f"rookery.{package}")
        inside = [info.name for info in pkgutil.walk_packages(getattr(at, "__path__", []), f"rookery.{package}.")]
        for module in inside or [at.__name__]:
            made = {name: numbers(value) for name, value in found(importlib.import_module(module))}
            if made := {name: value for name, value in made.items() if has_number(value)}:
                out[module.removeprefix("rookery.")] = made
    return dict(json.loads(json.dumps(out)))


@pytest.fixture(scope="module")
def present() -> dict[str, dict[str, Any]]:
    """Of a fresh process: in this one, other tests have filled the tables of robots that modules keep."""
    made = subprocess.run([sys.executable, "-P", __file__, "--print"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return dict(json.loads(made.stdout))


def alike(a: Any, b: Any) -> bool:
    """Whether two values are the same but for how processors round products of matrices."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-12) or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


WRITTEN = json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.mark.parametrize("module", sorted(WRITTEN))
def test_constants_are_those_written_down(module, present):
    assert alike(present[module], WRITTEN[module]), f"{present[module]}\n{WRITTEN[module]}"


def test_every_module_with_constants_is_written_down(present):
    assert sorted(present) == sorted(WRITTEN)


if __name__ == "__main__" and sys.argv[1:] == ["--print"]:
    print(json.dumps(constants()))
elif __name__ == "__main__":
    by_module = []
    for module, values in sorted(constants().items()):
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(values.items()))
        by_module.append(f" {json.dumps(module)}: {{\n{lines}\n }}")
    FILE.write_text("{\n" + ",\n".join(by_module) + "\n}\n")

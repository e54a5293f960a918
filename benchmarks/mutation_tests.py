"""Tests that may notice a mutant of a module, see mutation.py: oracles alone, the nearest first.

Near is a test that imports the module, or one that imports a module that does; a test that names a task or a command imports
its module. Rollouts and runs that were written down are left out: they notice nearly every change, and judge none.
"""

from __future__ import annotations

import ast
import json
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("sim", "robots", "tasks", "policies", "sim2real", "rookery")
"""What mutants are drawn of: all but the files of robots and things."""
IMPORTED = ("assets", *PACKAGES)
ALARMS = ("tests/tasks/test_reference_rollouts.py", "tests/policies/test_reference_runs.py")
"""Written-down numbers, which take no part."""
LOOKS = ("rendering/", "shading", "looks", "appearance", "visual.py", "painters", "templates/")
"""Parts of paths of modules that are drawn only if named: pictures, and text that a command writes."""
COMMAND = re.compile(r"""(?:rookery |main\(\[?["']|["'])([a-z]+)[ "']""")
"""A command of the command line, in a test that runs it; other words are no modules there."""
UNKNOWN_S = 5.0
"""Taken for a file of tests that no report speaks of."""


@cache
def compiled(module: str) -> bool:
    """Whether Numba compiles functions of a module into those of others, which a mutant has compiled anew, a minute each."""
    text = (ROOT / module).read_text()
    return any(mark in text for mark in ("njit", "@inlined", "@compiled", "@scalar", "@loop", "@kernel"))


def drawn() -> list[str]:
    """Modules with logic."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = [str(path.relative_to(ROOT)) for path in paths]
    return [name for name in names if not any(part in name for part in LOOKS)]


def tests_of(module: str, seconds: Mapping[str, float], budget_s: float) -> list[str]:
    """Files of tests to run against mutants of a module, the nearest first.

    Args:
        module: path in the repository.
        seconds: of each file of tests.
        budget_s: for all of them; a file that does not fit in gives way to the next.
    """
    home = f"{Path('tests', module).parent}/"
    package = "/".join(home.split("/")[:2]) + "/"
    stem = Path(module).stem.removeprefix("_")
    far = distances(module)

    def key(test: str) -> tuple[int, int, float]:
        name = Path(test).stem.removeprefix("test_")
        inside = test.startswith(package)
        unnamed = 2 - inside * ((name == stem) + (f"_{stem}_" in f"_{name}_"))
        return unnamed, far[test] + (not test.startswith(home)) + (not inside), seconds.get(test, UNKNOWN_S)

    chosen: list[str] = []
    left = budget_s
    near = [t for t in far if t.startswith("tests/") and Path(t).name.startswith("test_") and t.count("/") > 1]
    for test in sorted(near, key=key):
        cost = seconds.get(test, UNKNOWN_S)
        if test not in ALARMS and (cost <= left or not chosen):
            chosen.append(test)
            left -= cost
    return chosen


def durations(report: Path | None) -> dict[str, float]:
    """Seconds of each file of tests and of each test, by its node id, from a report of `pytest --junitxml`."""
    found: dict[str, float] = defaultdict(float)
    if report is None:
        return found
    for case in ET.parse(report).getroot().iter("testcase"):
        parts = str(case.get("classname")).split(".")
        while parts and not (ROOT / f"{'/'.join(parts)}.py").exists():
            parts.pop()  # classes of tests
        file = f"{'/'.join(parts)}.py"
        found[file] += float(case.get("time") or 0.0)
        found[f"{file}::{case.get('name')}"] += float(case.get("time") or 0.0)
    return found


def distances(module: str) -> dict[str, int]:
    """How many imports lie between a module and each file that needs it, 1 for those that import it themselves."""
    needed_by = importers()
    far = {module: 0}
    front = [module]
    while front:
        reached = {file: far[m] + 1 for m in front for file in sorted(needed_by[m]) if file not in far}
        far |= reached
        front = list(reached)
    return far


@cache
def importers() -> dict[str, set[str]]:
    """The files, of the packages and of the tests, that import a module directly."""
    found: dict[str, set[str]] = defaultdict(set)
    tasks = {
        name: entry["class"].split(":")[0]
        for name, entry in json.loads((ROOT / "tasks/index.json").read_text()).items()
    }
    named = re.compile(rf"(?<![\w-])({'|'.join(sorted(tasks, key=len, reverse=True))})(?![\w-])")
    for folder in (*IMPORTED, "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            names = list(imported(ast.parse(text), path.parent))
            if folder == "tests":
                names += [tasks[name] for name in set(named.findall(text))]
                names += [f"rookery.cli.{command}" for command in set(COMMAND.findall(text))]
            for file in filter(None, map(file_of, names)):
                found[file].add(str(path.relative_to(ROOT)))
    return found


def imported(tree: ast.AST, folder: Path) -> Iterator[str]:
    """Names of modules, and of what is taken from them, wherever in a file in `folder`; text that reads like one counts, and of
    a name that is put together, as f"rookery.cli.{command}", all that it may be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from put_together(node, folder)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            yield from re.findall(r"\brookery(?:\.\w+)+", node.value)


def put_together(name: ast.JoinedStr, folder: Path) -> Iterator[str]:
    """Names of the modules of a package, which is named or that in `folder`, where an f-string names one of them."""
    first = name.values[0] if name.values else None
    package = ""
    if isinstance(first, ast.Constant) and re.fullmatch(r"rookery(\.\w+)+\.", str(first.value)):
        package = str(first.value)[:-1]
    elif isinstance(first, ast.FormattedValue) and ast.unparse(first.value) == "__name__":
        package = ".".join(("rookery", *folder.relative_to(ROOT).parts))
    if package and (file := file_of(package)):
        yield from (f"{package}.{path.stem}" for path in (ROOT / file).parent.glob("*"))


@cache
def file_of(name: str) -> str | None:
    """The file of a module, or of the module that a name is taken from; None for those of others."""
    parts = name.split(".")
    if parts[0] == "rookery":
        parts = parts[1:] if len(parts) > 1 and parts[1] in IMPORTED else parts
    elif parts[0] != "tests":
        parts = ["tests", "shared", parts[0]]
    while parts:
        for file in (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__init__.py"):
            if (ROOT / file).exists():
                return file
        parts.pop()
    return None

"""Projects of users' own tasks and robots, from the templates in rookery/templates."""

from __future__ import annotations

import importlib.util
import keyword
import re
import string
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.registry import is_task

TEMPLATES = {
    "task": ("worked", "drone", "quadruped", "arm", "match", "stubbed", "blank"),
    "robot": ("drone", "quadruped", "quadrotor", "arm"),
}
"""Templates by kind, the default first."""
FILES = ("quadruped", "quadrotor", "arm")
"""Templates that are a robot's URDF and its settings, without a package."""


@dataclass(frozen=True)
class Project:
    """A written project: its folder, its files, and what to run in it."""

    folder: Path
    files: tuple[Path, ...]
    commands: tuple[str, ...]


def write_project(kind: str, name: str, template: str | None = None, out: Path | None = None) -> Project:
    """Write a runnable project: a package with one task, its tests, pyproject.toml with the entry point, README.md.

    Args:
        kind: "task" or "robot".
        name: of the task that the project registers, such as "my-balance".
        template: one of TEMPLATES of that kind; None takes the default.
        out: the new folder; None stands for `name` in the current one.

    Raises:
        RookeryError: a name that cannot be used or is taken, no such template, or a folder that is not empty or cannot be
            written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise RookeryError(
            f"{name!r} cannot name a project: use lower-case letters, digits and '-', such as my-balance."
        )
    if is_task(name):
        raise RookeryError(f"there is a task {name!r} already: choose another name.")
    chosen = TEMPLATES[kind][0] if template is None else template
    if chosen not in TEMPLATES[kind]:
        raise unknown(f"template of a {kind}", chosen, TEMPLATES[kind])
    folder = Path(name) if out is None else out
    module = name.replace("-", "_")
    fields = {
        "name": name,
        "module": module,
        "cls": "".join(part.capitalize() for part in name.split("-")),
        "title": name.replace("-", " ").capitalize(),
    }
    if kind == "robot" and chosen in FILES:
        kinds = ("urdf", "toml")
        robot = {f"{module}.{kind}": _read(f"robot/{chosen}.{kind}.in") for kind in kinds}
        written = _write(folder, {path: string.Template(text).substitute(fields) for path, text in robot.items()})
        return Project(folder, written, (f"rookery robot {module}.urdf",))
    _refuse_taken(module)
    contents = {
        "pyproject.toml": _read("pyproject.toml.in"),
        "README.md": _read(f"{kind}/README.md.in"),
        f"{module}/__init__.py": '"""$title."""\n',
        **({f"{module}/robot.py": _read("robot/robot.py.in")} if kind == "robot" else {}),
        f"{module}/task.py": _read(f"{kind}/{chosen}.py.in"),
        f"tests/test_{module}.py": _read(f"{kind}/test.py.in") + _read(f"{kind}/test_{chosen}.py.in"),
    }
    written = _write(folder, {path: string.Template(text).substitute(fields) for path, text in contents.items()})
    task = f"{module}/task.py:{fields['cls']}"
    commands = (
        f"rookery train {task}",
        f"rookery play runs/{fields['cls']}/latest --out {name}.mp4",
        "python -m pytest",
    )
    return Project(folder, written, commands)


def _read(name: str) -> str:
    """A template's text; "" where a template has nothing of its own."""
    file = files("rookery.templates").joinpath(*name.split("/"))
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _refuse_taken(module: str) -> None:
    """Raise RookeryError where the name imports another module, which the project's package would hide or be hidden by."""
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None:  # a mere folder has no origin
        raise RookeryError(
            f"'import {module}' is another package of this Python ({spec.origin}): choose a name of your own, such as "
            f"my-{module.replace('_', '-')}."
        )


def _write(folder: Path, contents: dict[str, str]) -> tuple[Path, ...]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RookeryError(f"{folder} is not empty: choose another --out.")
    try:
        for name, text in contents.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as e:
        raise RookeryError(f"cannot write to {folder} ({e.strerror}): choose another folder with --out.") from e
    return tuple(folder / name for name in contents)

"""All tasks by name. What this package's own tasks declare is read from index.json, which `python -m rookery.listing` writes
from their classes: a task's module is imported when it is asked for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.engines import ENGINES
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.own_files import is_in_file, unknown_name
from rookery.tasks import plugins

if TYPE_CHECKING:
    from rookery.sim.task import Task, Wrapper
    from rookery.sim.task_set import TaskSet

INDEX = Path(__file__).with_name("index.json")
"""By name: "class", "summary", "engines", "members" of a set, and of each of "groups" count, observation_size, action_size."""


@dataclass(frozen=True)
class TaskEntry:
    """A task, or a set of tasks that one policy learns together, as far as it is known without importing it.

    Args:
        id: its name on the command line.
        cls: its class, or "module:Class".
        summary: first line of the class's docstring.
        engines: engines it runs on, the default first.
        members: of a set, the names of its members.
        groups: agent groups with the default config: count, observation_size and action_size of each; None where only the
            task itself can say.
    """

    id: str
    cls: str | type[Task] | type[TaskSet]
    summary: str
    engines: tuple[str, ...]
    members: tuple[str, ...] = ()
    groups: dict[str, dict[str, int]] | None = None

    @classmethod
    def of(cls, declared: type[Task] | type[TaskSet], name: str = "") -> TaskEntry:
        """The entry of a class, under its own name or another."""
        summary = (declared.__doc__ or "").strip().split("\n")[0].removesuffix(".")
        return cls(
            name or declared.name, declared, summary, tuple(declared.engines), tuple(getattr(declared, "members", ()))
        )

    def check(self, engine: str) -> str:
        """The engine's name. Raises RookeryError where the task does not run on it; make_world refuses unknown names."""
        if engine in ENGINES and engine not in self.engines:
            raise RookeryError(f"{self.id} does not run on engine {engine!r}: use {' or '.join(self.engines)}.")
        return engine

    def declared(self) -> Any:
        """The class, of a task or of a set."""
        return plugins.class_at(self.cls, self.id) if isinstance(self.cls, str) else self.cls

    def load(self) -> type[Task]:
        """The task's class.

        Raises:
            RookeryError: it is a set, which is no task.
        """
        if self.members:
            one = self.load_set().of or f"one of {', '.join(self.members)}"
            raise RookeryError(f"{self.id} is a set of {len(self.members)} tasks: take {one}.")
        task: type[Task] = self.declared()
        return task

    def load_set(self) -> type[TaskSet]:
        """The class of a set."""
        assert self.members, f"{self.id} is no set"
        task_set: type[TaskSet] = self.declared()
        return task_set

    def task_of(self, member: str) -> str:
        """The registered name of a member's task."""
        return self.load_set().of or member

    @property
    def wrapper(self) -> Wrapper | None:
        """The change to the task's own environment, see Task.wrapper; None for a set."""
        return None if self.members else self.load().wrapper


def read_index() -> dict[str, TaskEntry]:
    """The tasks of this package."""
    return {
        name: TaskEntry(
            name, row["class"], row["summary"], tuple(row["engines"]), tuple(row.get("members", ())), row["groups"]
        )
        for name, row in json.loads(INDEX.read_text()).items()
    }


TASKS: dict[str, TaskEntry] = read_index()

OWN_TASKS = frozenset(TASKS)
"""Names of the tasks of this package."""


def register(entry: TaskEntry) -> None:
    """Add a task.

    Raises:
        RookeryError: the name is taken, or no name that a folder and a command line can take.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", entry.id):
        raise RookeryError(f"{entry.id!r} cannot name a task: use letters, digits, '-', '_' and '.'.")
    if entry.id in TASKS:
        raise RookeryError(f"there is a task {entry.id!r} already: choose another name.")
    for engine in entry.engines:
        if engine not in ENGINES:
            raise unknown(f"engine of {entry.id}", engine, ENGINES)
    TASKS[entry.id] = entry


def task_names() -> list[str]:
    """All tasks: of this package, registered ones, and entry points of installed packages. Imports none of them."""
    return [*TASKS, *(name for name in plugins.entry_points() if name not in TASKS)]


def is_task(name: str) -> bool:
    """True for a task's name, also for one in a file as ``my_task.py:Land``."""
    return name in TASKS or is_in_file(name) or name in plugins.entry_points()


def find(task: str) -> TaskEntry:
    """The entry of a task: registered, an entry point of an installed package, or a class in a file.

    Raises:
        RookeryError: an unknown name, with the nearest match; or a task that fails to load, after its traceback.
    """
    if task not in TASKS:
        if is_in_file(task):
            TASKS[task] = TaskEntry.of(plugins.class_in_file(task), task)
        elif task in (points := plugins.entry_points()):
            register(TaskEntry.of(plugins.class_at(points[task], task), task))
        else:
            raise unknown_name("task", task, task_names())
    return TASKS[task]

"""The registered tasks with their agents, observation and action sizes, and the index of this package's own.

tasks/index.json holds what their classes declare and how large their observations and actions are, since to import and build
all of them takes seconds. A test holds it equal to the classes; ``python -m rookery.listing`` writes it.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rookery.tasks.registry import INDEX, TASKS, TaskEntry, find, task_names

if TYPE_CHECKING:
    from rookery.sim.task import Task
    from rookery.sim.task_set import TaskSet


@dataclass(frozen=True)
class GroupSummary:
    """One agent group: how many agents in a world, length of an observation, length of an action."""

    count: int
    observation_size: int
    action_size: int


@dataclass(frozen=True)
class TaskSummary:
    """One task as `rookery list` shows it."""

    id: str
    summary: str
    groups: dict[str, GroupSummary]
    engines: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"engines": list(self.engines)}


def list_tasks() -> list[str]:
    """Names of all registered tasks, for `rookery.make`."""
    return sorted(task_names())


def describe(task: str) -> TaskSummary:
    """Agents, observation and action sizes of a task with its default config.

    Builds a world of a task that is not of this package, of a set of tasks one world for each.

    Raises:
        RookeryError: with the nearest match for an unknown name.
    """
    entry = find(task)
    known = entry.groups
    groups = built_groups(task) if known is None else {name: GroupSummary(**group) for name, group in known.items()}
    return TaskSummary(entry.id, entry.summary, groups, entry.engines)


def built_groups(task: str) -> dict[str, GroupSummary]:
    """The groups of a task, from the task itself: one world of it is built, of a set one for each of its tasks."""
    from rookery import make

    env = make(task, max(1, len(find(task).members)))
    groups = {
        name: GroupSummary(group.count, group.observation_size, group.action.size) for name, group in env.groups.items()
    }
    env.close()
    return groups


def declared_tasks() -> dict[str, type[Task] | type[TaskSet]]:
    """Every class of this package's tasks and sets, by the name that it declares. Imports them all."""
    import rookery.tasks
    from rookery.sim.task import Task
    from rookery.sim.task_set import TaskSet

    found: dict[str, type[Task] | type[TaskSet]] = {}
    for info in pkgutil.walk_packages(rookery.tasks.__path__, "rookery.tasks."):
        module = importlib.import_module(info.name)
        for cls in vars(module).values():
            if not (isinstance(cls, type) and issubclass(cls, (Task, TaskSet)) and cls.__module__ == info.name):
                continue
            if name := vars(cls).get("name"):
                assert name not in found, f"{cls} and {found[name]} are both called {name}"
                found[name] = cls
    return dict(sorted(found.items()))


def built_index() -> dict[str, dict[str, Any]]:
    """The content that `INDEX` is to have, from the classes; every task is built once."""
    before = dict(TASKS)
    declared = {name: TaskEntry.of(cls) for name, cls in declared_tasks().items()}
    TASKS.update(declared)
    try:
        return {name: _row(entry) for name, entry in declared.items()}
    finally:
        TASKS.clear()
        TASKS.update(before)


def _row(entry: TaskEntry) -> dict[str, Any]:
    cls = entry.declared()
    members = {"members": list(entry.members)} if entry.members else {}
    groups = {name: asdict(group) for name, group in built_groups(entry.id).items()}
    own = {"class": f"{cls.__module__}:{cls.__name__}", "summary": entry.summary, "engines": list(entry.engines)}
    return own | members | {"groups": groups}


def write_index() -> None:
    """Write `INDEX` anew, one line a task."""
    rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in built_index().items()]
    INDEX.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    write_index()
    print(f"wrote {INDEX}")

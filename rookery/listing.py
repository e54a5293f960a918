"""The registered tasks with their agents, observation and action sizes.

The sizes of this package's own tasks stand in tasks/sizes.json, since building all of them takes seconds. A test compares the
file with the built tasks; ``python -m rookery.listing`` writes it again.
"""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rookery.tasks import registry
from rookery.tasks.registry import find, task_names

SIZES = Path(registry.__file__).with_name("sizes.json")
"""{task: {group: {"count", "observation_size", "action_size"}}} of this package's tasks with their default configs."""


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
    listed = _listed().get(task)
    groups = built_groups(task) if listed is None else {name: GroupSummary(**group) for name, group in listed.items()}
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


@functools.cache
def _listed() -> dict[str, dict[str, dict[str, int]]]:
    """The content of `SIZES`."""
    sizes: dict[str, dict[str, dict[str, int]]] = json.loads(SIZES.read_text())
    return sizes


def built_sizes() -> dict[str, dict[str, dict[str, int]]]:
    """What `SIZES` is to contain: the groups of all tasks of this package, built."""
    return {
        task: {name: asdict(group) for name, group in built_groups(task).items()} for task in sorted(registry.OWN_TASKS)
    }


if __name__ == "__main__":
    SIZES.write_text(json.dumps(built_sizes(), indent=1) + "\n")
    print(f"wrote {SIZES}")

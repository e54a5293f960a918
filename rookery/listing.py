"""The registered tasks with their agents, observation and action sizes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rookery.tasks.registry import find, task_names


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

    Builds one world of the task, of a set of tasks one world for each.

    Raises:
        RookeryError: with the nearest match for an unknown name.
    """
    from rookery import make

    entry = find(task)
    env = make(task, max(1, len(entry.members)))
    groups = {
        name: GroupSummary(group.count, group.observation_size, group.action.size) for name, group in env.groups.items()
    }
    env.close()
    return TaskSummary(entry.id, entry.summary, groups, entry.engines)

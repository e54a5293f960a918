"""`rookery.register_task`: a task of your own under its name, for `rookery.make`, the command line and gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.gym_registration import register_name
from rookery.sim.errors import RookeryError
from rookery.tasks.plugins import check_class
from rookery.tasks.registry import TaskEntry, register

if TYPE_CHECKING:
    from rookery.sim.task import Task
    from rookery.sim.task_set import TaskSet


def register_task(cls: type[Task] | type[TaskSet], name: str | None = None) -> None:
    """Register a task, or a set of tasks, in this process.

    `rookery.make(name)`, ``gymnasium.make(f"rookery/{name}-v0")`` and everything that takes a task's name know it then. An
    installed package names its tasks as entry points of the group ``rookery.tasks`` instead, and the command line also takes
    ``path/to/my_task.py:Class``.

    Args:
        cls: the class, with its engines, and its summary as the first line of its docstring.
        name: None takes ``cls.name``.

    Raises:
        RookeryError: there is no name, it is taken or cannot be one, `cls` is no Task, or there is no such engine.
    """
    check_class(cls, name or (cls.__name__ if isinstance(cls, type) else repr(cls)))
    own = str(vars(cls).get("name", "")) if name is None else name
    if not own:
        raise RookeryError(f'{cls.__name__} has no name: write one into the class, name = "my-task".')
    register(TaskEntry.of(cls, own))
    register_name(own)

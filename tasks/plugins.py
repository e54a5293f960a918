"""Tasks from outside this package: entry points of installed packages, and classes in the user's own files.

An installed package names its tasks in pyproject.toml::

    [project.entry-points."rookery.tasks"]
    my-balance = "my_balance.task:MyBalance"

A task in a file needs no installation: its name is ``path/to/my_task.py:Land``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError
from rookery.sim.own_files import entry_points as entry_points_of
from rookery.sim.own_files import object_at, object_in_file

if TYPE_CHECKING:
    from rookery.sim.task import Task
    from rookery.sim.task_set import TaskSet

GROUP = "rookery.tasks"
"""Name of the entry points."""


def entry_points() -> dict[str, str]:
    """ "module:Class" of the tasks of installed packages, by name. Nothing of them is imported."""
    return entry_points_of(GROUP)


def class_in_file(task: str) -> type[Task] | type[TaskSet]:
    """The class of a task or set that ``path/to/my_task.py:Land`` names.

    Raises:
        RookeryError: no such file or class, it is no Task, or the file fails to run (its traceback goes to stderr).
    """
    return check_class(object_in_file(task), task)


def check_class(found: object, task: str) -> type[Task] | type[TaskSet]:
    """`found` as the class of a task or a set.

    Raises:
        RookeryError: it is something else, or lacks what every task has.
    """
    from rookery.sim.task import Task
    from rookery.sim.task_set import TaskSet

    if not (isinstance(found, type) and issubclass(found, (Task, TaskSet))):
        raise RookeryError(f"{task} is no task: give a class that derives from rookery.sim.task.Task.")
    if lacking := sorted(getattr(found, "__abstractmethods__", ())):
        raise RookeryError(
            f"{task} lacks {', '.join(f'{name}()' for name in lacking)}: write it into the class; `rookery new task NAME "
            "--template stubbed` shows each."
        )
    if issubclass(found, Task) and not dataclasses.is_dataclass(getattr(found, "Config", None)):
        raise RookeryError(
            f"{task} has no Config: name the frozen dataclass of its values, Config: ClassVar[type] = MyConfig."
        )
    return found


def class_at(value: str, task: str) -> type[Task] | type[TaskSet]:
    """The class of a task or set at "module:Class".

    Raises:
        RookeryError: it cannot be imported (its traceback goes to stderr), or is no Task.
    """
    return check_class(object_at(value, "task", task), task)

"""`rookery.register_task`: a task of your own under a name, for `rookery.make`, the command line and gymnasium."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rookery.gym_registration import register_name
from rookery.sim.engines import find_engine
from rookery.tasks.plugins import check_class
from rookery.tasks.registry import TaskEntry, register

if TYPE_CHECKING:
    from rookery.sim.task import Task


def register_task(
    task_id: str, cls: type[Task], *, summary: str | None = None, engines: Sequence[str] | None = None
) -> None:
    """Register a task in this process.

    `rookery.make(task_id)`, ``gymnasium.make(f"rookery/{task_id}-v0")`` and everything that takes a task's name know it then.
    An installed package names its tasks as entry points of the group ``rookery.tasks`` instead, and the command line also
    takes ``path/to/my_task.py:Class``.

    Args:
        task_id: its name.
        cls: the class.
        summary: one line; None takes the first line of the class's docstring.
        engines: engines it runs on, the default first; None takes ``cls.engines``.

    Raises:
        RookeryError: the name is taken or cannot be one, `cls` is no Task, or there is no such engine.
    """
    check_class(cls, task_id)
    for engine in engines or ():
        find_engine(engine)
    line = (cls.__doc__ or "").strip().split("\n")[0] if summary is None else summary
    register(TaskEntry(task_id, cls, line, engines=tuple(cls.engines if engines is None else engines)))
    register_name(task_id)

"""Errors for what a task lacks because its `setup` left out that of its base."""

from __future__ import annotations

import dis
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.task import Task


class SetupLeftOut(RookeryError, AttributeError):
    """A task lacks what a base's `setup` makes."""


def missing(task: Task, name: str) -> AttributeError:
    """The error for an attribute that a task does not have."""
    if hasattr(type(task), name):  # a property, which lacks something itself: its own error
        try:
            object.__getattribute__(task, name)
        except AttributeError as error:
            return error
    own, *bases = [cls for cls in type(task).__mro__ if "setup" in vars(cls)]
    if "world" in vars(task) and "super" not in vars(own)["setup"].__code__.co_names:
        for base in bases:
            if name in _made(base):
                return SetupLeftOut(
                    f"{type(task).__name__} has no {name!r}, which {base.__name__}.setup() makes: begin {own.__name__}.setup() "
                    "with super().setup()."
                )
    return AttributeError(f"{type(task).__name__!r} object has no attribute {name!r}", name=name, obj=task)


def _made(cls: type) -> set[Any]:
    """Names of the attributes that methods of a class make, as ``self.name = ...`` or ``self.buffer("name", ...)``."""
    codes = [f.__code__ for f in vars(cls).values() if isinstance(f, FunctionType)]
    stored = {i.argval for code in codes for i in dis.get_instructions(code) if i.opname == "STORE_ATTR"}
    return stored.union(*(code.co_consts for code in codes))

"""TaskSet: several tasks that one policy learns together, declared by class attributes as a task is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar


class TaskSet:
    """Base of all sets. A subclass says what is in it; `rookery.make` divides the worlds among the members (see ConcatEnv).

    The first line of its docstring is shown by `rookery list`.
    """

    name: ClassVar[str] = ""
    """By which `rookery.make` and the command line know it."""
    engines: ClassVar[tuple[str, ...]] = ("mujoco",)
    """Engines that all members run on, the default first."""
    members: ClassVar[tuple[str, ...]] = ()
    """Names of its tasks, in the order of their one-hot term; or of the `variants` of one task."""
    of: ClassVar[str] = ""
    """The task of which all members are variants; "" where each member is a task of its own."""
    config: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Values in place of the defaults of every member's config, such as ``{"hide_goal": True}``."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Values in place of `config` for the members that are in it."""
    one_hot: ClassVar[bool] = True
    """The observation tells which task it is, one-hot."""
    preset: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """See Task.preset."""

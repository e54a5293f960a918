"""A dict that is filled when somebody looks into it: what is told of ended episodes costs nothing where nobody asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LazyDict(dict[str, Any]):
    """A dict with what `fill` gives, which is called at the first access of any kind, once.

    Args:
        fill: gives the contents. It must hold nothing that changes.
    """

    __slots__ = ("_fill",)

    def __init__(self, fill: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._fill: Callable[[], dict[str, Any]] | None = fill

    def _filled(self) -> None:
        if self._fill is not None:
            fill, self._fill = self._fill, None
            dict.update(self, fill())

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are plain dicts."""
        return dict, (dict(self),)


def _after_filling(name: str) -> Any:
    method = getattr(dict, name)

    def call(self: LazyDict, *args: Any, **kwargs: Any) -> Any:
        self._filled()
        return method(self, *args, **kwargs)

    call.__name__ = name
    return call


for _name in (
    "__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__", "__ne__", "__or__", "__repr__",
    "__reversed__", "__ror__", "__setitem__", "clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault",
    "update", "values",
):  # fmt: skip
    setattr(LazyDict, _name, _after_filling(_name))

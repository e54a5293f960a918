"""Configs as plain values: frozen dataclasses from JSON or TOML with every value checked against its annotation, and back.

Annotations may be int, float, bool, str, Literal, tuple[X, ...], dict[str, X], Any, another such dataclass, and X | None. TOML
has no null, so the text "none" stands for None where an annotation allows None.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import textwrap
import types
import typing
from typing import Any, Literal, TypeVar

from rookery.sim.errors import RookeryError, unknown

T = TypeVar("T")
NONE = "none"


def from_values(cls: type[T], values: dict[str, Any], what: str = "setting") -> T:
    """A config from plain values; what is left out keeps its default.

    Args:
        cls: a dataclass.
        values: by name of the field.
        what: kind of the names, for messages.

    Raises:
        RookeryError: an unknown name, or a value of the wrong type or outside its limits.
    """
    hints = typing.get_type_hints(cls)
    known = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise unknown(what, name, known)
    return cls(**{name: convert(name, value, hints[name]) for name, value in values.items()})


def to_values(config: Any) -> dict[str, Any]:
    """A config as JSON values."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def checked(config: T) -> T:
    """The same config with every value converted to its annotated type.

    Raises:
        RookeryError: a value of the wrong type.
    """
    return from_values(type(config), to_values(config))


def convert(name: str, value: Any, hint: Any) -> Any:
    """A plain value as its annotation wants it.

    Raises:
        RookeryError: it is of another type.
    """
    origin = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None or (isinstance(value, str) and value.lower() == NONE):
            return None
        return convert(name, value, next(h for h in inner if h is not type(None)))
    if origin is Literal:
        if value not in inner:
            raise unknown(name, str(value), [str(choice) for choice in inner])
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise RookeryError(f"{name} needs a list such as {_example(inner[0])}, got {value!r}.")
        return tuple(convert(name, each, inner[0]) for each in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise RookeryError(f"{name} needs values by name, got {value!r}.")
        return {key: convert(f"{name}.{key}", each, inner[1]) for key, each in value.items()}
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise RookeryError(f"{name} needs values by name, got {value!r}.")
        return from_values(typing.cast(type, hint), value)
    return value if hint is Any else _scalar(name, value, hint)


def _scalar(name: str, value: Any, hint: Any) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        if not number or not math.isfinite(value) or value != int(value):
            raise RookeryError(f"{name} needs a whole number, got {value!r}.")
        return int(value)
    if hint is float:
        if not number or not math.isfinite(value):
            raise RookeryError(f"{name} needs a number, got {value!r}.")
        return float(value)
    if not isinstance(value, hint):
        wanted = "true or false" if hint is bool else "text"
        raise RookeryError(f"{name} needs {wanted}, got {value!r}.")
    return value


def _example(hint: Any) -> str:
    return {int: "[64, 64]", float: "[0.1, 0.2]"}.get(hint, '["a", "b"]')


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_values(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def field_docs(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, on one line; base classes included."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for field, below in zip(statements, statements[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                docs[field.target.id] = " ".join(str(below.value.value).split())
    return docs

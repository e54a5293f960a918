"""Plain values to frozen dataclasses and back: the one way by which JSON, TOML and the command line become configs.

Types are strict, by msgspec: text is no number, a number no text, and a list of three has three. Whole numbers may be written
as floats (``5e6``), NumPy's numbers and arrays count as Python's, numbers must be finite, and as TOML has no null, the text
"none" stands for None where an annotation allows None.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np

from rookery.sim.errors import RookeryError, unknown

T = TypeVar("T")
NONE = "none"


def from_values(
    cls: type[T], values: Mapping[str, Any], what: str = "setting", base: T | None = None, inside: str = ""
) -> T:
    """A config from plain values.

    Args:
        cls: a dataclass.
        values: by name of the field.
        what: kind of the names, for messages.
        base: has the values of the fields that are left out; None takes the defaults of the class.
        inside: what stands before the names in messages on their values, such as "runner.".

    Raises:
        RookeryError: an unknown name, or a value of the wrong type or outside its limits.
    """
    hints = _hints(typing.cast(Any, cls))
    for name in values:
        if name not in hints:
            raise unknown(what, name, hints)
    changes = {name: convert(value, hints[name], f"{inside}{name}") for name, value in values.items()}
    return cls(**changes) if base is None else dataclasses.replace(base, **changes)  # type: ignore[type-var]


def to_values(config: Any) -> dict[str, Any]:
    """A config as JSON values."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def convert(value: Any, hint: Any, what: str) -> Any:
    """A plain value as an annotation wants it.

    Args:
        value: of JSON, TOML or Python.
        hint: int, float, bool, str, Literal, a tuple, dict[str, X], Any, a dataclass, or X | None.
        what: its full name, for messages.

    Raises:
        RookeryError: it is of another type.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None or (isinstance(value, str) and value.lower() == NONE):
            return None
        return convert(value, next(h for h in inner if h is not type(None)), what)
    if origin is dict:
        return {key: convert(each, inner[1], f"{what}.{key}") for key, each in _by_name(value, what).items()}
    if dataclasses.is_dataclass(hint):
        cls = typing.cast(type, hint)
        return value if isinstance(value, cls) else from_values(cls, _by_name(value, what), inside=f"{what}.")
    if origin is Literal and value not in inner:
        raise unknown(what, str(value), [str(choice) for choice in inner])
    try:
        found = msgspec.convert(_whole(value, hint), hint)
    except msgspec.ValidationError:
        raise RookeryError(f"{what} needs {_wanted(hint)}, got {value!r}.") from None
    if not _finite(found, hint):
        raise RookeryError(f"{what} needs {_wanted(hint)}, got {value!r}.")
    return found


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """Annotations of a dataclass's fields.

    Raises:
        RookeryError: they name what the module does not have at run time.
    """
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise RookeryError(
            f"the annotations of {cls.__name__} cannot be read ({error}): import it at run time."
        ) from None
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _by_name(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RookeryError(f"{what} needs values by name, got {value!r}.")
    return value


def _whole(value: Any, hint: Any) -> Any:
    """Whole numbers that are written as floats, where an annotation wants whole ones."""
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if typing.get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        inner = typing.get_args(hint)
        hints = [inner[0]] * len(value) if inner[-1] is Ellipsis else [*inner, *[Any] * len(value)]
        return [_whole(each, h) for each, h in zip(value, hints, strict=False)]
    return value


def _finite(value: Any, hint: Any) -> bool:
    if hint is Any:
        return True
    if isinstance(value, tuple):
        return all(_finite(each, None) for each in value)
    return not isinstance(value, float) or math.isfinite(value)


def _wanted(hint: Any) -> str:
    """An annotation in words."""
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        one = {int: "64", float: "0.5"}.get(inner[0], '"a"')
        many = "" if inner[-1] is Ellipsis else f" of {len(inner)}"
        return f"a list{many} such as [{', '.join([one] * (2 if inner[-1] is Ellipsis else len(inner)))}]"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, f"a {hint}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_values(value)
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value

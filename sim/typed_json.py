"""Frozen dataclasses from JSON values: a check that names the wrong line, and the objects, both from the annotations.

Annotations may be float, int, bool, str, Literal[...] of texts, tuple[X, ...], tuple[X, Y], Mapping[str, X], another such
dataclass, and X | None. Fields with a default may be left out.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from rookery.sim.json_checks import Check, fault, integer, items, named, number, one_of, optional, record, text

T = TypeVar("T")


def check_of(cls: type) -> Check:
    """A check that JSON values are those of a dataclass."""
    hints = typing.get_type_hints(cls)
    checks = {f.name: _check(hints[f.name]) for f in dataclasses.fields(cls)}
    required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
    return record(
        {k: c for k, c in checks.items() if k in required}, {k: c for k, c in checks.items() if k not in required}
    )


def parse(cls: type[T], values: Mapping[str, Any]) -> T:
    """The object of values that `check_of` has passed."""
    hints = typing.get_type_hints(cls)
    return cls(**{name: _value(hints[name], value) for name, value in values.items()})


def plain(value: Any) -> Any:
    """JSON values for dataclasses, mappings, tuples and arrays; a number that is not finite becomes its name ("inf")."""
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping)):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if hasattr(value, "tolist"):  # arrays and their scalars
        return plain(value.tolist())
    return str(value)


def _check(hint: Any) -> Check:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return optional(_check(_present(inner)))
    if origin is typing.Literal:
        return one_of(inner)
    if origin is tuple:
        return items(_check(inner[0])) if inner[-1] is Ellipsis else _fixed([_check(h) for h in inner])
    if origin is not None:
        return named(_check(inner[1]))
    if dataclasses.is_dataclass(hint):
        return check_of(typing.cast(type, hint))
    return {float: number(), int: integer(-(2**53)), bool: _boolean, str: text}[hint]


def _fixed(checks: list[Check]) -> Check:
    """A list of so many values."""

    def check(value: Any, line: str) -> None:
        if not isinstance(value, list) or len(value) != len(checks):
            raise fault(line, value, f"a list of {len(checks)}")
        for i, (inner, each) in enumerate(zip(checks, value, strict=True)):
            inner(each, f"{line}[{i}]")

    return check


def _boolean(value: Any, line: str) -> None:
    if not isinstance(value, bool):
        raise fault(line, value, "true or false")


def _value(hint: Any, value: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if value is None:
        return None
    if origin in (types.UnionType, typing.Union):
        return _value(_present(inner), value)
    if origin is typing.Literal:
        return value
    if origin is tuple:
        hints = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_value(h, v) for h, v in zip(hints, value, strict=True))
    if origin is not None:
        return {k: _value(inner[1], v) for k, v in value.items()}
    if dataclasses.is_dataclass(hint):
        return parse(typing.cast(type, hint), value)
    return float(value) if hint is float else value


def _present(inner: tuple[Any, ...]) -> Any:
    """X of X | None."""
    return next(h for h in inner if h is not type(None))

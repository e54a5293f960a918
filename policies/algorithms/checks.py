"""Checks of an algorithm's settings: every value has the type that its dataclass declares, and numbers stay in bounds."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Literal

from rookery.sim.errors import RookeryError, unknown


def check_types(config: Any) -> None:
    """Compare every field of a dataclass with its annotation: bool, int, float, str, Literal, tuple[X, ...], or None.

    An int is a valid float; true and false are no numbers; floats are finite.

    Raises:
        RookeryError: a value of another type, which it names with the setting.
    """
    hints = typing.get_type_hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        hint = hints[field.name]
        if typing.get_origin(hint) is Literal and isinstance(value, str) and value not in typing.get_args(hint):
            raise unknown(field.name, value, typing.get_args(hint))
        if not _fits(value, hint):
            raise RookeryError(f"{field.name} is {value!r}: give {_describe(hint)}.")


def check_bounds(
    config: Any, names: Iterable[str], low: float, high: float = math.inf, exclude_low: bool = False
) -> None:
    """Check that settings lie in [low, high]; of a tuple every element; None passes.

    Raises:
        RookeryError: one that does not.
    """
    for name in names:
        value = getattr(config, name)
        for x in value if isinstance(value, tuple) else (value,):
            if x is None or ((low < x if exclude_low else low <= x) and x <= high):
                continue
            least = f"above {low:g}" if exclude_low else f"of at least {low:g}"
            allowed = least if high == math.inf else f"from {low:g} to {high:g}"
            raise RookeryError(f"{name} is {value}: give a number {allowed}.")


def check_unused(config: Any, names: Iterable[str], use: str, setting: str) -> None:
    """Refuse settings, changed from their defaults, that would have no effect.

    Args:
        names: of the settings.
        use: what they are for, in words.
        setting: what gives them their effect, as NAME=VALUE.

    Raises:
        RookeryError: one of `names` that is not its default.
    """
    for name, default in changed(config, names):
        raise RookeryError(f"{name} is for {use}: give {setting} too, or leave {name} at {default}.")


def changed(config: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Those of `names` that are not at their defaults, each with its default."""
    defaults = {field.name: field.default for field in fields(config)}
    return ((name, defaults[name]) for name in names if getattr(config, name) != defaults[name])


def _fits(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, h) for h in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(v, typing.get_args(hint)[0]) for v in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_describe(h) for h in args)
    if origin is Literal:
        return " or ".join(map(str, args))
    if origin is tuple:
        return f"a list of {_PLURAL[args[0]]}"
    return "null" if hint is type(None) else _SINGULAR[hint]


_SINGULAR = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_PLURAL = {int: "whole numbers, such as [64,64]", float: "numbers, such as [0.1,0.2]", str: "names, such as [a,b]"}

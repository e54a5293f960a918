"""Plain values to frozen dataclasses and back: the one way by which JSON, TOML and the command line become configs, stages and
contracts.

Types and limits are strict, by msgspec: text is no number, a number no text, a list of three has three, and numbers are
finite, or infinite at most where UNBOUNDED stands beside their type. Limits stand beside the types, as msgspec's:
``Annotated[float, Meta(gt=0)]``; a function ``check(value, line)`` beside a type is called with the value and raises
`fault`. Values have one of two forms, which differ in their sentences too:

    settings    of TOML, Python and the command line: whole numbers may be written as floats (``5e6``), NumPy's numbers and
                arrays count as Python's, and as TOML has no null, the text "none" stands for None
    contracts   JSON, to the letter; an error names the line, such as ``groups.drone.observation[2].unit``
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from rookery.sim.errors import RookeryError, unknown

T = TypeVar("T")
NONE = "none"
UNBOUNDED = object()
"""Beside a type, ``Annotated[float, UNBOUNDED]``: infinity is a value, too."""
WHOLE = r"\Z"
"""End of a pattern that the whole text must match; ``$`` would let a newline follow."""


def from_values(
    cls: type[T], values: Mapping[str, Any], what: str = "setting", base: T | None = None, inside: str = ""
) -> T:
    """A config from plain values, those of settings.

    Args:
        cls: a dataclass.
        values: by name of the field.
        what: kind of the names, for messages.
        base: has the values of the fields that are left out; None takes the defaults of the class.
        inside: what stands before the names in messages on their values, such as "runner.".

    Raises:
        RookeryError: an unknown name, one that is missing, or a value of the wrong type or outside its limits.
    """
    changes = _fields(cls, values, inside, _Settings(what), complete=base is None)
    return cls(**changes) if base is None else dataclasses.replace(base, **changes)  # type: ignore[type-var]


def from_json(cls: type[T], values: Any, line: str = "") -> T:
    """A dataclass from JSON values, those of contracts.

    Args:
        cls: a dataclass.
        values: what JSON gave.
        line: of the contract where they stand; "" for the whole.

    Raises:
        RookeryError: naming the wrong line.
    """
    return typing.cast(T, _read(values, cls, line, _CONTRACT))


def convert(value: Any, hint: Any, what: str) -> Any:
    """A plain value of a setting as an annotation wants it.

    Args:
        value: of JSON, TOML or Python.
        hint: int, float, bool, str, Literal, a tuple, dict[str, X], Any, a dataclass, X | None, or Annotated[X, limits].
        what: its full name, for messages.

    Raises:
        RookeryError: it is of another type, or outside its limits.
    """
    return _read(value, hint, what, _Settings())


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


def fault(line: str, value: object, wanted: str) -> RookeryError:
    """The error for one wrong line of a contract."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return RookeryError(
        f"contract line {line or '(the whole file)'} is {shown}, but it must be {wanted}: take the contract.json that the "
        "export wrote, or export the policy again."
    )


class _Settings:
    """The form of settings.

    Args:
        kind: of the names, for messages.
    """

    lenient = True
    by_name = "values by name"

    def __init__(self, kind: str = "setting") -> None:
        self.kind = kind

    def wrong(self, line: str, value: object, wanted: str) -> RookeryError:
        return RookeryError(f"{line} needs {wanted}, got {value!r}.")

    def missing(self, line: str) -> RookeryError:
        return RookeryError(f"{line} is missing: give it a value.")

    def refused(self, line: str, error: RookeryError) -> RookeryError:
        """For values that the class itself refuses."""
        return error

    def stranger(self, inside: str, name: str, names: Mapping[str, Any]) -> RookeryError:
        return unknown(self.kind, name, names)

    def choice(self, line: str, value: object, choices: tuple[Any, ...]) -> RookeryError:
        return unknown(line, str(value), [str(choice) for choice in choices])


class _Contract(_Settings):
    """The form of contracts."""

    lenient = False
    by_name = "an object"

    def wrong(self, line: str, value: object, wanted: str) -> RookeryError:
        return fault(line, value, wanted)

    def missing(self, line: str) -> RookeryError:
        return RookeryError(
            f"contract line {line} is missing: take the contract.json that the export wrote, or export the policy again."
        )

    def refused(self, line: str, error: RookeryError) -> RookeryError:
        return RookeryError(f"contract line {line}: {error}")

    def stranger(self, inside: str, name: str, names: Mapping[str, Any]) -> RookeryError:
        return unknown("contract line", f"{inside}{name}", [f"{inside}{known}" for known in names])

    def choice(self, line: str, value: object, choices: tuple[Any, ...]) -> RookeryError:
        return fault(line, value, f"{'one of ' * (len(choices) > 1)}{', '.join(str(choice) for choice in choices)}")


_CONTRACT = _Contract()


def _read(value: Any, hint: Any, line: str, form: _Settings) -> Any:
    """A value as an annotation wants it."""
    hint, beside = _split(hint)
    limits = [b for b in beside if isinstance(b, msgspec.Meta)]
    found = _read_bare(value, hint, limits, line, form, UNBOUNDED in beside)
    for check in beside:
        if callable(check):
            check(found, line)
    return found


def _read_bare(value: Any, hint: Any, limits: list[msgspec.Meta], line: str, form: _Settings, unbounded: bool) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if form.lenient and isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if hint is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None or (form.lenient and isinstance(value, str) and value.lower() == NONE):
            return None
        return _read(value, next(h for h in inner if h is not type(None)), line, form)
    if origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in inner):
            raise form.choice(line, value, inner)
        return value
    if dataclasses.is_dataclass(hint):
        cls: Any = hint
        return value if isinstance(value, cls) else _object(cls, value, line, form)
    found = _entries(value, hint, limits, line, form)
    if isinstance(found, float) and (math.isnan(found) if unbounded else not math.isfinite(found)):
        raise form.wrong(line, value, _wanted(hint, limits).replace("a number", "a finite number"))
    try:
        return _within(found, hint, limits)
    except msgspec.ValidationError:
        raise form.wrong(line, value, _wanted(hint, limits)) from None


def _entries(value: Any, hint: Any, limits: list[msgspec.Meta], line: str, form: _Settings) -> Any:
    """A tuple or dict whose entries are read; any other value as it is."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict or origin is Mapping:
        if not isinstance(value, Mapping):
            raise form.wrong(line, value, form.by_name)
        return {
            _read(name, inner[0], line, form): _read(each, inner[1], f"{line}.{name}", form)
            for name, each in value.items()
        }
    if origin is tuple:
        hints = _hints_of_items(value, inner)
        if hints is None:
            raise form.wrong(line, value, _wanted(hint, limits))
        pairs = zip(value, hints, strict=True)
        return tuple(_read(each, h, f"{line}[{i}]", form) for i, (each, h) in enumerate(pairs))
    if form.lenient and hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _object(cls: Any, value: Any, line: str, form: _Settings) -> Any:
    """A dataclass from values by name."""
    fields = _fields(cls, value, f"{line}." if line else "", form)
    try:
        return cls(**fields)
    except RookeryError as error:
        raise form.refused(line, error) from error


def _within(value: Any, hint: Any, limits: list[msgspec.Meta]) -> Any:
    """A number, a text or a truth of its type and inside its limits; of tuples and dicts the number of entries is asked.

    Raises:
        msgspec.ValidationError: it is not.
    """
    origin = typing.get_origin(hint)
    bare = {tuple: tuple[Any, ...], dict: dict[Any, Any], Mapping: dict[Any, Any]}.get(origin, hint)
    return msgspec.convert(value, functools.reduce(lambda h, limit: Annotated[h, limit], limits, bare))


def _fields(cls: type, values: Any, inside: str, form: _Settings, complete: bool = True) -> dict[str, Any]:
    """Values of a dataclass's fields.

    Args:
        cls: a dataclass.
        values: by name of the field.
        inside: what stands before the names.
        form: of the values.
        complete: every field without a default must be there.
    """
    hints = _hints(typing.cast(Any, cls))
    if not isinstance(values, Mapping):
        raise form.wrong(inside.removesuffix("."), values, form.by_name)
    for name in _required(typing.cast(Any, cls)) if complete else ():
        if name not in values:
            raise form.missing(f"{inside}{name}")
    for name in values:
        if name not in hints:
            raise form.stranger(inside, name, hints)
    return {name: _read(value, hints[name], f"{inside}{name}", form) for name, value in values.items()}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """Annotations of a dataclass's fields.

    Raises:
        RookeryError: they name what the module does not have at run time.
    """
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise RookeryError(
            f"the annotations of {cls.__name__} cannot be read ({error}): import it at run time."
        ) from None
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


@functools.cache
def _required(cls: type) -> tuple[str, ...]:
    """Fields of a dataclass without a default."""
    missing = dataclasses.MISSING
    return tuple(f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing)


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """An annotation, and what stands beside it."""
    if typing.get_origin(hint) is Annotated:
        bare, *beside = typing.get_args(hint)
        return bare, tuple(beside)
    return hint, ()


def _hints_of_items(value: Any, inner: tuple[Any, ...]) -> list[Any] | None:
    """Annotation of each item of a list; None where it is no list, or of another length."""
    if not isinstance(value, (list, tuple)):
        return None
    if inner[-1] is Ellipsis:
        return [inner[0]] * len(value)
    return list(inner) if len(value) == len(inner) else None


def _wanted(hint: Any, limits: list[msgspec.Meta]) -> str:
    """An annotation in words."""
    least = next((limit.min_length for limit in limits if limit.min_length), 0)
    origin = typing.get_origin(hint)
    if origin is tuple:
        inner = typing.get_args(hint)
        example = {int: "64", float: "0.5", str: '"a"'}.get(_split(inner[0])[0], "")
        count = 2 if inner[-1] is Ellipsis else len(inner)
        many = f" of at least {least}" if least else "" if inner[-1] is Ellipsis else f" of {len(inner)}"
        return f"a list{many}" + (f" such as [{', '.join([example] * count)}]" if example else "")
    if origin is not None:
        return f"an object with at least {least} entry"
    if hint is str and any(limit.pattern for limit in limits):
        pattern = next(limit.pattern for limit in limits if limit.pattern)
        return f"an object whose names match {pattern.removeprefix('^').removesuffix(WHOLE)}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, f"a {hint}")
    bounds = [
        f"{word} {value:g}"
        for limit in limits
        for word, value in (
            ("of at least", limit.ge),
            ("above", limit.gt),
            ("of at most", limit.le),
            ("below", limit.lt),
        )
        if value is not None
    ]
    return words + f" {' and '.join(bounds)}" * bool(bounds) + " that is not empty" * bool(least)

"""Checks of JSON values, small ones combined into large ones.

A check is a function ``check(value, line)`` that raises `RookeryError` naming the line, such as
``groups.drone.observation[2].unit``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from rookery.sim.errors import RookeryError, unknown

Check = Callable[[Any, str], None]


def fault(line: str, value: object, wanted: str) -> RookeryError:
    """The error for one wrong line of a contract."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return RookeryError(
        f"contract line {line} is {shown}, but it must be {wanted}: take the contract.json that the export wrote, "
        "or export the policy again."
    )


def text(value: Any, line: str) -> None:
    if not isinstance(value, str):
        raise fault(line, value, "text")


def filled_text(value: Any, line: str) -> None:
    if not isinstance(value, str) or not value:
        raise fault(line, value, "text that is not empty")


def anything(value: Any, line: str) -> None:
    """Any JSON value; for the parts that only people read."""


def mapping(value: Any, line: str) -> None:
    if not isinstance(value, Mapping):
        raise fault(line, value, "an object")


def number(low: float = -math.inf, above: float = -math.inf) -> Check:
    """A finite number >= `low` and > `above`."""
    wanted = "a finite number"
    wanted += f" of at least {low:g}" if low > -math.inf else f" above {above:g}" if above > -math.inf else ""

    def check(value: Any, line: str) -> None:
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (plain and math.isfinite(value) and value >= low and value > above):
            raise fault(line, value, wanted)

    return check


def nonzero(value: Any, line: str) -> None:
    """A finite number other than 0."""
    number()(value, line)
    if value == 0:
        raise fault(line, value, "a finite number other than 0")


def integer(low: int) -> Check:
    """A whole number >= `low`."""

    def check(value: Any, line: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise fault(line, value, f"a whole number of at least {low}")

    return check


def constant(wanted: object) -> Check:
    """Exactly this value."""

    def check(value: Any, line: str) -> None:
        if value != wanted or isinstance(value, bool):
            raise fault(line, value, repr(wanted))

    return check


def true(value: Any, line: str) -> None:
    """true; where it does not hold, the line is left out."""
    if value is not True:
        raise fault(line, value, "true, or left out")


def one_of(allowed: tuple[str, ...]) -> Check:
    """One of these words."""

    def check(value: Any, line: str) -> None:
        if value not in allowed:
            raise fault(line, value, "one of " + ", ".join(allowed))

    return check


def optional(inner: Check) -> Check:
    """null, or what `inner` wants."""

    def check(value: Any, line: str) -> None:
        if value is not None:
            inner(value, line)

    return check


def items(inner: Check, at_least: int = 0) -> Check:
    """A list of what `inner` wants."""

    def check(value: Any, line: str) -> None:
        if not isinstance(value, list) or len(value) < at_least:
            raise fault(line, value, f"a list of at least {at_least}" if at_least else "a list")
        for i, item in enumerate(value):
            inner(item, f"{line}[{i}]")

    return check


def named(inner: Check, pattern: str = r".+", at_least: int = 0) -> Check:
    """An object of freely chosen names, each with what `inner` wants."""

    def check(value: Any, line: str) -> None:
        mapping(value, line)
        if len(value) < at_least:
            raise fault(line, value, f"an object with at least {at_least} entry")
        for name, item in value.items():
            if not isinstance(name, str) or not re.fullmatch(pattern, name, re.DOTALL):
                raise fault(line, name, f"an object whose names match {pattern}")
            inner(item, f"{line}.{name}")

    return check


def record(fields: dict[str, Check], extra: Mapping[str, Check] | None = None) -> Check:
    """An object with exactly these fields, and perhaps some of the extra ones."""
    extra = extra or {}

    def check(value: Any, line: str) -> None:
        mapping(value, line or "(the whole file)")
        at = f"{line}." if line else ""
        for name in fields:
            if name not in value:
                raise RookeryError(
                    f"contract line {at}{name} is missing: take the contract.json that the export wrote, "
                    "or export the policy again."
                )
        for name in value:
            if name not in fields and name not in extra:
                raise unknown("contract line", f"{at}{name}", [at + f for f in (*fields, *extra)])
        for name, inner in (*fields.items(), *extra.items()):
            if name in value:
                inner(value[name], at + name)

    return check

"""Help of options: the string below a field, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rookery.cli.train_options import field_docs


@dataclass
class Base:
    """Not this one."""

    first: int = 1
    """Of the base,
    on two lines."""
    bare: int = 2
    second: int = 3
    """Of the base, too."""


class Between:
    """No dataclass."""

    hidden: int = 0
    """Not read."""


@dataclass
class Child(Base, Between):
    second: int = 4
    """Of the child."""
    limits: ClassVar[tuple[int, ...]] = ()
    shared = 5
    """Below no field."""
    third: str = ""
    """Its own."""

    def method(self) -> None:
        """Of a method."""


def test_every_documented_field_has_its_string_on_one_line():
    assert field_docs(Base) == {"first": "Of the base, on two lines.", "second": "Of the base, too."}
    assert field_docs(Child) == {"first": "Of the base, on two lines.", "second": "Of the child.", "third": "Its own."}

"""Stages that the setting `encoder` of an algorithm asks for: they make the first links of a chain from a group's terms."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rookery.policies.stages.stage import Stage
from rookery.sim.errors import RookeryError, unknown

if TYPE_CHECKING:
    from rookery.policies.stages.chain import Link
    from rookery.policies.stages.perceptron import Activation
    from rookery.sim.specs import Group

__all__ = ["Encodes"]


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """Settings of an encoder that has none."""


class Encodes(Stage):
    """Base of such stages.

    Attributes:
        encoder_name: what the setting calls it; of those from outside this package their file and class, or entry point.
        needs: what a group must observe, in words; "" where any will do.
        way_out: how to observe it.
        Options: frozen dataclass of its settings: numbers, texts, and true or false; none where it is left out.
    """

    encoder_name: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    way_out: ClassVar[str] = ""
    Options: ClassVar[type] = NoOptions

    @classmethod
    def encoder(cls, group: Group, frames: int, activation: Activation, options: Any) -> list[Link]:
        """The links that the newest `frames` frames of a group's observation go through; none where it lacks what is needed.

        Args:
            group: declares the terms.
            frames: whole frames of a row, the newest last.
            activation: of the algorithm's networks.
            options: an instance of `Options`.

        Raises:
            RookeryError: options that do not go with these terms.
        """
        raise RookeryError(
            f"the stage {cls.kind} has no encoder(): write the class method into {cls.__name__}, as docs/stages.md shows."
        )

    @classmethod
    def options_of(cls, given: Sequence[str]) -> Any:
        """`Options` from texts "name=value".

        Raises:
            RookeryError: an unknown name, or a value of another type.
        """
        hints = typing.get_type_hints(cls.Options)
        values = {}
        for text in given:
            name, equals, value = text.partition("=")
            if not hints:
                raise RookeryError(
                    f"encoder_options has {text!r}, and encoder={cls.source or cls.encoder_name or cls.kind} has no options: "
                    "leave it out."
                )
            if not equals:
                raise RookeryError(f"encoder_options has {text!r}: give name=value, such as {_example(cls.Options)}.")
            if name not in hints:
                raise unknown(f"option of encoder={cls.source or cls.encoder_name or cls.kind}", name, hints)
            values[name] = _value(name, value, hints[name])
        return cls.Options(**values)


def _value(name: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        return kind(text)
    except (ValueError, KeyError) as error:
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "a text")
        raise RookeryError(f"the encoder option {name} is {text!r}: give {wanted}.") from error


def _example(options: type) -> str:
    """The first option at its default."""
    first = dataclasses.fields(options)[0]
    return f"{first.name}={first.default}"

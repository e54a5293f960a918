"""Result of reading a robot's file."""

from __future__ import annotations

import functools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Model = TypeVar("Model")


@dataclass(frozen=True)
class OwnRobot(Generic[Model]):
    """A robot from a file of the user's.

    Attributes:
        name: by which tasks know it once it is registered.
        family: "quadruped", "drone" or "arm".
        path: of the file.
        model: what tasks need to know about it.
        guessed: settings that neither the file nor the user gave, with their values.
        notes: what was changed or left out, in sentences.
        warnings: what the file says and no robot has, in sentences; something else was taken.
    """

    name: str
    family: str
    path: Path
    model: Model
    guessed: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def warn(self) -> None:
        """Print the warnings on standard error, each once."""
        for warning in self.warnings:
            _say(f"rookery: {self.path}: {warning}")


@functools.cache
def _say(line: str) -> None:
    print(line, file=sys.stderr)


def plain_name(text: str) -> str:
    """A name that a scene's prefix and a command line can take."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_").lower() or "robot"

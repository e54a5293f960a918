"""Settings that a robot's file cannot hold, of a TOML file beside it or keyword arguments; and guesses, which are told."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import Damaged, read_toml
from rookery.sim.values import convert


class RobotSettings:
    """Values by name, of keyword arguments before those of the file, and a note of all that was guessed.

    Args:
        path: of the robot's file; ``my.toml`` beside ``my.urdf`` is read.
        given: keyword arguments.
        known: names that there are.

    Raises:
        RookeryError: an unknown name, or a file that cannot be read.
    """

    def __init__(self, path: Path, given: Mapping[str, Any], known: Sequence[str]) -> None:
        self.path = path
        self.guessed: list[str] = []
        self._values = _of_file(path) | dict(given)
        for name in self._values:
            if name not in known:
                raise unknown(f"setting of {path.name}", name, known)

    @staticmethod
    def peek(path: Path, name: str) -> Any:
        """A value of the TOML file, before it is known what else may stand there; None where it does not."""
        return _of_file(path).get(name)

    def has(self, name: str) -> bool:
        """True where it is given."""
        return name in self._values

    def raw(self, name: str) -> Any:
        """The value as given, None where it is not."""
        return self._values.get(name)

    def number(self, name: str, guess: float, unit: str = "") -> float:
        """A number above 0, or the guess."""
        if not self.has(name):
            self.guess(name, f"{guess:.3g}{' ' * bool(unit)}{unit}")
            return guess
        return self._positive(name, self._values[name])

    def vector(self, name: str) -> tuple[float, float, float]:
        """Three numbers, zeros where they are not given."""
        value = self._values.get(name, (0.0, 0.0, 0.0))
        found: tuple[float, float, float] = convert(value, tuple[float, float, float], f"{name} of {self.path.name}")
        return found

    def _positive(self, name: str, value: Any) -> float:
        number: float = convert(value, float, f"{name} of {self.path.name}")
        if number <= 0.0:
            raise RookeryError(f"{name} of {self.path.name} must be a number above 0, got {value!r}.")
        return number

    def by_joint(
        self, name: str, joints: Sequence[str], guesses: Sequence[float], unit: str, signed: bool = False
    ) -> list[float]:
        """One number for each joint: one for all, a list in their order, or a table by name or pattern (``"*_knee" = 0.8``).
        Joints that the table leaves out get their guess."""
        value = self._values.get(name)
        if value is None:
            self.guess(name, f"{_shown(guesses)} {unit}")
            return list(guesses)
        if isinstance(value, (list, tuple)):
            if len(value) != len(joints):
                raise RookeryError(
                    f"{name} of {self.path.name} needs {len(joints)} values, one for each joint, got {len(value)}."
                )
            found: list[Any] = list(value)
        elif isinstance(value, Mapping):
            found = list(guesses)
            for pattern, v in value.items():
                hits = [i for i, joint in enumerate(joints) if fnmatch.fnmatchcase(joint, pattern)]
                if not hits:
                    raise unknown(f"joint in {name} of {self.path.name}", pattern, joints)
                for i in hits:
                    found[i] = v
        else:
            found = [value] * len(joints)
        if signed:
            return [convert(v, float, f"{name} of {self.path.name} (in {unit})") for v in found]
        return [self._positive(name, v) for v in found]

    def guess(self, name: str, value: str) -> None:
        """Note that something was guessed."""
        self.guessed.append(f"{name} = {value}")


def _of_file(path: Path) -> dict[str, Any]:
    file = path.with_suffix(".toml")
    if not file.is_file():
        return {}
    try:
        return dict(read_toml(file))
    except (OSError, Damaged) as e:
        raise RookeryError(f"{file} cannot be read: {e}.") from e


def _shown(values: Sequence[float]) -> str:
    return (
        f"{values[0]:.3g}"
        if len({round(v, 9) for v in values}) == 1
        else "[" + ", ".join(f"{v:.3g}" for v in values) + "]"
    )

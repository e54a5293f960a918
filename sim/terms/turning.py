"""Rotations: vectors in other axes, headings, axes, and what turns one orientation to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.sim.terms.expression import Expression, Of, Values

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.terms.c import CWriter


@dataclass(frozen=True)
class Turned(Of):
    """A vector, k vectors side by side, or a rotation, in other axes.

    Args:
        of: given in the axes that `by` comes from or goes to.
        by: the rotation.
    """

    kind: ClassVar[str] = "turned"
    by: Expression

    def __post_init__(self) -> None:
        if not self.by.axes:
            raise ValueError(f"{self.by.text} is no rotation.")
        if self.of.frame not in (self.by.axes, self.by.frame) or not self.of.frame:
            raise ValueError(
                f"{self.of.text} is in {self.of.frame or 'no'} axes: {self.by.text} turns between {self.by.axes} and "
                f"{self.by.frame} axes."
            )
        if self.of.place:
            raise ValueError(f"{self.of.text} is a place: subtract another one before it is turned into other axes.")
        if not self.of.axes and self.of.size % 3:
            raise ValueError(f"{self.of.text} has {self.of.size} values, which are no vectors of 3.")

    @property
    def back(self) -> bool:
        """True where the rotation is undone: from its `frame` to its `axes`."""
        return self.of.frame == self.by.frame

    @property
    def frame(self) -> str:  # type: ignore[override]
        return self.by.axes if self.back else self.by.frame

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        from rookery.sim import rotations

        x, q = self.of.evaluate(values, before), self.by.evaluate(values, before)
        q = q * q.new_tensor([1.0, -1.0, -1.0, -1.0]) if self.back else q
        if self.of.axes:
            return rotations.multiply(q, x)
        matrix = rotations.matrix(q).unflatten(-1, (1, 3, 3))
        return (matrix * x.unflatten(-1, (-1, 1, 3))).sum(-1).flatten(-2)

    def write(self, c: CWriter) -> str:
        of, by = self.of.write(c), self.by.write(c)
        if self.back:
            by = c.call("conjugate", 4, by)
        return c.call("multiply", 4, by, of) if self.of.axes else c.vectors("turn", self.size, by, of)


@dataclass(frozen=True)
class Heading(Of):
    """The turn about the vertical alone of a rotation: that of the heading of its x axis."""

    kind: ClassVar[str] = "heading"

    def __post_init__(self) -> None:
        if not self.of.axes:
            raise ValueError(f"{self.of.text} is no rotation, which could have a heading.")

    @property
    def axes(self) -> str:  # type: ignore[override]
        return "heading"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        import torch

        half = 0.5 * yaw_of(self.of.evaluate(values, before))
        return torch.stack((half.cos(), 0.0 * half, 0.0 * half, half.sin()), dim=-1)

    def write(self, c: CWriter) -> str:
        return c.call("heading", 4, self.of.write(c))


@dataclass(frozen=True)
class Yaw(Of):
    """The angle about the vertical of a rotation, from the x axis of its frame to its own."""

    kind: ClassVar[str] = "yaw"
    size = 1
    unit = "rad"
    axes = ""

    def __post_init__(self) -> None:
        if not self.of.axes:
            raise ValueError(f"{self.of.text} is no rotation, which could have a yaw.")

    @property
    def text(self) -> str:
        return f"{self.of.axes}'s yaw"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        return yaw_of(self.of.evaluate(values, before))[..., None]

    def write(self, c: CWriter) -> str:
        return c.call("yaw", 1, self.of.write(c))


@dataclass(frozen=True)
class Axes(Of):
    """Some of the axes of a rotation, unit vectors side by side.

    Args:
        which: such as "x" or "xy".
    """

    kind: ClassVar[str] = "axes"
    which: str
    axes = ""

    def __post_init__(self) -> None:
        if not self.of.axes or not self.which or set(self.which) - set("xyz"):
            raise ValueError(f"axes x, y or z are of a rotation, got {self.which!r} of {self.of.text}.")

    @property
    def size(self) -> int:  # type: ignore[override]
        return 3 * len(self.which)

    @property
    def text(self) -> str:
        first, others = self.which[0], self.which[1:]
        return f"{self.of.axes}'s {first} axis" + "".join(f", then its {axis} axis" for axis in others)

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        import torch

        from rookery.sim import rotations

        matrix = rotations.matrix(self.of.evaluate(values, before)).unflatten(-1, (3, 3))
        return torch.cat([matrix[..., "xyz".index(axis)] for axis in self.which], dim=-1)

    def write(self, c: CWriter) -> str:
        of, out = self.of.write(c), c.array(self.size)
        for i, axis in enumerate(self.which):
            unit = c.constants([float(axis == other) for other in "xyz"])
            c.copy(c.call("turn", 3, of, unit), out, 3 * i, 3)
        return out


@dataclass(frozen=True)
class RotationVector(Expression):
    """The shortest rotation that takes one orientation to another, as its axis times its angle, in the frame of both."""

    kind: ClassVar[str] = "rotation_vector"
    start: Expression
    end: Expression
    size = 3
    unit = "rad"

    def __post_init__(self) -> None:
        if not self.start.axes or not self.end.axes or self.start.frame != self.end.frame:
            raise ValueError(f"{self.start.text} and {self.end.text} must be rotations in the same axes.")

    @property
    def frame(self) -> str:  # type: ignore[override]
        return self.start.frame

    @property
    def text(self) -> str:
        return f"rotation vector that takes the {self.start.axes}'s orientation to the {self.end.axes}'s"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        from rookery.sim import rotations

        start, end = self.start.evaluate(values, before), self.end.evaluate(values, before)
        return rotations.rotation_error(end.flatten(0, -2), start.flatten(0, -2)).view(*end.shape[:-1], 3)

    def write(self, c: CWriter) -> str:
        start, end = self.start.write(c), self.end.write(c)
        return c.call("rotation_vector", 3, c.call("multiply", 4, end, c.call("conjugate", 4, start)))


@dataclass(frozen=True)
class Upright(Of):
    """A quaternion, of which q and -q are the same rotation, with the sign that makes w at least 0."""

    kind: ClassVar[str] = "upright"

    @property
    def text(self) -> str:
        return f"quaternion w, x, y, z from {self.of.axes} axes, the sign with w >= 0"

    def evaluate(self, values: Values, before: Values | None = None) -> Tensor:
        q = self.of.evaluate(values, before)
        return (-q).where(q[..., :1] < 0, q)

    def write(self, c: CWriter) -> str:
        of = self.of.write(c)
        return c.array(4, lambda i: f"{of}[0] < 0.0f ? -{of}[{i}] : {of}[{i}]")


def yaw_of(quat: Tensor) -> Tensor:
    """[...] rad of quaternions [..., 4]."""
    w, x, y, z = quat.unbind(-1)
    return (2.0 * (x * y + w * z)).atan2(1.0 - 2.0 * (y * y + z * z))

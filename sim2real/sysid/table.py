"""Columns of a log by name, before they become a JointLog or a MultirotorLog.

Names are ``quantity`` or ``quantity.component``: `time`, `position.FL_hip`, `quaternion.w`. Every reader makes a Table; a
file's own names are brought to these by `renamed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """See the module.

    Args:
        source: the file, for messages.
        columns: [T] each.
        robot: that the file names; None where it does not.
        gains: kp and kd by joint, N m/rad and N m s/rad, where the file has them.
        notes: what was found and done, in sentences.
    """

    source: str
    columns: Mapping[str, Array]
    robot: str | None = None
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def components(self, quantity: str) -> list[str]:
        """Names of the components that a quantity has, in the file's order."""
        return [name.split(".", 1)[1] for name in self.columns if name.startswith(f"{quantity}.")]

    def gather(self, quantity: str, components: Sequence[str]) -> Array | None:
        """[T, C] of a quantity: by the components' names, or by their numbers from 0; None where it is not there.

        Raises:
            RookeryError: some components are there and others are not.
        """
        there = self.components(quantity)
        if not there:
            return None
        unnamed = ([str(i) for i in range(len(components))], list(AXES.get(quantity, ())))
        wanted = there if there in unnamed and len(there) == len(components) else list(components)
        missing = [c for c in wanted if c not in there]
        if missing:
            raise RookeryError(
                f"{self.source} has {quantity} of {', '.join(there[:16])}, and not of {', '.join(missing)}: name its columns "
                "with --columns, or the robot with --robot."
            )
        return np.stack([self.columns[f"{quantity}.{c}"] for c in wanted], axis=1)

    def renamed(self, names: Mapping[str, str]) -> Table:
        """With columns by our names.

        Args:
            names: the file's name by ours; ``*`` in the file's stands for the component: ``position`` = ``q_*`` makes
                `position.3` of `q_3`.

        Raises:
            RookeryError: the file has no such column.
        """
        columns = dict(self.columns)
        for ours, pattern in names.items():
            expression = re.compile(translate(pattern).replace(".*", "(.*)", 1))
            found = {name: match for name in self.columns if (match := expression.match(name))}
            if not found:
                raise RookeryError(
                    f"{self.source} has no column {pattern!r}; it has {', '.join(list(self.columns)[:24])}."
                )
            for name, match in found.items():
                columns[f"{ours}.{match.group(1)}" if match.groups() else ours] = columns.pop(name)
        return replace(self, columns=columns)


def split(source: str, arrays: Mapping[str, NDArray[np.generic]], joints: Sequence[str] = ()) -> dict[str, Array]:
    """Columns of arrays [T] and [T, C], whose components are the joints where they are as many, and numbers otherwise.

    Raises:
        RookeryError: an array that is no table of numbers.
    """
    out: dict[str, Array] = {}
    for name, values in arrays.items():
        if values.ndim not in (1, 2) or values.dtype.kind not in "fiub":
            raise RookeryError(f"{source}: {name} must hold numbers, [T] or [T, C], got {values.dtype} {values.shape}.")
        numbers = values.astype(np.float64)
        if numbers.ndim == 1:
            out[name] = numbers
            continue
        width = numbers.shape[1]
        parts = joints if len(joints) == width else AXES.get(name, ())
        parts = parts if len(parts) == width else [str(i) for i in range(width)]
        out |= {f"{name}.{part}": numbers[:, i] for i, part in enumerate(parts)}
    return out


AXES: Mapping[str, tuple[str, ...]] = {
    "position": ("x", "y", "z"), "velocity": ("x", "y", "z"), "angular_velocity": ("x", "y", "z"),
    "quaternion": ("w", "x", "y", "z"), "motors": ("1", "2", "3", "4"),
}  # fmt: skip
"""Components of a multirotor's quantities."""


def merge(streams: Mapping[str, tuple[Array, Array]], base: str, held: Sequence[str] = ()) -> dict[str, Array]:
    """Streams of different rates at the times of one of them, from where all have begun to where the first one ends.

    Args:
        streams: times [t] s and values [t] by column.
        base: the column whose times are taken.
        held: columns that keep their value until the next one, as commands do; others are interpolated.

    Returns:
        `time` and the columns, [T] each.

    Raises:
        ValueError: times of a stream go back.
    """
    for name, (times, _) in streams.items():
        back = np.flatnonzero(np.diff(times) < 0.0)
        if len(back):
            at = int(back[0])
            raise ValueError(
                f"{name} goes back in time after its sample {at}, from {times[at]:.6g} to {times[at + 1]:.6g} s: sort the log "
                "by time, or leave out what was logged before a clock was set"
            )
    begin = max(times[0] for times, _ in streams.values())
    end = min(times[-1] for name, (times, _) in streams.items() if name not in held)
    grid = streams[base][0]
    grid = grid[(grid >= begin) & (grid <= end)]
    out = {"time": grid}
    for name, (times, values) in streams.items():
        if name in held:
            out[name] = values[np.maximum(np.searchsorted(times, grid, side="right") - 1, 0)]
        else:
            out[name] = np.interp(grid, times, values)
    return out

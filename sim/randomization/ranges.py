"""Domain randomisation: which physical quantities differ between worlds, by how much, and when they are drawn.

A TOML file has one table a quantity::

    [mass]
    low = 0.9
    high = 1.1
    on = "reset"        # or "startup"

`rookery doctor` does not list the quantities, since they belong to tasks: an unknown name prints those of the task.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.columns import Columns
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.random import Streams, place_of
from rookery.sim.randomization import kernels
from rookery.sim.randomization.parameters import BatchWrite, Parameter, Write
from rookery.sim.untrusted import read_toml


@dataclass(frozen=True)
class Range:
    """Uniform in [low, high], drawn for each world at its first episode ("startup") or at every one ("reset")."""

    low: float
    high: float
    on: str = "reset"


DEFAULT: dict[str, Range] = {
    # Spreads that cover what is known of a drone before it flies: weighing with another battery, a charged or tired one,
    # the difference between published rotor lags, an autopilot's mounting angle, and a radio link.
    "mass": Range(0.9, 1.1),
    "inertia": Range(0.8, 1.2),
    "thrust_coefficient": Range(0.9, 1.1),
    "torque_coefficient": Range(0.8, 1.2),
    "rotor_lag": Range(0.8, 1.2),
    "gravity_tilt": Range(0.0, 0.02),
    "observation_noise": Range(1.0, 1.0),
    "observation_bias": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.01),
    "action_delay": Range(0.0, 0.02),
}


def load(choice: str) -> dict[str, Range]:
    """Ranges for ``--randomize``: "none", "default" or the path of a TOML file.

    Raises:
        RookeryError: no such preset or file, or a file that does not say what it should.
    """
    if choice == "none":
        return {}
    if choice == "default":
        return dict(DEFAULT)
    path = Path(choice)
    if path.suffix != ".toml":
        raise unknown("randomisation", choice, ["none", "default", "FILE.toml"])
    try:
        tables = read_toml(path)
    except OSError as e:
        raise RookeryError(f"cannot read the randomisation file {choice}: {e.strerror}.") from e
    except ValueError as e:
        raise RookeryError(f"{choice} is not valid TOML: {e}.") from e
    return {name: _range(choice, name, table) for name, table in tables.items()}


def _range(path: str, name: str, table: object) -> Range:
    if not isinstance(table, dict) or not {"low", "high"} <= table.keys() or table.keys() - {"low", "high", "on"}:
        raise RookeryError(f'{path}: [{name}] takes low, high and on = "reset" or "startup".')
    if table.get("on", "reset") not in ("reset", "startup"):
        raise RookeryError(f'{path}: [{name}] on must be "reset" or "startup", got {table["on"]!r}.')
    try:
        return Range(float(table["low"]), float(table["high"]), str(table.get("on", "reset")))
    except (TypeError, ValueError) as e:
        raise RookeryError(f"{path}: [{name}] low and high must be numbers.") from e


class Randomization(Buffers):
    """Draws the parameters of worlds and writes them into the simulation.

    Args:
        parameters: what the environment lets change.
        ranges: what is drawn. A name that the environment lacks is an error.
        num_envs: N.
        rng: random streams of the worlds for randomization alone.
        optional: names that are left out where the environment lacks them: presets serve many robots.

    Attributes:
        ranges: those in force.
        values: [N, P] the value of every quantity of `names` in each world now.
    """

    values: Tensor
    drawn: Tensor

    def __init__(
        self,
        parameters: dict[str, Parameter],
        ranges: dict[str, Range],
        num_envs: int,
        rng: Streams,
        optional: Collection[str] = (),
    ) -> None:
        super().__init__()
        ranges = {k: r for k, r in ranges.items() if k in parameters or k not in optional}
        for name, r in ranges.items():
            if name not in parameters:
                raise unknown("parameter", name, parameters)
            p = parameters[name]
            if not p.low <= r.low <= r.high <= p.high:
                raise RookeryError(
                    f"{name}: [{r.low}, {r.high}] must be a range within [{p.low}, {p.high}] ({p.unit})."
                )
        self.parameters = parameters
        self.ranges = ranges
        self.rng = rng
        self.names = tuple(ranges)
        self.buffer("values", num_envs, len(ranges))
        self.buffer("drawn", num_envs, dtype=torch.bool)
        self._arrays = self.values.numpy(), self.drawn.numpy()
        self._places = np.array([place_of(name) for name in ranges], np.int64)
        self._low = np.array([r.low for r in ranges.values()], np.float32)
        self._span = np.array([r.high - r.low for r in ranges.values()], np.float32)
        self._startup = np.array([r.on == "startup" for r in ranges.values()], np.bool_)
        self._at_reset = self._writes("reset")
        self._at_startup = self._writes("startup")

    def _writes(self, on: str) -> list[tuple[Write, dict[str, int]]]:
        """The calls that write the parameters which are drawn then, one for all parameters of a writer; with each the rows of
        its values, by the names that the writer has for them."""
        calls: dict[int, tuple[Write, dict[str, int]]] = {}
        for row, (name, r) in enumerate(self.ranges.items()):
            if r.on == on:
                write = self.parameters[name].write
                if isinstance(write, BatchWrite):
                    calls.setdefault(id(write.writer), (write, {}))[1][write.name] = row
                else:
                    calls[-1 - row] = write, {name: row}
        return list(calls.values())

    def of(self, ids: NDArray[np.int64]) -> Columns:
        """The values now in the worlds `ids` [n], each [n]."""
        return Columns(self.names, np.ascontiguousarray(self._arrays[0][ids].T))

    def draw(self, ids: Tensor) -> None:
        """New values for worlds that begin an episode; a parameter's value does not depend on which others are drawn."""
        if not self.ranges:
            return
        where = ids.numpy()
        rows = np.empty((len(self.names), len(where)), np.float32)
        new = np.empty(len(where), np.int64)
        values, drawn = self._arrays
        count = kernels.draw(
            self.rng.keys, self.rng.counters, where, self._places, self._low, self._span, self._startup,
            drawn, values, rows, new,
        )  # fmt: skip
        _write(self._at_reset, where, rows)
        if count:
            _write(self._at_startup, new[:count], rows[:, :count])


def _write(calls: list[tuple[Write, dict[str, int]]], ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
    by_row = list(rows)
    for write, places in calls:
        values = {name: by_row[row] for name, row in places.items()}
        if isinstance(write, BatchWrite):
            write.writer.write_batch(ids, values)
        else:
            (alone,) = values.values()
            write(torch.from_numpy(ids), torch.from_numpy(alone))

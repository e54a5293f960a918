"""Domain randomization: which physical quantities differ between worlds, by how much, and when they are drawn.

A TOML file has one table a quantity, see `distributions`::

    [mass]
    low = 0.9
    high = 1.1
    on = "reset"        # or "startup"

With ``extends = "default"`` or ``"all"`` on its first line a file changes this preset: what it does not name is drawn as there.

`rookery doctor` does not list the quantities, since they belong to tasks: an unknown name prints those of the task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.columns import Columns
from rookery.sim.errors import FixedError, RookeryError, unknown
from rookery.sim.random import Streams, place_of
from rookery.sim.randomization import kernels
from rookery.sim.randomization.batch import Batch, Places
from rookery.sim.randomization.curriculum import Curriculum
from rookery.sim.randomization.distributions import Held, Normal, Range, from_table
from rookery.sim.randomization.draw_log import DrawLog
from rookery.sim.randomization.parameters import BatchWrite, Parameter, Write
from rookery.sim.untrusted import read_toml

__all__ = ["DEFAULT", "PRESETS", "Randomization", "Range", "load", "typical_ranges"]

LEAST_WINDOW = 100
"""Episodes by whose success the curriculum goes on, at least."""
PRESETS = ("none", "default", "all")
"""Names for ``--randomize``: nothing; the task's default; and besides that everything else that the task lets change, over
`Parameter.typical`."""

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


class Chosen(NamedTuple):
    """A value of ``--randomize``.

    Args:
        preset: of `PRESETS`.
        ranges: over those of the preset, by "name" or "name:pattern".
    """

    preset: str
    ranges: dict[str, Range]

    def over(self, default: Mapping[str, Range] | None) -> dict[str, Range]:
        """All ranges: those of the preset, unless changed here, and then the own ones, of which the last counts.

        Args:
            default: ranges of the task's preset ``default``; None takes `DEFAULT`.
        """
        preset = {} if self.preset == "none" else DEFAULT if default is None else default
        return {name: r for name, r in preset.items() if name not in self.ranges} | self.ranges


def load(choice: str) -> Chosen:
    """Ranges for ``--randomize``: one of `PRESETS`, or the path of a TOML file.

    Raises:
        RookeryError: no such preset or file, or a file that does not say what it should.
    """
    if choice in PRESETS:
        return Chosen(choice, {})
    path = Path(choice)
    if path.suffix != ".toml":
        raise unknown("randomization", choice, [*PRESETS, "FILE.toml"])
    try:
        tables = read_toml(path)
    except OSError as e:
        raise RookeryError(f"cannot read the randomization file {choice}: {e.strerror}.") from e
    except ValueError as e:
        raise RookeryError(f"{choice} is not valid TOML: {e}.") from e
    preset = tables.pop("extends", "none")
    if preset not in PRESETS:
        raise unknown(f"preset that {choice} extends", str(preset), PRESETS)
    return Chosen(preset, {name: from_table(f"{choice}: [{name}]", table) for name, table in tables.items()})


def typical_ranges(
    parameters: Mapping[str, Parameter], own: Mapping[str, Range], preset: Collection[str]
) -> dict[str, Range]:
    """Typical spreads of the parameters, and over them the ranges `own`, of which those that are in `preset` are drawn for
    each component."""
    out = {
        name: Range(*p.typical, each=bool(p.components))
        for name, p in parameters.items()
        if name not in own and p.typical is not None
    }
    for name, r in own.items():
        each = name in preset and name in parameters and bool(parameters[name].components)
        out[name] = replace(r, each=True) if each else r
    return out


class _Draws:
    """The numbers that are drawn, and to which components of which parameters they go.

    Args:
        parameters: what can be drawn.
        ranges: what is drawn, by "name" or "name:pattern"; of entries for the same component the last one counts.

    Attributes:
        names: of the P draws: "name", "name:pattern", or "name:component" where each component has its own.
        ranges: of the draws.
        rows: by parameter, [S] the draw of each component, -1 for none.

    Raises:
        RookeryError: an unknown name, a pattern without match, a distribution outside of what the parameter accepts, or a
            parameter that does nothing without another one, which is not drawn.
    """

    def __init__(self, parameters: Mapping[str, Parameter], ranges: Mapping[str, Range]) -> None:
        self.names: list[str] = []
        self.ranges: list[Range] = []
        self.nominal: list[float] = []
        self.rows: dict[str, NDArray[np.int64]] = {}
        for entry, distribution in ranges.items():
            name, _, pattern = entry.partition(":")
            if name not in parameters:
                raise unknown("parameter", name, parameters)
            self._add(entry, name, pattern, parameters[name], distribution)
            self._check_needs(entry, parameters[name], distribution, parameters, ranges)
        self._drop_unused()

    def _add(self, entry: str, name: str, pattern: str, p: Parameter, r: Range) -> None:
        r = r.within(p.low, p.high)
        if isinstance(r, Held) and not p.low <= r.low <= p.high:
            unit = "" if p.unit == "1" else f" ({p.unit})"
            raise FixedError(f"{entry}={r.low:g}: give a number from {p.low:g} to {p.high:g}{unit}.")
        if problem := r.problem():
            raise RookeryError(
                f"{entry}: [{r.low}, {r.high}] must be a range within [{p.low}, {p.high}] ({p.unit}): {problem}."
            )
        if not p.low <= r.low <= r.high <= p.high:
            raise RookeryError(f"{entry}: [{r.low}, {r.high}] must be a range within [{p.low}, {p.high}] ({p.unit}).")
        if not p.components and (pattern or r.each):
            wrong = f"leave out ':{pattern}'" if pattern else "leave out each"
            raise RookeryError(f"{entry}: {name} is one number for the whole world, without components: {wrong}.")
        chosen = [i for i, c in enumerate(p.components) if not pattern or fnmatchcase(c, pattern)]
        if p.components and not chosen:
            raise RookeryError(
                f"{entry}: no component of {name} matches {pattern!r}. Known: {', '.join(p.components)}."
            )
        row = self.rows.setdefault(name, np.full(max(len(p.components), 1), -1, np.int64))
        if r.each:
            for i in chosen:
                row[i] = self._draw(f"{name}:{p.components[i]}", r, p.nominal)
        else:
            row[chosen or [0]] = self._draw(entry, r, p.nominal)

    def _check_needs(
        self, entry: str, p: Parameter, r: Range, parameters: Mapping[str, Parameter], ranges: Mapping[str, Range]
    ) -> None:
        """Refuse what would silently do nothing. A parameter that is held at its nominal value is meant to."""
        if r.low == r.high == p.nominal:
            return
        given = {other.partition(":")[0] for other in ranges}
        for group in p.needs:
            if given.isdisjoint(group):
                other = parameters[group[0]]
                most = "" if other.typical is None else f", such as {group[0]} up to {other.typical[1]:g} {other.unit}"
                raise RookeryError(f"{entry} does nothing without {' or '.join(group)}: give that too{most}.")

    def _draw(self, name: str, r: Range, nominal: float) -> int:
        if name in self.names:  # a later entry for the same component
            at = self.names.index(name)
            self.ranges[at] = r
            return at
        self.names.append(name)
        self.ranges.append(r)
        self.nominal.append(nominal)
        return len(self.names) - 1

    def _drop_unused(self) -> None:
        """Leave out draws all of whose components a later entry has."""
        used = np.unique(np.concatenate([np.zeros(0, np.int64), *self.rows.values()]))
        used = used[used >= 0]
        self.names = [self.names[i] for i in used]
        self.ranges = [self.ranges[i] for i in used]
        self.nominal = [self.nominal[i] for i in used]
        for row in self.rows.values():
            row[row >= 0] = np.searchsorted(used, row[row >= 0])

    def constants(self) -> NDArray[np.float32]:
        """[P, kernels.WIDTH] of the kernels."""
        out = np.zeros((len(self.names), kernels.WIDTH), np.float32)
        c = kernels.ValueColumn
        for row, r, nominal in zip(out, self.ranges, self.nominal, strict=True):
            row[c.FIRST], row[c.SECOND] = r.constants()
            row[c.LOW], row[c.HIGH], row[c.NOMINAL] = r.low, r.high, nominal
            if isinstance(r, Normal):
                row[c.BELOW], row[c.INSIDE] = r.probabilities()
        return out


class _Plan:
    """The calls that write some parameters, one for all parameters of a writer.

    Args:
        parameters: by name.
        rows: by name, see `_Draws.rows`.
    """

    def __init__(self, parameters: Mapping[str, Parameter], rows: Mapping[str, NDArray[np.int64]]) -> None:
        together: dict[int, list[str]] = {}
        for k, name in enumerate(rows):
            write = parameters[name].write
            together.setdefault(id(write.writer) if isinstance(write, BatchWrite) else -1 - k, []).append(name)
        self._calls: list[tuple[Write, slice, Places]] = []
        sources, nominal = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        first = 0
        for names in together.values():
            places: dict[str, slice | int] = {}
            last = first
            for name in names:
                p = parameters[name]
                key = p.write.name if isinstance(p.write, BatchWrite) else name
                at = last - first
                places[key] = slice(at, at + len(rows[name])) if p.components else at
                last += len(rows[name])
                sources.append(rows[name])
                nominal.append(np.full(len(rows[name]), p.nominal, np.float32))
            self._calls.append((parameters[names[0]].write, slice(first, last), Places(places)))
            first = last
        self._sources = np.concatenate(sources)
        self._nominal = np.concatenate(nominal)

    def write(self, values: NDArray[np.float32], ids: NDArray[np.int64], batches_alone: bool = False) -> None:
        """Put what was drawn, values [N, P], into the worlds `ids` [n].

        Args:
            batches_alone: only by writers of several parameters, which may remember what they wrote.
        """
        if not self._calls:
            return
        table = np.empty((len(self._sources), len(ids)), np.float32)
        kernels.collect(values, ids, self._sources, self._nominal, table)
        for write, rows, places in self._calls:
            given = Batch(places, table[rows])
            if isinstance(write, BatchWrite):
                write.writer.write_batch(ids, given)
            elif not batches_alone:
                (alone,) = given.values()
                write(torch.from_numpy(ids), torch.from_numpy(alone).t())


class Randomization(Buffers):
    """Draws the parameters of worlds and writes them into the simulation.

    Args:
        parameters: what the environment lets change.
        ranges: what is drawn, by "name" or "name:pattern". A name that the environment lacks is an error.
        num_envs: N.
        rng: random streams of the worlds for randomization alone.
        optional: names of a preset, which are left out where the environment lacks them: presets serve many robots.
        typical: besides `ranges`, draw everything else that may differ, over what it typically differs by; of a preset's
            parameters each component.

    Attributes:
        parameters: those that can be drawn.
        names: of the P draws, see `_Draws`.
        ranges: those in force, by these names.
        values: [N, P] the value of every draw in each world now.
    """

    values: Tensor
    drawn: Tensor

    def __init__(
        self,
        parameters: dict[str, Parameter],
        ranges: Mapping[str, Range],
        num_envs: int,
        rng: Streams,
        optional: Collection[str] = (),
        typical: bool = False,
    ) -> None:
        super().__init__()
        used = {k: r for k, r in ranges.items() if k.partition(":")[0] in parameters or k not in optional}
        draws = _Draws(parameters, typical_ranges(parameters, used, optional) if typical else used)
        self.parameters = parameters
        self.rng = rng
        self.names = tuple(draws.names)
        self.ranges = dict(zip(draws.names, draws.ranges, strict=True))
        self.buffer("values", num_envs, len(self.names))
        self.buffer("drawn", num_envs, dtype=torch.bool)
        self._arrays = self.values.numpy(), self.drawn.numpy()
        startup = np.array([r.on == "startup" for r in draws.ranges], np.bool_)
        tables = [np.array(r.table(), np.float32).reshape(-1, 2) for r in draws.ranges]
        self._drawing = (
            np.array([place_of(name) for name in self.names], np.int64),
            np.array([r.code for r in draws.ranges], np.int64), draws.constants(),
            np.concatenate([*tables, np.zeros((0, 2), np.float32)]),
            np.cumsum([0, *(len(t) for t in tables)]), startup,
        )  # fmt: skip
        again = {name: bool((~startup[row[row >= 0]]).any()) for name, row in draws.rows.items()}
        self._at_reset = _Plan(parameters, {name: row for name, row in draws.rows.items() if again[name]})
        self._at_startup = _Plan(parameters, {name: row for name, row in draws.rows.items() if not again[name]})
        self.curriculum = Curriculum(max(num_envs, LEAST_WINDOW))
        self.child("curriculum", self.curriculum)
        self._replayed = np.zeros((num_envs, 0, len(self.names)), np.float32), np.ones(num_envs, np.int64)

    def replay(self, log: DrawLog, first: int = 0) -> None:
        """Take the values of a log in place of new ones: those of its k-th episode in a world for the k-th one from now on,
        and again from the beginning where there are no more.

        Args:
            log: of the same draws.
            first: index of the first world.

        Raises:
            RookeryError: the log is of other draws.
        """
        if log.names != self.names:
            raise RookeryError(
                f"the log has draws of {list(log.names)}, and this environment draws {list(self.names)}."
            )
        self._replayed = log.by_world(first, len(self.values))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        values, drawn = self._arrays
        for plan in (self._at_reset, self._at_startup):
            plan.write(values, np.flatnonzero(drawn), batches_alone=True)

    def of(self, ids: NDArray[np.int64]) -> Columns:
        """The values now in the worlds `ids` [n], each [n]."""
        return Columns(self.names, np.ascontiguousarray(self._arrays[0][ids].T))

    def draw(self, ids: Tensor) -> None:
        """New values for worlds that begin an episode; a parameter's value does not depend on which others are drawn."""
        if not self.names:
            return
        where = ids.numpy()
        new = np.empty(len(where), np.int64)
        values, drawn = self._arrays
        share = self.curriculum.share.numpy()[0]
        count = kernels.draw(
            self.rng.keys, self.rng.counters, where, *self._drawing, share, *self._replayed, drawn, values, new
        )
        self._at_reset.write(values, where)
        if count:
            self._at_startup.write(values, new[:count])

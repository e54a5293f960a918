"""Named physical quantities of a task that can differ between worlds, and how they are written into the simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.randomization.batch import Batch
from rookery.sim.world import Params

Write = Callable[[Tensor, Tensor], None]
"""``write(ids [n] int64, values float32)`` puts one value [n] for each of these worlds into the simulation, or, of a parameter
with S components, [n, S]."""


class BatchWriter(Protocol):
    """Puts several parameters of a set of worlds into the simulation in one call."""

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        """Write the values of parameters in the worlds `ids` [n]."""


@dataclass(frozen=True)
class BatchWrite:
    """The write of a parameter that is written together with the others of the same writer.

    Randomization calls `BatchWriter.write_batch` once for all parameters of a writer that it draws, at the place of the first
    of them. Called alone it is a `Write`.

    Args:
        writer: of this parameter and others.
        name: what the writer calls it.
    """

    writer: BatchWriter
    name: str

    def __call__(self, ids: Tensor, values: Tensor) -> None:
        self.writer.write_batch(ids.numpy(), Batch.of({self.name: values.float().t().numpy()}))


@dataclass(frozen=True)
class Parameter:
    """One quantity that randomization and ``--set name=value`` may change.

    Args:
        summary: what it is, one line.
        unit: unit of the value; "1" for a factor on the nominal value.
        nominal: the value that leaves the simulation as the scene describes it.
        low, high: what is accepted, inclusive.
        write: how it gets there; a `BatchWrite` where one call can write several parameters.
        components: names of the S rotors, joints, ... that can differ from each other; empty for one number.
        typical: least and greatest value that ``--randomize all`` draws where the task's default leaves the parameter alone;
            None leaves it out.
        needs: names of others without which it does nothing, such as the rate of pushes for their speed: one of each tuple.
        step: what the values in force are whole multiples of, such as the physics step; 0 where any value is.
    """

    summary: str
    unit: str
    nominal: float
    low: float
    high: float
    write: Write
    components: tuple[str, ...] = ()
    typical: tuple[float, float] | None = None
    needs: tuple[tuple[str, ...], ...] = ()
    step: float = 0.0

    def in_force(self, value: float) -> float:
        """The multiple of `step` that is in force for a value."""
        return round(round(value / self.step) * self.step, 9) if self.step else value


def _each(v: Tensor, like: Tensor) -> Tensor:
    """Values [n] or [n, S] so that they broadcast against [n, S, ...] of components `like` [S, ...]."""
    return v.reshape(*v.shape, *[1] * (like.dim() + 1 - v.dim()))


def scaled(params: Params, names: Sequence[str], *fields: str) -> Write:
    """The write of a factor on the scene's own values.

    Args:
        params: of the world.
        names: of bodies, joints or actuators, as the fields need.
        fields: of `Params`, all of them times the same factor: a body's "mass" with its "inertia" leaves its size as it is.
    """
    nominal = {field: params.nominal(field, names) for field in fields}

    def write(ids: Tensor, v: Tensor) -> None:
        for field, value in nominal.items():
            params.set(field, names, value * _each(v, value), ids)

    return write


def shifted(params: Params, names: Sequence[str], field: str, axis: int | None = None) -> Write:
    """The write of a difference from the scene's own values.

    Args:
        params: of the world.
        names: of bodies, joints or actuators, as the field needs.
        field: of `Params`: "mass" alone is a point mass at the centre of mass, which leaves the inertia as it is.
        axis: 0 to 2, of a field of vectors such as "com": the component that is shifted, while the others stay as they are.
    """
    nominal = params.nominal(field, names)

    def write(ids: Tensor, v: Tensor) -> None:
        if axis is None:
            params.set(field, names, nominal + _each(v, nominal), ids)
            return
        values = params.get(field, names)[ids]
        values[..., axis] = nominal[..., axis] + _each(v, nominal[..., axis])
        params.set(field, names, values, ids)

    return write


def sliding(params: Params, geoms: Sequence[str]) -> Write:
    """The write of the sliding friction of geoms; the torsional and the rolling one stay."""
    nominal = params.nominal("friction", geoms)

    def write(ids: Tensor, v: Tensor) -> None:
        values = nominal.repeat(len(ids), 1, 1)
        values[:, :, 0] = _each(v, nominal[:, 0])
        params.set("friction", geoms, values, ids)

    return write


def body_mass(params: Params, bodies: Sequence[str], summary: str) -> Parameter:
    """A factor on the mass of bodies, with their inertia: their size and shape stay."""
    return Parameter(summary, "1", 1.0, 0.1, 10.0, scaled(params, bodies, "mass", "inertia"), (), (0.7, 1.3))


def sliding_friction(params: Params, geoms: Sequence[str], summary: str, low: float, high: float) -> Parameter:
    """The coefficient of sliding friction of geoms, from `low` to `high`."""
    nominal = float(params.nominal("friction", geoms)[0, 0])
    typical = max(low, 0.8 * nominal), min(high, 1.2 * nominal)
    return Parameter(summary, "1", nominal, low, high, sliding(params, geoms), (), typical)


def joint_damping(params: Params, joints: Sequence[str], summary: str, low: float, high: float) -> Parameter:
    """A factor from `low` to `high` on the damping of joints."""
    return Parameter(
        summary, "1", 1.0, low, high, scaled(params, joints, "damping"), (), (max(low, 0.5), min(high, 2.0))
    )

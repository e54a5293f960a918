"""Sensors as terms: the environment builds what a term declares, and reads it whenever agents observe.

    Term("lidar", ring_sensor(...), scale=1 / 3, noise=0.02)     # a Sensor is a quantity, and may be part of an expression

A task names what sees and from where; it neither reads the sensor nor gives its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.visual import VisualRandomization
from rookery.sim.sensors.cameras import Cameras
from rookery.sim.specs import Group, Term
from rookery.sim.terms import Sensor
from rookery.sim.world import World


class Reader(Protocol):
    """A sensor in the worlds of an environment.

    One that sees by `Cameras` has them as its attribute `cameras`, so that randomization may change how things look.
    """

    def read(self) -> Tensor:
        """[N, A, d] now; valid until the next call."""
        ...


class Sensors(Buffers):
    """All sensors of an environment.

    Args:
        world: engine with the task's scene.
        groups: the declarations.
        rng: the worlds' streams, for how things look.

    Attributes:
        readers: by group, of each sensor that its terms read.
    """

    def __init__(self, world: World, groups: Mapping[str, Group], rng: Streams) -> None:
        super().__init__()
        self._terms = {g: [t for t in s.observation if t.sensed] for g, s in groups.items()}
        self.readers: dict[str, dict[Sensor, Reader]] = {
            g: {q: q.make(world) for t in terms for q in _sensors(t) if q.make is not None}
            for g, terms in self._terms.items()
        }
        self.on = any(self.readers.values())
        made = [r for readers in self.readers.values() for r in readers.values()]
        cameras: list[Cameras] = [c for r in made if (c := getattr(r, "cameras", None)) is not None]
        self._visual = VisualRandomization(cameras, rng) if cameras else None
        if self._visual is not None:
            self.child("visual", self._visual)

    def parameters(self) -> dict[str, Parameter]:
        """Parameters of how things look, see VisualRandomization; none without cameras."""
        return {} if self._visual is None else self._visual.parameters()

    def read(self, group: str) -> dict[str, Tensor]:
        """The sensors' values of a group by name, [N, A, d]."""
        return {sensor.name: reader.read() for sensor, reader in self.readers.get(group, {}).items()}

    def fill(self, observed: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
        """A task's observations with the terms that sensors give; the same where there are none."""
        out = {}
        for g, values in observed.items():
            seen = self.read(g)
            out[g] = {**values, **{t.name: t.expression.evaluate(seen) for t in self._terms.get(g, ())}}
        return out


def _sensors(term: Term) -> list[Sensor]:
    return [q for q in term.expression.leaves() if isinstance(q, Sensor)]

"""One loose object on the table: where it is, how it is put down, and what may differ between worlds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rookery.sim.randomization.parameters import Parameter, scaled, sliding
from rookery.sim.randomization.ranges import Range
from rookery.sim.world import World

OBJECT_RANDOMIZATION = {"object_mass": Range(0.5, 2.0), "object_friction": Range(0.5, 1.25)}
UPRIGHT = torch.tensor([1.0, 0.0, 0.0, 0.0])


def at_rest(pos: Tensor, quat: Tensor = UPRIGHT) -> Tensor:
    """[n, 1, 13] state (see Bodies.state) of a body that rests at [n, 3] m, [n, 4] or [4] wxyz, world."""
    state = torch.zeros(len(pos), 1, 13)
    state[:, 0, :3] = pos
    state[:, 0, 3:7] = quat
    return state


class Loose:
    """The object `name/` of a scene, with the body `base` and a geom of the object's own name.

    Args:
        world: with a table of `assets.scenery.table`.
        name: prefix of the object.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.geom = f"{name}/{name}"
        self.body = world.bodies([f"{name}/base"])

    @property
    def pose(self) -> Tensor:
        """[N, 7] m and wxyz, world."""
        return self.body.state[:, 0, :7]

    def place(self, ids: Tensor, pos: Tensor) -> None:
        """Put it down at [n, 3] m, world, upright and at rest."""
        self.body.set_state(ids, at_rest(pos))

    def parameters(self) -> dict[str, Parameter]:
        """See `object_parameters`."""
        return object_parameters(self.world, self.body.names, [self.geom])


def object_parameters(world: World, bodies: Sequence[str], geoms: Sequence[str]) -> dict[str, Parameter]:
    """Mass of an object, and its friction on the table; how well fingers hold it is up to their pads.

    Args:
        world: with a table of `assets.scenery.table`.
        bodies: the object's.
        geoms: its shapes.
    """
    p, both = world.params, [*geoms, "table"]  # a contact takes the larger friction
    weigh = scaled(p, bodies, "mass", "inertia")
    slide = sliding(p, both)
    nominal = float(p.nominal("friction", both)[0, 0])
    return {
        "object_mass": Parameter("mass of the object", "1", 1.0, 0.1, 10.0, weigh),
        "object_friction": Parameter("sliding friction of the object on the table", "1", nominal, 0.05, 3.0, slide),
    }

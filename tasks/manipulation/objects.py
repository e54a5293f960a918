"""Objects on the table or in a hand: where they are, how they are put down, and what may differ between worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.robots.manipulators.allegro import AllegroHand
from rookery.sim.buffers import Buffers
from rookery.sim.quantities import ACTED, own
from rookery.sim.randomization.joints import joint_parameters, servo_parameters
from rookery.sim.randomization.parameters import Parameter, body_mass, sliding_friction
from rookery.sim.randomization.ranges import Range
from rookery.sim.rotations import matrix
from rookery.sim.terms import Quantity
from rookery.sim.world import World

OBJECT_RANDOMIZATION = {"object_mass": Range(0.5, 2.0), "object_friction": Range(0.5, 1.25)}
HAND_RANDOMIZATION = {
    "object_mass": Range(0.7, 1.3),
    "object_friction": Range(0.6, 1.2),
    "pad_friction": Range(0.9, 1.5),
    "joint_damping": Range(0.7, 1.5),
    "observation_noise": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.02),
    "action_delay": Range(0.0, 0.02),
}
UPRIGHT = torch.tensor([1.0, 0.0, 0.0, 0.0])


def at_rest(pos: Tensor, quat: Tensor = UPRIGHT) -> Tensor:
    """[n, 1, 13] state (see Bodies.state) of a body at rest at [n, 3] m, [n, 4] or [4] wxyz, world."""
    state = np.zeros((len(pos), 1, 13), np.float32)
    state[:, 0, :3] = pos
    state[:, 0, 3:7] = quat
    return torch.from_numpy(state)


class TableObject(Buffers):
    """The loose object `name/` of a scene, with the body `base`.

    Args:
        world: with a table of `assets.scenery.table`.
        name: prefix of the object.
        geoms: of its shapes; None: one geom with the object's own name.

    Attributes:
        pos: [N, 3] m. quat: [N, 4] wxyz. rotation: [N, 3, 3] to world. speed: [N] m/s. All as of `refresh`.
    """

    pos: Tensor
    quat: Tensor
    speed: Tensor
    rotation: Tensor

    def __init__(self, world: World, name: str, geoms: Sequence[str] | None = None) -> None:
        super().__init__()
        self.world = world
        self.geoms = [f"{name}/{g}" for g in ((name,) if geoms is None else geoms)]
        self.body = world.bodies([f"{name}/base"])
        n = world.num_envs
        self.buffer("pos", n, 3)
        self.buffer("quat", n, 4)
        self.buffer("speed", n)
        self.buffer("rotation", n, 3, 3)

    @property
    def pose(self) -> Tensor:
        """[N, 7] m and wxyz, world, now: needs no `refresh`."""
        return self.body.state[:, 0, :7]

    def refresh(self) -> None:
        """Read the object's state."""
        state = self.body.state[:, 0]
        self.pos.copy_(state[:, :3])
        self.quat.copy_(state[:, 3:7])
        self.rotation.copy_(matrix(self.quat).view(-1, 3, 3))
        torch.linalg.vector_norm(state[:, 7:10], dim=1, out=self.speed)

    def put(self, ids: Tensor, pos: Tensor, yaw: Tensor | None = None) -> None:
        """Put it down at [n, 3] m, world, rotated by [n] rad about the vertical, at rest."""
        state = at_rest(pos)
        if yaw is not None:
            state[:, 0, 3] = (0.5 * yaw).cos()
            state[:, 0, 6] = (0.5 * yaw).sin()
        self.body.set_state(ids, state)

    def parameters(self) -> dict[str, Parameter]:
        """Its mass, and its friction on the table; how well fingers hold it depends on their pads."""
        both = [*self.geoms, "table"]  # a contact takes the larger friction
        params = self.world.params
        return {
            "object_mass": body_mass(params, self.body.names, "mass of the object"),
            "object_friction": sliding_friction(params, both, "sliding friction of the object on the table", 0.05, 3.0),
        }


def hand_parameters(world: World, hand: AllegroHand, body: str, shapes: Sequence[str]) -> dict[str, Parameter]:
    """Physical quantities of an Allegro hand and the object in it.

    Args:
        body: full name of the object's body.
        shapes: of its geoms.
    """
    params = world.params
    tips = hand.tips.names  # their geoms have the bodies' names
    on_links = "sliding friction of the object on links and palm"
    return {
        "object_mass": body_mass(params, [body], "mass of the object"),
        "object_friction": sliding_friction(params, shapes, on_links, 0.05, 3.0),
        "pad_friction": sliding_friction(params, tips, "sliding friction of the finger tips", 0.2, 3.0),
        **joint_parameters(world, hand.joint_names[:16], "the fingers' joints", (0.1, 10.0)),
        **servo_parameters(world, hand.joint_names[:16], "the fingers"),
    }


FORCES = own("normal forces on the finger tips (ff, mf, rf, th) and the palm", 5, "N")
"""Quantities that hands observe."""


def acted(count: int) -> Quantity:
    """The last action of a hand: local."""
    return Quantity(ACTED, count, own_memory=True, initial="0")


def faces(thing: str) -> Quantity:
    """The quantity that says how a cube is turned, whichever face is up."""
    return own(f"cosine, sine of four times the yaw of the {thing}'s upright faces", 2, "1", "base", doc=(
        "sum of f^4 / 2 times cosine and sine for the cube's three axes, f being how level each is: 1 for a level one, 0 for "
        "an upright one"))  # fmt: skip


def quarter_heading(rotation: Tensor) -> Tensor:
    """[N, 2] cosine and sine of four times the heading of the upright faces of a cube (or of a tool that points down),
    whichever face is up.

    Args:
        rotation: [N, 3, 3], to the world. The level parts of its axes as complex numbers, to the fourth power: the upright
            axis adds nothing, the other two the same.
    """
    x, y = rotation[:, 0], rotation[:, 1]
    a, b = x * x - y * y, 2.0 * x * y
    return 0.5 * torch.stack(((a * a - b * b).sum(1), (2.0 * a * b).sum(1)), 1)

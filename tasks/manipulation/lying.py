"""Loose objects on the table of the Panda tasks: where they are and how they lie, and what may differ between worlds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rookery.sim.randomization.parameters import Parameter
from rookery.sim.rotations import matrix
from rookery.sim.world import World
from rookery.tasks.manipulation.loose import at_rest, object_parameters


class Block:
    """A loose object `name/` of a scene, with the body `base`.

    Args:
        world: with a table of `assets.scenery.table`.
        name: prefix of the object.
        geoms: of its shapes.
    """

    def __init__(self, world: World, name: str, geoms: Sequence[str] = ("block",)) -> None:
        self.world = world
        self.geoms = [f"{name}/{g}" for g in geoms]
        self.body = world.bodies([f"{name}/base"])
        n = world.num_envs
        self.pos = torch.zeros(n, 3)
        self.quat = torch.zeros(n, 4)
        self.speed = torch.zeros(n)
        self.turn = torch.zeros(n, 3, 3)

    def refresh(self) -> None:
        """Read `pos` [N, 3] m, `quat` [N, 4] wxyz, `turn` [N, 3, 3] to world and `speed` [N] m/s."""
        state = self.body.state[:, 0]
        self.pos.copy_(state[:, :3])
        self.quat.copy_(state[:, 3:7])
        self.turn.copy_(matrix(self.quat).view(-1, 3, 3))
        torch.linalg.vector_norm(state[:, 7:10], dim=1, out=self.speed)

    def put(self, ids: Tensor, pos: Tensor, yaw: Tensor) -> None:
        """Put it down at [n, 3] m, world, turned by [n] rad about the vertical, at rest."""
        state = at_rest(pos)
        state[:, 0, 3] = (0.5 * yaw).cos()
        state[:, 0, 6] = (0.5 * yaw).sin()
        self.body.set_state(ids, state)

    def parameters(self) -> dict[str, Parameter]:
        """See `object_parameters`."""
        return object_parameters(self.world, self.body.names, self.geoms)


def quarter_heading(turn: Tensor) -> Tensor:
    """[N, 2] cosine and sine of four times the heading of the upright faces of a cube (or of a tool that points down),
    whichever face is up.

    Args:
        turn: [N, 3, 3], to the world. The level parts of its axes as complex numbers, to the fourth power: the upright
            axis adds nothing, the other two the same.
    """
    x, y = turn[:, 0], turn[:, 1]
    a, b = x * x - y * y, 2.0 * x * y
    return 0.5 * torch.stack(((a * a - b * b).sum(1), (2.0 * a * b).sum(1)), 1)

"""The nearest others of an agent, as quantities of observations."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.quantities import own, place, velocity
from rookery.sim.terms import Expression, Quantity, Where


class Neighbors:
    """The k nearest others that an agent sees, nearest first.

    Args:
        count: k.
        who: what they are called.
    """

    def __init__(self, count: int, who: str = "the nearest others") -> None:
        self.count = count
        self.who = who
        self.positions: Quantity = place(f"positions of {who}", count)
        self.velocities: Quantity = velocity(f"velocities of {who}", count)
        self.in_sight: Quantity = own(f"1 for each of {who} that is in sight, 0 for none", count)

    def seen(self, values: Expression) -> Expression:
        """Values of the neighbors that there are, and 0 in place of those that there are not."""
        return Where(values, self.in_sight, "0 for none in sight")

    def choose(self, pos: Tensor, sight: float, present: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Who the neighbors are.

        Args:
            pos: [N, A, 3] m.
            sight: m; who is farther away is not seen.
            present: [N, A] bool, agents that take part; None for all.

        Returns:
            [N, A, k] int64 and [N, A, k] bool, whether there is such a neighbor.
        """
        n, a, _ = pos.shape
        apart = (pos[:, None] - pos[:, :, None]).norm(dim=-1)
        hidden = torch.eye(a, dtype=torch.bool).expand(n, a, a) | (apart > sight)
        if present is not None:
            hidden = hidden | ~present[:, None] | ~present[:, :, None]
        apart = torch.cat((apart.masked_fill(hidden, torch.inf), torch.full((n, a, self.count), torch.inf)), dim=-1)
        distance, who = apart.sort(dim=-1, stable=True)
        seen = distance[..., : self.count].isfinite()
        return torch.where(seen, who[..., : self.count], 0), seen

    def measure(self, pos: Tensor, vel: Tensor, sight: float, present: Tensor | None = None) -> dict[str, Tensor]:
        """The quantities of agents at `pos` [N, A, 3] m with velocities `vel` [N, A, 3] m/s, world; see `choose`."""
        who, seen = self.choose(pos, sight, present)
        return {
            self.positions.name: self.pick(pos, who), self.velocities.name: self.pick(vel, who),
            self.in_sight.name: seen.float(),
        }  # fmt: skip

    @staticmethod
    def pick(values: Tensor, who: Tensor) -> Tensor:
        """[N, A, k d] of values [N, B, d] those of the neighbors [N, A, k]."""
        n, a, _ = who.shape
        return values.gather(1, who.flatten(1)[..., None].expand(-1, -1, values.shape[-1])).view(n, a, -1)

"""Opponents from a population: which of K frozen ones plays in which world, drawn anew when episodes end.

world        0  1  2  3  4  5
assignment   2  0  0  1  2  0      0 acts for worlds 1, 2 and 5 in one call, 1 for world 3, 2 for worlds 0 and 4

Policies of one shape act in one pass together (stacked.py) where they are drawn about as often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rookery.policies.multiagent.stacked import MOST_PADDING, Layout, stacked
from rookery.policies.training.evaluate import PolicyAct
from rookery.sim.engines import check_seed
from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import torch_generator

__all__ = ["Population", "are_weights"]

Rows = dict[str, Tensor]
KEEP = 0.99
"""Weight of an earlier result when another one is known."""
PRIOR = 2.0
"""Episodes, half of them won, that count beside those played."""


def are_weights(weights: Sequence[float]) -> bool:
    """True for numbers of at least 0 with a finite sum that is not 0."""
    return all(w >= 0.0 for w in weights) and 0.0 < sum(weights) < math.inf


class Population:
    """K frozen opponents and who of them plays where.

    Args:
        env: the match; its number of worlds N counts.
        members: from observations {group: [N, A, O]} of all agents to actions of all agents. Those of `act_with` act for their
            worlds alone; others, such as classical controllers, for all of them, and the rest is left.
        weights: how likely each is drawn; None for all alike.
        seed: of the draws.

    Attributes:
        assignment: [N] int64, the member that plays in each world.
        weights: [K] float64, sums to 1.
        games, points: [K] float64, how many episodes the learner played against each and what it won, 1 or half for nobody;
            with every episode against the same member, earlier ones count `KEEP` as much.

    Raises:
        RookeryError: no members, weights that do not fit, or a seed that is none.
    """

    def __init__(self, env: Env, members: Sequence[Act], weights: Sequence[float] | None = None, seed: int = 0) -> None:
        if not members:
            raise RookeryError("a population needs at least one opponent.")
        self._env = env
        self.members = list(members)
        self.weights = torch.ones(0)
        self.set_weights([1.0] * len(self.members) if weights is None else weights)
        self._generator = torch_generator(seed)
        self.assignment = torch.zeros(env.num_envs, dtype=torch.int64)
        self._found: list[tuple[int, Tensor]] | None = None
        self._stacks = stacked(self.members)
        self._layout: Layout | None = None  # of the stacks, where one pass is worth it
        self.games, self.points = (torch.zeros(len(self.members), dtype=torch.float64) for _ in range(2))
        self.draw(torch.arange(env.num_envs))

    def set_weights(self, weights: Sequence[float]) -> None:
        """Set how likely each member is drawn from now on, [K] numbers of at least 0; running episodes keep theirs.

        Raises:
            RookeryError: another number of them, one below 0, or all 0.
        """
        if len(weights) != len(self.members) or not are_weights(weights):
            raise RookeryError(
                f"{len(self.members)} opponents need as many weights of at least 0, not all 0, got {list(weights)}."
            )
        self.weights = torch.tensor(weights, dtype=torch.float64) / sum(weights)

    def reset(self, seed: int | None) -> None:
        """Forget what the members remember, and draw one for each world."""
        if seed is not None:
            self._generator.manual_seed(check_seed(seed))
        for state in self._memories().values():
            state.zero_()
        self.draw(torch.arange(self._env.num_envs))

    def draw(self, worlds: Tensor) -> None:
        """Draw members for worlds [n] that begin an episode."""
        if len(self.members) > 1 and len(worlds):
            drawn = torch.multinomial(self.weights, len(worlds), replacement=True, generator=self._generator)
            self.assignment[worlds.cpu()] = drawn
            self._found = None

    def record(self, members: Tensor, points: Tensor) -> None:
        """Count the learner's results.

        Args:
            members: [m] int64, whom it played against.
            points: [m], 1 where it won, 0 where it lost, a half where nobody did.
        """
        count = len(self.members)
        games = members.bincount(minlength=count).double()
        kept = KEEP**games
        self.games.mul_(kept).add_(games)
        self.points.mul_(kept).add_(members.bincount(points.cpu().double(), minlength=count))

    @property
    def win_rates(self) -> Tensor:
        """[K] float64: how often the learner wins against each; a half where nothing is known."""
        return (self.points + 0.5 * PRIOR) / (self.games + PRIOR)

    @torch.no_grad()
    def __call__(self, obs: Rows) -> Rows:
        """Actions {group: [N, A, D]} of the members, each in its worlds."""
        if len(self.members) == 1:
            return {g: a.clone() for g, a in self.members[0](obs).items()}
        out: Rows = {}
        playing = self._playing()
        if self._stacks is not None and self._layout is not None:
            return {g: stack(obs[g], self._layout) for g, stack in self._stacks.items()}
        for k, worlds in playing:
            member = self.members[k]
            if isinstance(member, PolicyAct):
                own = member({g: o[worlds] for g, o in obs.items()}, worlds)
            else:
                own = {g: a[worlds] for g, a in member(obs).items()}
            for g, a in own.items():
                if g not in out:
                    out[g] = a.new_empty(self._env.num_envs, *a.shape[1:])
                out[g][worlds] = a
        return out

    def _playing(self) -> list[tuple[int, Tensor]]:
        """The members that play somewhere, each with its worlds [m]; found anew when the assignment has changed."""
        if self._found is None:
            order = self.assignment.argsort(stable=True).to(self._env.device)
            counts = self.assignment.bincount(minlength=len(self.members)).tolist()
            self._found = [(k, own) for k, own in enumerate(order.split(counts)) if len(own)]
            self._layout = None
            if self._stacks is not None:
                layout = Layout(self.assignment.to(self._env.device), len(self.members))
                self._layout = layout if layout.padding <= MOST_PADDING else None
        return self._found

    def _memories(self) -> Rows:
        """Memories of the members, by member and group."""
        found = {k: getattr(member, "memory", {}) for k, member in enumerate(self.members)}
        return {f"memory.{k}.{g}": state for k, own in found.items() for g, state in own.items()}

    def state_dict(self) -> Rows:
        """The assignment, the generator, weights and memories."""
        own: dict[str, Any] = {
            "assignment": self.assignment,
            "generator": self._generator.get_state(),
            "weights": self.weights,
            "games": self.games,
            "points": self.points,
        }
        return {name: x.cpu().clone() for name, x in (own | self._memories()).items()}

    def load_state_dict(self, state: Rows) -> None:
        """Continue from a saved state of as many members."""
        self.assignment.copy_(state["assignment"])
        self._found = None
        self._generator.set_state(state["generator"])
        for name in ("weights", "games", "points"):
            getattr(self, name).copy_(state[name])
        for name, own in self._memories().items():
            own.copy_(state[name])

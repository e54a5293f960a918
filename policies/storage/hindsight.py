"""Hindsight: transitions as if the goal had been what was reached later in the episode (Andrychowicz et al. 2017, arXiv
1707.01495, strategy "future").

    step               0    1    2    3  (truncated)        goal of the episode: g
    observation        o0   o1   o2   o3   final
    reaches            p0   p1   p2   p3   p4
    transition 1 -> 2 is learned from as it is, or with one of p2, p3, p4 as its goal

An observation says the goal in one of two ways: as an offset, goal - p, or as the goal itself beside a term that says p. With
another goal p' in its place

    offset            goal - p  ->  p' - p = (goal - p) - (goal - p'), the difference of two observed offsets
    goal itself       goal      ->  p', as the other term said it
    reward            r  ->  r + w ([p' is reached] - [goal is reached])

so that nothing but what is observed is needed. Other terms of the reward stay as they were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rookery.policies.storage.replay import Replay
from rookery.policies.storage.transitions import Transitions
from rookery.sim.errors import RookeryError

__all__ = ["GoalTerm", "Hindsight"]


@dataclass(frozen=True)
class GoalTerm:
    """The part of an observation that says the goal.

    Args:
        goal: places of the goal, or of its offset, in the observation.
        achieved: places of what is reached, which the goal is compared with; None where the goal is an offset.
        within: largest distance at which it is reached, in units of the observation.
        reward: what the task's reward has for a step that ends there.
    """

    goal: slice
    achieved: slice | None
    within: float
    reward: float

    def offset(self, obs: Tensor) -> Tensor:
        """[..., G] from what is reached to the goal, for observations [..., O]."""
        goal = obs[..., self.goal]
        return goal if self.achieved is None else goal - obs[..., self.achieved]

    def reached(self, obs: Tensor) -> Tensor:
        """[...] bool."""
        return self.offset(obs).square().sum(-1) < self.within**2

    def with_goal_of(self, obs: Tensor, later: Tensor) -> Tensor:
        """Observations [B, O] as if the goal had been what `later` [B, O] has reached."""
        out = obs.clone()
        if self.achieved is None:
            out[:, self.goal] -= later[:, self.goal]
        else:
            out[:, self.goal] = later[:, self.achieved]
        return out


class Hindsight:
    """Goals for the transitions of a replay memory.

    Args:
        replay: whose; it is empty.
        term: what its observations say of the goal.
        share: of the transitions that get another goal.

    Attributes:
        end: [T + 1, N] int64, number of the last step of the episode that a slot's step is of, counted from the first that was
            stored; -1 where it goes on.
        total: steps stored so far.
        began: [N] int64, number of the first step of the episode that goes on.
    """

    def __init__(self, replay: Replay, term: GoalTerm, share: float) -> None:
        self.replay = replay
        self.term = term
        self.share = share
        self.end = torch.full(replay.terminated.shape, -1, dtype=torch.int64, device=replay.reward.device)
        self.began = torch.zeros(self.end.shape[1], dtype=torch.int64, device=self.end.device)
        self.total = 0

    @property
    def _slots(self) -> int:
        return len(self.end)

    def note(self) -> None:
        """Take in the step that was stored last."""
        slot, number = (self.replay.head - 1) % self._slots, self.total
        self.end[slot] = -1
        ended = self.replay.terminated[slot] | self.replay.truncated[slot]
        for world in ended.nonzero().squeeze(1).tolist():  # few: each episode once
            first = max(int(self.began[world]), number - self._slots + 2)
            steps = torch.arange(first, number + 1, device=self.end.device)
            self.end[(slot - (number - steps)) % self._slots, world] = number
        self.began[ended] = number + 1
        self.total += 1

    def relabel(self, number: Tensor, batch: Transitions, generator: torch.Generator) -> Transitions:
        """A batch of single steps, some of them with another goal.

        Args:
            number: of the transitions [B], see `Replay.take`.
            batch: as taken.
            generator: chooses which, and their goals.
        """
        draws = torch.rand(2, len(number), generator=generator, dtype=torch.float64, device=number.device)
        later, there = self._later(number, draws[0])
        chosen = there & (draws[1] < self.share)
        obs, following = batch.observation, batch.next_observation
        other = self.term.with_goal_of(obs, later), self.term.with_goal_of(following, later)
        gain = self.term.reached(other[1]).float() - self.term.reached(following).float()
        gain = torch.where(batch.terminated, 0.0, gain)  # what is after a termination is not kept
        rows = chosen.unsqueeze(1)
        return replace(
            batch,
            observation=torch.where(rows, other[0], obs),
            next_observation=torch.where(rows, other[1], following),
            reward=torch.where(chosen, batch.reward + self.term.reward * gain, batch.reward),
        )

    def _later(self, number: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """An observation [B, O] from after each transition and of its episode, drawn uniformly by numbers from 0 to 1; and
        whether there is one [B] bool: not after a termination."""
        replay = self.replay
        worlds, agents = replay.reward.shape[1:]
        slot, world, agent = number // (worlds * agents), number // agents % worlds, number % agents
        newest = (replay.head - 1) % self._slots
        step = self.total - 1 - (newest - slot) % self._slots
        end = self.end[slot, world]
        over = end >= 0
        last = torch.where(over, end, self.total - 1)
        at_end = (newest - (self.total - 1 - last)) % self._slots
        # observations that are kept: those before the steps step + 1 to last, and the one after the last unless it terminated
        count = last - step + (~replay.terminated[at_end, world]).long()
        chosen = step + 1 + (draw * count).long()
        place = (slot + (chosen - step)) % self._slots
        final = replay.final_index[at_end, world]
        kept = replay.finals[final.clamp(min=0) % len(replay.finals), agent]
        beyond = (over & (chosen > last) & (final >= 0)).unsqueeze(1)
        return torch.where(beyond, kept, replay.observed(place, world, agent)), count > 0

    def state_dict(self) -> dict[str, Tensor]:
        """Ends of episodes and counters."""
        used = self._slots if self.replay.size == self.replay.steps else self.replay.size + 1
        return {"end": self.end[:used], "began": self.began, "total": torch.tensor(self.total)}

    def check_state(self, state: dict[str, Tensor], replay: dict[str, Tensor]) -> None:
        """Compare a saved state with this one and with that of the replay memory.

        Raises:
            RookeryError: it is incomplete, or contradicts them.
        """
        wanted = {"end": (len(replay["terminated"]), self.end.shape[1]), "began": tuple(self.began.shape), "total": ()}
        for name, shape in wanted.items():
            found = state.get(name)
            if found is None or tuple(found.shape) != shape or found.dtype != torch.int64:
                raise RookeryError(
                    f"the saved replay memory has no ends of episodes that fit ({name}): use the run's own settings."
                )
        total = int(state["total"])
        if (
            not 0 <= int(replay["counters"][2]) <= total
            or not (state["end"] < total).all()
            or (state["began"] < 0).any()
        ):
            raise RookeryError("the saved ends of episodes contradict the replay memory: use an older checkpoint.")

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state, with that of the replay memory."""
        self.end.fill_(-1)
        self.end[: len(state["end"])] = state["end"]
        self.began.copy_(state["began"])
        self.total = int(state["total"])

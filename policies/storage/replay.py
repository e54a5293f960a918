"""Replay memory of off-policy learning: the latest T control steps of N worlds with A agents, each observation stored once.

Time runs along the first axis, in a ring of T + 1 slots. A transition's next observation is in the following slot.
Environments reset in the same step, so after an end of an episode that slot holds the first observation of the next one:
of a truncated episode the last observation is kept apart and stands in for it, of a terminated one nothing is needed.

    slot                0     1     2      3
    observation         o0    o1    o2     o0'          # o0': first of the next episode
    truncated           -     -     yes    -
    next observation    o1    o2    final  (slot 4)     # had it terminated at 2: not used
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from rookery.policies.storage.priorities import Priorities
from rookery.sim.errors import RookeryError

__all__ = ["Replay", "Sequences", "Transitions"]


@dataclass(frozen=True)
class Sequences:
    """What networks with memory take beside the transitions [T S] of S sequences, which stand step by step.

    Args:
        first: [T S] bool, the observation is the first of an episode.
        state: [S, M] of the memories, before the first step of the burn-in.
        before: [K S, O], observations of the burn-in; K may be 0.
        before_first: [K S] bool, likewise the first of an episode.
    """

    first: Tensor
    state: Tensor
    before: Tensor
    before_first: Tensor


@dataclass(frozen=True)
class Transitions:
    """B transitions of single agents, of one control step or of several in a row.

    Args:
        observation, next_observation: [B, O], before the first and after the last step; the latter means nothing where
            `terminated`.
        action: [B, D], of the first step.
        reward: [B], discounted sum over the steps.
        discount: [B], by which what follows counts: gamma to the number of steps.
        terminated: [B] bool, nothing follows: the episode terminated, or the agent dropped out of it.
        active: [B] bool, the agent took part in the first step; the others are not to be learnt from.
        state, next_state: [B, S] of the environment, with the observations; S is 0 where it is not kept.
        importance: [B], by which the critics' faults count, see `Priorities.weights`; None for 1 everywhere.
        sequences: how the transitions follow each other, for networks with memory; None where they do not.
    """

    observation: Tensor
    action: Tensor
    reward: Tensor
    next_observation: Tensor
    discount: Tensor
    terminated: Tensor
    active: Tensor
    state: Tensor
    next_state: Tensor
    importance: Tensor | None = None
    sequences: Sequences | None = None

    def joined(self, other: Transitions) -> Transitions:
        """These and others in one batch, without importance and sequences."""
        names = [f.name for f in fields(self) if f.name not in ("importance", "sequences")]
        whole: dict[str, Any] = {name: torch.cat((getattr(self, name), getattr(other, name))) for name in names}
        return Transitions(**whole)


class Replay:
    """Preallocated ring of transitions of one group.

    Args:
        steps: T, control steps of every world that are kept.
        worlds, agents, observation_size, action_size: N, A, O, D.
        device: where everything is stored.
        state_size: S, of the environment's state, which is kept where it is above 0.
        alpha: power of the priorities by which transitions are drawn, see `Priorities`; 0 draws uniformly.
        memory_size: M, numbers in the states of the memories of policy and critics, which are kept where it is above 0.

    Attributes:
        size: control steps stored, at most T.
        head: slot of the next transition; the newest one is before it.
        observation: [T + 1, N, A, O].
        action: [T + 1, N, A, D].
        reward: [T + 1, N, A].
        active: [T + 1, N, A] bool.
        terminated, truncated: [T + 1, N] bool.
        state: [T + 1, N, S].
        memory: [T + 1, N, A, M], before the observation.
        finals: [F, A, O] last observations of truncated episodes, a ring that grows as needed.
        final_states: [F, S] last states likewise.
        final_index: [T + 1, N] int64, the running number of an episode's last observation, at ``number % F`` in
            `finals`; -1 where there is none.
        priorities: of all transitions, by the numbers of `take`; None where they are drawn uniformly.
        priority: [T + 1, N, A] view of them; 0 at slots without a transition and where the agent was not active.
    """

    def __init__(
        self, steps: int, worlds: int, agents: int, observation_size: int, action_size: int, device: torch.device | str,
        state_size: int = 0, alpha: float = 0.0, memory_size: int = 0,
    ) -> None:  # fmt: skip
        slots = steps + 1
        self.steps = steps
        self.size = 0
        self.observation = torch.zeros(slots, worlds, agents, observation_size, device=device)
        self.action = torch.zeros(slots, worlds, agents, action_size, device=device)
        self.reward = torch.zeros(slots, worlds, agents, device=device)
        self.active = torch.ones(slots, worlds, agents, dtype=torch.bool, device=device)
        self.terminated = torch.zeros(slots, worlds, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(slots, worlds, dtype=torch.bool, device=device)
        self.state = torch.zeros(slots, worlds, state_size, device=device)
        self.memory = torch.zeros(slots, worlds, agents, memory_size, device=device)
        self.finals = torch.zeros(worlds, agents, observation_size, device=device)
        self.final_states = torch.zeros(worlds, state_size, device=device)
        self.final_index = torch.full((slots, worlds), -1, dtype=torch.int64, device=device)
        self.priorities = Priorities(slots * worlds * agents, alpha, device) if alpha > 0.0 else None
        if self.priorities is not None:
            self.priority = self.priorities.leaves.view(slots, worlds, agents)
        self._slots = slots
        self.head = 0
        self._first_final = 0  # number of the oldest last observation that is still needed
        self._next_final = 0
        self._finals_of_slot = [0] * slots
        # An assignment to a part of an array costs a tenth of one to a part of a tensor.
        self._on_cpu = self.reward.device.type == "cpu"
        self._ring_names = (*_RINGS, "state") if state_size else _RINGS
        if memory_size:
            self._ring_names = (*self._ring_names, "memory")
        if self.priorities is not None:
            self._ring_names = (*self._ring_names, "priority")
        self._final_names = ("finals", "final_states") if state_size else ("finals",)
        self._rings = {name: self._writable(getattr(self, name)) for name in self._ring_names}

    def _writable(self, tensor: Tensor) -> Any:
        """The tensor, on a CPU as an array."""
        return tensor.numpy() if self._on_cpu else tensor

    def add(
        self,
        observation: Tensor,
        action: Tensor,
        reward: Tensor,
        next_observation: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        final_observation: Tensor | None = None,
        active: Tensor | None = None,
        next_active: Tensor | None = None,
        state: Tensor | None = None,
        next_state: Tensor | None = None,
        final_state: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> None:
        """Store one control step of all worlds, in place of the oldest one where the memory is full.

        Args:
            observation, next_observation: [N, A, O] before and after; the latter is what the next call's transition
                starts from, so of a new episode where one ended.
            action: [N, A, D].
            reward: [N, A].
            terminated, truncated: [N] bool; where both hold, `terminated` counts.
            final_observation: [N, A, O], read where an episode was truncated; None where none was.
            active, next_active: [N, A] bool, who takes part before and after; None for everyone.
            state, next_state, final_state: [N, S] of the environment, like the observations; needed where S is above 0.
            memory: [N, A, M] states of the memories before `observation`; needed where M is above 0.
        """
        head = self.head
        following = (head + 1) % self._slots
        if self.size == self.steps:  # `following` holds the oldest transition
            self._first_final += self._finals_of_slot[following]
        else:
            self.size += 1
        rings = self._rings
        cut = truncated & ~terminated
        rings["observation"][head] = self._writable(observation)
        rings["action"][head] = self._writable(action)
        rings["reward"][head] = self._writable(reward)
        rings["active"][head] = True if active is None else self._writable(active)
        rings["terminated"][head] = self._writable(terminated)
        rings["truncated"][head] = self._writable(cut)
        rings["observation"][following] = self._writable(next_observation)
        rings["active"][following] = True if next_active is None else self._writable(next_active)
        if state is not None and next_state is not None:
            rings["state"][head] = self._writable(state)
            rings["state"][following] = self._writable(next_state)
        if memory is not None:
            rings["memory"][head] = self._writable(memory)
        rings["final_index"][head] = -1
        self._finals_of_slot[head] = 0
        if final_observation is not None:
            self._add_finals(head, cut.nonzero().squeeze(1), final_observation, final_state)
        if self.priorities is not None:
            taking_part = self.active[head].flatten()
            self.priorities.begin(head * len(taking_part), taking_part)
            self.priorities.clear(following * len(taking_part), len(taking_part))
        self.head = following

    def latest(self, steps: int) -> tuple[Tensor, Tensor]:
        """Observations [K, N, A, O] and `active` [K, N, A] of the latest `steps` control steps, or of all where there are
        fewer."""
        slots = torch.arange(self.head - min(steps, self.size), self.head, device=self.reward.device) % self._slots
        return self.observation[slots], self.active[slots]

    def latest_states(self, steps: int) -> Tensor:
        """States [K N, S] of the latest `steps` control steps, or of all where there are fewer."""
        slots = torch.arange(self.head - min(steps, self.size), self.head, device=self.reward.device) % self._slots
        return self.state[slots].flatten(0, 1)

    def latest_rewards(self, steps: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rewards [K, N, A], ends of episodes [K, N] and `active` [K, N, A] of the latest `steps` control steps, or of all
        where there are fewer; oldest first."""
        slots = torch.arange(self.head - min(steps, self.size), self.head, device=self.reward.device) % self._slots
        return self.reward[slots], self.terminated[slots] | self.truncated[slots], self.active[slots]

    def sample(self, count: int, generator: torch.Generator, gamma: float, steps: int = 1) -> Transitions:
        """`count` transitions drawn from the latest T steps of all worlds and agents; see `draw` and `take`."""
        return self.take(self.place(self.draw(count, generator)), gamma, steps)

    def draw(self, count: int, generator: torch.Generator, steps: int = 1) -> Tensor:
        """Random numbers [count] from which `place` makes numbers of transitions: uniform draws of these, int64, or, with
        priorities, shares of their sum, float64 from 0 to below 1, since priorities change between the draw and its use.

        With `steps` above 1 each is the first of so many control steps in a row that are stored.
        """
        worlds, agents = self.reward.shape[1:]
        device = self.reward.device
        if self.priorities is not None:
            return torch.rand(count, generator=generator, dtype=torch.float64, device=device)
        starts = self.size - steps + 1
        number = torch.randint(starts * worlds * agents, (count,), generator=generator, device=device)
        oldest = (self.head - self.size) % self._slots
        return (number + oldest * worlds * agents) % (self._slots * worlds * agents)

    def place(self, drawn: Tensor) -> Tensor:
        """Numbers [B] of the transitions that `draw` gave, by the priorities of now."""
        return drawn if self.priorities is None else self.priorities.find(drawn)

    def take(self, number: Tensor, gamma: float, steps: int = 1) -> Transitions:
        """The transitions with these numbers, [B]: number ``(slot N + world) A + agent``.

        Args:
            gamma: discount per control step.
            steps: how many control steps in a row make one; fewer at the end of an episode and of what is stored.
        """
        worlds, agents = self.reward.shape[1:]
        return self._take(number // (worlds * agents), number // agents % worlds, number % agents, gamma, steps)

    def _take(self, slot: Tensor, world: Tensor, agent: Tensor, gamma: float, steps: int = 1) -> Transitions:
        """The transitions at these places, [B] each."""
        last = slot
        reward = torch.zeros_like(self.reward[slot, world, agent])
        discount = torch.ones_like(reward)
        goes_on = torch.ones_like(self.truncated[slot, world])
        for k in range(steps):
            last = torch.where(goes_on, (slot + k) % self._slots, last)
            reward += torch.where(goes_on, discount * self.reward[last, world, agent], 0.0)
            discount *= torch.where(goes_on, gamma, 1.0)
            following = (last + 1) % self._slots
            over = self.terminated[last, world] | self.truncated[last, world] | ~self.active[following, world, agent]
            goes_on = goes_on & ~over & (following != self.head)
        following = (last + 1) % self._slots
        number = self.final_index[last, world]
        final = self.finals[number.clamp(min=0) % len(self.finals), agent]
        cut = (number >= 0)[:, None]
        next_observation = torch.where(cut, final, self.observation[following, world, agent])
        final_state = self.final_states[number.clamp(min=0) % len(self.finals)]
        dropped_out = ~self.active[following, world, agent] & ~self.truncated[last, world]
        return Transitions(
            self.observation[slot, world, agent],
            self.action[slot, world, agent],
            reward,
            next_observation,
            discount,
            self.terminated[last, world] | dropped_out,
            self.active[slot, world, agent],
            self.state[slot, world],
            torch.where(cut, final_state, self.state[following, world]),
        )

    def _add_finals(self, slot: int, ids: Tensor, final_observation: Tensor, final_state: Tensor | None) -> None:
        """Keep the last observations of the worlds `ids`, whose episodes were truncated in `slot`."""
        count = len(ids)
        self._reserve_finals(self._next_final + count - self._first_final)
        number = torch.arange(self._next_final, self._next_final + count, device=ids.device)
        self.finals[number % len(self.finals)] = final_observation[ids]
        if final_state is not None:
            self.final_states[number % len(self.finals)] = final_state[ids]
        self.final_index[slot, ids] = number
        self._finals_of_slot[slot] = count
        self._next_final += count

    def _reserve_finals(self, needed: int) -> None:
        """Make `finals` large enough; those still needed keep their numbers."""
        if needed <= len(self.finals):
            return
        kept = torch.arange(self._first_final, self._next_final, device=self.finals.device)
        size = len(self.finals)
        for name in ("finals", "final_states"):
            old = getattr(self, name)
            larger = old.new_zeros(max(needed, 2 * size), *old.shape[1:])
            larger[kept % len(larger)] = old[kept % size]
            setattr(self, name, larger)

    def state_dict(self) -> dict[str, Tensor]:
        """The slots in use (the whole ring once it is full), the last observations still needed, and the counters."""
        used = self._slots if self.size == self.steps else self.size + 1
        numbers = torch.arange(self._first_final, self._next_final, device=self.finals.device)
        counters = [self.steps, self.head, self.size, self._first_final, self._next_final]
        return {
            **{name: getattr(self, name)[:used] for name in self._ring_names},
            **{name: getattr(self, name)[numbers % len(self.finals)] for name in self._final_names},
            **({} if self.priorities is None else {"largest_priority": self.priorities.largest}),
            "counters": torch.tensor(counters),
        }

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Compare a saved state with this memory.

        Raises:
            RookeryError: it is incomplete, or of another number of steps, worlds or agents, or of other sizes.
        """
        largest = () if self.priorities is None else ("largest_priority",)
        for name in (*self._ring_names, *self._final_names, *largest, "counters"):
            if name not in state:
                raise RookeryError(f"the saved replay memory lacks {name!r}: use the run's own settings.")
        for name in largest:
            if state[name].shape != () or state[name].dtype != torch.float64 or not state[name].isfinite():
                raise RookeryError("the saved replay memory has no largest priority: use an older checkpoint.")
        for name in (*self._ring_names, *self._final_names):
            own = getattr(self, name)
            saved = state[name]
            if saved.shape[1:] != own.shape[1:] or saved.dtype != own.dtype:
                raise RookeryError(
                    f"the saved replay memory has {name} {list(saved.shape)}, and this one {list(own.shape)}: use the "
                    "run's own settings."
                )
        counters = state["counters"]
        if counters.shape != (5,) or counters.dtype != torch.int64:
            raise RookeryError("the saved replay memory has other counters: use the version that it was made with.")
        steps, head, size, first, following = counters.tolist()
        if steps != self.steps:
            raise RookeryError(
                f"the saved replay memory holds {steps} control steps, and this one {self.steps}: use the run's own "
                "buffer_size."
            )
        used = self._slots if size == steps else size + 1
        finals = {len(state[name]) for name in self._final_names}
        whole = 0 <= size <= steps and 0 <= head < self._slots and finals == {following - first} and following >= first
        if not whole or any(len(state[name]) != used for name in self._ring_names):
            raise RookeryError("the saved replay memory contradicts its own counters: use an older checkpoint.")
        if largest and not (state["priority"].isfinite() & (state["priority"] >= 0.0)).all():
            raise RookeryError(
                "the saved replay memory has priorities below 0 or without end: use an older checkpoint."
            )

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state of a memory made with the same arguments.

        Raises:
            RookeryError: as `check_state`; nothing is changed then.
        """
        self.check_state(state)
        _, self.head, self.size, self._first_final, self._next_final = state["counters"].tolist()
        self.final_index.fill_(-1)
        if self.priorities is not None:
            self.priority.zero_()
        for name in self._ring_names:
            getattr(self, name)[: len(state[name])] = state[name]
        if self.priorities is not None:
            self.priorities.largest.copy_(state["largest_priority"])
            self.priorities.rebuild()
        self._reserve_finals(self._next_final - self._first_final)
        numbers = torch.arange(self._first_final, self._next_final, device=self.finals.device)
        for name in self._final_names:
            getattr(self, name)[numbers % len(self.finals)] = state[name].to(self.finals.device)
        self._finals_of_slot = (self.final_index >= 0).sum(1).tolist()


_RINGS = ("observation", "action", "reward", "active", "terminated", "truncated", "final_index")

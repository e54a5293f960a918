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

import math
from typing import Any

import torch
from torch import Tensor

from rookery.policies.storage.normalizers import discounts
from rookery.policies.storage.pixels import Pixels
from rookery.policies.storage.priorities import Priorities
from rookery.policies.storage.transitions import Transitions
from rookery.sim.errors import RookeryError

__all__ = ["FINALS", "Replay", "layout"]

FINALS = ("finals", "final_pixels", "final_states")
"""Tensors of last observations, which grow."""


def layout(
    steps: int, worlds: int, agents: int, observation_size: int, action_size: int, state_size: int = 0, memories: int = 0,
    pixels: Pixels | None = None,
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:  # fmt: skip
    """Shape and type of each tensor of a `Replay` before the first last observation, by name; see there."""
    each = (steps + 1, worlds, agents)
    taken = 0 if pixels is None else pixels.count
    numbers = observation_size - taken
    return {
        "observation": ((*each, numbers), torch.float32),
        "pixels": ((*each, taken), torch.uint8),
        "action": ((*each, action_size), torch.float32),
        "reward": (each, torch.float32),
        "active": (each, torch.bool),
        "left": (each, torch.bool),
        "elapsed": (each, torch.int16),
        "terminated": (each[:2], torch.bool),
        "truncated": (each[:2], torch.bool),
        "final_index": (each[:2], torch.int64),
        "state": ((*each[:2], state_size), torch.float32),
        "memory": ((*each, memories), torch.float32),
        "finals": ((*each[1:], numbers), torch.float32),
        "final_pixels": ((*each[1:], taken), torch.uint8),
        "final_states": ((worlds, state_size), torch.float32),
    }


class Replay:
    """Preallocated ring of transitions of one group.

    Args:
        steps: T, control steps of every world that are kept.
        worlds, agents, observation_size, action_size: N, A, O, D.
        device: where everything is stored.
        state_size: S, of the environment's state, which is kept where it is above 0.
        alpha: power of the priorities by which transitions are drawn, see `Priorities`; 0 draws uniformly.
        memories: M, numbers in the states of the memories of policy and critics, which are kept where it is above 0.
        codec: which P components of the observations are kept as bytes; None for none.

    Attributes:
        size: control steps stored, at most T.
        head: slot of the next transition; the newest one is before it.
        observation: [T + 1, N, A, O - P], without what is in `pixels`; see `observed`.
        pixels: [T + 1, N, A, P] uint8.
        action: [T + 1, N, A, D].
        reward: [T + 1, N, A].
        active: [T + 1, N, A] bool.
        left: [T + 1, N, A] bool, the agent took no part any more after the step: nothing follows.
        elapsed: [T + 1, N, A] int16, control steps that the step stood for, see `Env.step`.
        terminated, truncated: [T + 1, N] bool.
        state: [T + 1, N, S].
        memory: [T + 1, N, A, M], before the observation.
        finals: [F, A, O - P] last observations of truncated episodes, a ring that grows as needed.
        final_pixels, final_states: [F, A, P] and [F, S] likewise.
        final_index: [T + 1, N] int64, the running number of an episode's last observation, at ``number % F`` in
            `finals`; -1 where there is none.
        priorities: of all transitions, by the numbers of `take`; None where they are drawn uniformly.
        priority: [T + 1, N, A] view of them; 0 at slots without a transition and where the agent was not active.
    """

    observation: Tensor
    pixels: Tensor
    action: Tensor
    reward: Tensor
    active: Tensor
    left: Tensor
    elapsed: Tensor
    terminated: Tensor
    truncated: Tensor
    state: Tensor
    memory: Tensor
    finals: Tensor
    final_pixels: Tensor
    final_states: Tensor
    final_index: Tensor

    def __init__(
        self, steps: int, worlds: int, agents: int, observation_size: int, action_size: int, device: torch.device | str,
        state_size: int = 0, alpha: float = 0.0, memories: int = 0, codec: Pixels | None = None,
    ) -> None:  # fmt: skip
        slots = steps + 1
        self.steps = steps
        self.size = 0
        self.codec = codec
        parts = layout(steps, worlds, agents, observation_size, action_size, state_size, memories, codec)
        for name, (shape, dtype) in parts.items():
            setattr(self, name, torch.zeros(shape, dtype=dtype, device=device))
        self.active.fill_(True)
        self.final_index.fill_(-1)
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
        used = [name for name, (shape, _) in parts.items() if math.prod(shape)]
        self._final_names = [name for name in used if name in FINALS]
        self._ring_names = [name for name in used if name not in FINALS]
        if self.priorities is not None:
            self._ring_names.append("priority")
        self._rings = {name: self._writable(getattr(self, name)) for name in self._ring_names}

    def _writable(self, tensor: Tensor) -> Any:
        """The tensor, on a CPU as an array."""
        return tensor.numpy() if self._on_cpu else tensor

    def add(
        self, observation: Tensor, action: Tensor, reward: Tensor, next_observation: Tensor, terminated: Tensor,
        truncated: Tensor, final_observation: Tensor | None = None, active: Tensor | None = None,
        next_active: Tensor | None = None, state: Tensor | None = None, next_state: Tensor | None = None,
        final_state: Tensor | None = None, memory: Tensor | None = None, final_active: Tensor | None = None,
        elapsed: Tensor | None = None,
    ) -> None:  # fmt: skip
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
            final_active: [N, A] bool, who took part at the end of an episode, read where one was truncated; None for everyone.
            elapsed: [N, 1] or [N, A], control steps that the step stood for; None for 1.
        """
        head = self.head
        following = (head + 1) % self._slots
        if self.size == self.steps:  # `following` holds the oldest transition
            self._first_final += self._finals_of_slot[following]
        else:
            self.size += 1
        rings = self._rings
        cut = truncated & ~terminated
        self._put(head, observation)
        rings["action"][head] = self._writable(action)
        rings["reward"][head] = self._writable(reward)
        rings["active"][head] = True if active is None else self._writable(active)
        rings["terminated"][head] = self._writable(terminated)
        rings["truncated"][head] = self._writable(cut)
        self._put(following, next_observation)
        rings["elapsed"][head] = 1 if elapsed is None else self._writable(elapsed)
        rings["left"][head] = self._writable(_left(cut.unsqueeze(1), next_active, final_active))
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

    def _put(self, slot: int, observation: Tensor) -> None:
        if self.codec is not None:
            observation, pixels = self.codec.split(observation)
            self._rings["pixels"][slot] = self._writable(pixels)
        if observation.shape[-1]:
            self._rings["observation"][slot] = self._writable(observation)

    def observed(self, *places: Tensor) -> Tensor:
        """The observations [..., O] at some slots, or slots, worlds and agents."""
        numbers = self.observation[places]
        return numbers if self.codec is None else self.codec.join(numbers, self.pixels[places])

    def latest(self, steps: int) -> tuple[Tensor, Tensor]:
        """Observations [K, N, A, O] and `active` [K, N, A] of the latest `steps` control steps, or of all where there are
        fewer."""
        slots = torch.arange(self.head - min(steps, self.size), self.head, device=self.reward.device) % self._slots
        return self.observed(slots), self.active[slots]

    def latest_states(self, steps: int) -> Tensor:
        """States [K N, S] of the latest `steps` control steps, or of all where there are fewer."""
        slots = torch.arange(self.head - min(steps, self.size), self.head, device=self.reward.device) % self._slots
        return self.state[slots].flatten(0, 1)

    def latest_rewards(self, steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rewards [K, N, A], ends of episodes [K, N], `active` and `elapsed` [K, N, A] of the latest `steps` control steps, or
        of all where there are fewer; oldest first."""
        slots = torch.arange(self.head - min(steps, self.size), self.head, device=self.reward.device) % self._slots
        ended = self.terminated[slots] | self.truncated[slots]
        return self.reward[slots], ended, self.active[slots], self.elapsed[slots]

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
            steps: how many steps in a row make one; fewer at the end of an episode and of what is stored.
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
            discount *= torch.where(goes_on, discounts(gamma, self.elapsed[last, world, agent]), 1.0)
            following = (last + 1) % self._slots
            over = self.terminated[last, world] | self.truncated[last, world] | self.left[last, world, agent]
            goes_on = goes_on & ~over & (following != self.head)
        following = (last + 1) % self._slots
        number = self.final_index[last, world]
        place = number.clamp(min=0) % len(self.finals)
        final = self.finals[place, agent]
        if self.codec is not None:
            final = self.codec.join(final, self.final_pixels[place, agent])
        cut = (number >= 0)[:, None]
        next_observation = torch.where(cut, final, self.observed(following, world, agent))
        final_state = self.final_states[place]
        return Transitions(
            self.observed(slot, world, agent),
            self.action[slot, world, agent],
            reward,
            next_observation,
            discount,
            self.terminated[last, world] | self.left[last, world, agent],
            self.active[slot, world, agent],
            self.state[slot, world],
            torch.where(cut, final_state, self.state[following, world]),
        )

    def _add_finals(self, slot: int, ids: Tensor, final_observation: Tensor, final_state: Tensor | None) -> None:
        """Keep the last observations of the worlds `ids`, whose episodes were truncated in `slot`."""
        count = len(ids)
        self._reserve_finals(self._next_final + count - self._first_final)
        number = torch.arange(self._next_final, self._next_final + count, device=ids.device)
        last = final_observation[ids]
        if self.codec is not None:
            last, self.final_pixels[number % len(self.finals)] = self.codec.split(last)
        self.finals[number % len(self.finals)] = last
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
        for name in FINALS:
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


def _left(cut: Tensor, next_active: Tensor | None, final_active: Tensor | None) -> Tensor:
    """[N, A] or [N, 1] bool: agents that take no part after a step, in an episode that was `cut` off [N, 1] or goes on."""
    none = torch.zeros_like(cut)
    gone = none if next_active is None else ~next_active
    return torch.where(cut, none if final_active is None else ~final_active, gone)

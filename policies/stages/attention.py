"""Graph attention over neighbors: features that depend neither on their order nor on how many places there are for them.

Each neighbor sends a message that depends on it and on the agent; the agent weighs the messages by scores of theirs and takes
the mean (GATv2, Brody et al. 2022, arXiv 2105.14491, equation 7, with the messages as values and several heads side by side).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.chain import Beside, Link
from rookery.policies.stages.encodes import Encodes
from rookery.policies.stages.perceptron import Activation
from rookery.policies.stages.select import Select, Span
from rookery.policies.stages.stage import Tensors, Weight, check_sizes, fault
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.specs import Group

__all__ = ["Attention", "AttentionOptions"]


@dataclass(frozen=True)
class AttentionOptions:
    """Settings of the attention.

    Args:
        size: numbers of a message in each head.
        heads: sets of messages and scores, each with weights of its own.
    """

    size: int = 32
    heads: int = 2


@dataclass(frozen=True)
class Attention(Encodes):
    """Attention of an agent to its neighbors, and which share of the places is taken.

    Args:
        inputs: size of a row.
        own: parts of the row that are the agent's own.
        neighbors: K, places for neighbors in every part below.
        parts: of each term of neighbors its place in the row and the numbers of one neighbor, which stand side by side.
        present: place of K numbers that are above 0 where there is a neighbor.
        size, heads: see `AttentionOptions`.
        activation: of the messages.

    Raises:
        RookeryError: a size below 1, or a part outside of the row.
    """

    kind: ClassVar[str] = "attention"
    formula: ClassVar[str] = (
        "for neighbors j with present_j > 0: message_j = activation(weight_own own + bias + weight_neighbor part_j); share_j = "
        "softmax over j of score . message_j, head by head; the sum of share_j message_j, head by head, or 0 without a "
        "neighbor; then the number of neighbors / K"
    )
    depends: ClassVar[tuple[str, ...]] = ("neighbors", "present")
    encoder_name: ClassVar[str] = "attention"
    needs: ClassVar[str] = "neighbors"
    way_out: ClassVar[str] = "take a task of a swarm"
    Options: ClassVar[type] = AttentionOptions

    inputs: int
    own: tuple[Span, ...]
    neighbors: int
    parts: tuple[Span, ...]
    present: int
    size: int = 32
    heads: int = 2
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, neighbors=self.neighbors, size=self.size, heads=self.heads)
        if not self.parts or not self.own:
            raise RookeryError("attention needs a term of the agent itself and one of its neighbors.")
        for start, each in self.parts:
            check_sizes(self.kind, parts=each)
            self._check_place(start, start + each * self.neighbors)
        self._check_place(self.present, self.present + self.neighbors)
        for a, b in self.own:
            self._check_place(a, b)

    def _check_place(self, a: int, b: int) -> None:
        if not 0 <= a < b <= self.inputs:
            raise RookeryError(f"[{a}, {b}] is no part of a row of {self.inputs} numbers.")

    @property
    def outputs(self) -> int:
        return self.heads * self.size + 1

    @property
    def _own_size(self) -> int:
        return sum(b - a for a, b in self.own)

    @property
    def _part_size(self) -> int:
        return sum(each for _, each in self.parts)

    @property
    def words(self) -> str:
        of = f"{self.neighbors} neighbors of {self._part_size} numbers"
        return f"attention over {of} to {self.outputs} features, {self.activation}"

    def check(self, group: Group, line: str) -> None:
        wanted = _places(group)
        if (self.neighbors, self.parts, self.present) != wanted:
            shown = "no terms of neighbors" if wanted is None else f"neighbors, parts and present of {wanted}"
            raise fault(line, (self.neighbors, self.parts, self.present), f"made for {shown}, as the terms have them")

    def weights(self) -> dict[str, Weight]:
        wide = self.heads * self.size
        return {
            "weight_own": Weight((wide, self._own_size)),
            "bias": Weight((wide,)),
            "weight_neighbor": Weight((wide, self._part_size)),
            "score": Weight((self.heads, self.size)),
        }

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        import torch
        from torch.nn import functional

        k, heads, size = self.neighbors, self.heads, self.size
        own = torch.cat([x[:, a:b] for a, b in self.own], 1)
        parts = torch.cat([x[:, a : a + k * n].unflatten(1, (k, n)) for a, n in self.parts], 2)
        base = functional.linear(own, weights["weight_own"], weights["bias"])
        # Exported as one product with a bias, so that its weights keep their name.
        nothing = torch.zeros_like(weights["bias"])
        sent = functional.linear(parts.flatten(0, 1), weights["weight_neighbor"], nothing).view(-1, k, heads * size)
        message = getattr(functional, self.activation)(sent + base.unsqueeze(1)).unflatten(2, (heads, size))
        present = x[:, self.present : self.present + k]
        there = (present > 0.0).unsqueeze(2)
        score = (message * weights["score"]).sum(3).where(there, torch.full_like(message[..., 0], _NEVER))
        share = score.softmax(1) * there
        heard = (share.unsqueeze(3) * message).sum(1).flatten(1)
        # 0 times the presence: a NaN in it must not look like an absence.
        taken = (there.squeeze(2) + 0.0 * present).sum(1, keepdim=True) / k
        return torch.cat((heard, taken), 1)

    def pools(self) -> list[int]:
        """All neighbors have one mean and one standard deviation in common, number by number, so that their order counts
        nowhere."""
        pool = list(range(self.inputs))
        for start, each in self.parts:
            pool[start : start + each * self.neighbors] = [start + i for i in range(each)] * self.neighbors
        return pool

    def fixed(self) -> list[int]:
        return list(range(self.present, self.present + self.neighbors))

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("copy", "dense", f"activate_{self.activation}", "softmax")

    @property
    def scratch(self) -> int:
        wide = self.heads * self.size
        return self._own_size + self._part_size + wide * (self.neighbors + 1) + self.neighbors

    def code(self, name: str) -> str:
        k, heads, size = self.neighbors, self.heads, self.size
        wide = heads * size
        lines = "\n    ".join(_copies("own", [(str(a), b - a) for a, b in self.own]))
        each = "\n            ".join(_copies("part", [(f"{a} + (j * {n})", n) for a, n in self.parts]))
        return f"""
static void {name}(const float in[{self.inputs}], float out[{self.outputs}])
{{
    float own[{self._own_size}];
    float part[{self._part_size}];
    float base[{wide}];
    float message[{k * wide}];
    float share[{k}];
    float taken = 0.0f;
    int count = 0;
    int h;
    int i;
    int j;

    {lines}
    dense({name}_weight_own, {name}_bias, own, base, {self._own_size}, {wide});
    for (j = 0; j < {k}; j++) {{
        taken += 0.0f * in[{self.present} + j]; /* a NaN goes on */
        if (in[{self.present} + j] > 0.0f) {{
            {each}
            dense({name}_weight_neighbor, base, part, &message[count * {wide}], {self._part_size}, {wide});
            activate_{self.activation}(&message[count * {wide}], {wide});
            taken += 1.0f;
            count++;
        }}
    }}
    for (h = 0; h < {heads}; h++) {{
        for (j = 0; j < count; j++) {{
            share[j] = 0.0f;
            for (i = 0; i < {size}; i++) {{
                share[j] += {name}_score[(h * {size}) + i] * message[(j * {wide}) + (h * {size}) + i];
            }}
        }}
        if (count > 0) {{
            softmax(share, count);
        }}
        for (i = 0; i < {size}; i++) {{
            float sum = 0.0f;

            for (j = 0; j < count; j++) {{
                sum += share[j] * message[(j * {wide}) + (h * {size}) + i];
            }}
            out[(h * {size}) + i] = sum;
        }}
    }}
    out[{wide}] = taken / {k}.0f;
}}"""

    @classmethod
    def encoder(cls, group: Group, frames: int, activation: Activation, options: AttentionOptions) -> list[Link]:
        """The agent's own numbers, in all frames, and beside them what it hears of the neighbors in the newest."""
        places = _places(group)
        if places is None:
            return []
        neighbors, parts, present = places
        size = group.frame_size
        newest = (frames - 1) * size
        taken = [(a, a + n * neighbors) for a, n in parts]
        own = _rest(size, [*taken, (present, present + neighbors)])
        every = tuple((k * size + a, k * size + b) for k in range(frames) for a, b in own)
        stage = cls(size, tuple(own), neighbors, parts, present, options.size, options.heads, activation)
        last: tuple[Link, ...] = (stage,) if newest == 0 else (Select(newest + size, ((newest, newest + size),)), stage)
        return [Beside(((Select(newest + size, every),), last))]


def _copies(target: str, parts: list[tuple[str, int]]) -> list[str]:
    """C statements that bring parts of the row, each from a place and so long, one after the other into an array."""
    out = []
    at = 0
    for place, size in parts:
        out.append(f"copy(&in[{place}], &{target}[{at}], {size});")
        at += size
    return out


_NEVER = -1e9
"""Score of who is not there: its share is 0, and nothing is infinite."""


def _places(group: Group) -> tuple[int, tuple[Span, ...], int] | None:
    """Neighbors, parts and presence in a frame of a group's terms; None without neighbors.

    Raises:
        RookeryError: terms of different numbers of neighbors, or none that says which are present.
    """
    start = 0
    parts: list[Span] = []
    present: list[Span] = []
    counts: set[int] = set()
    for term in group.observation:
        if term.neighbors:
            counts.add(term.neighbors)
            (present if term.present else parts).append((start, term.size // term.neighbors))
        start += term.size
    if not counts:
        return None
    if len(counts) > 1 or len(present) != 1 or not parts:
        raise RookeryError(
            "attention needs terms of as many neighbors each, one of which says who is present, and these are of "
            f"{sorted(counts)} neighbors, {len(present)} of them saying so: give encoder=none."
        )
    return counts.pop(), tuple(parts), present[0][0]


def _rest(size: int, taken: list[Span]) -> list[Span]:
    """The rest of a frame."""
    ends = [0, *(b for _, b in sorted(taken))]
    starts = [*(a for a, _ in sorted(taken)), size]
    return [(a, b) for a, b in zip(ends, starts, strict=True) if a < b]

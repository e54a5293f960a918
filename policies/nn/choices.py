"""Categorical heads: what a policy that chooses among options computes from its logits.

K choices among n_1, ..., n_K options are independent given the observation; their logits stand side by side, C = sum of n_k
numbers. Options that are not allowed now have probability 0 (Huang and Ontanon 2020, "A Closer Look at Invalid Action Masking
in Policy Gradient Algorithms", arXiv 2006.14171): their logits have no part in anything, nor a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec

__all__ = ["Choices", "draw_gumbel"]


class Choices:
    """The choices of an action, see `ActionSpec`.

    Args:
        spec: with at least one choice.

    Attributes:
        count: K.
        options: C.
        read_by: see `ActionSpec`, with C for what is read whatever is chosen; None where all numbers are.
    """

    def __init__(self, spec: ActionSpec) -> None:
        self.spec = spec
        self.count = len(spec.choices)
        self.options = spec.options
        self._sizes = [len(c.options) for c in spec.choices]
        self.read_by: Tensor | None = None
        if any(option >= 0 for option in spec.read_by):
            self.read_by = torch.tensor([self.options if option < 0 else option for option in spec.read_by])

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        """[..., C] as one [..., n_k] for each choice."""
        parts: tuple[Tensor, ...] = (x,) if self.count == 1 else x.split(self._sizes, -1)
        return parts

    def check(self, allowed: Tensor, active: Tensor | None, group: str) -> None:
        """Refuse a mask [N, A, C] that leaves an agent which takes part without an option.

        Raises:
            RookeryError: which choice, and in which world.
        """
        for choice, part in zip(self.spec.choices, self._split(allowed), strict=True):
            stuck = ~part.any(-1)
            if active is not None:
                stuck = stuck & active
            if stuck.any():
                raise RookeryError(
                    f"no option of {choice.name!r} is allowed to group {group!r} in world {int(stuck.nonzero()[0, 0])}: "
                    "action_mask must allow at least one."
                )

    def log_probs(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Log-probabilities [..., C], minus infinity where an option is not allowed. Where a choice has no allowed option
        at all, as of an agent that takes no part, all are."""
        if allowed is not None:
            logits = logits.masked_fill(~self.opened(allowed), -torch.inf)
        return _joined([part.log_softmax(-1) for part in self._split(logits)])

    def opened(self, allowed: Tensor) -> Tensor:
        """A mask [..., C] with all options of a choice that has none, as of an agent that takes no part."""
        return _joined([part | ~part.any(-1, keepdim=True) for part in self._split(allowed)])

    def sample(self, log_probs: Tensor, gumbel: Tensor) -> Tensor:
        """Indices [..., K] drawn with standard Gumbel noise [..., C]."""
        return torch.stack([part.argmax(-1) for part in self._split(log_probs + gumbel)], -1).float()

    def log_prob(self, log_probs: Tensor, chosen: Tensor) -> Tensor:
        """Log-probability [...] of indices [..., K]."""
        parts = zip(self._split(log_probs), chosen.long().unbind(-1), strict=True)
        return torch.stack([part.gather(-1, index.unsqueeze(-1)).squeeze(-1) for part, index in parts]).sum(0)

    def reading(self, chosen: Tensor) -> Tensor | None:
        """[..., D_c] 1 where the options chosen [..., K] read a continuous component, else 0; None where they read all."""
        if self.read_by is None:
            return None
        parts = zip(chosen.long().unbind(-1), self._sizes, strict=True)
        return _of_numbers(_joined([one_hot(index, size) for index, size in parts]).float(), self.read_by)

    def read_probability(self, log_probs: Tensor) -> Tensor | None:
        """[..., D_c] probabilities that a continuous component is read; None where all are."""
        if self.read_by is None:
            return None
        return _of_numbers(log_probs.exp(), self.read_by)

    def entropy(self, log_probs: Tensor) -> Tensor:
        """Entropy of the choices together, nats [...]."""
        return -_times(log_probs.exp(), log_probs).sum(-1)

    def divergence(self, old: Tensor, new: Tensor) -> Tensor:
        """Kullback-Leibler divergence [...] of new log-probabilities from old ones [..., C], exact."""
        return _times(old.exp(), torch.where(old == -torch.inf, 0.0, old - new)).sum(-1)

    def log_prob_gradient(self, log_probs: Tensor, chosen: Tensor) -> Tensor:
        """d log-probability of `chosen` / d logits, [..., C]: 1 at the chosen options, less all probabilities."""
        out = -log_probs.exp()
        for part, index in zip(self._split(out), chosen.long().unbind(-1), strict=True):
            part.scatter_add_(-1, index.unsqueeze(-1), torch.ones_like(part[..., :1]))
        return out

    def entropy_gradient(self, log_probs: Tensor) -> Tensor:
        """d entropy / d logits, [..., C]: ``-p (log p + entropy)`` of each choice."""
        out = []
        for part in self._split(log_probs):
            p = part.exp()
            own = -_times(p, part).sum(-1, keepdim=True)
            out.append(-_times(p, part + own))
        return torch.cat(out, -1)


def _joined(parts: list[Tensor]) -> Tensor:
    """The other way round than `Choices._split`."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _of_numbers(options: Tensor, read_by: Tensor) -> Tensor:
    """[..., D_c] the value of each continuous component's option, of [..., C]; 1 for what is read whatever is chosen."""
    return pad(options, (0, 1), value=1.0)[..., read_by]


def _times(p: Tensor, x: Tensor) -> Tensor:
    """p x, and 0 where p is 0."""
    return torch.where(p > 0.0, p * x, 0.0)


def draw_gumbel(out: Tensor, generator: torch.Generator) -> Tensor:
    """Fill a tensor with standard Gumbel noise."""
    return out.exponential_(generator=generator).clamp_min_(1e-30).log_().neg_()

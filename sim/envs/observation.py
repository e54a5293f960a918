"""From a task's raw terms to the tensor that a policy sees, by the group's declaration (see specs.Term, specs.Group).

With a history of H = 3 frames, x_t being what an agent without history would get at step t of an episode (noise and
delay included), it sees

    step          0           1           2           3
    observation   x0 x0 x0    x0 x0 x1    x0 x1 x2    x1 x2 x3      # the newest frame last
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.envs.delays import ObservationDelay
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.specs import Group, ObservationSet, Term


class ObservationPipeline(Buffers):
    """Noise, bias, scale, clip, delay and history of one group.

    Args:
        group: the declaration.
        num_envs: N.
        control_dt: s.
        rng: the worlds' random streams.

    Attributes:
        noise: [N] factor on every term's declared noise; 0 is a perfect sensor.
        bias: [N] factor on every term's declared bias.
    """

    noise: Tensor
    bias: Tensor
    offset: Tensor
    frames: Tensor

    def __init__(self, group: Group, num_envs: int, control_dt: float, rng: Streams) -> None:
        super().__init__()
        self.terms = group.observation
        self._names = frozenset(t.name for t in group.observation)
        self.rng = rng
        size = group.frame_size
        self._scale = torch.tensor([0.0 if t.hidden else float(t.scale) for t in self.terms for _ in range(t.size)])
        self._noise, self._bias = self._column("noise"), self._column("bias")
        self._clip = self._column("clip")
        self._scaled = bool((self._scale != 1).any())
        self._clipped = bool(torch.isfinite(self._clip).any())
        self.buffer("noise", num_envs)
        self.buffer("bias", num_envs)
        self.buffer("offset", num_envs, group.count, size)
        self.delay = ObservationDelay(num_envs, group.count, size, control_dt, self._column("delay"))
        self.child("delay", self.delay)
        self.history = group.history
        if self.history > 1:
            self.buffer("frames", num_envs, group.count, self.history, size)
        self._noisy = self._biased = False
        self._shape = (num_envs, group.count)

    def _column(self, field: str) -> Tensor:
        return torch.tensor([float(getattr(t, field)) for t in self.terms for _ in range(t.size)])

    @property
    def draws(self) -> bool:
        """Whether noise or bias is on in any world."""
        return self._noisy or self._biased

    def refresh(self) -> None:
        """To be called after `noise` or `bias` was written."""
        self._noisy = bool((self.noise > 0).any())
        self._biased = bool((self.bias > 0).any())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.refresh()

    def clean(self, terms: dict[str, Tensor]) -> Tensor:
        """[N, A, F] scaled and clipped, without noise, bias, delay and history: a term of the default central state."""
        return self._finish(self._join(terms))

    def push(self, terms: dict[str, Tensor]) -> Tensor:
        """[N, A, O] as the agents get it after a control step."""
        x = self._join(terms)
        if self._noisy:
            x.addcmul_(self.rng(None).normal(tuple(x.shape[1:])), self.noise[:, None, None] * self._noise)
        if self._biased:
            x += self.offset
        x = self.delay.push(self._finish(x))
        if self.history == 1:
            return x
        stacked = torch.cat((self.frames[:, :, 1:], x.unsqueeze(2)), dim=2)
        self.frames.copy_(stacked)
        return stacked.flatten(2)

    def restart(self, ids: Tensor, terms: dict[str, Tensor]) -> Tensor:
        """[n, A, O] for the first observation of new episodes in the worlds `ids`, with a new bias."""
        x = self._join(terms)[ids]
        if self._biased:
            draw = self.rng(ids).uniform(-1.0, 1.0, tuple(x.shape[1:]))
            self.offset[ids] = draw * self.bias[ids, None, None] * self._bias
            x += self.offset[ids]
        if self._noisy:
            x += self.rng(ids).normal(tuple(x.shape[1:])) * self.noise[ids, None, None] * self._noise
        x = self.delay.restart(ids, self._finish(x))
        if self.history > 1:
            self.frames[ids] = x.unsqueeze(2)
            x = x.repeat(1, 1, self.history)
        return x

    def _join(self, terms: dict[str, Tensor]) -> Tensor:
        _check_names(terms, self._names, "observes")
        return _joined(terms, self.terms)

    def _finish(self, x: Tensor) -> Tensor:
        if self._scaled:
            x *= self._scale
        if self._clipped:
            torch.clamp(x, -self._clip, self._clip, out=x)
        return x


class CleanPipeline(Buffers):
    """Scale, clip and history of one further observation set of a group, free of noise, bias and delay.

    Args:
        declared: the set.
        num_envs: N.
        count: A.
    """

    frames: Tensor

    def __init__(self, declared: ObservationSet, num_envs: int, count: int) -> None:
        super().__init__()
        self.terms = declared.terms
        self.history = declared.history
        if self.history > 1:
            self.buffer("frames", num_envs, count, self.history, declared.frame_size)

    def push(self, terms: dict[str, Tensor]) -> None:
        """Take raw terms [N, A, d] after a control step."""
        if self.history > 1:
            self.frames.copy_(torch.cat((self.frames[:, :, 1:], self._frame(terms).unsqueeze(2)), dim=2))

    def restart(self, ids: Tensor, terms: dict[str, Tensor]) -> None:
        """Take the first raw terms of new episodes in the worlds `ids`."""
        if self.history > 1:
            self.frames[ids] = self._frame(terms)[ids].unsqueeze(2)

    def read(self, terms: dict[str, Tensor]) -> Tensor:
        """[N, A, O] now, of the raw terms that were pushed last. A new tensor."""
        return self.frames.flatten(2) if self.history > 1 else self._frame(terms)

    def _frame(self, terms: dict[str, Tensor]) -> Tensor:
        parts = [(terms[t.name] * (0.0 if t.hidden else t.scale)).clamp(-t.clip, t.clip) for t in self.terms]
        return torch.cat(parts, dim=-1)


def target_values(terms: dict[str, Tensor], declared: tuple[Term, ...]) -> Tensor:
    """[N, A, M] true values of a group's targets, scaled and clipped; `terms` may have others too."""
    if not {t.name for t in declared} <= terms.keys():
        raise RookeryError(f"the task has targets {sorted(terms)} but declares {sorted(t.name for t in declared)}.")
    x = _joined(terms, declared)
    start = 0
    for t in declared:
        x[..., start : start + t.size].mul_(t.scale).clamp_(-t.clip, t.clip)
        start += t.size
    return x


def _check_names(terms: dict[str, Tensor], declared: frozenset[str], does: str) -> None:
    if terms.keys() != declared:
        raise RookeryError(f"the task {does} {sorted(terms)} but declares {sorted(declared)}.")


def _joined(terms: dict[str, Tensor], declared: tuple[Term, ...]) -> Tensor:
    return torch.cat([terms[t.name] for t in declared], dim=-1)


def check_terms(
    task: str, terms: dict[str, Tensor], declared: tuple[Term, ...], shape: tuple[int, int], what: str = "observation"
) -> None:
    """Refuse observations or targets that do not fit their declaration (called once, when an environment is made)."""
    giver = "observe()" if what == "observation" else "observe_privileged()"
    for t in declared:
        if t.name not in terms:
            raise RookeryError(f"task {task!r} declares the {what} {t.name!r} but {giver} does not give it.")
        if tuple(terms[t.name].shape) != (*shape, t.size):
            raise RookeryError(
                f"task {task!r}: {what} {t.name!r} is {tuple(terms[t.name].shape)}, declared {(*shape, t.size)}."
            )

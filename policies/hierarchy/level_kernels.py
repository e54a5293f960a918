"""Decisions put in force, observations taken, and commands to skills, compiled: the torch forms are `Level.take`, `Level.see`
and `CommandStage`."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.stages.chain import Leaf
from rookery.policies.stages.command import CommandPart, CommandStage
from rookery.policies.stages.decide import Switch
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.torch_chain import ChainModule
from rookery.policies.storage.normalizer_kernels import limited
from rookery.sim.random_kernels import kernel

__all__ = ["CompiledCommands", "see", "take"]

_NONE = np.empty(0, np.float32)


@kernel
def take(due, action, sizes, steps, first, rows, left):
    """Put the decisions that are due in force, and count a control step.

    Args:
        due: [R] bool.
        action: [R, C] decisions, first the skills of all agents; read where they are due.
        sizes: [K] numbers of options of the choices; [0] where there is one skill.
        steps: [n] most control steps that each skill acts for.
        first: place of the decision in a row.
        rows: [R, O + C] observation and decision in force, of which this writes the decision.
        left: [R] control steps that the skills may still act for.

    Returns:
        a row whose decision is not finite or no option, for which nothing was written; -1 for none.
    """
    count, size = action.shape
    chosen = len(sizes)
    for r in range(count):
        if due[r]:
            for j in range(size):
                if not abs(action[r, j]) < np.inf:
                    return r
            for k in range(chosen):
                index = action[r, k]
                if index != np.floor(index) or index < 0 or index >= sizes[k]:
                    return r
    for r in range(count):
        if due[r]:
            least = steps[0] if chosen == 0 else steps[int(action[r, 0])]
            for k in range(1, chosen):
                least = min(least, steps[int(action[r, k])])
            left[r] = least
            for j in range(size):
                x = action[r, j]
                if j >= chosen:
                    x = min(max(x, np.float32(-1.0)), np.float32(1.0))
                rows[r, first + j] = x
        left[r] -= np.float32(1.0)
    return -1


@kernel
def see(obs, ended, rows, left, due):
    """Take observations after a step, and say whose time is over.

    Args:
        obs: [N, A, O].
        ended: [N] bool, worlds that begin anew.
        rows: [N A, O + D] observation and decision, of which this writes the observation.
        left: [N, A] control steps that the skills may still act for; 0 in worlds that begin anew.
        due: [N, A], gets where none are left.
    """
    for i in range(left.shape[0]):
        for a in range(left.shape[1]):
            row = rows[i * left.shape[1] + a]
            for j in range(obs.shape[2]):
                row[j] = obs[i, a, j]
            if ended[i]:
                left[i, a] = 0.0
            due[i, a] = left[i, a] <= 0.0


class CommandTable(NamedTuple):
    """Parts of the observations of n skills, number by number, see `CommandPart`.

    Args:
        start: [n, out] place of the row's number that is the beginning, -1 where that is 0.
        first: [n] place of the first where they stand side by side in the row, else -1.
        changes: [n] how many numbers are more than their beginning; K at most.
        changed: [n, K] which they are, in their order.
        by, gain: [n, K] of those, the row's number that is added and by how much; -1 for none.
        moved, offset: [n, K] whether there is an offset, and which.
        clip: [n, K] limit, infinity for none.
    """

    start: NDArray[np.int64]
    first: NDArray[np.int64]
    changes: NDArray[np.int64]
    changed: NDArray[np.int64]
    by: NDArray[np.int64]
    gain: NDArray[np.float32]
    moved: NDArray[np.bool_]
    offset: NDArray[np.float32]
    clip: NDArray[np.float32]


@kernel
def command(rows, place, numbers, of, at, mean, std, limit, out):
    """Observations [R, out] of the skills, of rows [R, in] of observation and decision, normalized where the skills do so.

    Args:
        rows: see above.
        place: of the number in a row that says which skill it is; -1 where there is one.
        numbers: [m] those that there are, float32.
        of: [m] the skill of each, a row of `at`.
        at: `CommandTable`.
        mean, std: [out] of the normalizer; [0] without.
        limit: its limit.
        out: written; NaN where a row has another number.
    """
    start, first, changes, changed, added, gain, moved, offset, clip = at
    size = out.shape[1]
    for r in range(len(rows)):  # whole indices: a view of each row would take as long as the rest
        n = 0
        if place >= 0:
            n = -1
            for m in range(len(numbers)):
                if rows[r, place] == numbers[m]:
                    n = of[m]
            if n < 0:
                out[r] = np.nan
                continue
        begin = first[n]
        if begin >= 0:
            for i in range(size):  # a plain copy, which is a few vectors
                out[r, i] = rows[r, begin + i]
        else:
            for i in range(size):
                out[r, i] = rows[r, start[n, i]] if start[n, i] >= 0 else np.float32(0.0)
        for k in range(changes[n]):
            i = changed[n, k]
            x = out[r, i]
            if moved[n, k]:
                x += offset[n, k]
            by = added[n, k]
            if by >= 0:
                x += gain[n, k] * rows[r, by]
            out[r, i] = limited(x, clip[n, k])
    if len(mean):
        for r in range(len(out)):
            for i in range(size):
                out[r, i] = limited((out[r, i] - mean[i]) / std[i], limit)


def _table(stages: list[CommandStage]) -> CommandTable:
    more = [[part.by >= 0 or bool(part.offset) or part.clip is not None for part in stage.parts] for stage in stages]
    most = max(
        sum(part.size for part, m in zip(s.parts, kept, strict=True) if m) for s, kept in zip(stages, more, strict=True)
    )
    shape, of_changed = (len(stages), stages[0].outputs), (len(stages), most)
    at = CommandTable(
        np.full(shape, -1), np.full(shape[0], -1), np.zeros(shape[0], np.int64), np.zeros(of_changed, np.int64),
        np.full(of_changed, -1), np.zeros(of_changed, np.float32), np.zeros(of_changed, np.bool_),
        np.zeros(of_changed, np.float32), np.full(of_changed, np.inf, np.float32),
    )  # fmt: skip
    for n, stage in enumerate(stages):
        i = 0
        for part, changed in zip(stage.parts, more[n], strict=True):
            for j in range(part.size):
                if part.kept:
                    at.start[n, i] = part.start + j
                if changed:
                    _put(at, n, i, part, j)
                i += 1
        if at.start[n, 0] >= 0 and (np.diff(at.start[n]) == 1).all():
            at.first[n] = at.start[n, 0]
    return at


def _put(at: CommandTable, n: int, i: int, part: CommandPart, j: int) -> None:
    """Write what changes number `i` of skill `n`, the part's number `j`."""
    k = at.changes[n]
    at.changes[n] += 1
    at.changed[n, k] = i
    if part.by >= 0:
        at.by[n, k] = part.by + j
        at.gain[n, k] = part.gain[j]
    if part.offset:
        at.moved[n, k] = True
        at.offset[n, k] = part.offset[j]
    if part.clip is not None:
        at.clip[n, k] = part.clip


class CompiledCommands:
    """The beginning of a policy as one call with the same bits: a `CommandStage`, or a `Switch` among some, and the normalizer
    that stands behind it.

    Args:
        policy: it begins with them.
        stages: those stages.
        numbers: by stage those of its cases; none where there is one for all.
        place: of the number in a row.

    Attributes:
        links: how many of the policy's links they are.
    """

    def __init__(
        self, policy: ChainModule, stages: list[CommandStage], numbers: list[tuple[int, ...]], place: int
    ) -> None:
        self._at = _table(stages)
        self._place = place
        self._numbers = np.array([k for case in numbers for k in case], np.float32)
        self._of = np.array([n for n, case in enumerate(numbers) for _ in case], np.int64)
        nodes = policy.chain.nodes
        node = nodes[1] if len(nodes) > 1 else None
        self.links = 1
        self._norm = (_NONE, _NONE, np.float32(np.inf))
        if isinstance(node, Leaf) and isinstance(node.stage, Normalize):
            part = policy.part(node.name)
            # statistics that a skill learns are written into these very buffers
            self._norm = (part.get_buffer("mean").numpy(), part.get_buffer("std").numpy(), np.float32(node.stage.clip))
            self.links = 2
        self._last = len(nodes) == self.links
        self._put_buffer(0)

    @classmethod
    def of(cls, policy: ChainModule) -> CompiledCommands | None:
        """The compiled form of a policy's beginning; None where that is another."""
        link = policy.chain.links[0]
        if isinstance(link, CommandStage):
            return cls(policy, [link], [], -1)
        if not isinstance(link, Switch):
            return None
        stages = [branch[0] for branch in link.branches if len(branch) == 1 and isinstance(branch[0], CommandStage)]
        return cls(policy, stages, list(link.cases), link.place) if len(stages) == len(link.branches) else None

    def _put_buffer(self, rows: int) -> None:
        self._out = torch.empty(rows, self._at.start.shape[1])
        self._array = self._out.numpy()

    def __call__(self, rows: Tensor) -> Tensor:
        """Inputs [R, out] of the policy's other links, for rows [R, in], contiguous float32 of the processor. Where there are
        others, the next call writes over it."""
        if self._last or len(self._out) != len(rows):
            self._put_buffer(len(rows))
        command(rows.numpy(), self._place, self._numbers, self._of, self._at, *self._norm, self._array)
        return self._out

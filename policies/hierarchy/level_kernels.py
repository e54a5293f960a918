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

from rookery.policies.stages.chain import Link
from rookery.policies.stages.command import CommandStage
from rookery.policies.stages.decide import Switch
from rookery.sim.random_kernels import kernel

__all__ = ["CompiledCommands", "see", "take"]


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
    """Parts of the observations of n skills, number by number [n, out], see `CommandPart`; none: `by` -1, `clip` infinity.

    Args:
        start: place of the row's number that is the beginning, -1 where that is 0.
        first: [n] place of the first where they stand side by side in the row, else -1.
        changed, changes: which numbers are more than their beginning, side by side, and how many they are [n].
        moved: whether there is an offset.
    """

    start: NDArray[np.int64]
    first: NDArray[np.int64]
    changed: NDArray[np.int64]
    changes: NDArray[np.int64]
    by: NDArray[np.int64]
    gain: NDArray[np.float32]
    moved: NDArray[np.bool_]
    offset: NDArray[np.float32]
    clip: NDArray[np.float32]


@kernel
def command(rows, place, numbers, of, at, out):
    """Observations [R, out] of the skills, of rows [R, in] of observation and decision.

    Args:
        rows: see above.
        place: of the number in a row that says which skill it is; -1 where there is one.
        numbers: [m] those that there are, float32.
        of: [m] the skill of each, a row of `at`.
        at: `CommandTable`.
        out: written; NaN where a row has another number.
    """
    for r in range(len(rows)):
        n = 0
        if place >= 0:
            n = -1
            for m in range(len(numbers)):
                if rows[r, place] == numbers[m]:
                    n = of[m]
            if n < 0:
                out[r] = np.nan
                continue
        first = at.first[n]
        if first >= 0:
            for i in range(out.shape[1]):  # a plain copy, which is a few vectors
                out[r, i] = rows[r, first + i]
        else:
            for i in range(out.shape[1]):
                start = at.start[n, i]
                out[r, i] = rows[r, start] if start >= 0 else np.float32(0.0)
        for k in range(at.changes[n]):
            i = at.changed[n, k]
            x = out[r, i]
            if at.moved[n, i]:
                x += at.offset[n, i]
            by = at.by[n, i]
            if by >= 0:
                x += at.gain[n, i] * rows[r, by]
            clip = at.clip[n, i]
            if x < -clip:  # not min and max: NaN stays
                x = -clip
            elif x > clip:
                x = clip
            out[r, i] = x


def _table(stages: list[CommandStage]) -> CommandTable:
    shape = len(stages), stages[0].outputs
    at = CommandTable(
        np.full(shape, -1), np.full(shape[0], -1), np.zeros(shape, np.int64), np.zeros(shape[0], np.int64), np.full(shape, -1),
        np.zeros(shape, np.float32), np.zeros(shape, np.bool_), np.zeros(shape, np.float32),
        np.full(shape, np.inf, np.float32),
    )  # fmt: skip
    for n, stage in enumerate(stages):
        i = 0
        for part in stage.parts:
            for k in range(part.size):
                if part.kept:
                    at.start[n, i] = part.start + k
                if part.by >= 0 or part.offset or part.clip is not None:
                    at.changed[n, at.changes[n]] = i
                    at.changes[n] += 1
                if part.by >= 0:
                    at.by[n, i] = part.by + k
                    at.gain[n, i] = part.gain[k]
                if part.offset:
                    at.moved[n, i] = True
                    at.offset[n, i] = part.offset[k]
                if part.clip is not None:
                    at.clip[n, i] = part.clip
                i += 1
        if at.start[n, 0] >= 0 and (np.diff(at.start[n]) == 1).all():
            at.first[n] = at.start[n, 0]
    return at


class CompiledCommands:
    """A `CommandStage`, or a `Switch` among some, as one call with the same bits.

    Args:
        stages: those stages.
        numbers: by stage those of its cases; none where there is one for all.
        place: of the number in a row.
    """

    def __init__(self, stages: list[CommandStage], numbers: list[tuple[int, ...]], place: int) -> None:
        self._at = _table(stages)
        self._place = place
        self._numbers = np.array([k for case in numbers for k in case], np.float32)
        self._of = np.array([n for n, case in enumerate(numbers) for _ in case], np.int64)

    @classmethod
    def of(cls, link: Link) -> CompiledCommands | None:
        """The compiled form of such a link; None of any other."""
        if isinstance(link, CommandStage):
            return cls([link], [], -1)
        if not isinstance(link, Switch):
            return None
        stages = [branch[0] for branch in link.branches if len(branch) == 1 and isinstance(branch[0], CommandStage)]
        return cls(stages, list(link.cases), link.place) if len(stages) == len(link.branches) else None

    def __call__(self, rows: Tensor) -> Tensor:
        """Observations [R, out] of the skills for rows [R, in], contiguous float32 of the processor."""
        out = torch.empty(len(rows), self._at.start.shape[1])
        command(rows.numpy(), self._place, self._numbers, self._of, self._at, out.numpy())
        return out

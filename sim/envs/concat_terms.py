"""The raw observation and reward terms of a ConcatEnv: those of its parts, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.sim.env import TermRecorder

if TYPE_CHECKING:
    from rookery.sim.envs.concat_env import ConcatEnv

Terms = dict[str, dict[str, Tensor]]
"""By group and name, each [N, A, ...]."""


class ConcatTerms:
    """Gathers what the parts of an environment record, and hands it on once all of them have stepped.

    Args:
        env: whose parts there are; nothing is recorded before `listen`.
    """

    def __init__(self, env: ConcatEnv) -> None:
        self._env = env
        self._record: TermRecorder | None = None
        self._more: dict[str, Tensor] = {}
        self._given: dict[str, dict[str, Terms]] = {}

    def listen(self, record: TermRecorder | None, more: Mapping[str, Tensor]) -> None:
        """As `Env.record_terms`.

        Args:
            record: takes the terms; None ends it.
            more: observation terms [N, d] that the parts do not have, the same for all agents.
        """
        self._record = record
        self._more = dict(more)
        self._given = {}
        for name, part in self._env.parts.items():
            part.record_terms(None if record is None else partial(self._take, name))

    def _take(self, part: str, kind: str, terms: Terms) -> None:
        copied = {g: {name: x.clone() for name, x in named.items()} for g, named in terms.items()}
        self._given.setdefault(kind, {})[part] = copied

    def hand_on(self) -> None:
        """To be called when all parts have been stepped or reset."""
        if self._record is None:
            return
        for kind, given in self._given.items():
            terms = {g: self._joined([given[part][g] for part in self._env.parts]) for g in self._env.groups}
            if kind == "observation":
                for g, group in self._env.groups.items():
                    terms[g] |= {name: x[:, None].expand(-1, group.count, -1) for name, x in self._more.items()}
            self._record(kind, terms)
        self._given = {}

    def _joined(self, parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Terms of one group, 0 in the rows of parts that lack one, so that weighted sums are right and datasets finite."""
        shapes = {name: x.shape[1:] for named in parts for name, x in named.items()}
        counts = [part.num_envs for part in self._env.parts.values()]
        return {
            name: torch.cat([
                named[name] if name in named else torch.zeros(n, *shape)
                for named, n in zip(parts, counts, strict=True)
            ])
            for name, shape in shapes.items()
        }  # fmt: skip

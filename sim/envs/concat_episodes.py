"""Report of a ConcatEnv of the episodes that ended in a step: one table over tasks that measure different things."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from rookery.sim.envs.concat_env import ConcatEnv
    from rookery.sim.envs.vec_env import VecEnv

Columns = dict[str, Tensor]


class ConcatEpisodes:
    """Joins the parts' ``info["episode"]``, whose columns are the same at every step: those of any task.

    Args:
        env: whose parts they are.
    """

    def __init__(self, env: ConcatEnv) -> None:
        self.env = env
        starts = [at.start for at in env._slices]
        causes = env.causes
        # by part: where its worlds begin, its task, and the place of its causes among all (0: time limit, last: diverged)
        self._parts = [
            (
                start,
                env.task_names.index(name),
                torch.tensor([0, *(causes.index(c) + 1 for c in e.causes), len(causes) + 1]),
            )
            for start, (name, e) in zip(starts, env.parts.items(), strict=True)
        ]
        self._names: dict[str, tuple[str, ...]] = {}

    def merge(self, episodes: list[dict[str, Any] | None]) -> dict[str, Any]:
        """One table of those parts in which episodes ended, the others' are None; at least one is not."""
        if not self._names:
            self._names = _names(list(self.env.parts.values()))
        ended = [(*p, e) for p, e in zip(self._parts, episodes, strict=True) if e is not None]
        out: dict[str, Any] = {
            "ids": torch.cat([e["ids"] + start for start, _, _, e in ended]),
            "length": torch.cat([e["length"] for *_, e in ended]),
            "cut": torch.cat([e["cut"] for *_, e in ended]),
            "cause": torch.cat([cause[e["cause"]] for _, _, cause, e in ended]),
            "return": {k: torch.cat([e["return"][k] for *_, e in ended]) for k in ended[0][-1]["return"]},
            "task": torch.cat([torch.full_like(e["ids"], task) for _, task, _, e in ended]),
        }
        for what, names in self._names.items():
            out[what] = {n: torch.cat([_column(e[what], n, len(e["ids"])) for *_, e in ended]) for n in names}
        success = out["metrics"].get("success")
        if success is not None:
            out["task_success"] = {
                name: torch.where(out["task"] == i, success, math.nan) for i, name in enumerate(self.env.task_names)
            }
        return out


def _column(columns: Columns, name: str, rows: int) -> Tensor:
    return columns[name] if name in columns else torch.full((rows,), math.nan)


def _names(envs: list[VecEnv]) -> dict[str, tuple[str, ...]]:
    """The columns that any part may give, by table; asked for when the first episode ends, since metrics may need a step."""
    out: dict[str, dict[str, None]] = {"reward_terms": {}, "metrics": {}, "parameters": {}}
    for e in envs:
        out["reward_terms"] |= dict.fromkeys(f"{g}/{term}" for g in e.groups for term in e.task.cfg.reward)
        out["metrics"] |= dict.fromkeys(e.metrics())
        out["parameters"] |= dict.fromkeys(e.randomization.names)
    return {what: tuple(names) for what, names in out.items()}

"""Rollouts between processes: the control steps of some worlds as tensors of one message, and the steps of all worlds again.

A message of K steps of n worlds with A agents has, by name,

    observation, active, state              [K + 1, n, ...]  before each step, and after the last
    action, reward, memory, elapsed,
    terminated, truncated                   [K, n, ...]      of each step
    final_observation, ...                  [F, ...]         of the F episodes that were truncated, by step and world

What no step has is left out. Pictures that the replay memory has in bytes are bytes here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rookery.policies.storage.pixels import Pixels

__all__ = ["Row", "pack", "unpack"]

Row = dict[str, Tensor | None]
"""One control step: the arguments of `Replay.add` by name."""

BEFORE_AND_AFTER = {"observation": "next_observation", "active": "next_active", "state": "next_state"}
EACH = ("action", "reward", "terminated", "truncated", "memory", "elapsed")
FINAL = ("final_observation", "final_state", "final_active")
BYTES = {"observation": "pixels", "final_observation": "final_pixels"}


def pack(rows: Sequence[Row], codec: Pixels | None = None) -> dict[str, Tensor]:
    """The message of steps in a row.

    Args:
        rows: of some worlds; what begins with ``final_`` has rows of truncated episodes alone.
        codec: which components of observations are kept as bytes; None for none.
    """
    out = {}
    for name, after in BEFORE_AND_AFTER.items():
        given = [*(row[name] for row in rows), rows[-1][after]]
        if given[0] is not None:
            out[name] = _stacked(given)
    for name in EACH:
        given = [row[name] for row in rows]
        if name == "elapsed" and any(x is not None for x in given):
            one = torch.ones_like(_reward(rows[0]), dtype=torch.int16)
            given = [one if x is None else x.to(torch.int16).expand_as(one) for x in given]
        if given[0] is not None:
            out[name] = _stacked(given)
    for name in FINAL:
        ends = [x for row in rows if (x := row[name]) is not None and len(x)]
        if ends:
            out[name] = torch.cat(ends)
    if codec is not None:
        for name, pixels in BYTES.items():
            if name in out:
                out[name], out[pixels] = codec.split(out[name])
    return {name: x.contiguous().cpu() for name, x in out.items()}


def unpack(parts: Sequence[dict[str, Tensor]], codec: Pixels | None = None) -> Iterator[Row]:
    """The steps of all worlds, one after another.

    Args:
        parts: messages of as many steps each, by the order of their worlds.
        codec: as it was for `pack`.
    """
    parts = [dict(part) for part in parts]
    if codec is not None:
        for part in parts:
            for name, pixels in BYTES.items():
                if name in part:
                    part[name] = codec.join(part[name], part.pop(pixels))
    if any("elapsed" in part for part in parts):
        for part in parts:
            part.setdefault("elapsed", torch.ones_like(part["reward"], dtype=torch.int16))
    names = [name for name in (*BEFORE_AND_AFTER, *EACH) if name in parts[0]]
    whole = {name: torch.cat([part[name] for part in parts], 1) for name in names}
    cut = whole["truncated"] & ~whole["terminated"]
    finals = {name: _spread(name, parts, cut) for name in FINAL if any(name in part for part in parts)}
    for k in range(len(cut)):
        row: Row = dict.fromkeys((*BEFORE_AND_AFTER, *BEFORE_AND_AFTER.values(), *EACH, *FINAL))
        for name, x in whole.items():
            row[name] = x[k]
            if name in BEFORE_AND_AFTER:
                row[BEFORE_AND_AFTER[name]] = x[k + 1]
        if bool(cut[k].any()):
            row |= {name: x[k] for name, x in finals.items()}
        yield row


def _stacked(given: Sequence[Tensor | None]) -> Tensor:
    return torch.stack([x for x in given if x is not None])


def _reward(row: Row) -> Tensor:
    reward = row["reward"]
    assert reward is not None
    return reward


def _spread(name: str, parts: Sequence[dict[str, Tensor]], cut: Tensor) -> Tensor:
    """Values [K, N, ...] of what messages have for truncated episodes, at their steps and worlds; 1 elsewhere."""
    like = next(part[name] for part in parts if name in part)
    out = like.new_ones(*cut.shape, *like.shape[1:])
    first = 0
    for part in parts:
        own = slice(first, first + part["reward"].shape[1])
        first = own.stop
        if name in part:
            out[:, own][cut[:, own]] = part[name]
    return out

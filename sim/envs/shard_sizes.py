"""Sizes of shards, in worlds."""

from __future__ import annotations

from itertools import accumulate

from rookery.sim.errors import RookeryError


def divided(num_envs: int, shards: int) -> list[slice]:
    """The worlds of each shard, evenly; the first ones get one more where that leaves some."""
    sizes = [num_envs // shards + (i < num_envs % shards) for i in range(shards)]
    return [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def check_shards(num_envs: int, shards: int) -> None:
    """Refuse a number of shards that these worlds cannot be divided into.

    Raises:
        RookeryError: not a whole number of at least 1, or fewer than 2 worlds in a shard.
    """
    if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1:
        raise RookeryError(f'shards must be "auto" or a whole number of at least 1, got {shards!r}.')
    if shards > 1 and num_envs < 2 * shards:
        raise RookeryError(
            f"a shard needs at least 2 worlds, got {num_envs} worlds in {shards} shards: use fewer shards."
        )

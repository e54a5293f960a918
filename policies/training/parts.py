"""Parts of a checkpoint that processes which learn together have: each its own worlds', and the rest alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rookery.sim.buffers import under
from rookery.sim.envs.shard_states import ShardStates

Tensors = dict[str, dict[str, Tensor]]
"""By file, "algorithm" and "env", and name."""
WorldAxis = Callable[[str], int | None]
"""`Algorithm.world_axis`."""


def join_parts(parts: Sequence[Tensors], worlds: ShardStates, axis: WorldAxis) -> Tensors:
    """The tensors of one process with all worlds.

    Args:
        parts: by rank; a process that steps no worlds is the first.
        worlds: of the environment's states.
        axis: of the algorithm's.
    """
    stepped = parts[-len(worlds) :]
    algorithm = {}
    for name, first in parts[0]["algorithm"].items():
        at = axis(name)
        algorithm[name] = first if at is None else torch.cat([p["algorithm"][name] for p in stepped], at)
    env = {name: torch.cat([p["env"][name] for p in stepped]) for name in stepped[0]["env"] if _by_world(name)}
    if env:
        joined = worlds.join([under("env", p["env"], "/") for p in stepped])
        env |= {f"env/{name}": x for name, x in joined.items()}
    return {"algorithm": algorithm, "env": env}


def split_parts(tensors: Tensors, worlds: ShardStates, axis: WorldAxis) -> list[Tensors]:
    """The inverse: the tensors of each process that steps worlds, by rank.

    Raises:
        ValueError: they are of another number of worlds.
    """
    size = len(worlds)
    algorithm: list[dict[str, Tensor]] = [{} for _ in range(size)]
    for name, whole in tensors["algorithm"].items():
        at = axis(name)
        pieces = [whole] * size if at is None else [x.contiguous() for x in whole.chunk(size, at)]
        for own, piece in zip(algorithm, pieces, strict=True):
            own[name] = piece
    env: list[dict[str, Tensor]] = [{} for _ in range(size)]
    for name, whole in tensors["env"].items():
        if _by_world(name):
            for own, piece in zip(env, whole.chunk(size), strict=True):
                own[name] = piece.contiguous()
    if tensors["env"]:
        for own, state in zip(env, worlds.split(under("env", tensors["env"], "/")), strict=True):
            own.update({f"env/{name}": x for name, x in state.items()})
    return [{"algorithm": a, "env": e} for a, e in zip(algorithm, env, strict=True)]


def _by_world(name: str) -> bool:
    """True for what a runner keeps of its worlds, one row for each, beside the environment's own state."""
    return name.startswith("observation/")

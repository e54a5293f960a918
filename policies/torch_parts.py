"""Weights of policies that are parts of another one."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.policies.stages.torch_chain import ChainModule

__all__ = ["copy_parts"]


def copy_parts(into: ChainModule, sources: Sequence[ChainModule]) -> None:
    """Copy the weights of all stages that a chain has in common with others: the same objects, not equal ones."""
    found = {id(leaf.stage): source.part(leaf.name) for source in sources for leaf in source.chain.leaves}
    for leaf in into.chain.leaves:
        if id(leaf.stage) in found:
            into.part(leaf.name).load_state_dict(found[id(leaf.stage)].state_dict())

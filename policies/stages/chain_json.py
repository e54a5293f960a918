"""Chains of stages as JSON, as they stand in a contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rookery.policies.stages import KINDS, stage_class, stage_kinds
from rookery.policies.stages.decide import Decide, Each, Switch
from rookery.policies.stages.links import Beside, Link
from rookery.policies.stages.stage import Stage, fault
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.own_files import is_in_file

__all__ = ["links_of", "to_json"]

DEEPEST = 8
"""Most chains inside of each other."""
COMPOUND = ("beside", Decide.kind, Switch.kind, Each.kind)
"""Kinds of links that have chains of their own."""


def to_json(links: Sequence[Link]) -> list[dict[str, Any]]:
    """Links as they stand in a contract."""
    return [_link_json(link) for link in links]


def _link_json(link: Link) -> dict[str, Any]:
    if isinstance(link, Stage):
        return link.to_json()
    if isinstance(link, (Decide, Each)):
        return link.to_json(to_json(link.chain))
    branches = [to_json(branch) for branch in link.branches]
    return link.to_json(branches) if isinstance(link, Switch) else {"stage": "beside", "branches": branches}


def links_of(values: Any, line: str, depth: int = 0) -> tuple[Link, ...]:
    """The links of JSON values.

    Args:
        values: what `to_json` gives.
        line: of the contract, where they stand.
        depth: number of chains that they stand in.

    Raises:
        RookeryError: naming the wrong line.
    """
    if not isinstance(values, list) or not values or depth > DEEPEST:
        raise fault(line, values, f"a list of stages, of at most {DEEPEST} chains inside of each other")
    out: list[Link] = []
    for i, value in enumerate(values):
        at = f"{line}[{i}]"
        kind = value.get("stage") if isinstance(value, Mapping) else None
        if not isinstance(kind, str):
            raise fault(at, value, "an object with the kind of its stage")
        if kind in COMPOUND:
            out.append(_compound(kind, value, at, depth))
        elif kind in KINDS or is_in_file(kind) or kind in stage_kinds():  # the last asks all installed packages
            out.append(stage_class(kind).from_json(value, at))
        else:
            raise unknown(f"stage at contract line {at}.stage", kind, [*stage_kinds(), *COMPOUND])
    return tuple(out)


def _compound(kind: str, value: Mapping[str, Any], at: str, depth: int) -> Link:
    """A link that has chains of its own."""
    chains: tuple[tuple[Link, ...], ...]
    if kind in (Decide.kind, Each.kind):
        chains = (links_of(value.get("chain"), f"{at}.chain", depth + 1),)
    else:
        branches = value.get("branches")
        if not isinstance(branches, list) or (kind == "beside" and set(value) != {"stage", "branches"}):
            raise fault(at, value, f"the stage {kind} with its list of branches")
        chains = tuple(links_of(branch, f"{at}.branches[{k}]", depth + 1) for k, branch in enumerate(branches))
    try:
        if kind in (Decide.kind, Each.kind):
            return (Decide if kind == Decide.kind else Each).from_json(value, chains[0], at)
        return Switch.from_json(value, chains, at) if kind == Switch.kind else Beside(chains)
    except RookeryError as error:
        raise (
            error if str(error).startswith("contract line") else RookeryError(f"contract line {at}: {error}")
        ) from error

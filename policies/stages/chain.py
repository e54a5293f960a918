"""A chain of stages, some of them side by side: what a policy consists of.

    [Normalize(43), Beside(((Select(43, ((0, 21),)),), (Attention(...),))), GRU(53, 32), Perceptron(32, (64,), 4), Squash(4)]

    x --normalize--+--select-----+--gru--perceptron--squash--> action
                   +--attention--+

`Beside` gives every branch, a chain itself, the same row, and puts their results one after the other. Weights, C functions and
states belong to the stages at the leaves, which have names: the kind, with _2, _3 ... where a kind comes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rookery.policies.stages.choose import Choose
from rookery.policies.stages.stage import Stage, Weight, fault
from rookery.sim.errors import RookeryError, unknown

if TYPE_CHECKING:
    from rookery.sim.specs import Group

__all__ = ["Beside", "Fork", "Leaf", "Link", "Node", "StageChain"]

DEEPEST = 8
"""Most branches inside of each other."""
S = TypeVar("S", bound=Stage)


@dataclass(frozen=True)
class Beside:
    """Chains side by side.

    Args:
        branches: each a chain; all take the same row.

    Raises:
        RookeryError: fewer than two branches, one without a stage, or branches of other sizes.
    """

    branches: tuple[tuple[Link, ...], ...]

    def __post_init__(self) -> None:
        if len(self.branches) < 2 or not all(self.branches):
            raise RookeryError("stages side by side need at least two branches, each with a stage.")
        for branch in self.branches:
            _check_row(branch, self.inputs)

    @property
    def inputs(self) -> int:
        return self.branches[0][0].inputs

    @property
    def outputs(self) -> int:
        return sum(branch[-1].outputs for branch in self.branches)


Link = Stage | Beside
"""One link of a chain."""


@dataclass(frozen=True)
class Leaf:
    """A stage with its place in a chain.

    Args:
        name: unique in the chain.
        stage: the stage.
        state: where its state stands in that of the chain.
    """

    name: str
    stage: Stage
    state: slice


@dataclass(frozen=True)
class Fork:
    """Branches side by side."""

    branches: tuple[tuple[Node, ...], ...]


Node = Leaf | Fork


@dataclass(frozen=True)
class StageChain:
    """Stages one after the other.

    Args:
        links: at least one.

    Raises:
        RookeryError: a stage takes rows of another size than the one before gives, two stages have targets, or one that chooses
            does not give the first of the chain's outputs.
    """

    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if not self.links:
            raise RookeryError("a chain needs a stage.")
        _check_row(self.links, self.inputs)
        if sum(leaf.stage.targets > 0 for leaf in self.leaves) > 1:
            raise RookeryError("a chain has one state estimator at most: let one predict all targets.")
        if self.options and (sum(leaf.stage.options > 0 for leaf in self.leaves) > 1 or not _first(self.links).options):
            raise RookeryError(
                "a chain chooses once, and its first outputs are the choices: put one stage choose at the end, or at the end "
                "of the first of the last branches."
            )

    @property
    def inputs(self) -> int:
        return self.links[0].inputs

    @property
    def outputs(self) -> int:
        return self.links[-1].outputs

    @property
    def state_size(self) -> int:
        """Numbers that all stages keep from step to step."""
        return sum(leaf.stage.state_size for leaf in self.leaves)

    @property
    def targets(self) -> int:
        """M, length of the targets that a state estimator in the chain predicts; 0 without."""
        return sum(leaf.stage.targets for leaf in self.leaves)

    @property
    def options(self) -> int:
        """C, number of the options that it chooses among; 0 where it gives numbers alone."""
        return sum(self.choice_sizes)

    @property
    def mask_size(self) -> int:
        """Length of the mask of its options: C, or 0 where all are allowed at all times."""
        return sum(leaf.stage.mask_size for leaf in self.leaves)

    @property
    def choice_sizes(self) -> tuple[int, ...]:
        """Numbers of options of the K choices, whose indices are the first of its outputs."""
        found = self.find(Choose)
        return () if found is None else found.sizes

    @property
    def kinds(self) -> list[str]:
        """Kinds of the stages at the leaves, in order."""
        return [leaf.stage.kind for leaf in self.leaves]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The links with the names and places of their stages."""
        return _nodes(self.links, {}, [0])

    @cached_property
    def leaves(self) -> list[Leaf]:
        """All stages, in the order of their names, weights and states."""
        return list(_leaves(self.nodes))

    def weights(self) -> dict[str, Weight]:
        """All arrays by name, "<stage's name>.<array's name>"."""
        return {f"{x.name}.{name}": weight for x in self.leaves for name, weight in x.stage.weights().items()}

    @property
    def weight_count(self) -> int:
        """Numbers that are learned."""
        return sum(leaf.stage.weight_count for leaf in self.leaves)

    def find(self, kind: type[S]) -> S | None:
        """The first stage of a class."""
        return next((leaf.stage for leaf in self.leaves if isinstance(leaf.stage, kind)), None)

    @property
    def c_refused(self) -> str:
        """Why it has no C, as a sentence without its full stop; "" where it has."""
        return next((leaf.stage.c_refused for leaf in self.leaves if leaf.stage.c_refused), "")

    @property
    def depends(self) -> set[str]:
        """See `Stage.depends`."""
        return {line for leaf in self.leaves for line in leaf.stage.depends}

    @property
    def words(self) -> str:
        """The chain in words, for people."""
        return "; ".join(leaf.stage.words for leaf in self.leaves)

    def check(self, group: Group, line: str) -> None:
        """Refuse a group that the chain is not made for.

        Args:
            group: observation, action and targets.
            line: of the contract, where the stages stand.

        Raises:
            RookeryError: naming the wrong line.
        """
        times = " times their history" * (group.history > 1)
        if self.inputs != group.observation_size:
            raise fault(
                f"{line}[0]", self.inputs, f"for {group.observation_size} inputs, the sum of the terms' sizes{times}"
            )
        if self.outputs != group.action.size:
            at = f"{line}[{len(self.links) - 1}]"
            raise fault(at, self.outputs, f"with {group.action.size} outputs, the number of the action's components")
        if group.action.choices and not self.options:
            names = ", ".join(choice.name for choice in group.action.choices)
            raise fault(line, self.kinds, f"a list with the stage choose, as the action chooses its {names}")
        _check_links(self.links, group, line)

    def to_json(self) -> list[dict[str, Any]]:
        """The stages as they stand in a contract."""
        return _to_json(self.links)

    @classmethod
    def from_json(cls, values: Any, line: str = "stages") -> StageChain:
        """The chain of JSON values.

        Args:
            values: what `to_json` gives.
            line: of the contract, where they stand.

        Raises:
            RookeryError: naming the wrong line.
        """
        links = _from_json(values, line, 0)
        try:
            return cls(links)
        except RookeryError as error:
            raise RookeryError(f"contract line {line}: {error}") from error


def _first(links: Sequence[Link]) -> Stage:
    """The stage that gives the first of a chain's outputs."""
    last = links[-1]
    return last if isinstance(last, Stage) else _first(last.branches[0])


def _check_row(links: Sequence[Link], size: int) -> None:
    """Compare the sizes of rows along a chain that gets rows of `size`."""
    for link in links:
        if link.inputs != size:
            name = link.kind if isinstance(link, Stage) else "beside"
            raise RookeryError(f"the stage {name} takes {link.inputs} numbers, and gets {size}: give it those sizes.")
        size = link.outputs


def _nodes(links: Sequence[Link], counts: dict[str, int], states: list[int]) -> tuple[Node, ...]:
    out: list[Node] = []
    for link in links:
        if isinstance(link, Beside):
            out.append(Fork(tuple(_nodes(branch, counts, states) for branch in link.branches)))
            continue
        number = counts[link.kind] = counts.get(link.kind, 0) + 1
        start = states[0]
        states[0] += link.state_size
        name = link.kind if number == 1 else f"{link.kind}_{number}"
        out.append(Leaf(name, link, slice(start, states[0])))
    return tuple(out)


def _leaves(nodes: Sequence[Node]) -> Iterator[Leaf]:
    for node in nodes:
        if isinstance(node, Leaf):
            yield node
        else:
            for branch in node.branches:
                yield from _leaves(branch)


def _check_links(links: Sequence[Link], group: Group, line: str) -> None:
    for i, link in enumerate(links):
        if isinstance(link, Stage):
            link.check(group, f"{line}[{i}]")
        else:
            for k, branch in enumerate(link.branches):
                _check_links(branch, group, f"{line}[{i}].branches[{k}]")


def _to_json(links: Sequence[Link]) -> list[dict[str, Any]]:
    return [
        link.to_json()
        if isinstance(link, Stage)
        else {"stage": "beside", "branches": [_to_json(branch) for branch in link.branches]}
        for link in links
    ]


def _from_json(values: Any, line: str, depth: int) -> tuple[Link, ...]:
    from rookery.policies.stages import KINDS, stage_class

    if not isinstance(values, list) or not values or depth > DEEPEST:
        raise fault(line, values, f"a list of stages, of at most {DEEPEST} branches inside of each other")
    out: list[Link] = []
    for i, value in enumerate(values):
        at = f"{line}[{i}]"
        kind = value.get("stage") if isinstance(value, Mapping) else None
        if not isinstance(kind, str):
            raise fault(at, value, "an object with the kind of its stage")
        if kind != "beside":
            if kind not in KINDS:
                raise unknown(f"stage at contract line {at}.stage", kind, [*KINDS, "beside"])
            out.append(stage_class(kind).from_json(value, at))
            continue
        branches = value.get("branches")
        if set(value) != {"stage", "branches"} or not isinstance(branches, list):
            raise fault(at, value, "the stage beside with its list of branches")
        links = tuple(_from_json(branch, f"{at}.branches[{k}]", depth + 1) for k, branch in enumerate(branches))
        try:
            out.append(Beside(links))
        except RookeryError as error:
            raise RookeryError(f"contract line {at}: {error}") from error
    return tuple(out)

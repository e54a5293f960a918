"""A chain of stages, some of them side by side, or one inside of the other: what a policy consists of.

    [Normalize(43), Beside(((Select(43, ((0, 21),)),), (Attention(...),))), GRU(53, 32), Perceptron(32, (64,), 4), Squash(4)]

    x --normalize--+--select-----+--gru--perceptron--squash--> action
                   +--attention--+

`Beside` gives every branch, a chain itself, the same row, and puts their results one after the other. `Decide` and `Switch`
(see decide.py) have chains that run only at times, as a hierarchy needs them. Weights, C functions and states belong to the
stages at the leaves, which have names: the kind, with _2, _3 ... where a kind comes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rookery.policies.stages.choose import Choose
from rookery.policies.stages.decide import Decide, Each, Switch
from rookery.policies.stages.links import Beside, Link, check_row
from rookery.policies.stages.stage import Stage, Weight, fault
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.specs import Group

__all__ = ["Beside", "CaseNode", "Cases", "EachNode", "Fork", "HeldNode", "Leaf", "Link", "Node", "StageChain"]

S = TypeVar("S", bound=Stage)


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


@dataclass(frozen=True)
class HeldNode:
    """A decision that is held, see `Decide`.

    Args:
        link: as declared.
        nodes: of its chain.
        state: where its own state stands in that of the chain.
        inner: where the states of its chain stand.
    """

    link: Decide
    nodes: tuple[Node, ...]
    state: slice
    inner: slice


@dataclass(frozen=True)
class CaseNode:
    """A branch of a switch.

    Args:
        numbers: for which it acts.
        nodes: of its chain.
        inner: where their states stand in that of the whole chain.
    """

    numbers: tuple[int, ...]
    nodes: tuple[Node, ...]
    inner: slice


@dataclass(frozen=True)
class Cases:
    """Branches of which one acts, see `Switch`."""

    link: Switch
    cases: tuple[CaseNode, ...]


@dataclass(frozen=True)
class EachNode:
    """A chain for each agent, see `Each`.

    Args:
        link: as declared.
        nodes: of the chain; the states in it count from the beginning of one agent's.
        state: where the states of all agents stand in that of the whole chain, one after the other.
    """

    link: Each
    nodes: tuple[Node, ...]
    state: slice


Node = Leaf | Fork | HeldNode | Cases | EachNode


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
        check_row(self.links, self.inputs)
        if sum(leaf.stage.targets > 0 for leaf in self.outer) > 1:
            raise RookeryError("a chain has one state estimator at most: let one predict all targets.")
        first = _first(self.links)
        if self.options and (sum(leaf.stage.options > 0 for leaf in self.outer) > 1 or not (first and first.options)):
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
        """Numbers that all stages and decisions keep from step to step."""
        return self._named[1]

    @property
    def agents(self) -> int:
        """Agents whose observations it takes, one after the other, and whose actions it gives: those of a team with one high
        level for all; 1 without."""
        return next((node.link.agents for node in self.nodes if isinstance(node, EachNode)), 1)

    @property
    def targets(self) -> int:
        """M, length of the targets that a state estimator in the chain predicts; 0 without."""
        return sum(leaf.stage.targets for leaf in self.outer)

    @property
    def options(self) -> int:
        """C, number of the options that it chooses among; 0 where it gives numbers alone."""
        return sum(self.choice_sizes)

    @property
    def mask_size(self) -> int:
        """Length of the mask of its options: C, or 0 where all are allowed at all times."""
        return sum(leaf.stage.mask_size for leaf in self.outer)

    @property
    def choice_sizes(self) -> tuple[int, ...]:
        """Numbers of options of the K choices, whose indices are the first of its outputs."""
        found = next((leaf.stage for leaf in self.outer if isinstance(leaf.stage, Choose)), None)
        return () if found is None else found.sizes

    @cached_property
    def events(self) -> tuple[str, ...]:
        """The E events of the task that bring a decision: whoever runs the chain says when one happens."""
        return tuple(dict.fromkeys(event for node in self.decisions for event in node.link.rules.events))

    @property
    def controlled(self) -> bool:
        """True where a skill is the task's classical controller, whose action it has to be given."""
        return any(leaf.stage.controlled for leaf in self.leaves)

    @property
    def kinds(self) -> list[str]:
        """Kinds of the stages at the leaves, in order."""
        return [leaf.stage.kind for leaf in self.leaves]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The links with the names and places of their stages."""
        return self._named[0]

    @cached_property
    def _named(self) -> tuple[tuple[Node, ...], int]:
        """The nodes, and the length of all their states."""
        states = [0]
        nodes = _nodes(self.links, {}, states)
        return nodes, states[0]

    @cached_property
    def leaves(self) -> list[Leaf]:
        """All stages, in the order of their names, weights and states."""
        return list(_leaves(self.nodes))

    @cached_property
    def outer(self) -> list[Leaf]:
        """Stages that run at every step and whose results are the chain's: not those of high levels and skills."""
        return list(_leaves(self.nodes, inside=False))

    @cached_property
    def decisions(self) -> list[HeldNode]:
        """All decisions that are held, in order."""
        return list(_decisions(self.nodes))

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
        return {line for leaf in self.outer for line in leaf.stage.depends}

    @property
    def words(self) -> str:
        """The chain in words, for people."""
        return "; ".join([leaf.stage.words for leaf in self.leaves] + [node.link.words for node in self.decisions])

    def check(self, group: Group, line: str) -> None:
        """Refuse a group that the chain is not made for.

        Args:
            group: observation, action and targets.
            line: of the contract, where the stages stand.

        Raises:
            RookeryError: naming the wrong line.
        """
        times = " times their history" * (group.history > 1)
        times += f" times {self.agents} agents" * (self.agents > 1)
        inputs, outputs = (self.agents * size for size in (group.observation_size, group.action.size))
        if self.inputs != inputs:
            raise fault(f"{line}[0]", self.inputs, f"for {inputs} inputs, the sum of the terms' sizes{times}")
        if self.outputs != outputs:
            at = f"{line}[{len(self.links) - 1}]"
            raise fault(at, self.outputs, f"with {outputs} outputs, the number of the action's components")
        if group.count % self.agents:
            raise fault(line, self.agents, f"for the {group.count} agents of the group, in teams of as many")
        if group.action.choices and not self.options:
            names = ", ".join(choice.name for choice in group.action.choices)
            raise fault(line, self.kinds, f"a list with the stage choose, as the action chooses its {names}")
        _check_links(self.links, group, line)

    def to_json(self) -> list[dict[str, Any]]:
        """The stages as they stand in a contract."""
        from rookery.policies.stages.chain_json import to_json

        return to_json(self.links)

    @classmethod
    def from_json(cls, values: Any, line: str = "stages") -> StageChain:
        """The chain of JSON values.

        Args:
            values: what `to_json` gives.
            line: of the contract, where they stand.

        Raises:
            RookeryError: naming the wrong line.
        """
        from rookery.policies.stages.chain_json import links_of

        links = links_of(values, line)
        try:
            return cls(links)
        except RookeryError as error:
            raise RookeryError(f"contract line {line}: {error}") from error


def _first(links: Sequence[Link]) -> Stage | None:
    """The stage that gives the first of a chain's outputs; None where a high level or a skill does."""
    last = links[-1]
    if isinstance(last, Stage):
        return last
    return _first(last.branches[0]) if isinstance(last, Beside) else None


def _nodes(links: Sequence[Link], counts: dict[str, int], states: list[int]) -> tuple[Node, ...]:
    out: list[Node] = []
    for link in links:
        if isinstance(link, Beside):
            out.append(Fork(tuple(_nodes(branch, counts, states) for branch in link.branches)))
        elif isinstance(link, Decide):
            own = _taken(link.state_size, states)
            nodes = _nodes(link.chain, counts, states)
            out.append(HeldNode(link, nodes, own, slice(own.stop, states[0])))
        elif isinstance(link, Switch):
            cases = []
            for numbers, branch in zip(link.cases, link.branches, strict=True):
                start = states[0]
                nodes = _nodes(branch, counts, states)
                cases.append(CaseNode(numbers, nodes, slice(start, states[0])))
            out.append(Cases(link, tuple(cases)))
        elif isinstance(link, Each):
            within = [0]
            nodes = _nodes(link.chain, counts, within)
            out.append(EachNode(link, nodes, _taken(within[0] * link.agents, states)))
        else:
            number = counts[link.kind] = counts.get(link.kind, 0) + 1
            name = link.kind if number == 1 else f"{link.kind}_{number}"
            out.append(Leaf(name, link, _taken(link.state_size, states)))
    return tuple(out)


def _taken(size: int, states: list[int]) -> slice:
    """The next places of the chain's state."""
    start = states[0]
    states[0] += size
    return slice(start, states[0])


def _leaves(nodes: Sequence[Node], inside: bool = True) -> Iterator[Leaf]:
    """Stages of nodes.

    Args:
        nodes: in their order.
        inside: also those of high levels and skills.
    """
    for node in nodes:
        if isinstance(node, Leaf):
            yield node
        elif isinstance(node, Fork):
            for branch in node.branches:
                yield from _leaves(branch, inside)
        elif inside:
            for chain in [case.nodes for case in node.cases] if isinstance(node, Cases) else (node.nodes,):
                yield from _leaves(chain)


def _decisions(nodes: Sequence[Node]) -> Iterator[HeldNode]:
    for node in nodes:
        if isinstance(node, HeldNode):
            yield node
            yield from _decisions(node.nodes)
        elif isinstance(node, Fork):
            for branch in node.branches:
                yield from _decisions(branch)
        elif isinstance(node, Cases):
            for case in node.cases:
                yield from _decisions(case.nodes)
        elif isinstance(node, EachNode):
            yield from _decisions(node.nodes)


def _check_links(links: Sequence[Link], group: Group, line: str) -> None:
    for i, link in enumerate(links):
        if isinstance(link, Stage):
            link.check(group, f"{line}[{i}]")
        elif isinstance(link, Beside):  # what is in other links observes and acts otherwise than the group
            for k, branch in enumerate(link.branches):
                _check_links(branch, group, f"{line}[{i}].branches[{k}]")

"""A chain of stages as a torch module: in deployed policies, and as a part of what learns by autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from rookery.policies.stages.chain import CaseNode, Cases, EachNode, Fork, HeldNode, Leaf, Link, Node, StageChain
from rookery.policies.stages.command import CommandStage
from rookery.policies.stages.part import StageModule, module_of
from rookery.policies.stages.select import Select


@dataclass
class StepContext:
    """Inputs of a chain beside its rows.

    Args:
        state: [R, S], of all stages, in the order of `chain.leaves`.
        known: [R, M] for the state estimator, see `Stage.step`.
        allowed: [R, C] bool for the stage that chooses.
        events: [R, E] bool: which of the chain's `events` have happened since the step before; None for none of them.
        controlled: [R, D] actions of the task's classical controller now; None where no skill is one.

    Attributes:
        states: next states of the stages and decisions that have some, in their order.
        logits: [R, C] that the stage that chooses got; None before, and without such a stage.
    """

    state: Tensor
    known: Tensor | None = None
    allowed: Tensor | None = None
    events: Tensor | None = None
    controlled: Tensor | None = None
    states: list[Tensor] = field(default_factory=list)
    logits: Tensor | None = None

    @property
    def after(self) -> Tensor:
        """The next states [R, S]."""
        if not self.states:
            return self.state
        return self.states[0] if len(self.states) == 1 else torch.cat(self.states, 1)

    def inside(self, allowed: Tensor | None, rows: Tensor | None) -> StepContext:
        """The module of a chain inside of the chain.

        Args:
            allowed: of its own choices [R, n].
            rows: [r] those that it runs for; None for all.
        """
        found = (self.state, allowed, self.events, self.controlled)
        if rows is not None:
            state, allowed, events, controlled = (x if x is None else x[rows] for x in found)
        else:
            state, allowed, events, controlled = found
        assert state is not None
        return StepContext(state, None, allowed, events, controlled)


class ChainModule(nn.Module):
    """Rows [R, in] to rows [R, out], stage by stage; each stage is a submodule under its name in the chain.

    Args:
        links: of the chain.

    Attributes:
        chain: the stages and their names.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        super().__init__()
        self.chain = StageChain(tuple(links))
        for leaf in self.chain.leaves:
            self.add_module(leaf.name, module_of(leaf.stage))

    def part(self, name: str) -> nn.Module:
        """The module of a stage; its weights are attributes."""
        return self.get_submodule(name)

    def initialize(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights that a training starts from, see `Stage.initialize`."""
        with torch.no_grad():
            for leaf in self.chain.leaves:
                part = self.part(leaf.name)
                leaf.stage.initialize(part.weights if isinstance(part, StageModule) else {}, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [R, out] of a chain without state for inputs [R, in]."""
        return self.run(x, StepContext(x[:, :0]))

    def run(self, x: Tensor, context: StepContext, first: int = 0) -> Tensor:
        """Outputs [R, out] for inputs [R, in] of the chain, or of its link number `first` from where it goes on; next states
        and logits are in `context` then."""
        return self._through(self.chain.nodes[first:] if first else self.chain.nodes, x, context)

    def input_of(self, leaf: Leaf, x: Tensor) -> Tensor:
        """The input that reaches a stage of rows [R, in], all states being those of an episode's start."""
        return self._until(self.chain.nodes, leaf, x)

    def _through(self, nodes: Sequence[Node], x: Tensor, context: StepContext) -> Tensor:
        for node in nodes:
            if isinstance(node, Fork):
                x = torch.cat([self._through(branch, x, context) for branch in node.branches], 1)
                continue
            if isinstance(node, HeldNode):
                x = self._decide(node, x, context)
                continue
            if isinstance(node, Cases):
                x = self._switch(node, x, context)
                continue
            if isinstance(node, EachNode):
                x = self._each(node, x, context)
                continue
            part = self.part(node.name)
            if not isinstance(part, StageModule):
                x = part(x)
                continue
            stage = node.stage
            own = context.state[:, node.state] if 0 < stage.state_size < self.chain.state_size else context.state
            if stage.options:
                context.logits = x
            given = context.known if stage.targets else context.allowed if stage.mask_size else None
            x, after = part.step(x, own, context.controlled if stage.controlled else given)
            if stage.state_size:
                context.states.append(after)
        return x

    def _decide(self, node: HeldNode, x: Tensor, context: StepContext) -> Tensor:
        """Decisions [R, A] in force for observations [R, O]: new ones where they are due."""
        rules, own = node.link.rules, context.state[:, node.state]
        due = rules.due(x, own[:, 0], own[:, 1:])
        if rules.events and context.events is not None:
            names = self.chain.events
            mine = [names.index(name) for name in dict.fromkeys(rules.events)]
            told = context.events if len(mine) == len(names) else context.events[:, mine]
            due = due | told.any(1)
        held = own[:, 1:], context.state[:, node.inner]
        decided, states = self._partly(node.nodes, due, x, context, held, rules.mask(x))
        left = torch.where(due, rules.durations(decided), own[:, 0]) - 1.0
        context.states += [torch.cat((left.unsqueeze(1), decided), 1), *[states] * (states.shape[1] > 0)]
        return decided

    def _switch(self, node: Cases, x: Tensor, context: StepContext) -> Tensor:
        """Results [R, out] of the branch that each row asks for; the states of the others are zero."""
        out = x.new_full((len(x), node.link.outputs), torch.nan)
        number = x[:, node.link.place]
        light = all(_is_light(case) for case in node.cases)  # cheaper for all rows than to pick some and put them back
        for case in node.cases:
            mine = number == case.numbers[0]
            for k in case.numbers[1:]:
                mine = mine | (number == k)
            if light:
                out = torch.where(mine.unsqueeze(1), self._through(case.nodes, x, context), out)
                continue
            fresh = torch.zeros_like(context.state[:, case.inner])
            out, states = self._partly(case.nodes, mine, x, context, (out, fresh))
            context.states += [states] * (states.shape[1] > 0)
        return out

    def _each(self, node: EachNode, x: Tensor, context: StepContext) -> Tensor:
        """Results [R, a D] of the chain for each of a agents; one by one where there is one row, see `_partly`."""
        agents = node.link.agents
        given = torch.stack([torch.cat([x[:, a:b] for a, b in part], 1) for part in node.link.parts], 1).flatten(0, 1)
        states = context.state[:, node.state].reshape(len(given), -1)
        own = None if context.controlled is None else context.controlled.reshape(len(given), -1)
        events = None if context.events is None else context.events.repeat_interleave(agents, 0)
        pieces = [slice(i, i + 1) for i in range(agents)] if len(x) == 1 else [slice(None)]
        results, after = [], []
        for piece in pieces:
            told, pilot = (x if x is None else x[piece] for x in (events, own))
            inner = StepContext(states[piece], events=told, controlled=pilot)
            results.append(self._through(node.nodes, given[piece], inner))
            after += inner.states and [torch.cat(inner.states, 1)]
        context.states += after and [torch.cat(after).reshape(len(x), -1)]
        return torch.cat(results).reshape(len(x), -1)

    def _partly(
        self, nodes: Sequence[Node], which: Tensor, x: Tensor, context: StepContext, others: tuple[Tensor, Tensor],
        allowed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Results and next states of the rows that `which` [R] names, and `others` elsewhere.

        A single row goes through in any case, so that what ONNX is made from has no shape that depends on a value.
        """
        rows = None
        if len(x) > 1 and not which.all():
            rows = which.nonzero().squeeze(1)
            if not len(rows):
                return others
        own = context.inside(allowed, rows)
        result = self._through(nodes, x if rows is None else x[rows], own)
        states = torch.cat(own.states, 1) if own.states else result[:, :0]
        if rows is not None:
            return others[0].index_copy(0, rows, result), others[1].index_copy(0, rows, states)
        chosen = which.unsqueeze(1)
        return torch.where(chosen, result, others[0]), torch.where(chosen, states, others[1])

    def _until(self, nodes: Sequence[Node], leaf: Leaf, x: Tensor) -> Tensor:
        for node in nodes:
            if node is leaf:
                break
            if isinstance(node, Fork):
                within = [branch for branch in node.branches if any(found is leaf for found in _leaves(branch))]
                if within:
                    return self._until(within[0], leaf, x)
            x = self._through((node,), x, StepContext(x.new_zeros(len(x), self.chain.state_size)))
        return x


def _is_light(case: CaseNode) -> bool:
    """True where a branch only picks numbers and adds to them."""
    return all(isinstance(node, Leaf) and isinstance(node.stage, (CommandStage, Select)) for node in case.nodes)


def _leaves(nodes: Sequence[Node]) -> list[Leaf]:
    """All stages of nodes, but for those of high levels and skills."""
    return [
        leaf
        for node in nodes
        if isinstance(node, (Leaf, Fork))
        for leaf in ([node] if isinstance(node, Leaf) else [x for branch in node.branches for x in _leaves(branch)])
    ]

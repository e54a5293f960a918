"""A chain of stages as a torch module: in deployed policies, and as a part of what learns by autograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from rookery.policies.stages.chain import Fork, Leaf, Link, Node, StageChain
from rookery.policies.stages.part import StageModule, module_of


@dataclass
class StepContext:
    """Inputs of a chain beside its rows.

    Args:
        state: [R, S], of all stages, in the order of `chain.leaves`.
        known: [R, M] for the state estimator, see `Stage.step`.
        allowed: [R, C] bool for the stage that chooses.

    Attributes:
        states: next states of the stages that have some, in their order.
        logits: [R, C] that the stage that chooses got; None before, and without such a stage.
    """

    state: Tensor
    known: Tensor | None = None
    allowed: Tensor | None = None
    states: list[Tensor] = field(default_factory=list)
    logits: Tensor | None = None

    @property
    def after(self) -> Tensor:
        """The next states [R, S]."""
        if not self.states:
            return self.state
        return self.states[0] if len(self.states) == 1 else torch.cat(self.states, 1)


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

    def run(self, x: Tensor, context: StepContext) -> Tensor:
        """Outputs [R, out] for inputs [R, in]; next states and logits are in `context` then."""
        return self._through(self.chain.nodes, x, context)

    def input_of(self, leaf: Leaf, x: Tensor) -> Tensor:
        """The input that reaches a stage of rows [R, in], all states being those of an episode's start."""
        return self._until(self.chain.nodes, leaf, x)

    def _through(self, nodes: Sequence[Node], x: Tensor, context: StepContext) -> Tensor:
        for node in nodes:
            if isinstance(node, Fork):
                x = torch.cat([self._through(branch, x, context) for branch in node.branches], 1)
                continue
            part = self.part(node.name)
            if not isinstance(part, StageModule):
                x = part(x)
                continue
            stage = node.stage
            own = context.state[:, node.state] if 0 < stage.state_size < self.chain.state_size else context.state
            if stage.options:
                context.logits = x
            x, after = part.step(
                x, own, context.known if stage.targets else context.allowed if stage.mask_size else None
            )
            if stage.state_size:
                context.states.append(after)
        return x

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


def _leaves(nodes: Sequence[Node]) -> list[Leaf]:
    """All stages of nodes."""
    return [
        leaf
        for node in nodes
        for leaf in ([node] if isinstance(node, Leaf) else [x for branch in node.branches for x in _leaves(branch)])
    ]

"""A chain of stages as a torch module: in deployed policies, and as a part of what learns by autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rookery.policies.stages.chain import Fork, Leaf, Link, Node, StageChain
from rookery.policies.stages.part import StageModule, module_of


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
        return self.run(x, x[:, :0], None)[0]

    def run(self, x: Tensor, state: Tensor, known: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs [R, out] and next states [R, S].

        Args:
            x: inputs [R, in].
            state: [R, S], of all stages, in the order of `chain.leaves`.
            known: [R, M] for the state estimator, see `Stage.step`.
        """
        states: list[Tensor] = []
        out = self._through(self.chain.nodes, x, state, known, states)
        if not states:
            return out, state
        return out, states[0] if len(states) == 1 else torch.cat(states, 1)

    def input_of(self, leaf: Leaf, x: Tensor) -> Tensor:
        """The input that reaches a stage of rows [R, in], all states being those of an episode's start."""
        return self._until(self.chain.nodes, leaf, x)

    def _through(
        self, nodes: Sequence[Node], x: Tensor, state: Tensor, known: Tensor | None, states: list[Tensor]
    ) -> Tensor:
        for node in nodes:
            if isinstance(node, Fork):
                x = torch.cat([self._through(branch, x, state, known, states) for branch in node.branches], 1)
                continue
            part = self.part(node.name)
            if not isinstance(part, StageModule):
                x = part(x)
                continue
            size = node.stage.state_size
            own = state[:, node.state] if 0 < size < self.chain.state_size else state
            x, after = part.step(x, own, known if node.stage.targets else None)
            if size:
                states.append(after)
        return x

    def _until(self, nodes: Sequence[Node], leaf: Leaf, x: Tensor) -> Tensor:
        for node in nodes:
            if node is leaf:
                break
            if isinstance(node, Fork):
                within = [branch for branch in node.branches if any(found is leaf for found in _leaves(branch))]
                if within:
                    return self._until(within[0], leaf, x)
            state = x.new_zeros(len(x), self.chain.state_size)
            x = self._through((node,), x, state, None, [])
        return x


def _leaves(nodes: Sequence[Node]) -> list[Leaf]:
    """All stages of nodes."""
    return [
        leaf
        for node in nodes
        for leaf in ([node] if isinstance(node, Leaf) else [x for branch in node.branches for x in _leaves(branch)])
    ]

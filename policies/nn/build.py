"""Networks for learning from a chain of stages: hand-written ones for perceptrons and GRUs, autograd for all other stages.

    [Attention, GRU, Perceptron]    AutogradNetwork, GRU, MLP        one after the other over one flat vector of weights

A GRU is learned through time, so it stands alone between what comes before and what comes after; the stages before it, and
those before a perceptron at the end, are one torch module, an encoder.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from rookery.policies.nn import gru
from rookery.policies.nn.autograd import AutogradNetwork
from rookery.policies.nn.encoder import Encoded
from rookery.policies.nn.mlp import MLP
from rookery.policies.nn.network import Network
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.stages.chain import Link, StageChain
from rookery.policies.stages.gru import GRU
from rookery.policies.stages.module import Module
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.torch_chain import ChainModule
from rookery.sim.errors import RookeryError

__all__ = ["build", "parts_of", "perceptron_of", "trained_module", "weight_count"]


def weight_count(links: Sequence[Link]) -> int:
    """P, number of weights of a chain."""
    return StageChain(tuple(links)).weight_count


def perceptron_of(links: Sequence[Link]) -> Perceptron | None:
    """The perceptron that a chain is; None for others. The compiled kernels serve these alone."""
    only = links[0] if len(links) == 1 else None
    return only if isinstance(only, Perceptron) else None


def parts_of(links: Sequence[Link]) -> tuple[list[Link], GRU | None, list[Link]]:
    """A chain cut into its encoder, its memory and its head.

    Raises:
        RookeryError: another recurrent stage than one GRU between other stages.
    """
    memories = [i for i, link in enumerate(links) if isinstance(link, GRU)]
    states = sum(leaf.stage.state_size > 0 for leaf in StageChain(tuple(links)).leaves)
    if states != len(memories) or states > 1:
        raise RookeryError(
            "only one GRU between other stages can be trained, one of --memory gru: leave other stages with a state out of the "
            "chain. With weights that were learned elsewhere they are played, evaluated and exported."
        )
    if memories:
        at = memories[0]
        memory = links[at]
        assert isinstance(memory, GRU)
        return list(links[:at]), memory, list(links[at + 1 :])
    if isinstance(links[-1], Perceptron | Module):
        return list(links[:-1]), None, list(links[-1:])
    return [], None, list(links)


def build(links: Sequence[Link], parameters: Tensor, gradients: Tensor) -> Network:
    """Networks over views into flat vectors [G, P] of weights and gradients, in the order of the chain's weights."""
    before, memory, after = parts_of(links)
    sizes = [weight_count(part) if part else 0 for part in (before, [memory] if memory else [], after)]
    w, g = (x.split(sizes, 1) for x in (parameters, gradients))
    encoder = _section(before, w[0], g[0]) if before else None
    head = _section(after, w[2], g[2])
    if memory is not None:
        return Recurrent(gru.TrainedGRU(w[1], g[1], memory.inputs, memory.size), head, encoder)
    return head if encoder is None else Encoded(encoder, head)


def _section(links: Sequence[Link], parameters: Tensor, gradients: Tensor) -> Network:
    """Stages without state as one network."""
    only = links[0] if len(links) == 1 else None
    if isinstance(only, Perceptron):
        return MLP(parameters, gradients, only.sizes, only.activation)

    def make() -> nn.Module:
        return only.own_module() if isinstance(only, Module) else trained_module(links)

    return AutogradNetwork(make, links[0].inputs, links[-1].outputs, parameters, gradients)


def trained_module(links: Sequence[Link]) -> ChainModule:
    """Stages as a torch module with the weights that a training starts from, of torch's global generator."""
    module = ChainModule(links)
    module.initialize()
    return module

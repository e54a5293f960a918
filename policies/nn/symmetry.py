"""Networks that act alike on both sides of a robot: a mirrored input gives the mirrored output, whatever they have learnt.

The hidden units of each layer are two halves that a mirror exchanges, and weights that a mirror exchanges are equal but for a
sign (an equivariant policy and an invariant critic, as in Su et al., "Leveraging Symmetry in RL-based Legged Locomotion
Control", IROS 2024, arXiv 2403.17320). Of such networks, a sample's gradient is the mirrored sample's in the mirror: the mean
of a gradient and its mirror image is that of a batch with a mirrored copy of every sample, for the cost of the batch alone.
Adam keeps what is equal equal, to the bit, since it treats every weight alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from rookery.policies.nn.mlp import MLP
from rookery.policies.nn.network import Network
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Signed, joined


class Symmetry:
    """The mirror of the flat weights of a policy, its critic and log_std.

    Args:
        actor, critic: layer widths, input and output included.
        observation, critic_input, action: mirrors of what goes in and out.
        device: of the weights.

    Raises:
        RookeryError: hidden layers of odd width.
    """

    def __init__(
        self,
        actor: Sequence[int],
        critic: Sequence[int],
        observation: Signed,
        critic_input: Signed,
        action: Signed,
        device: torch.device,
    ) -> None:
        parts = [
            *_layers(actor, observation, action),
            *_layers(critic, critic_input, (1,)),
            tuple(abs(i) for i in action),  # log_std
        ]
        signed = torch.tensor(joined(parts), device=device)
        self._index = signed.abs() - 1
        self._sign = signed.sign().float()

    def tie(self, flat: Tensor, networks: Sequence[Network]) -> None:
        """Make initial weights [G, P] symmetric. Means of two independent weights are multiplied by the square root of 2, so
        that layers keep their gain; biases are kept.

        Args:
            flat: weights of the networks.
            networks: perceptrons over views of them.
        """
        self.project(flat)
        for network in networks:
            assert isinstance(network, MLP)
            for weight in network.weights:
                weight.mul_(math.sqrt(2.0))

    def holds(self, flat: Tensor) -> bool:
        """True where weights [G, P] are symmetric, to 1e-6."""
        return torch.allclose(flat, flat[:, self._index] * self._sign, atol=1e-6)

    def project(self, flat: Tensor) -> None:
        """Put the mean of weights or gradients [G, P] and their mirror image in their place."""
        flat.add_(flat[:, self._index].mul_(self._sign)).mul_(0.5)


def _layers(sizes: Sequence[int], inputs: Signed, outputs: Signed) -> list[Signed]:
    """Mirrors of the weights and biases of each layer of a perceptron, in their order in the flat vector."""
    hidden = [_halves(size) for size in sizes[1:-1]]
    return [part for a, b in pairwise([inputs, *hidden, outputs]) for part in (_matrix(a, b), b)]


def _halves(size: int) -> Signed:
    """The mirror of hidden units: the first half for the second."""
    if size % 2:
        raise RookeryError(f"hidden layers of a network with a mirror have an even width, not {size}.")
    return (*range(size // 2 + 1, size + 1), *range(1, size // 2 + 1))


def _matrix(rows: Signed, columns: Signed) -> Signed:
    """The mirror of weights [in, out] by those of input and output."""
    width = len(columns)
    return tuple(((abs(r) - 1) * width + abs(c)) * (1 if (r > 0) == (c > 0) else -1) for r in rows for c in columns)

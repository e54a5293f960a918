"""Features from which off-policy networks learn: rows of normalized observations, or what an encoder and a memory make of them.

Parameters move by autograd, as those of an `Ensemble`. The memory's gradients are those that nn/gru.py computes by hand.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rookery.policies.nn.gru import TrainedGRU, parameter_count

__all__ = ["Features", "Memory"]


class Memory(nn.Module):
    """A gated recurrent unit over sequences with ends of episodes inside, see `TrainedGRU`.

    Args:
        inputs: size of an input.
        size: H, numbers in the state.
        generator: source of the initial weights, on the CPU.
        device: where the weights live.

    Attributes:
        weights: [1, P], all weights and biases.
        unit: computes on views of them.
    """

    def __init__(self, inputs: int, size: int, generator: torch.Generator, device: torch.device) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(1, parameter_count(inputs, size), device=device))
        self.gradients = torch.zeros_like(self.weights)
        self.unit = TrainedGRU(self.weights.detach(), self.gradients, inputs, size)
        self.unit.initialize(generator)
        self.size = size
        self.calls = 0  # of `forward`: a backward pass belongs to the latest

    def forward(self, x: Tensor, first: Tensor, state: Tensor) -> Tensor:
        """States [T S, H] after inputs [T S, in] of S sequences, step by step; see `TrainedGRU.forward`.

        Args:
            x: inputs.
            first: [T S] bool, the input is the first of an episode.
            state: [S, H] before the first step, through which no gradient goes.
        """
        out: Tensor = _Through.apply(x, self.weights, first, state, self)
        return out

    @torch.no_grad()
    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """The next states [R, H] for inputs [R, in] and states [R, H]."""
        return self.unit.step(x.unsqueeze(0), state.unsqueeze(0))[0]


class _Through(torch.autograd.Function):
    """`Memory.forward` and its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, first: Tensor, state: Tensor, memory: Memory) -> Tensor:
        memory.calls += 1
        ctx.memory = memory
        ctx.call = memory.calls
        return memory.unit.forward(x.unsqueeze(0), first.unsqueeze(0), state.unsqueeze(0))[0].clone()

    @staticmethod
    def backward(ctx: Any, state_grad: Tensor) -> Any:
        memory = ctx.memory
        assert ctx.call == memory.calls, "the memory has been called again, or its gradients computed, in between"
        memory.calls += 1
        memory.gradients.zero_()
        x_grad = memory.unit.backward(state_grad.unsqueeze(0).contiguous(), ctx.needs_input_grad[0])
        return None if x_grad is None else x_grad[0], memory.gradients.clone(), None, None, None


class Features(nn.Module):
    """Rows [R, O] to features [R, F]: through an encoder, a memory, both, or as they are.

    Args:
        encoder: takes rows to `encoded` numbers; None where they are the rows themselves.
        encoded: size of what goes into the memory, or without one comes out.
        state_size: H, of the memory's state, which is then what comes out; 0 for no memory.
        generator: source of the memory's initial weights, on the CPU.
        device: where the weights live.

    Attributes:
        size: F.
        trained: whether there is something to learn.
    """

    def __init__(
        self,
        encoder: nn.Module | None,
        encoded: int,
        state_size: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.encoder = nn.Identity() if encoder is None else encoder.to(device)
        self.memory = Memory(encoded, state_size, generator, device) if state_size else None
        self.size = state_size or encoded
        self.trained = bool(state_size) or encoder is not None

    def forward(self, x: Tensor, first: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Features of rows, which with a memory are sequences; see `Memory.forward`."""
        x = self.encoder(x)
        if self.memory is None:
            return x
        assert first is not None and state is not None
        out: Tensor = self.memory(x, first, state)
        return out

    def following(self, x: Tensor, before: Tensor) -> Tensor:
        """Features of rows [R, O] that follow features [R, F], each by one step; without gradients."""
        with torch.no_grad():
            x = self.encoder(x)
            return x if self.memory is None else self.memory.step(x, before)

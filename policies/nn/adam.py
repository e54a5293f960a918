"""Adam on flat vectors of weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.policies.storage.prefix import check_state
from rookery.policies.training.reduction import ALONE, Reduction

if TYPE_CHECKING:
    from rookery.policies.nn.compiled_adam import CompiledAdam


class Adam:
    """Adam (Kingma and Ba 2015) with clipping of the gradient norm, on flat parameters; nothing waits for the device.

    Each of the G rows is a network of its own: its norm is clipped alone, and it has its own learning rate.

    Args:
        parameters, gradients: [G, P].
        max_norm: limit of each row's gradient norm.
        compiled: whether to make the step in a compiled kernel; on the CPU.

    Attributes:
        reduction: over the processes whose gradients are added up.
    """

    BETAS = (0.9, 0.999)
    EPS = 1e-5

    def __init__(self, parameters: Tensor, gradients: Tensor, max_norm: float, compiled: bool = False) -> None:
        self.parameters = parameters
        self.gradients = gradients
        self.max_norm = max_norm
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self._work = torch.empty_like(parameters)
        self.steps = 0
        self.reduction: Reduction = ALONE
        self._compiled: CompiledAdam | None = None
        if compiled:
            from rookery.policies.nn.compiled_adam import CompiledAdam

            self._compiled = CompiledAdam(parameters, gradients, self.first, self.second)

    def reset(self) -> None:
        """Forget all gradients, as at the start."""
        self.first.zero_()
        self.second.zero_()
        self.steps = 0

    def state_dict(self) -> dict[str, Tensor]:
        """Both moments and the number of steps (not copied)."""
        return {"first": self.first, "second": self.second, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put a saved state back, in place; one that does not fit raises RookeryError and changes nothing."""
        check_state(self.state_dict(), state)
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.steps = int(state["steps"])

    def step(self, learning_rate: Tensor) -> None:
        """Add up the processes' gradients, clip, then descend; learning_rate [G, 1]."""
        self.reduction.sum(self.gradients)
        self.steps += 1
        if self._compiled is not None:
            self._compiled.step(self.steps, learning_rate, self.EPS, self.max_norm)
            return
        b1, b2 = self.BETAS
        norm = torch.linalg.vector_norm(self.gradients, dim=1, keepdim=True)
        self.gradients.mul_((self.max_norm / (norm + 1e-6)).clamp_(max=1.0))
        self.first.lerp_(self.gradients, 1.0 - b1)
        self.second.mul_(b2).addcmul_(self.gradients, self.gradients, value=1.0 - b2)
        root = torch.sqrt(self.second, out=self._work).div_(math.sqrt(1.0 - b2**self.steps)).add_(self.EPS)
        self.parameters.addcdiv_(self.first * learning_rate, root, value=-1.0 / (1.0 - b1**self.steps))

"""Any torch.nn.Module behind the interface of Network, its gradients by autograd."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rookery.policies.nn.network import Network
from rookery.sim.errors import RookeryError


class AutogradNetwork(Network):
    """G copies of a module over views into flat vectors.

    The module maps [R, in] to [R, out], row by row. It must be a function of its weights alone: no dropout, and no buffers
    such as the running statistics of batch normalization.

    Args:
        make: gives a new module with the initial weights of torch's global generator.
        inputs, outputs: sizes of a row.
        parameters: [G, P] view that holds the weights.
        gradients: [G, P] view that `backward` adds to.

    Raises:
        RookeryError: the module has buffers, or maps rows to another size.
    """

    def __init__(
        self, make: Callable[[], nn.Module], inputs: int, outputs: int, parameters: Tensor, gradients: Tensor
    ) -> None:
        self.networks = parameters.shape[0]
        self.inputs = inputs
        self.outputs = outputs
        self._make = make
        self._module = make().to(parameters.device)
        if any(True for _ in self._module.buffers()):
            raise RookeryError(
                f"{type(self._module).__name__} has buffers, which learning does not keep: take layers without running "
                "statistics, such as LayerNorm for BatchNorm."
            )
        self._names = [name for name, _ in self._module.named_parameters()]
        self._weights = [[w.requires_grad_() for w in self._views(row.detach())] for row in parameters]
        self._gradients = [self._views(row) for row in gradients]
        self._input: Tensor | None = None
        self._output: Tensor | None = None
        with torch.no_grad():
            rows = self._module(torch.zeros(2, inputs, device=parameters.device))
        if tuple(rows.shape) != (2, outputs):
            raise RookeryError(
                f"{type(self._module).__name__} maps rows of {inputs} to {tuple(rows.shape[1:])}, and this group needs "
                f"{outputs}: make its module for the given sizes."
            )

    def initialize(self, generator: torch.Generator, output_gain: float, output_bias: Tensor | None = None) -> None:
        """As the module draws its weights; its last torch.nn.Linear as the interface says."""
        for weights in self._weights:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
                module = self._make()
            linears = [m for m in module.modules() if isinstance(m, nn.Linear) and m.out_features == self.outputs]
            if linears:
                torch.nn.init.orthogonal_(linears[-1].weight, output_gain, generator=generator)
                if linears[-1].bias is not None:
                    linears[-1].bias.data.copy_(torch.zeros(self.outputs) if output_bias is None else output_bias)
            for view, fresh in zip(weights, module.parameters(), strict=True):
                view.data.copy_(fresh.detach())

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            self._input = x.detach().requires_grad_()
            outputs = [
                torch.func.functional_call(self._module, dict(zip(self._names, weights, strict=True)), (rows,))
                for weights, rows in zip(self._weights, self._input, strict=True)
            ]
            self._output = torch.stack(outputs)
        return self._output.detach()

    def backward(self, output_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        assert self._output is not None and self._input is not None
        wanted = [w for weights in self._weights for w in weights] + [self._input] * input_grad
        found = torch.autograd.grad(self._output, wanted, output_grad, allow_unused=True)
        views = [v for views in self._gradients for v in views]
        for view, gradient in zip(views, found, strict=False):
            if gradient is not None:
                view += gradient
        x = self._input
        self._output = None
        self._input = None
        if not input_grad:
            return None
        return torch.zeros_like(x) if found[-1] is None else found[-1]

    def stage_weights(self, g: int) -> list[Tensor]:
        return [w.detach() for w in self._weights[g]]

    def _views(self, flat: Tensor) -> list[Tensor]:
        """The module's parameters as views into a row [P]."""
        views = []
        start = 0
        for parameter in self._module.parameters():
            views.append(flat[start : start + parameter.numel()].view(parameter.shape))
            start += parameter.numel()
        return views

"""The torch module of a stage: its declared weights as parameters and buffers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rookery.policies.stages.stage import Stage
from rookery.policies.stages.trial import try_stage
from rookery.sim.errors import RookeryError


class StageModule(nn.Module):
    """A stage with weights of its own.

    Learned weights start as torch's layers do, uniformly within 1 / sqrt(inputs of the matrix); `Stage.initialize` draws those
    that a training starts from.

    Args:
        stage: what it computes.

    Raises:
        RookeryError: a weight without numbers, or a stage from outside this package that does not keep to the interface.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        bound = 1.0
        for name, weight in stage.weights().items():
            if any(n < 1 for n in weight.shape):
                raise RookeryError(
                    f"{name} of the stage {stage.kind} has the shape {weight.shape}: give sizes of at least 1."
                )
            if weight.statistic is not None:
                self.register_buffer(name, torch.full(weight.shape, weight.statistic))
                continue
            if len(weight.shape) > 1:
                bound = 1.0 / math.sqrt(math.prod(weight.shape[1:]))
            self.register_parameter(name, nn.Parameter(torch.empty(weight.shape).uniform_(-bound, bound)))
        try_stage(self)

    @property
    def weights(self) -> dict[str, Tensor]:
        """All weights by name."""
        return {name: getattr(self, name) for name in self.stage.weights()}

    def step(self, x: Tensor, state: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `Stage.step`."""
        return self.stage.step(self.weights, x, state, given)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [R, out] of a stage without state for inputs [R, in]."""
        return self.stage.step(self.weights, x, x[:, :0], None)[0]


def module_of(stage: Stage) -> nn.Module:
    """The torch module of a stage, with fresh weights."""
    own = stage.own_module()
    return StageModule(stage) if own is None else own

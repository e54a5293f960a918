"""A skill that is no network: the task's classical controller, whose action comes from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.stage import Stage, Tensors, check_sizes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ControllerSkill"]


@dataclass(frozen=True)
class ControllerSkill(Stage):
    """The action of the task's classical controller now.

    Args:
        inputs: size of a row, which is not read.
        outputs: size of the action.
    """

    kind: ClassVar[str] = "controller"
    formula: ClassVar[str] = "the action of the task's classical controller, which Rookery alone computes"
    controlled: ClassVar[bool] = True

    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, outputs=self.outputs)

    @property
    def c_refused(self) -> str:
        return (
            "a skill of this policy is the task's classical controller, which cannot be exported: give a policy in its place, "
            "such as one that `rookery train TASK --algorithm dagger` learns from the controller"
        )

    def step(self, weights: Tensors, x: Tensor, state: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        if given is None:
            return x.new_full((len(x), self.outputs), float("nan")), state
        return given.clamp(-1.0, 1.0), state

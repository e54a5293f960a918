"""The last stage: from any numbers to actions in [-1, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rookery.policies.stages.stage import Stage, Tensors, check_sizes

if TYPE_CHECKING:
    from torch import Tensor

SquashFunction = Literal["clip", "tanh"]
SQUASHES: tuple[SquashFunction, ...] = ("clip", "tanh")
"""Ways to bring a number to [-1, 1]: cut it off (PPO), or tanh (SAC)."""


@dataclass(frozen=True)
class Squash(Stage):
    """Actions in [-1, 1].

    Args:
        size: of a row.
        function: "clip", or "tanh".
    """

    kind: ClassVar[str] = "squash"
    formula: ClassVar[str] = "clip(x, -1, 1) or tanh(x), as the function says"
    in_place: ClassVar[bool] = True

    size: int
    function: SquashFunction = "clip"

    def __post_init__(self) -> None:
        check_sizes(self.kind, size=self.size)

    @property
    def inputs(self) -> int:
        return self.size

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def words(self) -> str:
        return f"final {self.function}"

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        return x.tanh() if self.function == "tanh" else x.clamp(-1.0, 1.0)

    @property
    def helpers(self) -> tuple[str, ...]:
        return () if self.function == "tanh" else ("clamp",)

    def code(self, name: str) -> str:
        value = "tanhf(in[i])" if self.function == "tanh" else "clamp(in[i], 1.0f)"
        return f"""
static void {name}(const float in[{self.size}], float out[{self.size}])
{{
    int i;

    for (i = 0; i < {self.size}; i++) {{
        out[i] = {value};
    }}
}}"""

"""A mixture of experts: several layers, of which a gate mixes the results (Jacobs et al. 1991, "Adaptive mixtures of local
experts", Neural Computation 3(1))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.chain import Link
from rookery.policies.stages.encodes import Encodes
from rookery.policies.stages.perceptron import Activation
from rookery.policies.stages.stage import Tensors, Weight, check_sizes

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.specs import Group

__all__ = ["Experts", "ExpertsOptions"]


@dataclass(frozen=True)
class ExpertsOptions:
    """Settings of the mixture.

    Args:
        experts: how many there are.
        size: numbers that each gives.
    """

    experts: int = 4
    size: int = 64


@dataclass(frozen=True)
class Experts(Encodes):
    """The mean of what experts say of a row, weighted by a gate.

    Args:
        inputs: size of a row.
        experts, size: see `ExpertsOptions`.
        activation: of the experts.

    Raises:
        RookeryError: a size below 1.
    """

    kind: ClassVar[str] = "experts"
    formula: ClassVar[str] = (
        "the sum over k of gate_k activation(weight_k x + bias_k), where gate = softmax(weight_gate x + bias_gate), and the "
        "experts k stand one below the other in weight and bias"
    )
    encoder_name: ClassVar[str] = "experts"
    Options: ClassVar[type] = ExpertsOptions

    inputs: int
    experts: int = 4
    size: int = 64
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, experts=self.experts, size=self.size)

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def words(self) -> str:
        return f"{self.experts} experts {self.inputs} -> {self.size}, {self.activation}"

    def weights(self) -> dict[str, Weight]:
        wide = self.experts * self.size
        return {
            "weight_gate": Weight((self.experts, self.inputs)),
            "bias_gate": Weight((self.experts,)),
            "weight": Weight((wide, self.inputs)),
            "bias": Weight((wide,)),
        }

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        from torch.nn import functional

        gate = functional.linear(x, weights["weight_gate"], weights["bias_gate"]).softmax(1)
        said = getattr(functional, self.activation)(functional.linear(x, weights["weight"], weights["bias"]))
        return (gate.unsqueeze(2) * said.unflatten(1, (self.experts, self.size))).sum(1)

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("dense", f"activate_{self.activation}", "softmax")

    @property
    def scratch(self) -> int:
        return self.experts * (self.size + 1)

    def code(self, name: str) -> str:
        n, k, size = self.inputs, self.experts, self.size
        return f"""
static void {name}(const float in[{n}], float out[{size}])
{{
    float gate[{k}];
    float said[{k * size}];
    int i;
    int j;

    dense({name}_weight_gate, {name}_bias_gate, in, gate, {n}, {k});
    softmax(gate, {k});
    dense({name}_weight, {name}_bias, in, said, {n}, {k * size});
    activate_{self.activation}(said, {k * size});
    for (i = 0; i < {size}; i++) {{
        out[i] = 0.0f;
        for (j = 0; j < {k}; j++) {{
            out[i] += gate[j] * said[(j * {size}) + i];
        }}
    }}
}}"""

    @classmethod
    def encoder(cls, group: Group, frames: int, activation: Activation, options: ExpertsOptions) -> list[Link]:
        """The mixture on all frames."""
        return [cls(group.frame_size * frames, options.experts, options.size, activation)]

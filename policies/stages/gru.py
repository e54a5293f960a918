"""A memory: the gated recurrent unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.stage import Stage, Tensors, Weight, check_sizes

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class GRU(Stage):
    """The state after one step of a GRU (Cho et al. 2014, arXiv 1406.1078; the equations of torch.nn.GRUCell).

    Args:
        inputs: size of a row.
        size: H, numbers in the state.

    Raises:
        RookeryError: a size below 1.
    """

    kind: ClassVar[str] = "gru"
    formula: ClassVar[str] = (
        "h = (1 - z) n + z h, where r and z are sigmoid(W x + b + U h + c), n is tanh(W x + b + r (U h + c)), and the rows of "
        "weight_ih W, weight_hh U, bias_ih b and bias_hh c stand in the order r, z, n; h is zero at an episode's start"
    )

    inputs: int
    size: int

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, size=self.size)

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def state_size(self) -> int:
        return self.size

    @property
    def words(self) -> str:
        return f"GRU {self.inputs} -> {self.size}"

    def weights(self) -> dict[str, Weight]:
        wide = 3 * self.size
        return {
            "weight_ih": Weight((wide, self.inputs)),
            "weight_hh": Weight((wide, self.size)),
            "bias_ih": Weight((wide,)),
            "bias_hh": Weight((wide,)),
        }

    def step(self, weights: Tensors, x: Tensor, state: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch

        state = torch.gru_cell(x, state, *weights.values())
        return state, state

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("dense", "sigmoid")

    @property
    def scratch(self) -> int:
        return 6 * self.size

    def code(self, name: str) -> str:
        n, h = self.inputs, self.size
        return f"""
static void {name}(const float in[{n}], float state[{h}], float out[{h}])
{{
    float x[{3 * h}];
    float u[{3 * h}];
    int i;

    dense({name}_weight_ih, {name}_bias_ih, in, x, {n}, {3 * h});
    dense({name}_weight_hh, {name}_bias_hh, state, u, {h}, {3 * h});
    for (i = 0; i < {h}; i++) {{
        const float r = sigmoid(x[i] + u[i]);
        const float z = sigmoid(x[{h} + i] + u[{h} + i]);
        const float n = tanhf(x[{2 * h} + i] + (r * u[{2 * h} + i]));

        state[i] = n + (z * (state[i] - n));
        out[i] = state[i];
    }}
}}"""

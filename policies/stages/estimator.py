"""A state estimator: predictions of what a robot does not measure, in place of which known values may be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages.c_text import LIMIT, layer_scratch, layers, literal
from rookery.policies.stages.perceptron import Activation, dense
from rookery.policies.stages.stage import Arrays, Stage, Tensors, Weight, check_sizes, dense_weights, fault
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.specs import Group


@dataclass(frozen=True)
class Estimator(Stage):
    """Normalized targets, predicted by a perceptron where they are not known.

    Args:
        inputs: size of a row.
        hidden: widths of the hidden layers.
        outputs: M, length of the targets.
        activation: after every hidden layer.
        clip: limit of known targets, in standard deviations.

    Raises:
        RookeryError: a size below 1, or a limit that is no 32-bit number above 0.
    """

    kind: ClassVar[str] = "estimator"
    formula: ClassVar[str] = (
        "weight_k x + bias_k, layer by layer, the activation after all but the last: targets = mean + std * that; a known "
        "target gives clip((target - mean) / std, -clip, clip) in its place"
    )
    depends: ClassVar[tuple[str, ...]] = ("targets", "future")

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    activation: Activation = "tanh"
    clip: float = 10.0

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, hidden=self.hidden, outputs=self.outputs)
        if not 0.0 < self.clip <= LIMIT:
            raise RookeryError(f"the clip of known targets must be a 32-bit number above 0, got {self.clip}.")

    @property
    def targets(self) -> int:
        return self.outputs

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths, input and output included."""
        return (self.inputs, *self.hidden, self.outputs)

    @property
    def words(self) -> str:
        return f"state estimator {' -> '.join(map(str, self.sizes))}" + f", {self.activation}" * bool(self.hidden)

    def check(self, group: Group, line: str) -> None:
        if self.outputs != group.target_size:
            raise fault(f"{line}.outputs", self.outputs, f"{group.target_size}, the sum of the targets' sizes")

    def weights(self) -> dict[str, Weight]:
        size = (self.outputs,)
        return dense_weights(self.sizes) | {"mean": Weight(size, 0.0), "std": Weight(size, 1.0, positive=True)}

    def step(self, weights: Tensors, x: Tensor, state: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        prediction = dense(weights, x, len(self.hidden), self.activation)
        if given is None:
            return prediction, state
        known = ((given - weights["mean"]) / weights["std"]).clamp(-self.clip, self.clip)
        return prediction.where(given.isnan(), known), state

    def predict(self, weights: Tensors, x: Tensor) -> Tensor:
        """Targets [R, M] as the task scales them, predicted for rows [R, in]."""
        return weights["mean"] + weights["std"] * dense(weights, x, len(self.hidden), self.activation)

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("clamp", "dense", *[f"activate_{self.activation}"] * bool(self.hidden))

    @property
    def scratch(self) -> int:
        return sum(layer_scratch(self.sizes))

    def code(self, name: str) -> str:
        n, m = self.inputs, self.outputs
        declared, steps = layers(name, self.sizes, self.activation)
        body = "\n    ".join([*declared, "int i;", "", *steps]).replace("\n    \n", "\n\n")
        return f"""
static void {name}(const float in[{n}], const float known[{m}], float out[{m}])
{{
    {body}
    for (i = 0; i < {m}; i++) {{
        if (!isnan(known[i])) {{
            out[i] = clamp((known[i] - {name}_mean[i]) / {name}_std[i], {literal(self.clip)});
        }}
    }}
}}"""

    def golden_known(self, weights: Arrays, rows: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Half of them NaN."""
        shape = (rows, self.outputs)
        z = np.where(rng.random(shape) < 0.5, np.nan, 2.0 * rng.standard_normal(shape))
        return (z * weights["std"].astype(np.float64) + weights["mean"]).astype(np.float32)

"""Normalization by running statistics, folded into the policy: the first stage of what Rookery trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages.c_text import LIMIT, literal
from rookery.policies.stages.stage import Arrays, Stage, Tensors, Weight, check_sizes
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Normalize(Stage):
    """``clip((x - mean) / std, -clip, clip)``.

    Args:
        size: of a row.
        clip: limit of the result, in standard deviations.

    Raises:
        RookeryError: a size below 1, or a limit that is no 32-bit number above 0.
    """

    kind: ClassVar[str] = "normalize"
    formula: ClassVar[str] = "clip((x - mean) / std, -clip, clip)"
    in_place: ClassVar[bool] = True

    size: int
    clip: float = 10.0

    def __post_init__(self) -> None:
        check_sizes(self.kind, size=self.size)
        if not 0.0 < self.clip <= LIMIT:
            raise RookeryError(f"obs_clip must be a number above 0 that fits into 32 bits, got {self.clip}.")

    @property
    def inputs(self) -> int:
        return self.size

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def words(self) -> str:
        return "observation normalizer"

    def weights(self) -> dict[str, Weight]:
        return {"mean": Weight((self.size,), 0.0), "std": Weight((self.size,), 1.0, positive=True)}

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        return ((x - weights["mean"]) / weights["std"]).clamp(-self.clip, self.clip)

    @property
    def helpers(self) -> tuple[str, ...]:
        return ("clamp",)

    def code(self, name: str) -> str:
        return f"""
static void {name}(const float in[{self.size}], float out[{self.size}])
{{
    int i;

    for (i = 0; i < {self.size}; i++) {{
        out[i] = clamp((in[i] - {name}_mean[i]) / {name}_std[i], {literal(self.clip)});
    }}
}}"""

    def golden(self, weights: Arrays, rng: np.random.Generator) -> NDArray[np.float64]:
        """Everyday observations, unlikely ones, ones on the limit, and ones beyond it."""
        size = self.size
        far = 1.5 * self.clip
        z = [
            rng.standard_normal((800, size)),
            4.0 * rng.standard_normal((200, size)),
            far * rng.choice([-1.0, 1.0], (64, size)),  # every component beyond its clip
            far * rng.choice([-1.0, 0.0, 0.0, 1.0], (64, size)),  # some of them
            self.clip * rng.choice([-1.0, 1.0], (16, size)),  # on the limit
            np.zeros((1, size)),  # the mean
            np.full((1, size), far),
            np.full((1, size), -far),
        ]
        rows = np.concatenate(z) * weights["std"].astype(np.float64) + weights["mean"]
        return np.concatenate([rows, np.zeros((1, size))])

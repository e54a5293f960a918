"""The last stage of a policy that chooses among options: from logits to indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages.stage import Stage, Tensors, check_sizes, fault

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.specs import ActionSpec, Group


@dataclass(frozen=True)
class Choose(Stage):
    """The likeliest allowed option of each of K choices, whose logits stand side by side.

    Args:
        sizes: numbers of options n_1, ..., n_K.
        masked: not every option is allowed at all times; a mask [C] says which are, C being the sum of the sizes.
    """

    kind: ClassVar[str] = "choose"
    formula: ClassVar[str] = (
        "of each choice the index, from 0, of the largest logit among its allowed options; -1 where none is allowed, NaN where "
        "one of its logits is not finite"
    )

    sizes: tuple[int, ...]
    masked: bool = False

    def __post_init__(self) -> None:
        check_sizes(self.kind, choices=len(self.sizes), sizes=self.sizes)

    @classmethod
    def of(cls, action: ActionSpec) -> Choose:
        """The stage of an action with choices."""
        return cls(tuple(len(choice.options) for choice in action.choices), action.masked)

    @property
    def inputs(self) -> int:
        return sum(self.sizes)

    @property
    def outputs(self) -> int:
        return len(self.sizes)

    @property
    def options(self) -> int:
        return sum(self.sizes)

    @property
    def mask_size(self) -> int:
        return self.options if self.masked else 0

    @property
    def words(self) -> str:
        return f"choice among {' and '.join(map(str, self.sizes))} options" + ", masked" * self.masked

    def check(self, group: Group, line: str) -> None:
        action = group.action
        sizes = tuple(len(choice.options) for choice in action.choices)
        if self.sizes != sizes:
            raise fault(
                f"{line}.sizes", list(self.sizes), f"{list(sizes)}, the numbers of options of the action's choices"
            )
        if self.masked != action.masked:
            raise fault(f"{line}.masked", self.masked, f"{action.masked}, as the action has it")

    def step(self, weights: Tensors, x: Tensor, state: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch

        masks = [None] * self.outputs if given is None else given.split(list(self.sizes), 1)
        chosen = []
        for logits, mask in zip(x.split(list(self.sizes), 1), masks, strict=True):
            allowed = logits if mask is None else logits.masked_fill(~mask, -torch.inf)
            index = allowed.argmax(1).to(x.dtype)
            if mask is not None:
                index = torch.where(mask.any(1), index, -1.0)
            chosen.append(torch.where(logits.isfinite().all(1), index, torch.nan))
        return torch.stack(chosen, 1), state

    def code(self, name: str) -> str:
        first = [sum(self.sizes[:k]) for k in range(self.outputs + 1)]
        given = f"const unsigned char allowed[{self.options}], " if self.masked else ""
        allowed = "(allowed[i] != 0u) && " if self.masked else ""
        return f"""
static void {name}(const float in[{self.options}], {given}float out[{self.outputs}])
{{
    static const int first[{self.outputs + 1}] = {{{", ".join(map(str, first))}}};
    int k;

    for (k = 0; k < {self.outputs}; k++) {{
        int best = -1;
        int finite = 1;
        int i;

        for (i = first[k]; i < first[k + 1]; i++) {{
            finite = finite && isfinite(in[i]);
            if ({allowed}((best < 0) || (in[i] > in[best]))) {{
                best = i;
            }}
        }}
        out[k] = (finite == 0) ? NAN : ((best < 0) ? -1.0f : (float)(best - first[k]));
    }}
}}"""

    def golden_masks(self, rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Masks [rows, C]: by turns all options, one of each choice, and some; in a few rows none of one choice."""
        out = rng.random((rows, self.options)) < 0.6
        out[::4] = True
        start = 0
        for k, size in enumerate(self.sizes):
            one = np.arange(rows)[:, None] // 4 % size == np.arange(size)
            part = out[:, start : start + size]
            part[1::4] = one[1::4]
            part |= one & ~part.any(1, keepdims=True)
            part[2 + 4 * k :: 20 * self.outputs] = False
            start += size
        return out

"""The interface of a stage: one step of a policy from an observation to an action.

A policy is a chain of stages (see chain.py). Each is one frozen dataclass in one file that says all there is to say of it:

    sizes       inputs, outputs, state_size          numbers of a row that goes in, comes out, and is kept from step to step
    JSON        the dataclass's fields               as the contract lists it; `check` compares it with the observed group
    weights     weights()                            names and shapes: what safetensors, ONNX and C hold, and what a bundle is
                                                     compared with before its C may run
    torch       step()                               rows [R, in] to rows [R, out]; autograd gives the gradients
    C           code(), helpers, scratch             one function, and the helpers of c_text.py that it calls
    learning    initialize(), pools(), fixed()       first weights; how the observation normalizer treats its inputs

Nothing here imports torch before a policy is made: contracts and bundles are read and checked without it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.values import fault, from_json, plain

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from rookery.sim.specs import Group

__all__ = ["Arrays", "Stage", "Tensors", "Weight", "check_sizes", "dense_weights", "fault"]

Arrays = Mapping[str, NDArray[np.float32]]
"""Weights of a stage by name, as arrays."""
Tensors = Mapping[str, "Tensor"]
"""Weights of a stage by name, as tensors."""


@dataclass(frozen=True)
class Weight:
    """Declaration of one array of a stage.

    Args:
        shape: of the array; of a matrix [out, in].
        statistic: None where it is learned; the value of a fresh statistic, which the optimizer leaves alone, such as a mean.
        positive: whether all its numbers must be above 0, as those of a standard deviation.
    """

    shape: tuple[int, ...]
    statistic: float | None = None
    positive: bool = False


def dense_weights(sizes: Sequence[int]) -> dict[str, Weight]:
    """Weights of layers of these widths, input and output included: `weight_0` [out, in], `bias_0` [out], `weight_1` ..."""
    out = {}
    for k in range(len(sizes) - 1):
        out[f"weight_{k}"] = Weight((sizes[k + 1], sizes[k]))
        out[f"bias_{k}"] = Weight((sizes[k + 1],))
    return out


class Stage:
    """Base of all stages; a subclass is a frozen dataclass, whose fields are its JSON.

    Attributes:
        kind: name in JSON, and beginning of the names of its weights and of its C function.
        source: name in JSON of a class in a file, ``my_stage.py:Gain``; "" for others.
        formula: what it computes, as the contract says it to whoever writes a runtime.
        inputs, outputs: sizes of a row; fields or properties.
        state_size: numbers that it keeps from step to step, zero at an episode's start.
        targets: length of the privileged targets that it predicts, which may be known instead; 0 for most.
        options: number of the options that it chooses among, by logits that are its input; 0 for most.
        mask_size: length of the mask that says which of them are allowed; 0 where all are at all times.
        depends: lines of the group's declaration, beyond its terms' meaning, that it is made for: "shape", "targets", ...
        controlled: whether it has to be given the action of the task's classical controller.
        in_place: whether its C may write its output over its input.
        helpers: names of C functions that its own calls, see c_text.py.
    """

    kind: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str] = ""
    depends: ClassVar[tuple[str, ...]] = ()
    in_place: ClassVar[bool] = False
    controlled: ClassVar[bool] = False
    inputs: int  # a field, or a property
    outputs: int

    @property
    def state_size(self) -> int:
        return 0

    @property
    def targets(self) -> int:
        return 0

    @property
    def options(self) -> int:
        return 0

    @property
    def mask_size(self) -> int:
        return 0

    # JSON

    def to_json(self) -> dict[str, Any]:
        """The stage as it stands in a contract."""
        fields = {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"stage": self.source or self.kind, "formula": self.formula} | fields

    @classmethod
    def from_json(cls, values: Mapping[str, Any], line: str) -> Self:
        """The stage of JSON values.

        Args:
            values: what `to_json` gives.
            line: of the contract, for errors.

        Raises:
            RookeryError: naming the wrong line.
        """
        given = {k: v for k, v in values.items() if k not in ("stage", "formula")}
        if values.get("formula") != cls.formula:
            raise fault(f"{line}.formula", values.get("formula"), repr(cls.formula))
        return from_json(cls, given, line)

    def check(self, group: Group, line: str) -> None:
        """Refuse a group that the stage is not made for, beyond the sizes of its rows, which the chain compares.

        Raises:
            RookeryError: naming the wrong line.
        """

    @property
    def words(self) -> str:
        """The stage in words, for the header of the C file: "GRU 16 -> 32"."""
        return f"{self.kind} {self.inputs} -> {self.outputs}"

    @property
    def c_refused(self) -> str:
        """Why it has no C, as a sentence with the way out; "" where it has."""
        return ""

    # Weights and torch

    def weights(self) -> dict[str, Weight]:
        """Its arrays by name, in the order in which flat vectors hold them."""
        return {}

    @property
    def weight_count(self) -> int:
        """Numbers that are learned."""
        return sum(math.prod(w.shape) for w in self.weights().values() if w.statistic is None)

    def step(self, weights: Tensors, x: Tensor, state: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs [R, out] and the next state [R, S].

        Args:
            weights: by name.
            x: inputs [R, in].
            state: [R, S], of the step before.
            given: for a stage with targets known ones [R, M], NaN where it must predict them; None for NaN everywhere. For one
                with a mask that, [R, C] bool; for one that is controlled the controller's action.
        """
        return self.forward(weights, x), state

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        """Outputs [R, out] of a stage without state for inputs [R, in]."""
        raise self._missing("forward")

    def own_module(self) -> nn.Module | None:
        """A torch module, with fresh weights, of a stage that another library computes; None for those that `step` does."""
        return None

    def initialize(self, weights: Tensors, generator: torch.Generator | None = None) -> None:
        """First weights for learning: orthogonal ones of gain sqrt 2 and zero biases, as those of CleanRL's ppo_atari.py.

        Args:
            weights: by name, changed in place.
            generator: source of the numbers; None for torch's global one.
        """
        import torch

        for name, weight in self.weights().items():
            if weight.statistic is not None:
                continue
            if len(weight.shape) > 1:
                torch.nn.init.orthogonal_(weights[name], math.sqrt(2.0), generator=generator)
            else:
                torch.nn.init.zeros_(weights[name])

    # What the observation normalizer does with what comes in

    def pools(self) -> list[int] | None:
        """For each input a number, equal for inputs that have one mean and one standard deviation in common; None where each
        has its own."""
        return None

    def fixed(self) -> list[int]:
        """Places of inputs that stay as they are: mean 0, standard deviation 1."""
        return []

    # Export

    @property
    def helpers(self) -> tuple[str, ...]:
        return ()

    def code(self, name: str) -> str:
        """C of ``static void name(const float in[inputs], float out[outputs])``, with ``float state[state_size]``, of a
        stage with targets ``const float known[targets]`` and of one with a mask ``const unsigned char allowed[mask_size]``
        before `out`. Its tables are ``name_<weight>``.

        Args:
            name: of the function, and beginning of the names of its tables.
        """
        raise self._missing("code")

    def _missing(self, method: str) -> RookeryError:
        """The error for a method that a stage must have."""
        return RookeryError(
            f"the stage {self.kind} has no {method}(): write it into {type(self).__name__}, as docs/stages.md shows, or give "
            "`c_refused` the reason why it has no C."
            if method == "code"
            else f"the stage {self.kind} has no {method}(): write it into {type(self).__name__}, as docs/stages.md shows."
        )

    def view(self, source: str) -> str:
        """C expression of its output where that is a part of its input, a pointer; "" for most."""
        return ""

    @property
    def scratch(self) -> int:
        """Numbers on the stack of its C function, about."""
        return 0

    def golden(self, weights: Arrays, rng: np.random.Generator) -> NDArray[np.float64] | None:
        """Observations [n, in] on which its limits show; None where any will do. The chain's first stage is asked."""
        return None

    def golden_known(self, weights: Arrays, rows: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """Known targets [rows, M] of a stage that has some, NaN among them."""
        raise NotImplementedError


def check_sizes(kind: str, **sizes: int | tuple[int, ...]) -> None:
    """Refuse sizes below 1, by their names.

    Raises:
        RookeryError: one that is.
    """
    for name, size in sizes.items():
        for number in size if isinstance(size, tuple) else (size,):
            if number < 1:
                raise RookeryError(f"{name} of the stage {kind} is {number}: give a whole number of at least 1.")

"""A first run of a stage from outside this package, before anything learns with it.

What follows from the interface, and would otherwise show later or never: rows of the declared sizes, finite numbers, nothing
that is remembered outside of the state, and no row that another one changes.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.stages.part import StageModule

__all__ = ["try_stage"]

ROWS = 3
OURS = "rookery."


def try_stage(module: StageModule) -> None:
    """Run a stage that is not of this package on a few rows.

    Args:
        module: with its weights. What is given beside the rows is unknown here: a stage that takes targets, masks or a
            controller's action is not run.

    Raises:
        RookeryError: naming what is wrong.
    """
    stage = module.stage
    if type(stage).__module__.startswith(OURS) or stage.targets or stage.mask_size or stage.controlled:
        return
    if (stage.state_size, stage.weights()) != (stage.state_size, stage.weights()):
        raise _wrong(module, "says something else of its sizes when it is asked again: let them follow from its fields")
    x = torch.linspace(-1.0, 1.0, ROWS * stage.inputs).reshape(ROWS, stage.inputs)
    state = torch.zeros(ROWS, stage.state_size)
    first = _run(module, x, state)
    again = _run(module, x, state)
    alone = _run(module, x[:1], state[:1])
    for before, after, one in zip(first, again, alone, strict=True):
        if not torch.isfinite(before).all():
            raise _wrong(module, "gives NaN or infinity for numbers from -1 to 1")
        if not torch.equal(before, after):
            raise _wrong(
                module,
                "gives something else when it is asked again: what it remembers belongs into its state, and it may draw no "
                "random numbers",
            )
        if not torch.allclose(before[:1], one, rtol=1e-3, atol=1e-5):
            raise _wrong(
                module, "gives something else for a row alone than beside others: rows are of different worlds"
            )


def _run(module: StageModule, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The checked output and next state; the inputs must stay as they are."""
    stage = module.stage
    given = x.clone(), state.clone()
    try:
        with torch.no_grad():
            result = module.step(*given, None)
    except RookeryError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise _wrong(
            module, f"fails for rows {list(x.shape)} ({type(error).__name__}: {error}), see the traceback above"
        ) from error
    if not isinstance(result, tuple) or len(result) != 2:
        raise _wrong(module, "gives no pair of an output and a next state")
    wanted = {"output": (len(x), stage.outputs), "next state": (len(x), stage.state_size)}
    for found, (what, shape) in zip(result, wanted.items(), strict=True):
        if not isinstance(found, Tensor) or found.dtype != torch.float32 or tuple(found.shape) != shape:
            seen = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise _wrong(module, f"gives {seen} as its {what} for {len(x)} rows, which must be torch.float32 {shape}")
    if not (torch.equal(given[0], x) and torch.equal(given[1], state)):
        raise _wrong(module, "writes into its input: let it make a new tensor")
    return result


def _wrong(module: StageModule, what: str) -> RookeryError:
    stage = module.stage
    return RookeryError(f"the stage {stage.source or stage.kind} {what}.")

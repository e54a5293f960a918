"""Steps that stand for several control steps, as in a hierarchy whose options take their time.

The reward of such a step is the sum of its control steps' rewards, each discounted from the step's beginning, and trainers
discount what follows by ``gamma ** elapsed`` (Sutton, Precup and Singh 1999, "Between MDPs and semi-MDPs", equation 3).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rookery.sim.errors import RookeryError

__all__ = ["elapsed"]


def elapsed(info: dict[str, Any], group: str) -> Tensor | None:
    """Control steps that a step stood for, [N, 1] or [N, A], by its `info`; None where all were 1. See `Env.step`.

    Raises:
        RookeryError: fewer than 1.
    """
    found = info.get("elapsed")
    if isinstance(found, dict):
        found = found.get(group)
    elif found is not None:
        found = found.unsqueeze(1)
    if found is None or bool((found == 1).all()):
        return None
    if found.min() < 1:
        raise RookeryError(
            f"a step stands for at least 1 control step, got elapsed {int(found.min())}: mend the environment."
        )
    return found

"""Refusal of NaN in what learners get of a task beside the rewards and the observations that they answer.

An observation that is answered shows its NaN in the action, see `rookery.sim.actions.not_finite`. These would show only in a
loss, after the step that gave them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rookery.sim.arrays import array
from rookery.sim.errors import RookeryError
from rookery.sim.random_kernels import kernel


def refuse_nan(what: str, values: Tensor, first: int = 0) -> Tensor:
    """The values [N, ...], all of them finite; `first` is the number of the first world.

    Raises:
        RookeryError: naming what it is and the first world in which it is not.
    """
    if not math.isfinite(values.numpy().sum()):  # a NaN or infinity anywhere survives the sum, and numpy's costs least
        wrong = (~torch.isfinite(values)).flatten(1).any(1).nonzero().flatten().tolist()
        if wrong:
            raise RookeryError(
                f"the {what} is NaN or infinite, first in world {first + wrong[0]}: look for a division by zero in the task."
            )
    return values


def refuse_nan_at_ends(
    observations: Mapping[str, Tensor], ids: Tensor, terms: Mapping[str, Mapping[str, Tensor]], first: int = 0
) -> None:
    """Refuse last observations {group: [N, A, O]} of the worlds `ids`, which no action answers; `terms` [N, A, d] are what they
    were made of; `first` is the number of the first world.

    Raises:
        RookeryError: naming the term and the world.
    """
    for group, values in observations.items():
        if _finite_at(values.numpy(), array(ids)):
            continue
        last = values[ids]
        if not torch.isfinite(last).all():
            world = int(ids[(~torch.isfinite(last)).flatten(1).any(1)][0])
            wrong = [repr(name) for name, x in terms[group].items() if not torch.isfinite(x[world]).all()]
            raise RookeryError(
                f"the {' '.join(['observation', *wrong[:1]])} of {group!r} is NaN or infinite in an episode's last step, first "
                f"in world {first + world}: look for a division by zero in the task."
            )


@kernel
def _finite_at(values, ids):  # type: ignore[no-untyped-def]  # pragma: no cover
    """True where values [N, A, O] are finite in the worlds `ids` [m]."""
    finite = True
    for i in ids:
        for a in range(values.shape[1]):
            for j in range(values.shape[2]):
                finite &= abs(values[i, a, j]) < math.inf
    return finite

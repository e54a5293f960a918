"""Flat state dictionaries: the state of a part under a prefix in that of the whole."""

from __future__ import annotations

from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.seeding import is_generator_state


def prefixed(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state with every name as "<prefix>.<name>"; `rookery.sim.buffers.under` is the inverse."""
    return {f"{prefix}.{k}": v for k, v in state.items()}


def check_state(own: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    """Compare a saved state with one's own. A "generator" may be one of another device, see `restore_generator`.

    Raises:
        RookeryError: a name is missing, or of another shape or type.
    """
    for name, tensor in own.items():
        if name not in saved:
            raise RookeryError(f"the saved state lacks {name!r}: it is of another config.")
        if name == "generator" and is_generator_state(saved[name]):
            continue
        if saved[name].shape != tensor.shape:
            raise RookeryError(
                f"{name} has shape {list(saved[name].shape)} in the saved state and {list(tensor.shape)} here: use the "
                "config that it was made with."
            )
        if saved[name].dtype != tensor.dtype:
            raise RookeryError(
                f"{name} is {saved[name].dtype} in the saved state and {tensor.dtype} here: use the version that it was "
                "made with."
            )

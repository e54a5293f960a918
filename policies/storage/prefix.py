"""Flat state dictionaries: the state of a part under a prefix in that of the whole."""

from __future__ import annotations

from torch import Tensor


def prefixed(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state with every name as "<prefix>.<name>"."""
    return {f"{prefix}.{k}": v for k, v in state.items()}


def under(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `prefixed` put under this prefix, with the names that it had."""
    return {k.removeprefix(f"{prefix}."): v for k, v in state.items() if k.startswith(f"{prefix}.")}

"""Task configs as JSON and back, and changes to them from the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Weights
from rookery.sim.values import convert, from_values

TIMES = {"dt": (1e-6, 10.0), "control_dt": (1e-6, 1e3), "episode_s": (0.0, 1e6)}
"""By config value, least and most s: beyond them counters of steps overflow, or memory for delays does not suffice."""


def from_dict(cls: type, values: Mapping[str, Any]) -> Any:
    """A config of type `cls` with `values` in place of its defaults. Reward weights may be given in part.

    Raises:
        RookeryError: a name that the config lacks, a value of another type, or a time that no simulation can have.
    """
    default = cls()
    weights = {f.name for f in dataclasses.fields(default) if isinstance(getattr(default, f.name), Weights)}
    changes = {k: _weights(k, v, getattr(default, k)) if k in weights else v for k, v in values.items()}
    for name in (n for n in TIMES if n in changes):
        (least, most), time = TIMES[name], convert(changes[name], float, f"config value {name}")
        if not least <= time <= most:
            raise RookeryError(f"config value {name} must be from {least:g} to {most:g} s, got {time:g}.")
    return from_values(cls, changes, "config value", default, "config value ")


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with `changes` in their place, also inside nested values such as reward weights."""
    nested = {
        k: merge(values[k], v) for k, v in changes.items() if isinstance(v, dict) and isinstance(values.get(k), dict)
    }
    return values | changes | nested


def _weights(name: str, values: Any, like: Weights) -> Weights:
    """Weights with some of them changed, each of a known term."""
    if not isinstance(values, Mapping):
        raise RookeryError(f"config value {name} needs numbers by name, {name}.{min(like)}=1.0, got {values!r}.")
    for term in values:
        if term not in like:
            raise unknown("reward term", term, like)
    changes = {term: convert(weight, float, f"config value {name}.{term}") for term, weight in values.items()}
    return Weights(**{**like, **changes})

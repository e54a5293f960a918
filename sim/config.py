"""Task configs as JSON and back, and changes to them from the command line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Weights

TIMES = {"dt": (1e-6, 10.0), "control_dt": (1e-6, 1e3), "episode_s": (0.0, 1e6)}
"""By config value, least and most s: beyond them counters of steps overflow, or memory for delays does not suffice."""


def to_dict(cfg: Any) -> dict[str, Any]:
    """A config dataclass as plain JSON values."""
    out = {}
    for f in dataclasses.fields(cfg):
        value = getattr(cfg, f.name)
        out[f.name] = dict(value) if isinstance(value, Weights) else list(value) if isinstance(value, tuple) else value
    return out


def from_dict(cls: type, values: dict[str, Any]) -> Any:
    """A config of type `cls` with `values` in place of its defaults. Reward weights may be given in part.

    Raises:
        RookeryError: a name that the config lacks, a value of another type, or a time that no simulation can have.
    """
    default = cls()
    fields = {f.name: getattr(default, f.name) for f in dataclasses.fields(default)}
    changed = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown("config value", name, fields)
        changed[name] = _convert(name, value, fields[name])
    for name, (least, most) in TIMES.items():
        if name in changed and not least <= changed[name] <= most:
            raise RookeryError(f"config value {name} must be from {least:g} to {most:g} s, got {changed[name]:g}.")
    return dataclasses.replace(default, **changed)


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with `changes` in their place, also inside nested values such as reward weights."""
    nested = {
        k: merge(values[k], v) for k, v in changes.items() if isinstance(v, dict) and isinstance(values.get(k), dict)
    }
    return values | changes | nested


def _weights(name: str, values: Any, like: Weights) -> dict[str, float]:
    """Some of the weights, each of a known term and a finite number."""
    if not isinstance(values, Mapping):
        raise RookeryError(f"config value {name} must be like {name}.{min(like)}=1.0, got {values!r}.")
    for term, weight in values.items():
        if term not in like:
            raise unknown("reward term", term, like)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
            raise RookeryError(f"config value {name} must be like {name}.{term}=1.0, got {weight!r}.")
    return dict(values)


def _convert(name: str, value: Any, like: Any) -> Any:
    try:
        if isinstance(like, Weights):
            return Weights(**{**like, **_weights(name, value, like)})
        if isinstance(like, bool):
            if str(value).lower() not in ("true", "false"):
                raise ValueError
            return str(value).lower() == "true"
        if isinstance(like, int):
            if float(value) != int(float(value)):
                raise ValueError
            return int(float(value))
        if isinstance(like, float):
            if not math.isfinite(float(value)):
                raise ValueError
            return float(value)
        if isinstance(like, tuple):
            return tuple(type(like[0])(v) for v in value)
        return type(like)(value)
    except (TypeError, ValueError, AttributeError, OverflowError) as e:
        raise RookeryError(f"config value {name} must be like {like!r}, got {value!r}.") from e

"""Limits that are no motor's: CAD programs write a number such as 1000 where a file must have one, and people degrees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KEYS = {"torque": ("effort", "N m"), "speed": ("velocity", "rad/s")}
"""By setting, what a URDF calls it, and its unit."""
SHOWN = 3  # joints that a warning names
WIDEST = 4.0 * math.pi
"""rad; wrists of industrial arms turn by up to 450 degrees each way, and 13 degrees are above this number."""


def without_placeholders(
    path: Path, setting: str, known: Mapping[str, float], joints: Sequence[str], most: float, instead: str
) -> tuple[dict[str, float], list[str]]:
    """Values in a file for some joints' motors, without what no motor has, and a warning that names what is left out.

    Args:
        path: of the file. setting: "torque" or "speed".
        known: N m or rad/s, by joint.
        joints: the joints that are asked for.
        most: from here on a limit is no motor's.
        instead: what is taken, in words.
    """
    false = {j: known[j] for j in joints if known.get(j, 0.0) > most}
    if not false:
        return dict(known), []
    key, unit = KEYS[setting]
    values = " and ".join(f"{v:g}" for v in sorted(set(false.values())))
    names = _some(list(false))
    warning = (
        f"{key} = {values} {unit} of {names} is no motor's but a placeholder: {instead} is taken. Give {setting} in "
        f"{path.stem}.toml."
    )
    return {j: v for j, v in known.items() if j not in false}, [warning]


def wide_limits(path: Path, joints: Sequence[str], ranges: NDArray[np.float64]) -> list[str]:
    """A warning that names the hinges whose limits of position are beyond two turns, as degrees are where rad belong.

    Args:
        ranges: [J, 2] rad, of the joints; of those without limits, whatever is taken instead.
    """
    wide = [j for j, limits in zip(joints, ranges, strict=True) if np.abs(limits).max() > WIDEST]
    if not wide:
        return []
    largest = float(np.abs(ranges).max())
    return [
        f"limits of position of {_some(wide)} are beyond two turns (up to {largest:.4g} rad): where {path.name} has degrees, "
        'give rad; where nothing stops the joint, leave them out (URDF: type="continuous").'
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")

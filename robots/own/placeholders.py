"""Limits of effort and velocity that are no motor's: CAD programs write a number such as 1000 where a file must have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

KEYS = {"torque": ("effort", "N m"), "speed": ("velocity", "rad/s")}
"""By setting, what a URDF calls it, and its unit."""
SHOWN = 3  # joints that a warning names


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
    names = ", ".join(list(false)[:SHOWN]) + (f" and {len(false) - SHOWN} more" if len(false) > SHOWN else "")
    warning = (
        f"{key} = {values} {unit} of {names} is no motor's but a placeholder: {instead} is taken. Give {setting} in "
        f"{path.stem}.toml."
    )
    return {j: v for j, v in known.items() if j not in false}, [warning]

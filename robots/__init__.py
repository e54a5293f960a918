"""Robots: constants, actuation and classical controllers; `load` reads one of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.robots.own.result import OwnRobot


def load(path: str | Path, family: str | None = None, **settings: Any) -> OwnRobot[Any]:
    """Read a robot's URDF or MJCF file, check it, and make it known to tasks by its name; see robots.own.loading.load."""
    from rookery.robots.own import loading

    return loading.load(path, family, **settings)

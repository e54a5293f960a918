"""Arms by name, as tasks' configs give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.sim.errors import unknown

if TYPE_CHECKING:
    from rookery.robots.arms.arm import ArmModel

NAMES = ("none", "airbot_play", "arx5")


def find_arm(name: str) -> ArmModel | None:
    """The arm called `name`; None for "none".

    Raises:
        RookeryError: no such arm.
    """
    if name not in NAMES:
        raise unknown("arm", name, NAMES)
    if name == "none":
        return None
    from rookery.robots.arms.airbot_play import AIRBOT_PLAY
    from rookery.robots.arms.arx5 import ARX5

    return AIRBOT_PLAY if name == "airbot_play" else ARX5

"""Arms for a quadruped's back by name, as tasks' configs give them.

Your own arm is an `ArmModel`; register it and name it in a config::

    from rookery.robots.arms.models import register_arm
    register_arm(ArmModel(name="my_arm", spec=..., numbers=..., ...))
"""

from __future__ import annotations

from rookery.robots.arms.airbot_play import AIRBOT_PLAY
from rookery.robots.arms.arm import ArmModel
from rookery.robots.arms.arx5 import ARX5
from rookery.sim.errors import RookeryError, unknown

__all__ = ["arm_names", "find_arm", "register_arm"]

NO_ARM = "none"
_ARMS: dict[str, ArmModel] = {arm.name: arm for arm in (AIRBOT_PLAY, ARX5)}


def arm_names() -> tuple[str, ...]:
    """All names that `find_arm` takes."""
    return (NO_ARM, *_ARMS)


def register_arm(arm: ArmModel) -> ArmModel:
    """Make an arm known by its name; returns it.

    Raises:
        RookeryError: another arm has that name.
    """
    if arm.name == NO_ARM or _ARMS.get(arm.name, arm) != arm:
        raise RookeryError(f"the name {arm.name!r} is taken: choose another name for the arm.")
    _ARMS[arm.name] = arm
    return arm


def find_arm(name: str) -> ArmModel | None:
    """The arm called `name`; None for "none".

    Raises:
        RookeryError: no such arm.
    """
    if name == NO_ARM:
        return None
    if name not in _ARMS:
        raise unknown("arm", name, arm_names())
    return _ARMS[name]

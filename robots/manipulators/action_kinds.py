"""The arms' action kinds by name.

Your own kind is one class: derive it from `ArmAction`, and give an instance wherever a kind is accepted, or register it and
use its name in configs and on the command line::

    from rookery.robots.manipulators.action_kinds import register_action
    register_action(MyAction())
"""

from __future__ import annotations

from rookery.robots.manipulators.joint_actions import JointPosition, JointTorque, JointVelocity
from rookery.robots.manipulators.manipulator import ArmAction
from rookery.robots.manipulators.tool_actions import Cartesian, Impedance, ToolPose
from rookery.sim.errors import RookeryError, unknown

__all__ = ["action_kinds", "find_action", "register_action"]

_KINDS: dict[str, ArmAction] = {
    kind.name: kind for kind in (Cartesian(), ToolPose(), JointPosition(), JointVelocity(), JointTorque(), Impedance())
}


def action_kinds() -> tuple[str, ...]:
    """Names of all kinds."""
    return tuple(_KINDS)


def register_action(action: ArmAction) -> ArmAction:
    """Make an action kind known by its name; returns it.

    Raises:
        RookeryError: another kind has that name.
    """
    if _KINDS.get(action.name, action) != action:
        raise RookeryError(f"there is an action kind {action.name!r} already: choose another name.")
    _KINDS[action.name] = action
    return action


def find_action(action: str | ArmAction) -> ArmAction:
    """The action kind of that name; an instance is returned as it is.

    Raises:
        RookeryError: no such kind.
    """
    if isinstance(action, ArmAction):
        return action
    if action not in _KINDS:
        raise unknown("action", action, _KINDS)
    return _KINDS[action]

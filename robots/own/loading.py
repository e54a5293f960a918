"""Robots of the user's own under a name: `rookery.robots.load`.

    import rookery
    from rookery.robots import load

    robot = load("my_dog.urdf", kp=25.0)
    env = rookery.make("go2-velocity", config={"robot": robot.name})

The command line, and other processes, take the file's path in place of the name: ``--task-config robot=my_dog.urdf``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco

from rookery.robots.drones.table import register_drone
from rookery.robots.manipulators.model import register_manipulator
from rookery.robots.own.arm import load_arm
from rookery.robots.own.arm_links import is_arm
from rookery.robots.own.drone import load_drone
from rookery.robots.own.parts import is_rotor
from rookery.robots.own.quadruped import load_quadruped
from rookery.robots.own.reading import Source, read
from rookery.robots.own.result import OwnRobot
from rookery.robots.own.settings import RobotSettings
from rookery.robots.quadrupeds.model import register_quadruped
from rookery.sim.errors import RookeryError, unknown

FAMILIES: dict[str, tuple[Callable[..., OwnRobot[Any]], Callable[[Any], Any]]] = {
    "quadruped": (load_quadruped, register_quadruped),
    "drone": (load_drone, register_drone),
    "arm": (load_arm, register_manipulator),
}
"""By family, what reads a robot and what registers it."""


def load(path: str | Path, family: str | None = None, **settings: Any) -> OwnRobot[Any]:
    """Read a robot's URDF or MJCF file, check it, and make it known to tasks by its name.

    Args:
        path: of the file; ``my.toml`` beside ``my.urdf`` may hold settings.
        family: "quadruped", "drone" or "arm"; None: by its joints.
        settings: what the file cannot say, before those of the TOML file; see docs/own_robot.md.

    Returns:
        The robot, with what was guessed and what was changed.

    Raises:
        RookeryError: the file cannot be read, the robot has what no robot has, or another robot has its name.
    """
    file = Path(path)
    source = read(file, floating=True)
    given = settings.get("family", family) or RobotSettings.peek(file, "family")
    chosen = family_of(source) if given is None else given
    if chosen not in FAMILIES:
        raise unknown("family of robots", str(chosen), FAMILIES)
    loader, register = FAMILIES[chosen]
    robot = loader(file, **settings)
    register(robot.model)
    return robot


def family_of(source: Source) -> str:
    """Kind of a robot, by the joints that move.

    Raises:
        RookeryError: it could be anything.
    """
    moved = [j for j in source.spec.joints if j.type != mujoco.mjtJoint.mjJNT_FREE]
    if all(is_rotor(j.parent.name) for j in moved):
        return "drone"
    if is_arm(source.spec):
        return "arm"
    if len(moved) == 12:
        return "quadruped"
    raise RookeryError(
        f"{source.path} has {len(moved)} joints, which tells no family: say family = one of {', '.join(FAMILIES)}."
    )

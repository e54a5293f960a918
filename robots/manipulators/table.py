"""The arms that a table-top task's `robot` may name: registered ones, and files of the user's own."""

from __future__ import annotations

from rookery.robots.manipulators.model import ManipulatorModel, known_manipulator
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.own.arm import load_arm
from rookery.robots.own.reading import is_file

__all__ = ["PANDA", "find_manipulator"]


def find_manipulator(name: str) -> ManipulatorModel:
    """The arm of that name, or of the URDF or MJCF file at that path.

    Raises:
        RookeryError: there is none, or the file's robot cannot be used.
    """
    if not is_file(name):
        return known_manipulator(name)
    robot = load_arm(name)
    robot.warn()
    return robot.model

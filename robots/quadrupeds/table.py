"""The quadrupeds that a config's `robot` may name: registered ones, and files of the user's own."""

from __future__ import annotations

from rookery.robots.own.quadruped import load_quadruped
from rookery.robots.own.reading import is_file
from rookery.robots.quadrupeds.go2 import GO2
from rookery.robots.quadrupeds.model import QuadrupedModel, known_quadruped

__all__ = ["GO2", "find_quadruped"]


def find_quadruped(name: str) -> QuadrupedModel:
    """The quadruped of that name, or of the URDF or MJCF file at that path.

    Raises:
        RookeryError: there is none, or the file's robot cannot be used.
    """
    if not is_file(name):
        return known_quadruped(name)
    robot = load_quadruped(name)
    robot.warn()
    return robot.model

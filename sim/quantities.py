"""The vocabulary of observations: what robots measure, by the names that all tasks share, and short ways to combine it.

    Term("position_error", body(place("target") - POSITION), noise=0.005)

What is truly a task's own is declared with `own`: a quantity with a name and a sentence of how it is found.
"""

from __future__ import annotations

from rookery.sim.terms import (
    Axes,
    Constant,
    Difference,
    Expression,
    Heading,
    Quantity,
    RotationVector,
    Turned,
)

POSITION = Quantity("position", 3, "m", "world", place=True)
VELOCITY = Quantity("velocity", 3, "m/s", "world")
ROTATION = Quantity("rotation", 4, "1", "world", axes="body")
ANGULAR_VELOCITY = Quantity("angular velocity", 3, "rad/s", "body")
"""As gyroscopes give it: of the robot's body, in body axes."""
WORLD_Z = Constant((0.0, 0.0, 1.0), "1", "world", "world's z axis")

LAST_ACTION = "commanded action of the step before, clipped to [-1, 1]"
ACTED = "action of the step before as it took effect, clipped to [-1, 1]"
"""The same of tasks whose actions may be late: there it is the late one."""

TOOL_POSITION = Quantity("tool's position", 3, "m", "world", place=True)
TOOL_ROTATION = Quantity("tool's rotation", 4, "1", "world", axes="tool")
BASE_POSITION = Quantity("base's position", 3, "m", "world", place=True)
BASE_ROTATION = Quantity("base's rotation", 4, "1", "world", axes="base")
TOOL_GOAL = Quantity("tool's goal", 3, "m", "world", place=True, doc="where the action has the tool go")
OPENING = Quantity("distance between the fingers", 1, "m")


def place(name: str, count: int = 1, frame: str = "world", doc: str = "") -> Quantity:
    """`count` places [3 count] m."""
    return Quantity(name, 3 * count, "m", frame, place=True, doc=doc)


def velocity(name: str, count: int = 1, frame: str = "world", doc: str = "") -> Quantity:
    """`count` velocities [3 count] m/s."""
    return Quantity(name, 3 * count, "m/s", frame, doc=doc)


def rotation(name: str, axes: str, frame: str = "world", doc: str = "") -> Quantity:
    """A quaternion w, x, y, z that takes vectors from `axes` to `frame`."""
    return Quantity(name, 4, "1", frame, axes=axes, doc=doc)


def joint_angles(count: int, name: str = "joint angles") -> Quantity:
    """rad, in the order of the robot's joints."""
    return Quantity(name, count, "rad")


def joint_velocities(count: int, name: str = "joint velocities") -> Quantity:
    """rad/s, in the order of the robot's joints."""
    return Quantity(name, count, "rad/s")


def own(name: str, count: int, unit: str = "1", frame: str = "", doc: str = "") -> Quantity:
    """A quantity that is a task's own; `doc` says how it is found where the name does not."""
    return Quantity(name, count, unit, frame, doc=doc)


def command(name: str, count: int, unit: str = "1", frame: str = "", doc: str = "") -> Quantity:
    """A value that the policy's computer is told: local, it is neither measured nor late."""
    return Quantity(name, count, unit, frame, own_memory=True, doc=doc)


def last_action(count: int, initial: str = "the neutral action") -> Quantity:
    """The action of the step before, clipped to [-1, 1], as it was commanded: local."""
    return Quantity(LAST_ACTION, count, own_memory=True, initial=initial)


def body(vector: Expression) -> Expression:
    """In the robot's body axes."""
    return Turned(vector, ROTATION)


def world(vector: Expression) -> Expression:
    """From body to world axes."""
    return Turned(vector, ROTATION)


def heading(vector: Expression) -> Expression:
    """In level axes that turn with the heading of the robot's body."""
    return Turned(vector, Heading(ROTATION))


def base(vector: Expression) -> Expression:
    """In the axes of an arm's base."""
    return Turned(vector, BASE_ROTATION)


def axes(of: Expression, which: str) -> Expression:
    """Axes of a rotation, side by side: ``axes(TOOL_ROTATION, "xy")`` are the tool's x axis, then its y axis."""
    return Axes(of, which)


def rotation_vector(start: Expression, end: Expression) -> Expression:
    """The rotation vector that takes one orientation to another, see RotationVector."""
    return RotationVector(start, end)


def difference(a: Expression, b: Expression) -> Expression:
    """a - b."""
    return Difference(a, b)

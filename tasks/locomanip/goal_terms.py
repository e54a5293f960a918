"""Goals of a tool on a walking robot as its policy observes them, declared."""

from __future__ import annotations

from rookery.sim.quantities import POSITION, TOOL_POSITION, TOOL_ROTATION, axes, body, place, rotation, rotation_vector
from rookery.sim.specs import Term
from rookery.sim.terms import Expression, Quantity


def goal_name(ahead_s: float) -> str:
    """Name of the quantity that is the place of the tool's goal `ahead_s` s later."""
    return f"goal in {ahead_s:g} s" if ahead_s else "goal"


def goal_rotation(ahead_s: float) -> Quantity:
    """Orientation of the tool's goal `ahead_s` s later."""
    return rotation(f"rotation of the {goal_name(ahead_s)}", goal_name(ahead_s))


def to_goal(ahead_s: float) -> Expression:
    """From the tool to where its goal is `ahead_s` s later."""
    return body(place(goal_name(ahead_s)) - TOOL_POSITION)


def turn_to_goal(ahead_s: float) -> Expression:
    """Rotation that turns the tool to the orientation of its goal `ahead_s` s later."""
    return rotation_vector(body(TOOL_ROTATION), body(goal_rotation(ahead_s)))


def goal_terms(ahead_s: float, hidden: bool) -> tuple[Term, ...]:
    """The tool's way to its goal, now and `ahead_s` s later, and the goal in the trunk's axes.

    Args:
        hidden: zeros stand for what is later.
    """
    estimated = "base pose"
    return (
        Term("to_goal", to_goal(0.0), scale=3.0, noise=0.003, estimated=estimated),
        Term("rotation_to_goal", turn_to_goal(0.0), scale=0.7, noise=0.01, estimated=estimated),
        Term("to_goal_soon", to_goal(ahead_s), scale=3.0, noise=0.003, hidden=hidden, estimated=estimated),
        Term("rotation_to_goal_soon", turn_to_goal(ahead_s), scale=0.7, noise=0.01, hidden=hidden, estimated=estimated),
        Term("goal", body(place(goal_name(0.0)) - POSITION), scale=1.5, estimated=estimated),
        Term("goal_rotation", body(axes(goal_rotation(0.0), "xy")), estimated=estimated),
    )

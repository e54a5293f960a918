"""Goals of a tool on a walking robot as its policy observes them, declared."""

from __future__ import annotations

from rookery.sim.quantities import POSITION, TOOL_POSITION, TOOL_ROTATION, axes, body, place, rotation, rotation_vector
from rookery.sim.specs import Term
from rookery.sim.terms import Expression, Quantity


def goal_name(ahead_s: float, what: str = "goal") -> str:
    """Name of the quantity that is the place of the tool's goal `ahead_s` s later; `what` is the goal's."""
    return f"{what} in {ahead_s:g} s" if ahead_s else what


def goal_place(ahead_s: float, what: str = "goal", doc: str = "") -> Quantity:
    """Place of the tool's goal `ahead_s` s later; `doc` says how it is found."""
    return place(goal_name(ahead_s, what), doc=doc)


def goal_rotation(ahead_s: float, what: str = "goal") -> Quantity:
    """Orientation of the tool's goal `ahead_s` s later."""
    return rotation(f"rotation of the {goal_name(ahead_s, what)}", goal_name(ahead_s, what))


def to_goal(ahead_s: float, what: str = "goal", doc: str = "") -> Expression:
    """From the tool to where its goal is `ahead_s` s later."""
    return body(goal_place(ahead_s, what, doc) - TOOL_POSITION)


def turn_to_goal(ahead_s: float, what: str = "goal") -> Expression:
    """Rotation that turns the tool to the orientation of its goal `ahead_s` s later."""
    return rotation_vector(body(TOOL_ROTATION), body(goal_rotation(ahead_s, what)))


def goal_terms(ahead_s: float, hidden: bool = False, what: str = "goal", doc: str = "") -> tuple[Term, ...]:
    """The tool's way to its goal, now and `ahead_s` s later, and the goal in the trunk's axes.

    Args:
        hidden: zeros stand for what is later.
        what: name of the goal, of tasks that have several.
        doc: how it is found, where nobody gives it.
    """
    estimated = "base pose"
    return (
        Term(f"to_{what}", to_goal(0.0, what, doc), scale=3.0, noise=0.003, estimated=estimated),
        Term(f"rotation_to_{what}", turn_to_goal(0.0, what), scale=0.7, noise=0.01, estimated=estimated),
        Term(
            f"to_{what}_soon", to_goal(ahead_s, what, doc), scale=3.0, noise=0.003, hidden=hidden, estimated=estimated
        ),
        Term(
            f"rotation_to_{what}_soon",
            turn_to_goal(ahead_s, what),
            scale=0.7,
            noise=0.01,
            hidden=hidden,
            estimated=estimated,
        ),
        Term(what, body(goal_place(0.0, what, doc) - POSITION), scale=1.5, estimated=estimated),
        Term(f"{what}_rotation", body(axes(goal_rotation(0.0, what), "xy")), estimated=estimated),
    )

"""Goals of a tool on a walking robot as its policy observes them, declared."""

from __future__ import annotations

from collections.abc import Callable

from rookery.sim.quantities import POSITION, TOOL_POSITION, TOOL_ROTATION, axes, body, place, rotation, rotation_vector
from rookery.sim.specs import Term
from rookery.sim.terms import Expression, Quantity


def goal_name(ahead_s: float, what: str = "goal") -> str:
    """Name of the quantity that is the place of the tool's goal `ahead_s` s later; `what` is the goal's."""
    return f"{what} in {ahead_s:g} s" if ahead_s else what


def goal_place(ahead_s: float, what: str = "goal", doc: str = "") -> Quantity:
    """Place of the tool's goal `ahead_s` s later; `doc` says how it is found."""
    return place(goal_name(ahead_s, what), doc=doc)


def goal_rotation(ahead_s: float, what: str = "goal", doc: str = "") -> Quantity:
    """Orientation of the tool's goal `ahead_s` s later; `doc` says how it is found."""
    return rotation(f"rotation of the {goal_name(ahead_s, what)}", goal_name(ahead_s, what), doc=doc)


def to_goal(ahead_s: float, what: str = "goal", doc: str = "") -> Expression:
    """From the tool to where its goal is `ahead_s` s later."""
    return body(goal_place(ahead_s, what, doc) - TOOL_POSITION)


def turn_to_goal(ahead_s: float, what: str = "goal", doc: str = "") -> Expression:
    """Rotation that turns the tool to the orientation of its goal `ahead_s` s later."""
    return rotation_vector(body(TOOL_ROTATION), body(goal_rotation(ahead_s, what, doc)))


def _by_whom(ahead_s: float) -> tuple[str, str]:
    """No words for goals that somebody gives."""
    return "", ""


def goal_terms(
    ahead_s: float, hidden: bool = False, what: str = "goal", docs: Callable[[float], tuple[str, str]] = _by_whom
) -> tuple[Term, ...]:
    """The tool's way to its goal, now and `ahead_s` s later, and the goal in the trunk's axes.

    Args:
        hidden: zeros stand for what is later.
        what: name of the goal, of tasks that have several.
        docs: by s from now, how its place and its orientation are found, where nobody gives them.
    """
    estimated = "base pose"
    (at, turned), (at_soon, turned_soon) = docs(0.0), docs(ahead_s)
    turn, turn_soon = turn_to_goal(0.0, what, turned), turn_to_goal(ahead_s, what, turned_soon)
    way_soon = to_goal(ahead_s, what, at_soon)
    return (
        Term(f"to_{what}", to_goal(0.0, what, at), scale=3.0, noise=0.003, estimated=estimated),
        Term(f"rotation_to_{what}", turn, scale=0.7, noise=0.01, estimated=estimated),
        Term(f"to_{what}_soon", way_soon, scale=3.0, noise=0.003, hidden=hidden, estimated=estimated),
        Term(f"rotation_to_{what}_soon", turn_soon, scale=0.7, noise=0.01, hidden=hidden, estimated=estimated),
        Term(what, body(goal_place(0.0, what, at) - POSITION), scale=1.5, estimated=estimated),
        Term(f"{what}_rotation", body(axes(goal_rotation(0.0, what, turned), "xy")), estimated=estimated),
    )

"""Events at which a policy decides, as its contract declares them: the policy's own C finds them out, or somebody tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.sim.events import told_event
from rookery.sim.terms import Expression, Quantity, from_json
from rookery.sim.values import fault

__all__ = ["DecisionEvent", "check_events", "events_at", "parse_events"]


@dataclass(frozen=True)
class DecisionEvent:
    """An event at which the high level of a hierarchy decides.

    Args:
        name: of the event, as the task and the stage `decide` call it.
        expression: [1], not 0 in the control step in which it happens. A quantity alone has to be told, in that control step;
            anything else is computed from measured quantities.
    """

    name: str
    expression: Expression

    @property
    def told(self) -> bool:
        """True where a robot does not compute it."""
        return isinstance(self.expression, Quantity)

    @property
    def meaning(self) -> str:
        """The event in words."""
        doc = self.expression.doc if isinstance(self.expression, Quantity) else ""
        return doc or self.expression.formula

    def to_json(self) -> dict[str, Any]:
        """As it stands in contract.json."""
        return {"name": self.name, "formula": self.expression.formula, "expression": self.expression.to_json()}


def events_at(declared: Sequence[DecisionEvent], names: Sequence[str]) -> tuple[DecisionEvent, ...]:
    """The events of these names, in their order; one that is not declared has to be told."""
    known = {event.name: event for event in declared}
    return tuple(known.get(name) or DecisionEvent(name, told_event(name)) for name in names)


def parse_events(values: Sequence[Mapping[str, Any]]) -> tuple[DecisionEvent, ...]:
    """The events of valid JSON values."""
    return tuple(DecisionEvent(event["name"], from_json(event["expression"])) for event in values)


def check_events(events: Sequence[Mapping[str, Any]], decided: Sequence[str] | None, line: str) -> None:
    """Compare the events of a contract's group with themselves and with its stages.

    Args:
        events: JSON values of the right types.
        decided: those at which the stages decide; None where there are no stages yet.
        line: of the contract, for errors.

    Raises:
        RookeryError: naming the wrong line.
    """
    names = [event["name"] for event in events]
    if decided is not None and names != list(decided):
        raise fault(line, names, f"{list(decided)}, the events of the stage decide, or left out")
    if len(set(names)) != len(names):
        raise fault(line, names, "a list of different names")
    for i, event in enumerate(events):
        said = from_json(event["expression"])
        if said.size != 1 or said.unit != "1":
            raise fault(f"{line}[{i}].expression", event["expression"], "one number without a unit")
        if event["formula"] != said.formula:
            raise fault(f"{line}[{i}].formula", event["formula"], f"{said.formula!r}, as its expression has it")

"""The actions of an agent: numbers, choices, or both."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ActionSpec", "Discrete"]


@dataclass(frozen=True)
class Discrete:
    """A discrete component of an action: one of n options, chosen at every step.

    Args:
        name: identifier, unique in its action.
        options: names of the n options, in the order of their indices.
        neutral: index of the option that an agent at rest would take.
    """

    name: str
    options: tuple[str, ...]
    neutral: int = 0

    def __post_init__(self) -> None:
        if not self.options or len(set(self.options)) != len(self.options):
            raise ValueError(f"Discrete {self.name!r} needs options with different names, got {self.options}.")
        if not 0 <= self.neutral < len(self.options):
            raise ValueError(f"Discrete {self.name!r}: neutral is {self.neutral}, of {len(self.options)} options.")


@dataclass(frozen=True)
class ActionSpec:
    """The actions of an agent: numbers, choices, or both.

    An action is a row [D] of numbers: first the index of the option that was chosen, for each of the K choices, then a
    number in [-1, 1] for each continuous component, of which `low` and `high` say what it means.

    Args:
        kind: the control mode's name, such as "ctbr".
        names: one name for each continuous component.
        low: physical value at action -1, per continuous component.
        high: physical value at action +1, per continuous component.
        units: unit of the physical value, per continuous component.
        neutral: the normalized values that a robot at rest would take (hover, hold the pose); trainers start there.
        choices: the discrete components.
        masked: not every option is allowed at all times: `Env.action_mask` says which are.
        read_by: for each continuous component the option that alone reads it, as an index into the options of all choices side
            by side, or -1 where it is read whatever is chosen; empty for that everywhere. It matters to learning alone: two
            actions that differ in what the chosen option does not read are the same.
    """

    kind: str
    names: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    units: tuple[str, ...] = ()
    neutral: tuple[float, ...] = ()
    choices: tuple[Discrete, ...] = ()
    masked: bool = False
    read_by: tuple[int, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.low), len(self.high), len(self.units), len(self.neutral)}
        if len(sizes) != 1:
            raise ValueError(f"ActionSpec {self.kind!r}: names, low, high, units and neutral differ in length.")
        names = [*self.names, *(c.name for c in self.choices)]
        if len(set(names)) != len(names):
            raise ValueError(f"ActionSpec {self.kind!r}: components must have different names, got {names}.")
        if not names:
            raise ValueError(f"ActionSpec {self.kind!r} has no component: give names of numbers, or choices.")
        if self.read_by and len(self.read_by) != len(self.names):
            raise ValueError(
                f"ActionSpec {self.kind!r}: read_by has {len(self.read_by)} of {len(self.names)} components."
            )
        if wrong := [option for option in self.read_by if not -1 <= option < self.options]:
            raise ValueError(f"ActionSpec {self.kind!r}: read_by names the option {wrong[0]}, of {self.options}.")
        if self.masked and not self.choices:
            raise ValueError(f"ActionSpec {self.kind!r} is masked and has no choices.")

    @property
    def size(self) -> int:
        """Number of action components D, choices and numbers."""
        return len(self.choices) + len(self.names)

    @property
    def options(self) -> int:
        """Number C of options of all choices together, the length of a mask."""
        return sum(len(c.options) for c in self.choices)

    @property
    def outputs(self) -> int:
        """Numbers that a policy's network gives: a logit for each option, and a mean for each continuous component."""
        return self.options + len(self.names)

    @property
    def rest(self) -> tuple[float, ...]:
        """[D] the action of an agent at rest."""
        return (*(float(c.neutral) for c in self.choices), *self.neutral)

    @property
    def rest_command(self) -> tuple[float, ...]:
        """The numbers of the command of an agent at rest, in `units`."""
        ends = zip(self.neutral, self.low, self.high, strict=True)
        return tuple(low + 0.5 * (neutral + 1.0) * (high - low) for neutral, low, high in ends)

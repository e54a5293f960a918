"""An operator's hands on commands in flight: which of a policy's commands can be moved, how far, and by which keys and sticks.

Commands have the range that the policy was trained with, by the contract or a file of the operator's. A place, such as a
multirotor's target, is also kept near the vehicle, so that it goes there by small steps, and within the height limits of the
safety filter. Only what the operator gives is moved: what a vehicle or a tracker measures is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim.specs import CommandRange
from rookery.sim.terms.expression import Quantity
from rookery.sim2real.command_ranges import units_of
from rookery.sim2real.runtime.checks import COMMANDED
from rookery.sim2real.runtime.entry import NEAR_M as NEAR_ENTRY_M
from rookery.sim2real.runtime.entry import TAKE_OFF_M
from rookery.sim2real.runtime.pilot import COMMANDED_VELOCITY, Pilot
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.runtime.settings import family_of

Ranges = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Least and greatest of each value of a command, by its name or the beginning of it."""
FORWARD, LEFT, UP, TURN = "forward", "left", "up", "turn"
STEPS = 10
"""Keys from rest to the end of a motion's range."""
STEP_M = 0.1  # m, that a key moves a place
NEAR_M = 1.0  # m, from the vehicle that a place stays; half of a narrower fence
LOW_M = 0.3  # m, over the take-off
ARM_SHARE = 0.2  # of the two lengths above, for the goal of an arm
PLACE_M_S = 0.5  # m/s, at which a stick moves a place


@dataclass(frozen=True)
class SteeredValue:
    """One value of a command.

    Args:
        command: its quantity. index: which of its values.
        label: FORWARD, LEFT, UP, TURN, or "<beginning of the name>.<index>".
        place: whether it is a coordinate of a point in the world.
        low, high: its range; infinite where nobody knows one.
        unit: of it.
        relative_to: the measured place that the range is about; "" for a range of the value itself.
    """

    command: str
    index: int
    label: str
    place: bool
    low: float
    high: float
    unit: str
    relative_to: str = ""


def steered_values(pilot: Pilot, given: Ranges) -> Iterator[SteeredValue]:
    """The values of a checked pilot's commands that can be moved.

    Args:
        pilot: checked; ranges that are given are in force from now on.
        given: ranges that come before the contract's; of a place, relative to what the contract's is.

    Raises:
        RookeryError: a range of another size, or not of numbers from low to high.
    """
    assert pilot.identity is not None
    for q in pilot.controller.wanted:
        operator = q.name in pilot.commands.values or (q.name == "target" and q.name not in pilot.identity.quantities)
        if not operator:
            continue
        beginnings = [n for n in given if q.name.startswith((n, COMMANDED + n))]
        if beginnings:
            low, high = given[beginnings[0]]
            _check(q, low, high)
            about = pilot.command_limits.ranges[q.name].relative_to if q.name in pilot.command_limits.ranges else ""
            pilot.command_limits.replace(q.name, CommandRange(tuple(low), tuple(high), about))
        span = pilot.command_limits.ranges.get(q.name)
        if q.place and q.size == 3:
            labels: Sequence[str] = (FORWARD, LEFT, UP)
        elif q.name.startswith(COMMANDED_VELOCITY) and q.size == 3:
            labels = (FORWARD, LEFT, TURN)
        else:
            labels = [f"{q.name.removeprefix(COMMANDED).split(',')[0].replace(' ', '_')}.{i}" for i in range(q.size)]
        units = units_of(q)
        if span is None and not (q.place and q.size == 3):
            continue
        ends = CommandRange((-np.inf,) * q.size, (np.inf,) * q.size) if span is None else span
        for i, (least, most) in enumerate(zip(ends.low, ends.high, strict=True)):
            yield SteeredValue(q.name, i, labels[i], q.place, least, most, units[i], ends.relative_to)


def _check(q: Quantity, low: Sequence[float], high: Sequence[float]) -> None:
    fits = len(low) == len(high) == q.size and all(a <= b for a, b in zip(low, high, strict=False))
    if not (fits and np.isfinite([*low, *high]).all()):
        raise RookeryError(f"the range of {q.name!r} must be {q.size} least and {q.size} greatest values ({q.unit}).")


def _check_asked(pilot: Pilot, values: Sequence[SteeredValue]) -> None:
    """Refuse commands that the policy has never been asked for; a commanded motion of 0 is to stay, and what nobody
    asks."""
    for v in values:
        if v.command not in pilot.commands.values:  # a target is where it takes off to
            continue
        asked = float(pilot.commands.values[v.command][v.index])
        low, high = np.float32(v.low), np.float32(v.high)
        where = ""
        if v.relative_to:
            begins = _beginning(pilot, v.relative_to)
            if begins is None:  # nobody tells yet where that is; it is held there in flight
                continue
            low, high = low + begins[v.index] - NEAR_ENTRY_M, high + begins[v.index] + NEAR_ENTRY_M
            where = f" from where it begins ({v.relative_to})"
        stays = asked == 0.0 and v.command.startswith(COMMANDED)
        if not stays and not low <= np.float32(asked) <= high:
            raise RookeryError(
                f"{v.label} {asked:g} {v.unit} of the command {v.command!r} is out of its range, {low:g} to {high:g}: give one "
                f"within. The policy was trained with {v.low:g} to {v.high:g}{where}; [ranges] of --controls may say another."
            )


class CommandSteering:
    """Moves commands of pilots, and stops them; its methods may be called by any thread.

    Args:
        pilots: whose.
        ranges: see `steered_values`.

    Attributes:
        chosen: number of the pilot whose commands are moved, from 0; None for all. Stop and land are always for all.
    """

    def __init__(self, pilots: Sequence[Pilot], ranges: Ranges | None = None) -> None:
        self.chosen: int | None = None
        self._pilots = list(pilots)
        self._ranges = ranges or {}
        self._values: list[list[SteeredValue]] = [[] for _ in self._pilots]
        self._lock = threading.Lock()

    def learn(self) -> None:
        """Find what can be moved, once the pilots are checked.

        Raises:
            RookeryError: a range that does not fit, or names no command of any pilot; or a command is out of its range.
        """
        self._values = [list(steered_values(pilot, self._ranges)) for pilot in self._pilots]
        for pilot, values in zip(self._pilots, self._values, strict=True):
            _check_asked(pilot, values)
        named = {v.command for values in self._values for v in values}
        for name in self._ranges:
            if not any(n.startswith((name, COMMANDED + name)) for n in named):
                raise RookeryError(
                    f"[ranges] names {name!r}, which is no command of this policy that the operator gives: "
                    f"{', '.join(map(repr, sorted(named))) or 'it has none'}."
                )

    @property
    def several(self) -> bool:
        """True where there are several pilots."""
        return len(self._pilots) > 1

    @property
    def stopped(self) -> bool:
        """True once the operator has asked for a stop, or for the end."""
        return any(pilot.commands.finish for pilot in self._pilots)

    @property
    def labels(self) -> set[str]:
        """Labels of all values that can be moved."""
        return {v.label for values in self._values for v in values}

    @property
    def places(self) -> set[str]:
        """Labels of those that are coordinates of places."""
        return {v.label for values in self._values for v in values if v.place}

    def stop(self) -> None:
        """Bring all vehicles down at once, as the reactions to `operator` say."""
        for pilot in self._pilots:
            pilot.commands.finish = True
            pilot.commands.stop = True

    def land(self) -> None:
        """End all policies, and leave by the exit."""
        for pilot in self._pilots:
            pilot.commands.finish = True

    def choose(self, number: int | None) -> None:
        """Move the commands of one pilot from now on; None for all. A number that there is not changes nothing."""
        if number is None or number < len(self._pilots):
            self.chosen = number

    def push(self, label: str, steps: float) -> None:
        """Move a value by steps of a key."""
        for pilot, v in self._steered(label):
            step = STEP_M * _size(pilot) if v.place else max(v.high, -v.low) / STEPS
            self._move(pilot, v, pilot.commands.values[v.command][v.index] + steps * step)

    def hold(self, label: str, share: float) -> None:
        """Set a motion to a share of its range: -1 for the least value, 0 for 0, 1 for the greatest one."""
        for pilot, v in self._steered(label):
            if not v.place:
                self._move(pilot, v, share * v.high if share > 0.0 else -share * v.low)

    def drift(self, label: str, share: float, seconds: float) -> None:
        """Move a place for some time at a share of PLACE_M_S."""
        for pilot, v in self._steered(label):
            if v.place:
                self._move(
                    pilot, v, pilot.commands.values[v.command][v.index] + share * seconds * PLACE_M_S * _size(pilot)
                )

    def still(self) -> None:
        """Set motions to 0, or to the value of the range that is nearest to it, and places to where the vehicles are."""
        with self._lock:
            for i in self._numbers():
                pilot = self._pilots[i]
                here = _here(pilot)
                for v in self._values[i]:
                    if v.command in pilot.commands.values and (here is not None or not v.place):
                        self._set(pilot, v, float(here[v.index]) if v.place and here is not None else 0.0)

    def _numbers(self) -> Sequence[int]:
        return range(len(self._pilots)) if self.chosen is None else (self.chosen,)

    def _steered(self, label: str) -> list[tuple[Pilot, SteeredValue]]:
        return [
            (self._pilots[i], v)
            for i in self._numbers()
            for v in self._values[i]
            if v.label == label and v.command in self._pilots[i].commands.values  # a target is there after the take-off
        ]

    def _move(self, pilot: Pilot, v: SteeredValue, value: float) -> None:
        with self._lock:
            self._set(pilot, v, value)

    def _set(self, pilot: Pilot, v: SteeredValue, value: float) -> None:
        low, high = v.low, v.high
        if v.place:
            low, high = _near(pilot, v, low, high)
        values = pilot.commands.values[v.command].copy()
        values[v.index] = min(max(value, low), max(high, low))
        pilot.commands.values[v.command] = values  # an entry at once: the loop reads it meanwhile

    def lines(self) -> list[str]:
        """Commands as they are now, a line for each vehicle that is steered."""
        out = []
        for i in self._numbers():
            given = self._pilots[i].commands.values
            words = [
                f"{v.label} {given[v.command][v.index]:.2f} {v.unit}" for v in self._values[i] if v.command in given
            ]
            if words:
                who = f"{i + 1} " if len(self._pilots) > 1 else ""
                out.append(f"command {who} " + "  ".join(words))
        return out


def _size(pilot: Pilot) -> float:
    return ARM_SHARE if family_of(pilot.controller.spec) == "arm" else 1.0


def _told(pilot: Pilot) -> Mapping[str, Array]:
    """The vehicle's newest measurements and estimates, by quantity."""
    reading = pilot.link.read()
    return {} if reading is None else {**reading.estimates, **reading.values}


def _here(pilot: Pilot) -> Array | None:
    """[3] m, of the vehicle or an arm's tool."""
    told = _told(pilot)
    return told.get("position", told.get("tool's position"))


def _beginning(pilot: Pilot, name: str) -> Array | None:
    """[3] m, of a measured place when the policy begins; None while nobody tells it."""
    place = _told(pilot).get(name)
    rises = place is not None and name == "position" and family_of(pilot.controller.spec) == "multirotor"
    return place + np.array((0.0, 0.0, TAKE_OFF_M), np.float32) if place is not None and rises else place


def _near(pilot: Pilot, v: SteeredValue, low: float, high: float) -> tuple[float, float]:
    """Bounds of a place's coordinate about where the vehicle is now."""
    limits = pilot.settings.limits
    here = _here(pilot)
    if v.relative_to:
        about = _told(pilot).get(v.relative_to)
        if about is not None:
            low, high = low + float(about[v.index]), high + float(about[v.index])
        else:
            low, high = -np.inf, np.inf
    if here is not None:
        away = min(NEAR_M * _size(pilot), 0.5 * limits.fence_m)
        low, high = max(low, float(here[v.index]) - away), min(high, float(here[v.index]) + away)
    if v.label == UP:
        low, high = max(low, limits.lowest_m), min(high, limits.highest_m)
        if pilot.armed_at is not None and family_of(pilot.controller.spec) == "multirotor":
            low = max(low, float(pilot.armed_at[2]) + min(LOW_M, TAKE_OFF_M))
    return low, high

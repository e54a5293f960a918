"""An operator's hands on commands in flight: which of a policy's commands can be moved, how far, and by which keys and sticks.

Motions, such as a commanded velocity, have the range that the policy was trained in; it is the task's, or that of a file. A
place, such as a multirotor's target, is kept near the vehicle, so that it goes there by small steps, and within the height
limits of the safety filter. Only what the operator gives is moved: what a vehicle or a tracker measures is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rookery.sim.config import from_dict
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import is_in_file
from rookery.sim.terms.expression import Quantity
from rookery.sim2real.contract import Contract
from rookery.sim2real.runtime.checks import COMMANDED
from rookery.sim2real.runtime.entry import TAKE_OFF_M
from rookery.sim2real.runtime.pilot import COMMANDED_VELOCITY, Pilot
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.runtime.settings import family_of
from rookery.tasks.registry import find

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
        low, high: of a motion; of a place, see the module.
        unit: of it.
    """

    command: str
    index: int
    label: str
    place: bool
    low: float
    high: float
    unit: str


def task_ranges(contract: Contract) -> Ranges:
    """Ranges that the contract's task draws in training, by names of quantities; {} of a task that is not registered here, or
    has another config today. No file is run that a contract names."""
    if is_in_file(contract.task_id):
        return {}
    try:
        entry = find(contract.task_id)
        if entry.members:
            return {}
        task = entry.load()
        return task(from_dict(task.Config, contract.task_config)).command_ranges()
    except RookeryError:
        return {}


def steered_values(pilot: Pilot, known: Ranges, given: Ranges) -> Iterator[SteeredValue]:
    """The values of a checked pilot's commands that can be moved.

    Args:
        pilot: checked.
        known: ranges of its task.
        given: ranges that come before those.

    Raises:
        RookeryError: a range of another size, or not of numbers from low to high.
    """
    assert pilot.identity is not None
    for q in pilot.controller.wanted:
        operator = q.name in pilot.commands.values or (q.name == "target" and q.name not in pilot.identity.quantities)
        if not operator:
            continue
        beginnings = [n for n in given if q.name.startswith((n, COMMANDED + n))]
        ranges = given[beginnings[0]] if beginnings else known.get(q.name)
        if ranges is not None:
            _check(q, *ranges)
        if q.place and q.size == 3:
            labels: Sequence[str] = (FORWARD, LEFT, UP)
        elif q.name.startswith(COMMANDED_VELOCITY) and q.size == 3:
            labels = (FORWARD, LEFT, TURN)
        else:
            labels = [f"{q.name.removeprefix(COMMANDED).split(',')[0].replace(' ', '_')}.{i}" for i in range(q.size)]
        units = q.unit.split(", ") if q.unit.count(", ") == q.size - 1 else [q.unit] * q.size
        low, high = ranges or ([-np.inf] * q.size, [np.inf] * q.size)
        if ranges is not None or (q.place and q.size == 3):
            for i in range(q.size):
                yield SteeredValue(q.name, i, labels[i], q.place, float(low[i]), float(high[i]), units[i])


def _check(q: Quantity, low: Sequence[float], high: Sequence[float]) -> None:
    fits = len(low) == len(high) == q.size and all(a <= b for a, b in zip(low, high, strict=False))
    if not (fits and np.isfinite([*low, *high]).all()):
        raise RookeryError(f"the range of {q.name!r} must be {q.size} least and {q.size} greatest values ({q.unit}).")


def _check_asked(pilot: Pilot, values: Sequence[SteeredValue]) -> None:
    """Refuse motions that the policy has never been asked for; 0 stands for what nobody asks."""
    for v in values:
        asked = 0.0 if v.place else float(pilot.commands.values[v.command][v.index])
        within = np.float32(v.low) <= asked <= np.float32(v.high)
        if asked and not within:
            raise RookeryError(
                f"{v.label} {asked:g} {v.unit} of the command {v.command!r} is out of its range, {v.low:g} to {v.high:g}: give "
                "one within. It is the training's range unless [ranges] of --controls has another."
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
        # before links are open: some tasks take seconds to import
        self._known = [
            task_ranges(p.controller.contract) if any(q.name.startswith(COMMANDED) for q in p.controller.wanted) else {}
            for p in self._pilots
        ]
        self._values: list[list[SteeredValue]] = [[] for _ in self._pilots]
        self._lock = threading.Lock()

    def learn(self) -> None:
        """Find what can be moved, once the pilots are checked.

        Raises:
            RookeryError: a range that does not fit, or names no command of any pilot; or a motion that is asked is out of its
                range.
        """
        self._values = [
            list(steered_values(pilot, known, self._ranges))
            for pilot, known in zip(self._pilots, self._known, strict=True)
        ]
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


def _here(pilot: Pilot) -> Array | None:
    """[3] m, of the vehicle or an arm's tool."""
    reading = pilot.link.read()
    if reading is None:
        return None
    told = {**reading.estimates, **reading.values}
    return told.get("position", told.get("tool's position"))


def _near(pilot: Pilot, v: SteeredValue, low: float, high: float) -> tuple[float, float]:
    """Bounds of a place's coordinate about where the vehicle is now."""
    limits = pilot.settings.limits
    here = _here(pilot)
    if here is not None:
        away = min(NEAR_M * _size(pilot), 0.5 * limits.fence_m)
        low, high = max(low, float(here[v.index]) - away), min(high, float(here[v.index]) + away)
    if v.label == UP:
        low, high = max(low, limits.lowest_m), min(high, limits.highest_m)
        if pilot.armed_at is not None and family_of(pilot.controller.spec) == "multirotor":
            low = max(low, float(pilot.armed_at[2]) + min(LOW_M, TAKE_OFF_M))
    return low, high

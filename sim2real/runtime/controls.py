"""Settings of an operator's controls, from a TOML file.

dead_zone = 0.1                              # share of a stick's way
[axes]                                       # of a gamepad: what each moves
forward = { axis = 1, reversed = true }
[buttons]
stop = 1
land = 0
[ranges]                                     # of a command: least and greatest values
velocity = [[-0.3, -0.2, -0.5], [0.5, 0.2, 0.5]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, read_toml
from rookery.sim.values import from_values
from rookery.sim2real.runtime.steering import FORWARD, LEFT, TURN, UP

Number = Annotated[int, Meta(ge=0, le=255)]


@dataclass(frozen=True)
class ControlAxis:
    """An axis of a gamepad.

    Args:
        axis: its number.
        reversed: whether its positive end is backward, right, down or a right turn, as those of most gamepads are.
    """

    axis: Number
    reversed: bool = False


@dataclass(frozen=True)
class ControlButtons:
    """Buttons of a gamepad that end a flight, by their numbers; there is no flight without them."""

    stop: Number = 1
    land: Number = 0


@dataclass(frozen=True)
class Controls:
    """See the module. Defaults are the numbers that Linux gives an Xbox controller.

    Args:
        dead_zone: share of a stick's way about its middle that counts as 0.
        axes: by what they move: "forward", "left", "up", "turn", or "<command>.<index>" of a command that is neither a velocity
            nor a place.
        buttons: see ControlButtons.
        ranges: see rookery.sim2real.runtime.steering.
    """

    dead_zone: Annotated[float, Meta(ge=0.0, le=0.9)] = 0.1
    axes: Mapping[str, ControlAxis] = field(
        default_factory=lambda: {
            FORWARD: ControlAxis(1, True),
            LEFT: ControlAxis(0, True),
            TURN: ControlAxis(3, True),
            UP: ControlAxis(4, True),
        }
    )
    buttons: ControlButtons = field(default_factory=ControlButtons)
    ranges: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.buttons.stop == self.buttons.land:
            raise RookeryError(
                f"the buttons stop and land are both number {self.buttons.stop}: give each one of its own."
            )

    @property
    def stop(self) -> int:
        """Number of the button that brings all vehicles down at once."""
        return self.buttons.stop

    @property
    def land(self) -> int:
        """Number of the button that ends the policies."""
        return self.buttons.land

    def share(self, value: float, reversed_: bool) -> float:
        """-1 to 1, of an axis at a share of its way: 0 in the dead zone, and from there without a jump."""
        size = max(0.0, min(1.0, abs(value)) - self.dead_zone) / (1.0 - self.dead_zone)
        return -size if (value < 0.0) != reversed_ else size


def read_controls(path: Path | None) -> Controls:
    """The settings of a file; the defaults without one.

    Raises:
        RookeryError: it cannot be read, or a line of it is wrong.
    """
    if path is None:
        return Controls()
    try:
        values = read_toml(path)
    except OSError as error:
        raise RookeryError(f"cannot read the controls {path}: {error.strerror or error}.") from None
    except Damaged as error:
        raise RookeryError(f"the controls {path} cannot be read: {error}.") from None
    try:
        return from_values(Controls, values, "control")
    except RookeryError as error:
        raise RookeryError(f"the controls {path}: {error}") from None

"""The table of tasks: for each family of trajectories, what stands there and when it counts as done.

One scene holds all parts; an episode uses one of them and parks the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rookery.assets import workshop
from rookery.sim.errors import unknown
from rookery.sim.gauge import Gauge
from rookery.sim.scene import Scene, SpecFactory
from rookery.tasks.locomanip import generators

if TYPE_CHECKING:
    from rookery.robots.arms.arm import ArmModel

LOOSE = ("ball", "box", "crate")
FIXTURES = ("drawer", "door", "button", "board")
SPACE = 1.0  # m, between parked things
JOINTS = ("drawer/slide", "door/hinge", "door/lever", "button/slide", "board/slide")
"""Joints of the fixtures, in the order of `Signs.joints`."""
DRAWER, DOOR, LEVER, BUTTON, BOARD = range(5)


class Signs(NamedTuple):
    """Quantities by which rules judge, in N worlds. Meaningless where the episode's task has no such thing.

    Attributes:
        position, rotation: mean errors of the tool so far, m and rad.
        lifted: m, the thing's height above where it stood.
        in_hand: m, from the tool centre to the thing's middle.
        moved: share of the thing's way to its goal, along that way.
        off_goal: m, from the thing to its goal.
        joints: [N, 5], see JOINTS: m or rad.
        drawn: share of the way that the drawer should come out.
        pressed: m, the deepest that the button was.
        wiped: share of the board that was wiped.
    """

    position: Tensor
    rotation: Tensor
    lifted: Tensor
    in_hand: Tensor
    moved: Tensor
    off_goal: Tensor
    joints: Tensor
    drawn: Tensor
    pressed: Tensor
    wiped: Tensor


@dataclass(frozen=True)
class Ask:
    """One thing that success asks for: a sign is at most `limit`, or at least that.

    Args:
        name: in words.
        value: from signs to [N].
        limit: in `unit`, "" for a share.
    """

    name: str
    value: Callable[[Signs], Tensor]
    limit: float
    unit: str = ""
    at_most: bool = True

    def met(self, signs: Signs) -> Tensor:
        """[N] bool."""
        return self.value(signs) <= self.limit if self.at_most else self.value(signs) >= self.limit

    def gauge(self, signs: Signs, i: int) -> Gauge:
        """Gauge of world i, now."""
        return Gauge(self.name, float(self.value(signs)[i]), self.limit, self.unit, self.at_most)


@dataclass(frozen=True)
class Entry:
    """One task.

    Args:
        family: of trajectories, see generators.FAMILIES.
        part: what it handles, of LOOSE or FIXTURES; "" for nothing. It stands where the trajectories' first object does.
        asks: what success asks for at the end of an episode, all of it.
        says: that in words.
    """

    family: str
    part: str
    asks: tuple[Ask, ...]
    says: str

    def rule(self, signs: Signs) -> Tensor:
        """[N] bool, whether the task is done."""
        return torch.stack([ask.met(signs) for ask in self.asks]).all(0)


def _least(name: str, sign: str, limit: float, unit: str = "") -> Ask:
    return Ask(name, attrgetter(sign), limit, unit, at_most=False)


def _most(name: str, sign: str, limit: float, unit: str) -> Ask:
    return Ask(name, attrgetter(sign), limit, unit)


FOLLOWED = (_most("mean error", "position", 0.03, "m"), _most("mean rotation error", "rotation", 0.2, "rad"))
PICKED = (_least("lifted", "lifted", 0.12, "m"), _most("from the tool", "in_hand", 0.06, "m"))
PUSHED = (_least("share of the way", "moved", 0.8),)
DRAWN = (_least("share drawn", "drawn", 0.8),)
OPENED = (Ask("door", lambda s: s.joints[:, DOOR], 0.4, "rad", at_most=False),)
PRESSED = (_least("deepest", "pressed", 0.8 * generators.BUTTON_TRAVEL, "m"),)
WIPED = (_least("share wiped", "wiped", 0.8),)
PUT_DOWN = (_most("off its goal", "off_goal", 0.08, "m"), _least("from the tool", "in_hand", 0.06, "m"))

TABLE: dict[str, Entry] = {
    e.family: e
    for e in (
        Entry("reach", "", FOLLOWED, "mean errors of the tool below 3 cm and 0.2 rad"),
        Entry("pick-ball", "ball", PICKED, "in the hand, over 12 cm up, at the end"),
        Entry("pick-box", "box", PICKED, "in the hand, over 12 cm up, at the end"),
        Entry("push-box", "crate", PUSHED, "over 80 % of the way"),
        Entry("pull-drawer", "drawer", DRAWN, "out by over 80 % of what was wanted"),
        Entry("open-door", "door", OPENED, "open by over 0.4 rad"),
        Entry("press-button", "button", PRESSED, "pressed by over 80 % of its travel at some time"),
        Entry("wipe-board", "board", WIPED, "the hand on the board within 2 cm of at least 80 % of its way"),
        Entry("carry", "box", PUT_DOWN, "within 8 cm of its goal, let go"),
    )
}


def chosen(tasks: str) -> list[Entry]:
    """The entries named, separated by commas; "all" for the whole table.

    Raises:
        RookeryError: no such entry.
    """
    names = list(TABLE) if tasks == "all" else [name.strip() for name in tasks.split(",")]
    for name in names:
        if name not in TABLE:
            raise unknown("task of the table", name, ["all", *TABLE])
    return [TABLE[name] for name in dict.fromkeys(names)]


def add_parts(scene: Scene, arm: ArmModel) -> Scene:
    """All parts, parked: prefixes as in LOOSE and FIXTURES."""
    g = generators
    tip = arm.numbers.gripper.pad[0] - arm.numbers.gripper.pad_behind
    makers: dict[str, SpecFactory] = {
        "ball": partial(workshop.ball, g.BALL_RADIUS),
        "box": partial(workshop.box, g.BOX_HALF),
        "crate": partial(workshop.crate, g.PUSH_BOX_HALF),
        "drawer": partial(workshop.drawer, g.BAR),
        "door": partial(workshop.door, g.BAR, g.DOOR_WIDTH, g.LEVER),
        "button": partial(workshop.button, tip, g.BUTTON_TRAVEL),
        "board": partial(workshop.board, tip),
    }
    for i, name in enumerate((*LOOSE, *FIXTURES)):
        z = workshop.ALOFT if name in LOOSE else workshop.PARKED[2]
        scene.add(makers[name], name, pos=(0.0, SPACE * i, z))
    return scene

"""The table of tasks: for each family of trajectories, what stands there and when it counts as done.

One scene holds all parts; an episode uses one of them and parks the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from rookery.assets import workshop
from rookery.sim.errors import unknown
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
    """What rules judge by, in N worlds. Meaningless where the episode's task has no such thing.

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
class Entry:
    """One task.

    Args:
        family: of trajectories, see generators.FAMILIES.
        part: what it handles, of LOOSE or FIXTURES; "" for nothing. It stands where the trajectories' first object does.
        rule: from signs to [N] bool, asked at the end of an episode.
        says: the rule in words.
    """

    family: str
    part: str
    rule: Callable[[Signs], Tensor]
    says: str


def _followed(s: Signs) -> Tensor:
    return (s.position < 0.03) & (s.rotation < 0.2)


def _picked(s: Signs) -> Tensor:
    return (s.lifted > 0.12) & (s.in_hand < 0.06)


def _pushed(s: Signs) -> Tensor:
    return s.moved > 0.8


def _drawn(s: Signs) -> Tensor:
    return s.drawn > 0.8


def _opened(s: Signs) -> Tensor:
    return s.joints[:, DOOR] > 0.4


def _pressed(s: Signs) -> Tensor:
    return s.pressed > 0.8 * generators.BUTTON_TRAVEL


def _wiped(s: Signs) -> Tensor:
    return s.wiped >= 0.8


def _put_down(s: Signs) -> Tensor:
    return (s.off_goal < 0.08) & (s.in_hand > 0.06)


TABLE: dict[str, Entry] = {
    e.family: e
    for e in (
        Entry("reach", "", _followed, "mean errors of the tool below 3 cm and 0.2 rad"),
        Entry("pick-ball", "ball", _picked, "in the hand, over 12 cm up, at the end"),
        Entry("pick-box", "box", _picked, "in the hand, over 12 cm up, at the end"),
        Entry("push-box", "crate", _pushed, "over 80 % of the way"),
        Entry("pull-drawer", "drawer", _drawn, "out by over 80 % of what was wanted"),
        Entry("open-door", "door", _opened, "open by over 0.4 rad"),
        Entry("press-button", "button", _pressed, "pressed by over 80 % of its travel at some time"),
        Entry("wipe-board", "board", _wiped, "the hand on the board within 2 cm of at least 80 % of its way"),
        Entry("carry", "box", _put_down, "within 8 cm of its goal, let go"),
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

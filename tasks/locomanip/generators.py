"""Seeded generators of demonstrations, one a family: where things stand, and how a Go2 with an arm deals with them.

The base drives up along an arc; the object stands where the arm then reaches it. Key poses follow from the pose
of that thing, which the trajectory carries along (`object_pos`, `object_quat`) so that a task can put it there. All
heights are for a trunk 0.30 m and a shoulder 0.507 m above the ground, and an Airbot Play (airbot_force.urdf: links of
0.270 m and 0.290 m, 0.236 m from the wrist to the tool centre), whose gripper closes along y of the tool frame.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.locomanip.demonstration import HAND_SPEED, Demonstration, Pose, unplace
from rookery.tasks.locomanip.trajectories import Trajectory
from rookery.tasks.locomanip.trajectory_math import Floats, from_euler, from_rotation_vector, multiply, rotate, slerp

OPEN = 0.073
"""m, the widest opening of the Airbot G2 gripper (airbot_force.urdf, two fingers of 0.0366 m)."""
TIPS_UP = 0.012
"""m, how far above the middle of a thing on the floor it is gripped, so that the finger tips, 25 mm ahead of the tool
centre, stay off the floor."""
SQUEEZE = 0.015
"""m, how much narrower than the object the gripper's target is, to hold it."""

# Sizes of the things, m: a scene builds them so. Half-widths along x, y, z; the gripper closes along y.
BALL_RADIUS = 0.025
BOX_HALF = (0.045, 0.025, 0.03)
PUSH_BOX_HALF = (0.12, 0.12, 0.12)
BAR = 0.02  # thickness of the handles of drawer and door
DOOR_WIDTH = 0.40  # from the hinge, on the left, to the lever's grip
LEVER = 0.09  # from the lever's pivot, on its right, to its grip
LEVER_TURN = 0.6  # rad, how far it is pressed down
BUTTON_TRAVEL = 0.02
FURTHER = 0.05  # how much further than wanted a box is pushed: the base is late, and a robot that lags pushes less
WIPE_PRESS = 0.002  # how far behind the board's face the wiping hand's target is
REACHABLE = (0.15, 0.54)
"""m, from the shoulder to the wrist, for poses drawn at random: neither folded up nor stretched."""
WRIST = 0.236
"""m, from the wrist to the tool centre."""
_SHOULDER = np.array([0.0, 0.0, 0.507])  # m, above the ground below the base

Objects = list[tuple[str, Pose]]


def generate(family: str, count: int = 200, seed: int = 0) -> list[Trajectory]:
    """Demonstrations of a family.

    Args:
        family: one of `FAMILIES`.
        count: how many.
        seed: the same seed gives the same trajectories, whatever the count; at least 0.
    """
    if family not in FAMILIES:
        raise unknown("trajectory family", family, FAMILIES)
    if seed < 0 or count < 1:
        raise RookeryError(f"seed {seed} and count {count}: give a seed of at least 0 and a count of at least 1.")
    out = []
    for k in range(count):
        rng = np.random.default_rng([seed, zlib.crc32(family.encode()), k])
        pos = np.array([0.40, 0.0, 0.55]) + rng.uniform(-0.03, 0.03, 3)
        pitch = rng.uniform(0.2, 0.5)
        demo = Demonstration(pos, from_euler(0.0, pitch, 0.0), 0.0, pace=rng.uniform(0.85, 1.25))
        demo.hold(0.3)
        objects = FAMILIES[family](demo, rng)
        demo.hold(0.5)
        out.append(demo.finish(family, f"{family}-{k:03d}", seed, objects))
    return out


def _reach(demo: Demonstration, rng: np.random.Generator) -> Objects:
    """Poses all over the space in front and at the sides, some while walking."""
    for _ in range(rng.integers(3, 6)):
        if rng.random() < 0.4:
            demo.drive(rng.uniform(-0.3, 0.6), rng.uniform(-0.5, 0.5))
        else:
            demo.go(*_free_pose(demo, rng))
        demo.hold(rng.uniform(0.3, 1.0))
    return []


def _free_pose(demo: Demonstration, rng: np.random.Generator) -> Pose:
    """A pose that the arm reaches along a straight path which stays clear of trunk, shoulder and floor.

    The ranges of radius and elevation are those of UniLab's Go2ArmManipLoco, the yaw is narrower.
    """
    while True:
        radius = rng.uniform(0.3, 0.6)
        elevation = rng.uniform(-1.2, 0.9)
        yaw = rng.uniform(-1.3, 1.3)
        ahead = radius * np.cos(elevation)
        pos = np.array([ahead * np.cos(yaw), ahead * np.sin(yaw), 0.395 + radius * np.sin(elevation)])
        roll, pitch, turn = np.array([0.0, 0.35 - 0.6 * elevation, yaw]) + rng.uniform(-0.4, 0.4, 3)
        start, quat = unplace(demo.base, demo.pos, demo.quat)
        share = np.linspace(0.0, 1.0, 11)
        way = start + share[:, None] * (pos - start)
        turns = slerp(quat, from_euler(roll, pitch, turn), share)
        wrist = np.linalg.norm(way - WRIST * rotate(turns, [1.0, 0.0, 0.0]) - _SHOULDER, axis=1)
        in_trunk = (way[:, 0] < 0.42) & (np.abs(way[:, 1]) < 0.25) & (way[:, 2] < 0.45)
        in_reach = REACHABLE[0] < wrist.min() and wrist.max() < REACHABLE[1] and way[:, 2].min() > 0.05
        if in_reach and not in_trunk.any():
            return demo.near(pos, roll, pitch, turn)


def _approach(demo: Demonstration, rng: np.random.Generator) -> None:
    """Drive up; then a moment for the base to come to rest."""
    demo.drive(rng.uniform(0.2, 0.8), rng.uniform(-0.5, 0.5))
    demo.hold(1.0)


def _grasp(demo: Demonstration, pos: Floats, quat: Floats, width: float) -> None:
    """Come in along the gripper's axis, open, and close on something `width` m thick."""
    demo.go(_back(pos, quat, 0.10), quat, opening=OPEN)
    demo.go(pos, quat)
    demo.grip(width - SQUEEZE)


def _back(pos: Floats, quat: Floats, distance: float) -> Floats:
    """`distance` m back along the gripper's axis."""
    return np.asarray(pos - distance * rotate(quat, [1.0, 0.0, 0.0]))


def _above(pos: Floats, height: float) -> Floats:
    return pos + np.array([0.0, 0.0, height])


def _pick_ball(demo: Demonstration, rng: np.random.Generator) -> Objects:
    _approach(demo, rng)
    x, y = rng.uniform(0.43, 0.47), rng.uniform(-0.10, 0.10)
    ball = demo.near([x, y, BALL_RADIUS])
    pos, quat = demo.near(
        [x, y, BALL_RADIUS + TIPS_UP], pitch=rng.uniform(1.3, 1.5), yaw=np.arctan2(y, x) + rng.uniform(-0.3, 0.3)
    )
    _grasp(demo, pos, quat, 2.0 * BALL_RADIUS)
    demo.go(_above(pos, rng.uniform(0.2, 0.35)), quat)
    return [("ball", ball)]


def _take_box(demo: Demonstration, rng: np.random.Generator) -> Pose:
    """Grasp a box on the floor from above. Returns where it stood."""
    pos = np.array([rng.uniform(0.42, 0.45), rng.uniform(-0.1, 0.1), BOX_HALF[2]])
    yaw = rng.uniform(-0.5, 0.5)
    box = demo.near(pos, yaw=yaw)
    hand = demo.near(_above(pos, TIPS_UP), pitch=0.5 * np.pi, yaw=yaw)
    _grasp(demo, *hand, 2.0 * BOX_HALF[1])
    return box


def _pick_box(demo: Demonstration, rng: np.random.Generator) -> Objects:
    _approach(demo, rng)
    box = _take_box(demo, rng)
    demo.go(_above(demo.pos, rng.uniform(0.2, 0.35)), demo.quat)
    return [("box", box)]


def _push_box(demo: Demonstration, rng: np.random.Generator) -> Objects:
    """The closed gripper comes down behind the box; then the base pushes; then the hand comes up."""
    _approach(demo, rng)
    face = rng.uniform(0.52, 0.56)
    y = rng.uniform(-0.03, 0.03)
    yaw = rng.uniform(-0.1, 0.1)
    length = rng.uniform(0.5, 1.0)
    box_pos = np.array([face + PUSH_BOX_HALF[0] / np.cos(yaw), y, PUSH_BOX_HALF[2]])
    box = demo.near(box_pos, yaw=yaw)
    goal = demo.near(box_pos + np.array([length, 0.0, 0.0]), yaw=yaw)
    height = rng.uniform(0.10, 0.16)
    pitch = rng.uniform(0.8, 1.1)
    behind, quat = demo.near([face - 0.08, y, height], pitch=pitch)
    demo.go(behind, quat)
    demo.go(demo.near([face, y, height])[0], quat)
    demo.drive(length + FURTHER)
    demo.hold(0.3)
    demo.go(_back(demo.pos, demo.quat, 0.10), demo.quat)
    return [("box", box), ("goal", goal)]


def _pull_drawer(demo: Demonstration, rng: np.random.Generator) -> Objects:
    """A horizontal bar, pulled straight out by the arm; the base stands, as steps would shake what the hand holds."""
    _approach(demo, rng)
    pos = [rng.uniform(0.58, 0.63), rng.uniform(-0.06, 0.06), rng.uniform(0.32, 0.48)]
    yaw = rng.uniform(-0.15, 0.15)
    handle = demo.near(pos, yaw=yaw)
    start, quat = demo.near(pos, roll=0.5 * np.pi, yaw=yaw)
    _grasp(demo, start, quat, BAR)
    distance = rng.uniform(0.12, 0.18)
    out = _back(start, quat, distance) - start
    demo.trace(
        lambda s: (start + s[:, None] * out, np.tile(quat, (len(s), 1))),
        seconds=2.0 * distance / HAND_SPEED,
    )
    demo.grip(OPEN)
    demo.go(_back(demo.pos, demo.quat, 0.06), demo.quat)
    return [("handle", handle), ("goal", (handle[0] + out, handle[1]))]


def _open_door(demo: Demonstration, rng: np.random.Generator) -> Objects:
    """Grip the lever, press it down, pull the door about its hinge, let go; the base stands, as for a drawer."""
    _approach(demo, rng)
    grip = np.array([rng.uniform(0.62, 0.66), rng.uniform(-0.05, 0.05), rng.uniform(0.45, 0.60)])
    yaw = rng.uniform(-0.1, 0.1)
    angle = rng.uniform(0.52, 0.62)
    handle = demo.near(grip, yaw=yaw)
    start, quat = demo.near(grip, roll=0.5 * np.pi, yaw=yaw)
    door = handle[1]
    hinge = handle[0] + rotate(door, [0.0, DOOR_WIDTH, 0.0])

    def held(pressed: Floats, opened: Floats) -> Pose:
        """The hand on a lever turned down by `pressed` [n], on a door open by `opened` [n], rad."""
        zero = np.zeros_like(pressed)
        lever = from_rotation_vector(np.stack((-pressed, zero, zero), axis=1))
        swing = from_rotation_vector(np.stack((zero, zero, -opened), axis=1))
        # in the door's frame at the hinge: pivot, and from it the lever towards the hinge
        place = np.array([0.0, -DOOR_WIDTH - LEVER, 0.0]) + rotate(lever, [0.0, LEVER, 0.0])
        turned = multiply(door, swing)
        return hinge + rotate(turned, place), multiply(turned, multiply(lever, from_euler(0.5 * np.pi, 0.0, 0.0)))

    _grasp(demo, start, quat, BAR)
    demo.trace(lambda s: held(LEVER_TURN * s, 0.0 * s), seconds=0.6)
    demo.trace(
        lambda s: held(LEVER_TURN + 0.0 * s, angle * s),
        seconds=angle / 0.3,
    )
    demo.grip(OPEN)
    demo.go(_back(demo.pos, demo.quat, 0.09), demo.quat)
    return [("handle", handle), ("hinge", (hinge * [1.0, 1.0, 0.0], door))]


def _press_button(demo: Demonstration, rng: np.random.Generator) -> Objects:
    _approach(demo, rng)
    pos = [rng.uniform(0.56, 0.62), rng.uniform(-0.12, 0.12), rng.uniform(0.30, 0.60)]
    button = demo.near(pos, yaw=rng.uniform(-0.15, 0.15))
    start, quat = button
    demo.go(_back(start, quat, 0.08), quat)
    demo.go(start, quat)
    demo.go(_back(start, quat, -BUTTON_TRAVEL), quat)
    demo.hold(0.3)
    demo.go(_back(start, quat, 0.08), quat)
    return [("button", button)]


def _wipe_board(demo: Demonstration, rng: np.random.Generator) -> Objects:
    """Row by row over an upright or leaning board, the gripper square to it."""
    _approach(demo, rng)
    pos = [rng.uniform(0.50, 0.54), rng.uniform(-0.05, 0.05), rng.uniform(0.38, 0.50)]
    lean = rng.uniform(0.0, 0.6)
    board = demo.near(pos, pitch=lean, yaw=rng.uniform(-0.1, 0.1))
    width = rng.uniform(0.20, 0.26)
    height = rng.uniform(0.12, 0.18)
    rows = int(rng.integers(3, 5))
    corners = [
        [WIPE_PRESS, side * 0.5 * width, z]
        for row, z in enumerate(np.linspace(0.5 * height, -0.5 * height, rows))
        for side in ((1.0, -1.0) if row % 2 == 0 else (-1.0, 1.0))
    ]
    way = board[0] + rotate(board[1], np.array(corners))
    demo.go(_back(way[0], board[1], 0.06), board[1])
    for corner in way:
        demo.go(corner, board[1])
    demo.go(_back(way[-1], board[1], 0.06), board[1])
    return [("board", board)]


def _carry(demo: Demonstration, rng: np.random.Generator) -> Objects:
    """Pick a box up, walk about a meter with it, put it down, leave it."""
    _approach(demo, rng)
    box = _take_box(demo, rng)
    demo.go(_above(demo.pos, 0.12), demo.quat)
    demo.drive(0.0, 0.0, pos=[0.42, 0.0, 0.42], pitch=0.5 * np.pi)
    demo.drive(rng.uniform(0.8, 1.2), rng.uniform(-0.4, 0.4))
    pos = np.array([rng.uniform(0.42, 0.45), rng.uniform(-0.1, 0.1), BOX_HALF[2]])
    yaw = rng.uniform(-0.4, 0.4)
    goal = demo.near(pos, yaw=yaw)
    down, quat = demo.near(_above(pos, TIPS_UP), pitch=0.5 * np.pi, yaw=yaw)
    demo.go(_above(down, 0.10), quat)
    demo.go(down, quat)
    demo.grip(OPEN)
    demo.go(_above(down, 0.15), quat)
    return [("box", box), ("goal", goal)]


FAMILIES: dict[str, Callable[[Demonstration, np.random.Generator], Objects]] = {
    "reach": _reach,
    "pick-ball": _pick_ball,
    "pick-box": _pick_box,
    "push-box": _push_box,
    "pull-drawer": _pull_drawer,
    "open-door": _open_door,
    "press-button": _press_button,
    "wipe-board": _wipe_board,
    "carry": _carry,
}
"""Name: what moves the hand and the base, and returns the things with their poses."""

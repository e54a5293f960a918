"""Things that a mobile manipulator handles: a ball, a box and a crate on the floor, a drawer, a door, a button and a board.

Loose things have the body `base` with the free joint `root`. Fixtures have the body `base`, a mocap body, so that each world
and each episode can put it elsewhere; they touch hands only (`assets.arms.FIXTURE_BIT`), not legs, trunk, ground or each
other. Every part stands for an origin, the frame of `base`: x away from who uses it, z up; that of a handle is in the middle of
what is gripped, that of a button or board is where the tool centre is when the finger tips touch, `tip` m before its face.

All masses, springs and dampings are our own choice, of the size of furniture that a small arm can move.
"""

from __future__ import annotations

import mujoco

from rookery.assets import scenery
from rookery.assets.arms import FIXTURE_BIT

PARKED = (0.0, 0.0, -5.0)
"""m, where fixtures stay that an episode does not need: below the ground, which they do not touch."""
ALOFT = 30.0
"""m, how high loose things hang meanwhile, without weight."""
BALL_KG = 0.08
BOX_KG = 0.15
CRATE_KG = 1.0
ROLLING = 0.003  # m, rolling friction of the ball, of soft rubber on carpet
CRATE_FRICTION = 0.4
BAR_HALF = 0.06  # m, half the length of a handle
PANEL_BEHIND = 0.06  # m, from a handle's axis to the face behind it
DRAWER_REACH = 0.30  # m, how far a drawer comes out
DOOR_OPEN = 1.6  # rad
LEVER_END = 0.75  # rad
LATCH_PLAY = 0.01  # rad, of a latched door
RED = (0.85, 0.25, 0.2, 1)
WOOD = (0.72, 0.55, 0.36, 1)
STEEL = (0.55, 0.58, 0.62, 1)
WHITE = (0.93, 0.94, 0.92, 1)
_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
_CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
_SLIDE = mujoco.mjtJoint.mjJNT_SLIDE
_HINGE = mujoco.mjtJoint.mjJNT_HINGE


def ball(radius: float) -> mujoco.MjSpec:
    """A ball (m) that does not roll for long: geom `ball`."""
    spec = scenery.ball(radius, BALL_KG, restitution=0.0, friction=(1.0, 0.005, ROLLING))
    spec.body("base").geoms[0].condim = 6
    return _loose(spec)


def box(half: tuple[float, float, float]) -> mujoco.MjSpec:
    """A small box of half-widths x, y, z (m): geom `box`."""
    return _loose(scenery.box([2.0 * v for v in half], BOX_KG, rgba=(0.2, 0.45, 0.8, 1.0)))


def crate(half: tuple[float, float, float]) -> mujoco.MjSpec:
    """A box to push, half-widths x, y, z (m): geom `box`. It slides more easily than it tips over."""
    spec = scenery.box([2.0 * v for v in half], CRATE_KG, friction=(CRATE_FRICTION, 0.005, 0.0001), rgba=WOOD)
    spec.body("base").geoms[0].priority = 1
    return _loose(spec)


def _loose(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Without weight, until a world takes it down: `gravcomp` 0."""
    spec.body("base").gravcomp = 1.0
    return spec


def drawer(bar: float) -> mujoco.MjSpec:
    """A drawer with a level handle `bar` m thick: joint `slide`, m out of its case."""
    spec, base = scenery.fixture()
    inner = base.add_body(name="drawer")
    _joint(inner, "slide", _SLIDE, (-1.0, 0.0, 0.0), (0.0, DRAWER_REACH), damping=15.0)
    face = _solid(inner, "face", _BOX, (0.01, 0.16, 0.06), (PANEL_BEHIND + 0.01, 0.0, 0.0), WOOD, mass=1.0)
    assert face is not None
    _handle(inner, "handle", 0.5 * bar, (0.0, 0.0, 0.0))
    _looks(base, "case", (0.15, 0.18, 0.08), (PANEL_BEHIND + 0.17, 0.0, 0.0))
    return spec


def door(bar: float, width: float, lever: float) -> mujoco.MjSpec:
    """A door that opens towards its user: joint `hinge`, rad open, and joint `lever`, rad pressed down.

    Args:
        bar: m, thickness of the lever.
        width: m, from the hinge, on the left, to the middle of the lever's grip, where the origin is.
        lever: m, from the lever's pivot, on the right, to that middle.
    """
    spec, base = scenery.fixture()
    leaf = base.add_body(name="leaf", pos=[0.0, width, 0.0])
    hinge = _joint(leaf, "hinge", _HINGE, (0.0, 0.0, -1.0), (-LATCH_PLAY, LATCH_PLAY), damping=0.6)
    hinge.armature = 0.02
    middle = 0.5 * (width + lever + 0.08)
    _solid(leaf, "panel", _BOX, (0.012, middle, 0.42), (PANEL_BEHIND + 0.012, -middle, 0.02), WOOD, mass=2.5)
    arm = leaf.add_body(name="lever", pos=[0.0, -width - lever, 0.0])
    turn = _joint(arm, "lever", _HINGE, (-1.0, 0.0, 0.0), (0.0, LEVER_END), damping=0.05, stiffness=0.6)
    turn.springref = -0.4  # its spring carries the lever's weight
    turn.armature = 0.001
    _handle(arm, "handle", 0.5 * bar, (0.0, lever, 0.0))
    _looks(arm, "pivot", (0.5 * PANEL_BEHIND, 0.012, 0.012), (0.5 * PANEL_BEHIND, 0.0, 0.0))
    return spec


def button(tip: float, travel: float) -> mujoco.MjSpec:
    """A button on a post, `travel` m deep: joint `slide`, m pressed."""
    spec, base = scenery.fixture()
    cap = base.add_body(name="cap")
    spring = _joint(cap, "slide", _SLIDE, (1.0, 0.0, 0.0), (0.0, travel + 0.002), damping=4.0, stiffness=120.0)
    spring.armature = 0.02
    _solid(cap, "cap", _CYLINDER, (0.035, 0.01), (tip + 0.01, 0.0, 0.0), RED, mass=0.05, quat=_ALONG_X)
    _looks(base, "housing", (0.02, 0.055, 0.055), (tip + 0.05, 0.0, 0.0))
    return spec


def board(tip: float) -> mujoco.MjSpec:
    """An upright board on springs: joint `slide`, m that it gives way, which tells whether somebody leans on it."""
    spec, base = scenery.fixture()
    plate = base.add_body(name="plate")
    spring = _joint(plate, "slide", _SLIDE, (1.0, 0.0, 0.0), (-0.001, 0.05), damping=15.0, stiffness=300.0)
    spring.armature = 0.05
    face = _solid(plate, "face", _BOX, (0.008, 0.20, 0.14), (tip + 0.008, 0.0, 0.0), WHITE, mass=0.3)
    face.friction, face.priority = [0.2, 0.005, 0.0001], 2  # a wet sponge: less than the pads' grip
    return spec


_ALONG_X = (0.70710678, 0.0, 0.70710678, 0.0)
_ALONG_Y = (0.70710678, 0.70710678, 0.0, 0.0)


def _joint(
    body: mujoco.MjsBody, name: str, kind: mujoco.mjtJoint, axis: tuple[float, float, float],
    reach: tuple[float, float], damping: float, stiffness: float = 0.0,
) -> mujoco.MjsJoint:  # fmt: skip
    joint = body.add_joint(name=name, type=kind, axis=list(axis), range=list(reach))
    joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    joint.damping = [damping, 0, 0]
    joint.stiffness = [stiffness, 0, 0]
    return joint


def _solid(
    body: mujoco.MjsBody, name: str, shape: mujoco.mjtGeom, size: tuple[float, ...], pos: tuple[float, float, float],
    rgba: tuple[float, ...], mass: float, quat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0),
) -> mujoco.MjsGeom:  # fmt: skip
    return body.add_geom(
        name=name, type=shape, size=[*size, 0.0][:3], pos=list(pos), quat=list(quat), rgba=list(rgba), mass=mass,
        contype=FIXTURE_BIT, conaffinity=0,
    )  # fmt: skip


def _handle(body: mujoco.MjsBody, name: str, radius: float, pos: tuple[float, float, float]) -> None:
    """A bar along y."""
    _solid(body, name, _CAPSULE, (radius, BAR_HALF), pos, STEEL, mass=0.1, quat=_ALONG_Y)


def _looks(body: mujoco.MjsBody, name: str, half: tuple[float, float, float], pos: tuple[float, float, float]) -> None:
    """A box that nothing touches."""
    body.add_geom(
        name=name, type=_BOX, size=list(half), pos=list(pos), rgba=list(STEEL), mass=0.0, contype=0, conaffinity=0
    )

"""Things on the table of Meta-World's push, pick-place, button and peg tasks, by the measures of metaworld 3.1.1.

Loose things have the body `base` with the free joint `root`, whose frame is in their middle. Fixtures have the body `base`,
a mocap body, so that each world and each episode can put it elsewhere. All meet fingers, each other and the table; fixtures
also meet the arm's links (assets.arms.LINK_BIT).

Masses: Meta-World's puck weighs .75 kg, as if of tungsten, and its peg resists turning like a lorry (1e5 kg m^2). Here both
are of uniform stuff of about wood's and hard rubber's density, and their inertia follows from their shape.
"""

from __future__ import annotations

import mujoco

from rookery.assets.arms import LINK_BIT, TOUCH_BIT
from rookery.assets.scenery import FRICTION, Rgba, fixture

PUCK_RADIUS = PUCK_HALF = 0.02  # m
PUCK_KG = 0.06  # 1.2 times as dense as water
PEG_HALF = (0.12, 0.015, 0.015)  # m
PEG_KG = 0.1  # Meta-World's, 0.46 times as dense as water

BUTTON_TOP = 0.193
"""m, from the origin of the button's box up to what is observed of it, 1 mm under the face of the cap."""
BUTTON_GOAL = 0.1
"""m, likewise of where the cap is to go. It counts from 24 mm over that: when pressed by 69 mm."""
BUTTON_TRAVEL = 0.074
"""m. Meta-World's is .06: there a press counts only when the cap is pushed 9 mm past its stop."""
BUTTON_KG, BUTTON_ARMATURE, BUTTON_DAMPING = 0.01, 0.001, 1.0  # kg, kg, N s/m: Meta-World's, as is the spring
BUTTON_STIFFNESS, BUTTON_REST = 0.5, 0.5  # N/m, m: a quarter of a newton, of which the cap's weight is a third

BLOCK_HALF = (0.096, 0.1, 0.1)  # m
HOLE_HALF = 0.03
HOLE_Z = 0.13
"""m, of the square hole through the block along x, and its middle over the table."""

RED = (0.80, 0.20, 0.17, 1.0)
WOOD = (0.76, 0.60, 0.42, 1.0)
PAINT = (0.88, 0.70, 0.20, 1.0)
STEEL = (0.60, 0.62, 0.65, 1.0)
BLUE = (0.22, 0.42, 0.68, 1.0)
_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER


def plinth(height: float) -> mujoco.MjSpec:
    """A plinth for a robot, `height` m over the table. Nothing touches it."""
    spec = mujoco.MjSpec()
    _looks(spec.worldbody, "plinth", _BOX, (0.11, 0.1, 0.5 * height), (0.0, 0.0, 0.5 * height), STEEL)
    return spec


def puck() -> mujoco.MjSpec:
    """A cylinder 4 cm wide and high: geom `puck`."""
    return loose("puck", _CYLINDER, (PUCK_RADIUS, PUCK_HALF, 0.0), PUCK_KG, RED)


def peg() -> mujoco.MjSpec:
    """A square bar along x, 24 cm long and 3 cm thick: geom `peg`. Its head is at -x."""
    return loose("peg", _BOX, PEG_HALF, PEG_KG, WOOD)


def button() -> mujoco.MjSpec:
    """A button to be pressed down into its box: joint `slide`, m, 0 at rest and negative when pressed.

    The box's origin stands 11.5 cm over the table in Meta-World, as its lower side is 11.4 cm under the origin.
    """
    spec, base = fixture()
    _wall(base, "box", (0.12, 0.12, 0.102), (0.0, 0.0, -0.012), PAINT)
    cap = base.add_body(name="cap")
    slide = cap.add_joint(
        name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1], range=[-BUTTON_TRAVEL, 0.0],
        limited=mujoco.mjtLimited.mjLIMITED_TRUE,
    )  # fmt: skip
    slide.armature = BUTTON_ARMATURE
    slide.springref = BUTTON_REST
    slide.damping = [BUTTON_DAMPING, 0, 0]
    slide.stiffness = [BUTTON_STIFFNESS, 0, 0]
    face = cap.add_geom(name="cap", type=_CYLINDER, size=[0.043, 0.011, 0.0], pos=[0, 0, 0.183], rgba=list(RED))
    face.contype = TOUCH_BIT
    face.conaffinity = TOUCH_BIT
    face.mass = BUTTON_KG
    # it never leaves its hole, and what is under the cap is not reached
    for name, radius, half, z in (("neck", 0.026, 0.008, 0.166), ("rod", 0.021, 0.039, 0.128)):
        _looks(cap, name, _CYLINDER, (radius, half, 0.0), (0.0, 0.0, z), STEEL)
    _looks(base, "collar", _CYLINDER, (0.034, 0.003, 0.0), (0.0, 0.0, 0.093), STEEL)
    return spec


def block() -> mujoco.MjSpec:
    """A block on the table with a hole along x, twice as wide as the peg is thick: geoms `floor`, `roof`, `left`, `right`."""
    spec, base = fixture()
    x, y, _ = BLOCK_HALF
    low = HOLE_Z - HOLE_HALF
    high = HOLE_Z + HOLE_HALF
    top = 2.0 * BLOCK_HALF[2]
    _wall(base, "floor", (x, y, 0.5 * low), (0.0, 0.0, 0.5 * low), BLUE)
    _wall(base, "roof", (x, y, 0.5 * (top - high)), (0.0, 0.0, 0.5 * (top + high)), BLUE)
    side = 0.5 * (y - HOLE_HALF)
    for name, sign in (("left", 1.0), ("right", -1.0)):
        _wall(base, name, (x, side, HOLE_HALF), (0.0, sign * (HOLE_HALF + side), HOLE_Z), BLUE)
    return spec


def loose(name: str, shape: mujoco.mjtGeom, size: tuple[float, float, float], mass: float, rgba: Rgba) -> mujoco.MjSpec:
    """A thing of one geom `name`, free to move."""
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base")
    base.add_freejoint(name="root")
    geom = base.add_geom(name=name, type=shape, size=list(size), mass=mass, rgba=list(rgba), friction=list(FRICTION))
    geom.contype = TOUCH_BIT
    geom.conaffinity = TOUCH_BIT
    return spec


def _wall(
    body: mujoco.MjsBody, name: str, half: tuple[float, float, float], pos: tuple[float, float, float], rgba: Rgba
) -> None:
    geom = body.add_geom(name=name, type=_BOX, size=list(half), pos=list(pos), rgba=list(rgba))
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = TOUCH_BIT
    geom.friction = list(FRICTION)


def _looks(
    body: mujoco.MjsBody, name: str, shape: mujoco.mjtGeom, size: tuple[float, float, float],
    pos: tuple[float, float, float], rgba: Rgba,
) -> None:  # fmt: skip
    """A shape that nothing touches."""
    geom = body.add_geom(name=name, type=shape, size=list(size), pos=list(pos), rgba=list(rgba), mass=0.0, group=2)
    geom.contype = geom.conaffinity = 0

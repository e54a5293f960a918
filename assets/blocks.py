"""Things that the Panda tasks handle: cubes, a bar, the T of Push-T with the picture of its goal, and a cabinet with one
drawer.

Loose things have the body `base` with the free joint `root`. They meet fingers, the table, furniture and each other.
"""

from __future__ import annotations

import mujoco

from rookery.assets.arms import LINK_BIT, PAD_SOLIMP, TOUCH_BIT
from rookery.assets.scenery import FRICTION, Rgba

Three = tuple[float, float, float]

CONTACT_TIME = 0.006
"""s, time constant of loose things' contacts: the fingers arrive with 0.2 m/s and the inertia of their drive, and with MuJoCo's
.02 s they dip 3.4 mm into a cube before they come back (measured)."""
BLOCK_FRICTION = 0.5  # on the table, of painted wood; on the pads theirs counts, which is larger

T_UNIT = 0.05
"""m. The T of Push-T is four units wide and high and one thick: a bar of 4 x 1 and a stem of 1 x 3 (Chi et al. 2023)."""
T_HEIGHT = 0.03  # m
T_KG = 0.3  # 0.57 times as dense as water: wood
T_FRICTION = 0.4  # on the table, of wood
_C = 6.0 / 7.0 * T_UNIT  # m, from the middle of the bar down the stem to the T's centroid, which is its origin
T_RECTANGLES: tuple[tuple[float, float, float, float], ...] = (
    (0.0, _C, 2.0 * T_UNIT, 0.5 * T_UNIT),
    (0.0, _C - 2.0 * T_UNIT, 0.5 * T_UNIT, 1.5 * T_UNIT),
)
"""Middle x, y and half-widths, m, in the T's frame: the bar, then the stem. They meet in an edge and do not overlap."""
T_AREA = 7.0 * T_UNIT**2  # m^2

DRAWER_RANGE = 0.4  # m; IsaacGym's FrankaCabinet is done at .39
HANDLE: Three = (-0.25, 0.0, 0.5)
"""m, from the cabinet's origin, which is on the floor under its middle, to the handle of the shut drawer."""
HANDLE_RADIUS, HANDLE_HALF, STAND_OFF = 0.009, 0.06, 0.06  # m; the last from the drawer's face to the handle's axis
DRAWER_DAMPING, DRAWER_FRICTION = 5.0, 2.0  # N s/m, N
DRAWER_KG = 1.2

GREEN = (0.28, 0.62, 0.35, 1.0)
BLUE = (0.22, 0.42, 0.68, 1.0)
RED = (0.80, 0.27, 0.20, 1.0)
GREY = (0.52, 0.55, 0.60, 1.0)
OAK = (0.55, 0.38, 0.24, 1.0)
PINE = (0.84, 0.68, 0.47, 1.0)
STEEL = (0.45, 0.48, 0.52, 1.0)
_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE


def block(half: Three, mass: float, rgba: Rgba) -> mujoco.MjSpec:
    """A box of half-widths [3] m: geom `block`."""
    spec, base = _loose()
    geom = base.add_geom(name="block", type=_BOX, size=list(half), mass=mass, rgba=list(rgba))
    _firm(geom, BLOCK_FRICTION)
    return spec


def tee() -> mujoco.MjSpec:
    """The T of Push-T, flat on the table, its stem towards -y: geoms `bar` and `stem`. The origin is its centroid."""
    spec, base = _loose()
    for name, (x, y, a, b) in zip(("bar", "stem"), T_RECTANGLES, strict=True):
        geom = base.add_geom(
            name=name, type=_BOX, size=[a, b, 0.5 * T_HEIGHT], pos=[x, y, 0.0], rgba=list(GREY),
            mass=T_KG * 4.0 * a * b / T_AREA,
        )  # fmt: skip
        _firm(geom, T_FRICTION)
    return spec


def tee_goal() -> mujoco.MjSpec:
    """Goal of the T, drawn on the table; nothing touches it."""
    spec = mujoco.MjSpec()
    for x, y, a, b in T_RECTANGLES:
        geom = spec.worldbody.add_geom(type=_BOX, size=[a, b, 0.0005], pos=[x, y, 0.0005], rgba=list(GREEN), group=2)
        geom.contype = geom.conaffinity = 0
        geom.mass = 0.0
    return spec


def cabinet() -> mujoco.MjSpec:
    """A cabinet with a drawer that comes out towards -x, up to `DRAWER_RANGE`: joint `slide`, m, 0 shut.

    Its body `base` is a mocap body, so that each world and each episode can put it elsewhere. Drawer and case do not touch:
    the joint is all there is between them. The handle is a level bar along y.
    """
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base")
    base.mocap = True
    front = HANDLE[0] + STAND_OFF  # x of the drawer's face
    depth = 0.21
    middle = front + 0.025 + 0.21
    for y in (-0.26, 0.26):
        _solid(base, (depth, 0.012, 0.32), (middle, y, 0.32), OAK)
    _solid(base, (0.01, 0.248, 0.32), (middle + depth - 0.01, 0.0, 0.32), OAK)
    for z in (0.012, 0.40, 0.628):
        _solid(base, (depth, 0.248, 0.012), (middle, 0.0, z), OAK)
    _solid(base, (0.01, 0.24, 0.18), (front + 0.025, 0.0, 0.206), PINE)  # the doors under the drawer
    drawer = base.add_body(name="drawer", pos=[front, 0.0, HANDLE[2]])
    slide = drawer.add_joint(
        name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[-1, 0, 0], range=[0.0, DRAWER_RANGE],
        limited=mujoco.mjtLimited.mjLIMITED_TRUE,
    )  # fmt: skip
    slide.damping = [DRAWER_DAMPING, 0, 0]
    slide.frictionloss = DRAWER_FRICTION
    _solid(drawer, (0.01, 0.245, 0.095), (0.01, 0.0, 0.01), PINE, 0.4 * DRAWER_KG)
    _solid(drawer, (0.19, 0.23, 0.006), (0.21, 0.0, -0.06), PINE, 0.2 * DRAWER_KG)
    for y in (-0.23, 0.23):
        _solid(drawer, (0.19, 0.006, 0.06), (0.21, y, 0.0), PINE, 0.2 * DRAWER_KG)
    bar = (-STAND_OFF, HANDLE_HALF, 0.0)
    post = (0.0, HANDLE_HALF, 0.0)
    _bar(drawer, (bar[0], -bar[1], 0.0), bar)
    for sign in (-1.0, 1.0):
        _bar(drawer, (bar[0], sign * bar[1], 0.0), (post[0], sign * post[1], 0.0))
    return spec


def _loose() -> tuple[mujoco.MjSpec, mujoco.MjsBody]:
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base")
    base.add_freejoint(name="root")
    return spec, base


def _firm(geom: mujoco.MjsGeom, friction: float) -> None:
    """Contacts of a loose thing: its own priority, like the pads', so that the larger friction of the two counts there."""
    geom.contype = TOUCH_BIT
    geom.conaffinity = TOUCH_BIT
    geom.priority = 1
    geom.friction = [friction, *FRICTION[1:]]
    geom.solref = [CONTACT_TIME, 1.0]
    geom.solimp = list(PAD_SOLIMP)
    geom.solmix = 20.0


def _solid(body: mujoco.MjsBody, half: Three, pos: Three, rgba: Rgba, mass: float = 0.0) -> None:
    geom = body.add_geom(type=_BOX, size=list(half), pos=list(pos), rgba=list(rgba), mass=mass)
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = 0


def _bar(body: mujoco.MjsBody, start: Three, end: Three) -> None:
    geom = body.add_geom(type=_CAPSULE, size=[HANDLE_RADIUS, 0, 0], fromto=[*start, *end], rgba=list(STEEL), mass=0.05)
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = 0

"""Things on the table of Meta-World's sweep, basketball, shelf and lever tasks, by the measures of metaworld 3.1.1.

As in assets.tabletop and assets.furniture: loose things have the body `base` with the free joint `root`, fixtures have the
mocap body `base`. Where the Panda's palm, 20 cm long across the fingers, would hit what is around, that gives way.
"""

from __future__ import annotations

import mujoco

from rookery.assets.arms import LINK_BIT, TOUCH_BIT
from rookery.assets.furniture import ARMATURE, DAMPING, Three
from rookery.assets.scenery import FRICTION, Rgba, fixture, table
from rookery.assets.tabletop import loose

CUBE_HALF = 0.02
CUBE_KG = 0.05
"""m, kg. Meta-World's weighs .1 (sweep) or .01 with an inertia of 1e5 kg m^2 (sweep-into, shelf-place); this one is of wood."""
BALL_RADIUS, BALL_KG = 0.03, 0.1  # m, kg
ROLLING = 0.002  # m, friction against rolling, so that a ball comes to rest
HOLE: Three = (0.0, 0.84, -0.05)  # m, middle of the table's hole, at its bottom
HOLE_HALF = 0.08  # m
RING: Three = (0.0, -0.083, 0.25)  # m, from the foot of the pole to the middle of the hoop
BOARD_TOP = 0.33
"""m, of the backboard. Meta-World's ends at .36, where the palm is when the ball is over the hoop."""
SHELF_Z = 0.25
SHELF_WALL = 0.31
"""m, upper sides of the shelf's board, and of its sides and back. Meta-World's has walls and a roof up to .66, between which
the wrist has no room."""
SHELF_BACK = 0.08  # m, from the shelf's origin to the inner side of its back
LEVER_AXIS: Three = (0.12, 0.0, 0.25)  # m, from the origin
LEVER_RADIUS, LEVER_RANGE = 0.2, 1.65  # m, rad; Meta-World's range ends upright, at 1.57
LEVER_BAR = 0.11
"""m, of the bar across the lever's end. Meta-World's has a ball of 6 cm there, which the hand lifts from below with its side;
the Panda's fingers close around the bar."""
BAR_RADIUS = 0.012  # m

RED = (0.80, 0.20, 0.17, 1.0)
WOOD = (0.76, 0.60, 0.42, 1.0)
ORANGE = (0.88, 0.45, 0.12, 1.0)
STEEL = (0.60, 0.62, 0.65, 1.0)
WHITE = (0.92, 0.92, 0.90, 1.0)
BLUE = (0.22, 0.42, 0.68, 1.0)
_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
_SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE


def cube() -> mujoco.MjSpec:
    """A cube with edges of 4 cm, in the place of the puck: geom `puck`."""
    return loose("puck", _BOX, (CUBE_HALF, CUBE_HALF, CUBE_HALF), CUBE_KG, RED)


def ball() -> mujoco.MjSpec:
    """A ball 6 cm wide, in the place of the puck: geom `puck`."""
    spec = loose("puck", _SPHERE, (BALL_RADIUS, 0.0, 0.0), BALL_KG, ORANGE)
    geom = spec.geom("puck")
    geom.condim = 6
    geom.friction = [*FRICTION[:2], ROLLING]
    return spec


def holed_table() -> mujoco.MjSpec:
    """`assets.scenery.table` with a square hole at HOLE, made of boxes: `table` is the part before the hole.

    The other parts have hardly any friction of their own. A contact takes the larger one, so that what lies on them slides by
    its own, which is what tasks change.
    """
    spec = table()
    x, y, z = HOLE
    wide = 0.8
    deep = 0.05
    near = y - HOLE_HALF
    far = y + HOLE_HALF
    back = 1.0
    front = spec.geom("table")
    front.type = _BOX
    front.size = [wide, 0.5 * (near + 0.1), deep]
    front.pos = [0.0, 0.5 * (near - 0.1), -deep]
    side = 0.5 * (wide - HOLE_HALF)
    parts = {
        "table_left": ((side, HOLE_HALF, deep), (x - HOLE_HALF - side, y, -deep)),
        "table_right": ((side, HOLE_HALF, deep), (x + HOLE_HALF + side, y, -deep)),
        "table_back": ((wide, 0.5 * (back - far), deep), (0.0, 0.5 * (back + far), -deep)),
        "hole": ((HOLE_HALF, HOLE_HALF, 0.5 * (2.0 * deep + z)), (x, y, 0.5 * z - deep)),
    }
    for name, (half, pos) in parts.items():
        part = spec.worldbody.add_geom(name=name, type=_BOX, size=list(half), pos=list(pos))
        part.friction = [0.01, *FRICTION[1:]]
        part.contype = 3
        part.conaffinity = 1
        part.group = 3
    # its look is a slab, of which only a frame around the hole may be left
    slab = next(g for g in spec.worldbody.geoms if g.type == _BOX and g.contype == 0)
    rgba = list(slab.rgba)
    spec.delete(slab)
    ends = (-0.1, 1.0)
    strips = (
        ((wide, 0.5 * (near - ends[0]), 0.02), (0.0, 0.5 * (near + ends[0]), -0.0205)),
        ((wide, 0.5 * (ends[1] - far), 0.02), (0.0, 0.5 * (ends[1] + far), -0.0205)),
        ((side, HOLE_HALF, 0.02), (x - HOLE_HALF - side, y, -0.0205)),
        ((side, HOLE_HALF, 0.02), (x + HOLE_HALF + side, y, -0.0205)),
        ((HOLE_HALF + 0.01, HOLE_HALF + 0.01, 0.01), (x, y, z - 0.0105)),
    )
    for half, pos in strips:
        look = spec.worldbody.add_geom(type=_BOX, size=list(half), pos=list(pos), rgba=rgba)
        look.contype = look.conaffinity = 0
    return spec


def hoop() -> mujoco.MjSpec:
    """A pole with a backboard and a ring, 6.8 cm wide inside, in which a ball of 6 cm fits: geoms `board`, `pole`, `ring_*`."""
    spec, base = fixture()
    _bar(base, "pole", 0.008, (0.0, 0.0, 0.008), (0.0, 0.0, 0.21), STEEL)
    low = 0.21
    _box(base, "board", (0.1, 0.01, 0.5 * (BOARD_TOP - low)), (0.0, 0.0, 0.5 * (BOARD_TOP + low)), WHITE)
    _box(base, "bracket", (0.01, 0.016, 0.004), (0.0, -0.026, RING[2]), STEEL)
    radius = 0.044
    corners = [(radius * a, RING[1] + radius * b, RING[2]) for a, b in _OCTAGON]
    for i, corner in enumerate(corners):
        _bar(base, f"ring_{i}", 0.006, corners[i - 1], corner, RED)
    return spec


def shelf() -> mujoco.MjSpec:
    """A board 25 cm over the table between two sides and a back, open in front and above: geoms `board`, `left`, ..."""
    spec, base = fixture()
    half = 0.5 * SHELF_WALL
    for name, x in (("left", -0.11), ("right", 0.11)):
        _box(base, name, (0.01, 0.1, half), (x, 0.0, half), WOOD)
    _box(base, "back", (0.1, 0.01, half), (0.0, SHELF_BACK + 0.01, half), WOOD)
    _box(base, "board", (0.1, 0.095, 0.01), (0.0, -0.015, SHELF_Z - 0.01), WHITE)
    _box(base, "foot", (0.1, 0.095, 0.03), (0.0, -0.015, 0.03), WHITE)
    return spec


def lever() -> mujoco.MjSpec:
    """A lever beside a block, with a bar across its end: joint `hinge`, rad, 0 level towards the user and pi / 2 upright."""
    spec, base = fixture()
    spec.compiler.degree = False
    _box(base, "block", (0.041, 0.083, 0.125), (0.0, 0.0, 0.125), WOOD)
    axle = base.add_body(name="lever", pos=list(LEVER_AXIS))
    hinge = axle.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[-1, 0, 0], range=[0.0, LEVER_RANGE])
    hinge.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    hinge.damping = [DAMPING, 0, 0]
    hinge.armature = ARMATURE
    end = (0.0, -LEVER_RADIUS, 0.0)
    _bar(axle, "axle", 0.016, (-0.06, 0.0, 0.0), (0.0, 0.0, 0.0), STEEL, mass=0.05)
    _bar(axle, "rod", BAR_RADIUS, (0.0, 0.0, 0.0), end, STEEL, mass=0.06)
    _bar(axle, "bar", BAR_RADIUS, end, (LEVER_BAR, end[1], 0.0), BLUE, mass=0.04)
    return spec


_S = 0.5**0.5
_OCTAGON = ((1.0, 0.0), (_S, _S), (0.0, 1.0), (-_S, _S), (-1.0, 0.0), (-_S, -_S), (0.0, -1.0), (_S, -_S))


def _box(body: mujoco.MjsBody, name: str, half: Three, pos: Three, rgba: Rgba) -> None:
    _touching(body.add_geom(name=name, type=_BOX, size=list(half), pos=list(pos), rgba=list(rgba)))


def _bar(
    body: mujoco.MjsBody, name: str, radius: float, start: Three, end: Three, rgba: Rgba, mass: float = 0.0
) -> None:
    """Round, between the middles of its round ends."""
    geom = body.add_geom(name=name, type=_CAPSULE, size=[radius, 0, 0], fromto=[*start, *end], rgba=list(rgba))
    geom.mass = mass
    _touching(geom)


def _touching(geom: mujoco.MjsGeom) -> None:
    """Meets fingers, loose things, the table and the arm's links, but not other fixtures' parts."""
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = 0
    geom.friction = list(FRICTION)

"""Small furniture with handles for a table top: a door in its case, a drawer and a sliding window, with the measures of
Meta-World 3.1.1 made of boxes and capsules.

Each part has the body `base`, a mocap body, so that each world and each episode can put it elsewhere, and one moving body
with one joint. Its user is towards -y; the joint is 0 shut and grows as it opens. Parts touch hands, loose things, the
table and the arm's links, but not each other: their own pieces have play between them that friction would only blur.

Meta-World's arm has a slim hand; the Panda's palm is 20 cm long across the fingers and 37 mm above the point between their
tips. Where it would hit what is around a handle, the surroundings give way, never the handle: see `drawer` and `window`.
"""

from __future__ import annotations

import mujoco

from rookery.assets.arms import LINK_BIT, TOUCH_BIT
from rookery.assets.errors import RookeryError
from rookery.assets.scenery import Rgba, fixture

Three = tuple[float, float, float]

DAMPING = 2.0
ARMATURE = 0.001
"""N m s/rad or N s/m, kg m^2 or kg: of all three joints. Nothing else holds them, and nothing pulls them."""
HINGE: Three = (-0.185, -0.10, 0.0)  # m, of the door's axis from its origin
DOOR_RANGE = 2.0  # rad
DOOR_HANDLE: Three = (0.3757, -0.1072, 0.0)
"""m, from the axis of the shut door to what is observed: the middle of lever and stem."""
LEVER = 0.12  # m, from the leaf's middle plane to the lever's axis
DRAWER_RANGE = 0.17
"""m; Meta-World's .16 is just what its task asks for, which is reached there by pulling beyond the stop."""
BAR: Three = (0.0, -0.16, 0.09)  # m, from the origin to the shut drawer's bar
WINDOW_RANGE = 0.21  # m; Meta-World's is .2, of which .19 are asked for
GRIP: Three = (-0.014, -0.095, 0.0)  # m, from the origin to the shut window's handle
RECESS = 0.055  # m, see `window`

OAK = (0.55, 0.38, 0.24, 1.0)
PINE = (0.84, 0.68, 0.47, 1.0)
STEEL = (0.45, 0.48, 0.52, 1.0)
GLASS = (0.70, 0.84, 0.92, 0.35)
PAINT = (0.93, 0.93, 0.90, 1.0)
BLUE = (0.30, 0.44, 0.60, 1.0)
_BOX = mujoco.mjtGeom.mjGEOM_BOX
_CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
_SLIDE = mujoco.mjtJoint.mjJNT_SLIDE
_HINGE = mujoco.mjtJoint.mjJNT_HINGE


def door() -> mujoco.MjSpec:
    """A small door with a lever, in a case: joint `hinge`, rad. Its axis is on the left; it opens towards its user.

    The origin is the middle of the case, 15 cm over what it stands on. The leaf begins 7 mm farther from its axis than
    Meta-World's, so that it does not turn into the case, and the lever has one thickness all along.
    """
    spec, base = fixture()
    for name, x in (("left", -0.204), ("right", 0.204)):
        _solid(base, name, (0.016, 0.106, 0.15), (x, 0.0, 0.0), OAK)
    for name, z in (("bottom", -0.138), ("top", 0.138)):
        _solid(base, name, (0.188, 0.106, 0.012), (0.0, 0.0, z), OAK)
    _solid(base, "back", (0.188, 0.012, 0.126), (0.0, 0.094, 0.0), OAK)
    leaf = base.add_body(name="leaf", pos=list(HINGE))
    _joint(leaf, "hinge", _HINGE, (0, 0, -1), DOOR_RANGE)
    _solid(leaf, "panel", (0.1765, 0.01, 0.123), (0.1885, 0.0, 0.0), PINE, mass=2.0)
    _bar(leaf, "stem", 0.013, (0.325, -0.02, 0.0), (0.325, -LEVER, 0.0), mass=0.08)
    _bar(leaf, "lever", 0.019, (0.325, -LEVER, 0.0), (0.437, -LEVER, 0.0), mass=0.15)
    return spec


def drawer() -> mujoco.MjSpec:
    """A drawer with a level bar, in a case that stands on the table: joint `slide`, m.

    The origin is on the table. The case is 12 cm high, and not 16.8 as in Meta-World: fingers that reach down around the bar
    have the palm over the case.
    """
    spec, base = fixture()
    for name, x in (("left", -0.11), ("right", 0.11)):
        _solid(base, name, (0.008, 0.1, 0.06), (x, 0.0, 0.06), OAK)
    _solid(base, "back", (0.102, 0.008, 0.06), (0.0, 0.092, 0.06), OAK)
    _solid(base, "bottom", (0.102, 0.092, 0.007), (0.0, -0.008, 0.007), OAK)
    _solid(base, "top", (0.102, 0.1, 0.006), (0.0, 0.0, 0.114), OAK)
    box = base.add_body(name="drawer", pos=[0.0, -0.01, 0.09])
    _joint(box, "slide", _SLIDE, (0, -1, 0), DRAWER_RANGE)
    for name, y in (("front", -0.082), ("rear", 0.082)):
        _solid(box, name, (0.1, 0.008, 0.044), (0.0, y, -0.028), PINE, mass=0.08)
    for name, x in (("inner_left", -0.092), ("inner_right", 0.092)):
        _solid(box, name, (0.008, 0.074, 0.044), (x, 0.0, -0.028), PINE, mass=0.06)
    _solid(box, "floor", (0.084, 0.074, 0.004), (0.0, 0.0, -0.068), PINE, mass=0.05)
    _bar(box, "bar", 0.009, (-0.05, -0.15, 0.0), (0.05, -0.15, 0.0), mass=0.03)
    for name, x in (("post_left", -0.05), ("post_right", 0.05)):
        _bar(box, name, 0.009, (x, -0.085, 0.0), (x, -0.15, 0.0), mass=0.01)
    return spec


def window(height: float) -> mujoco.MjSpec:
    """A sliding window with an upright handle, open when its pane is at the right: joint `slide`, m.

    Panes and frame are `RECESS` farther behind the handle than Meta-World's, so that the palm has room before them when the
    fingers are beside the handle; the opening is 1 cm wider, for the longer way.

    Args:
        height: m, of the origin over what it stands on. Meta-World's frame is of one size and sinks into its table.

    Raises:
        RookeryError: too low for its handle.
    """
    if not height >= 0.1:
        raise RookeryError(f"the middle of a window must be 0.1 m over the table or more, got {height} m.")
    spec, base = fixture()
    y = RECESS
    top = 0.151
    low = 0.05 - height  # top of the lower rail
    middle = 0.5 * (top + low)
    half = 0.5 * (top - low)
    for name, x in (("left", -0.226), ("right", 0.226)):
        _solid(base, name, (0.015, 0.03, half + 0.03), (x, y, middle), PAINT)
    _solid(base, "rail_top", (0.211, 0.03, 0.015), (0.0, y, top + 0.015), PAINT)
    _solid(base, "rail_bottom", (0.211, 0.03, 0.015), (0.0, y, low - 0.015), PAINT)
    _solid(base, "sill", (0.25, 0.06, 0.01), (0.0, y, 0.01 - height), PAINT)
    _solid(base, "fixed_pane", (0.105, 0.004, half), (0.106, y + 0.013, middle), GLASS)
    pane = base.add_body(name="pane")
    _joint(pane, "slide", _SLIDE, (1, 0, 0), WINDOW_RANGE)
    front = y - 0.013
    for name, x in (("stile_left", -0.188), ("stile_right", -0.014)):
        _solid(pane, name, (0.012, 0.012, half - 0.001), (x, front, middle), BLUE, mass=0.12)
    for name, z in (("pane_bottom", low + 0.012), ("pane_top", top - 0.012)):
        _solid(pane, name, (0.075, 0.010, 0.011), (-0.101, front, z), BLUE, mass=0.07)
    _solid(pane, "pane", (0.075, 0.003, half - 0.023), (-0.101, front, middle), GLASS, mass=0.2)
    x, ahead, _ = GRIP
    _bar(pane, "handle", 0.008, (x, ahead, -0.045), (x, ahead, 0.045), mass=0.03)
    for name, z in (("arm_bottom", -0.045), ("arm_top", 0.045)):
        _bar(pane, name, 0.008, (x, front - 0.015, z), (x, ahead, z), mass=0.014)
    return spec


def _joint(body: mujoco.MjsBody, name: str, kind: mujoco.mjtJoint, axis: Three, reach: float) -> None:
    joint = body.add_joint(name=name, type=kind, axis=list(axis), range=[0.0, reach])
    joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    joint.damping = [DAMPING, 0, 0]
    joint.armature = ARMATURE


def _solid(body: mujoco.MjsBody, name: str, half: Three, pos: Three, rgba: Rgba, mass: float = 0.0) -> None:
    """A box."""
    geom = body.add_geom(name=name, type=_BOX, size=list(half), pos=list(pos), rgba=list(rgba), mass=mass)
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = 0


def _bar(body: mujoco.MjsBody, name: str, radius: float, start: Three, end: Three, mass: float) -> None:
    """A round bar of steel between the middles of its round ends."""
    geom = body.add_geom(name=name, type=_CAPSULE, size=[radius, 0, 0], fromto=[*start, *end], rgba=list(STEEL))
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = 0
    geom.mass = mass

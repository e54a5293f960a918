"""A volleyball court: ground, lines, net and posts. The net stands in the plane x = 0; x runs along the court, y across."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco

from rookery.assets.errors import RookeryError
from rookery.assets.scenery import FRICTION, UNPAINTED, add_material, ground

LINE_WIDTH = 0.05  # m
NET_THICKNESS = 0.02  # m
POST_RADIUS = 0.04  # m
_LINE: Sequence[float] = (0.97, 0.97, 0.95, 1.0)
_FLOOR: Sequence[float] = (0.85, 0.55, 0.32, 1.0)
_BAND: Sequence[float] = (1.0, 1.0, 1.0, 0.45)
_POST: Sequence[float] = (0.95, 0.72, 0.10, 1.0)


def check_court(
    length: float, width: float, net_height: float, band: float, anchors: Sequence[Sequence[float]] = ()
) -> None:
    """Refuse a court that cannot be built like that, or drones' places that are not on it.

    Args:
        length, width, net_height, band: m, as for `court`.
        anchors: [A][3] m, world.

    Raises:
        RookeryError: a size is not positive, the net is higher than the court is wide, its band higher than the net, or an
            anchor lies outside the court or in the ground.
    """
    for name, value in (("length", length), ("width", width), ("net height", net_height), ("band", band)):
        if not 0 < value < 1e3:
            raise RookeryError(f"the court's {name} must be positive, got {value} m.")
    if net_height > width:
        raise RookeryError(f"a net of {net_height} m is higher than the court is wide ({width} m).")
    if band > net_height:
        raise RookeryError(f"the net's band ({band} m) must not be higher than the net ({net_height} m).")
    for x, y, z in anchors:
        if abs(x) > 0.5 * length or abs(y) > 0.5 * width or z <= 0:
            raise RookeryError(
                f"a drone's place at ({x}, {y}, {z}) m is not above the court of {length} m by {width} m: move it or make the "
                "court larger."
            )


def court(
    length: float, width: float, net_height: float, band: float, *, solid_net: bool = False, visual: bool = True
) -> mujoco.MjSpec:
    """The base of a Scene with a court, its centre at the origin.

    Names: geom `ground` (collides without end), visual geoms `floor`, `band`, `line_*` and `post_*`. With a solid net there
    are also the colliding box `net`, from the ground up to `net_height` so that nothing passes below the band (what the
    rules call "in the net"), and the posts collide.

    Args:
        length: m, along x.
        width: m, along y.
        net_height: m, upper edge.
        band: m, height of the net's mesh, drawn below the upper edge.
        solid_net: False draws the net only: it is then a matter of the rules, as in VolleyBots (arXiv 2502.01932).
        visual: False leaves out what only looks.

    Raises:
        RookeryError: see check_court.
    """
    check_court(length, width, net_height, band)
    spec = ground(visual=visual)
    world = spec.worldbody
    if visual:
        add_material(spec, "court", _FLOOR)
        _add_lines(world, length, width)
        spec.geom("floor").material = "court"
        half = [0.5 * NET_THICKNESS, 0.5 * width, 0.5 * band]
        _box(world, "band", half, (0, 0, net_height - 0.5 * band), _BAND, collide=False)
    if solid_net:
        _box(world, "net", [0.5 * NET_THICKNESS, 0.5 * width, 0.5 * net_height], (0, 0, 0.5 * net_height), (1, 1, 1, 0))
    if visual or solid_net:
        for name, side in (("post_left", 1.0), ("post_right", -1.0)):
            world.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_CYLINDER,
                size=[POST_RADIUS, 0.5 * net_height, 0],
                pos=[0, side * (0.5 * width + POST_RADIUS), 0.5 * net_height],
                rgba=list(_POST),
                contype=int(solid_net),
                conaffinity=int(solid_net),
            )
    return spec


def _add_lines(world: mujoco.MjsBody, length: float, width: float) -> None:
    """The playing field, its border (which belongs to it), the middle line and the attack lines a third of a half away."""
    _box(world, "floor", [0.5 * length, 0.5 * width, 0.001], (0, 0, 0.001), UNPAINTED, collide=False)
    across = [0.5 * LINE_WIDTH, 0.5 * width, 0.001]
    inner = 0.5 * (length - LINE_WIDTH)
    for name, x in (("back_near", inner), ("attack_near", length / 6), ("middle", 0.0), ("attack_far", -length / 6),
                    ("back_far", -inner)):  # fmt: skip
        _box(world, f"line_{name}", across, (x, 0, 0.002), _LINE, collide=False)
    for name, y in (("left", 1.0), ("right", -1.0)):
        at = (0, y * 0.5 * (width - LINE_WIDTH), 0.002)
        _box(world, f"line_{name}", [0.5 * length, 0.5 * LINE_WIDTH, 0.001], at, _LINE, collide=False)


def _box(
    world: mujoco.MjsBody, name: str, half: Sequence[float], pos: Sequence[float], rgba: Sequence[float], collide: bool = True
) -> None:  # fmt: skip
    world.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=list(half),
        pos=list(pos),
        rgba=list(rgba),
        friction=list(FRICTION),
        contype=int(collide),
        conaffinity=int(collide),
    )

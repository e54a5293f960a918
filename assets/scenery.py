"""Ground, sky, light, and props with chosen bounce and grip. Every function makes a fresh MjSpec."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco

from rookery.assets.errors import RookeryError

Rgba = Sequence[float]
PLAIN: Rgba = (0.85, 0.30, 0.25, 1.0)
UNPAINTED: Rgba = (0.5, 0.5, 0.5, 1.0)
"""MuJoCo's default of a geom's color: its material's shows."""
FRICTION: Sequence[float] = (1.0, 0.005, 0.0001)
"""Sliding (1), torsional (m), rolling (m)."""


def ground(
    *, half_size: float = 0.0, friction: Sequence[float] = FRICTION, tile: float = 0.5, visual: bool = True
) -> mujoco.MjSpec:
    """A flat floor at z = 0 under a pale sky, lit by a sun with shadows: the base of a Scene.

    Names: geom `ground`, light `sun`.

    Args:
        half_size: m, how far the floor is drawn, 0 for up to the horizon; it collides without end.
        friction: sliding, torsional (m), rolling (m).
        tile: m, edge of a floor tile.
        visual: False leaves textures and light out.
    """
    spec = mujoco.MjSpec()
    floor = spec.worldbody.add_geom(
        name="ground",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[half_size, half_size, 0.05],
        friction=list(friction),
        rgba=[0.62, 0.66, 0.70, 1.0],
    )
    if visual:
        _add_floor_look(spec, tile)
        floor.material = "ground"
        floor.rgba = [1.0, 1.0, 1.0, 1.0]
        add_sky(spec)
    return spec


def table(
    *,
    half: Sequence[float] = (0.8, 0.55),
    centre: Sequence[float] = (0.0, 0.45),
    height: float = 0.75,
    visual: bool = True,
) -> mujoco.MjSpec:
    """A table whose top is z = 0, in a room like that of `ground`: the base of a Scene.

    Names: geom `table`, a plane without end for contacts (also of arms' links, assets.arms.LINK_BIT) that is drawn as a
    slab on legs; light `sun`.

    Args:
        half: m, half of its edges along x and y. centre: m. height: m, of the top over the floor.
        visual: False leaves the look out.
    """
    spec = mujoco.MjSpec()
    top = spec.worldbody.add_geom(name="table", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05])
    top.friction = list(FRICTION)
    top.contype = 3
    top.conaffinity = 1
    top.group = 3
    if not visual:
        return spec
    x, y = centre
    _add_floor_look(spec, 0.5)
    floor = spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05], pos=[0, 0, -height]
    )
    floor.material = "ground"
    slabs = [((half[0], half[1], 0.02), (x, y, -0.0205), (0.80, 0.70, 0.56, 1.0))]
    for i in (-1.0, 1.0):
        for j in (-1.0, 1.0):
            leg = (x + i * (half[0] - 0.06), y + j * (half[1] - 0.06), -0.5 * height - 0.02)
            slabs.append(((0.03, 0.03, 0.5 * height - 0.02), leg, (0.35, 0.36, 0.38, 1.0)))
    for size, pos, rgba in slabs:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=list(size), pos=list(pos), rgba=list(rgba))
    for geom in spec.worldbody.geoms[1:]:
        geom.contype = geom.conaffinity = 0
    add_material(spec, "wood", slabs[0][2])
    slab = spec.worldbody.geoms[2]
    slab.material = "wood"
    slab.rgba = UNPAINTED
    add_sky(spec)
    return spec


def _add_floor_look(spec: mujoco.MjSpec, tile: float) -> None:
    spec.add_texture(
        name="ground",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=[0.50, 0.55, 0.59],
        rgb2=[0.58, 0.63, 0.67],
        markrgb=[0.68, 0.73, 0.77],
        width=1024,
        height=1024,
    )
    material = spec.add_material(name="ground", texuniform=True, texrepeat=[0.5 / tile, 0.5 / tile])
    material.specular = 0.1
    material.shininess = 0.1
    textures = material.textures
    textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "ground"
    material.textures = textures


def add_material(spec: mujoco.MjSpec, name: str, rgba: Rgba) -> None:
    """Add a material of one color, to which videos give the texture of that name (rookery.sim.rendering.looks)."""
    spec.add_material(name=name, rgba=list(rgba), specular=0.1, shininess=0.2)


def add_sky(spec: mujoco.MjSpec) -> None:
    """Add the pale sky and the light `sun` with its shadows."""
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.32, 0.52, 0.78],
        rgb2=[0.88, 0.93, 0.97],
        width=256,
        height=1536,
    )
    spec.worldbody.add_light(
        name="sun",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[-2.0, -3.0, 8.0],
        dir=[0.25, 0.38, -1.0],
        castshadow=True,
        diffuse=[0.65, 0.64, 0.60],
        ambient=[0.0, 0.0, 0.0],
        specular=[0.35, 0.35, 0.35],
    )
    head = spec.visual.headlight
    head.ambient = [0.42, 0.43, 0.45]
    head.diffuse = [0.28, 0.28, 0.28]
    head.specular = [0.05, 0.05, 0.05]
    spec.visual.rgba.haze = [0.85, 0.90, 0.94, 1.0]
    spec.visual.quality.shadowsize = 1024
    spec.visual.global_.offwidth = 1920
    spec.visual.global_.offheight = 1440


def ball(
    radius: float,
    mass: float,
    *,
    restitution: float = 0.8,
    friction: Sequence[float] = FRICTION,
    hollow: bool = False,
    contact_time: float = 0.02,
    rgba: Rgba = (0.95, 0.80, 0.20, 1.0),
) -> mujoco.MjSpec:
    """A ball: body `base`, free joint `root`, geom `ball`. Its bounce and grip hold against whatever it touches.

    Args:
        radius: m.
        mass: kg.
        restitution: speed after over speed before a bounce off something heavy, in [0, 1).
        friction: sliding, torsional (m), rolling (m).
        hollow: a thin shell (volleyball) and not a solid ball.
        contact_time: s, how long a bounce lasts on `mujoco` where a ball meets robots. Over ten physics steps the restitution
            comes out within 0.06, over a hundred within 0.01. In scenes of balls, multirotors and static shapes bounces take
            no time and the restitution is exact (rookery.sim.engines.ball_impacts).
        rgba: color.
    """
    spec, base = _prop(mass, mujoco.mjtGeom.mjGEOM_SPHERE, [radius, 0, 0], "ball", restitution, friction, contact_time)
    geom = base.geoms[0]
    geom.rgba = list(rgba)
    if hollow:
        geom.typeinertia = mujoco.mjtGeomInertia.mjINERTIA_SHELL
    return spec


def box(
    size: Sequence[float],
    mass: float,
    *,
    restitution: float = 0.0,
    friction: Sequence[float] = FRICTION,
    contact_time: float = 0.02,
    rgba: Rgba = PLAIN,
) -> mujoco.MjSpec:
    """A box of edge lengths `size` [3] m: body `base`, free joint `root`, geom `box`. The rest as for `ball`."""
    half = [0.5 * v for v in size]
    spec, base = _prop(mass, mujoco.mjtGeom.mjGEOM_BOX, half, "box", restitution, friction, contact_time)
    base.geoms[0].rgba = list(rgba)
    return spec


def platform(size: Sequence[float], *, rgba: Rgba = PLAIN) -> mujoco.MjSpec:
    """A box of edge lengths `size` [3] m that moves as it is told, for `Aeronautics.moving`: body `base`, free joint `root`,
    geom `platform`. It weighs 1000 kg and gravity does not pull at it, so that on every engine it keeps the velocities
    written to it under a drone, and turns evenly: its moments of inertia are all the same.
    """
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base", gravcomp=1.0)
    base.add_freejoint(name="root")
    base.explicitinertial = True
    base.mass = 1000.0
    base.ipos = [0.0, 0.0, 0.0]  # MuJoCo writes no inertia without it
    base.inertia = [100.0, 100.0, 100.0]
    half = [0.5 * v for v in size]
    geom = base.add_geom(name="platform", type=mujoco.mjtGeom.mjGEOM_BOX, size=half, friction=list(FRICTION))
    geom.rgba = list(rgba)
    return spec


def fixture() -> tuple[mujoco.MjSpec, mujoco.MjsBody]:
    """A spec with the mocap body `base`, which each world and each episode can put elsewhere, to build furniture on."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    base = spec.worldbody.add_body(name="base")
    base.mocap = True
    return spec, base


def _prop(
    mass: float,
    shape: mujoco.mjtGeom,
    size: list[float],
    name: str,
    restitution: float,
    friction: Sequence[float],
    contact_time: float,
) -> tuple[mujoco.MjSpec, mujoco.MjsBody]:
    spec = mujoco.MjSpec()
    base = spec.worldbody.add_body(name="base")
    base.add_freejoint(name="root")
    geom = base.add_geom(name=name, type=shape, size=size, mass=mass, friction=list(friction))
    if restitution > 0:
        geom.solref = list(bounce(restitution, contact_time))
        geom.solimp = [0.99, 0.99, 0.001, 0.5, 2.0]
        geom.priority = 1
    return spec, base


def bounce(restitution: float, contact_time: float = 0.02) -> tuple[float, float]:
    """MuJoCo's `solref` (-stiffness 1/s^2, -damping 1/s) for a coefficient of restitution in (0, 1).

    A contact without adhesion is a damped spring that lets go when its force reaches zero, which gives the restitution
    as a function of the damping ratio in closed form (Schwager and Poeschel, Granular Matter 9, 2007); `contact_time`
    (s) is the half period of the undamped spring.
    """
    if not 0 < restitution < 1:
        raise RookeryError(f"restitution must lie between 0 and 1, got {restitution}")
    low = 0.0
    high = 1000.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _restitution(middle) > restitution else (low, middle)
    frequency = math.pi / contact_time
    return -(frequency**2), -2 * low * frequency


def restitution(solref: Sequence[float]) -> float:
    """Coefficient of restitution in [0, 1] of a `solref` in MuJoCo's direct (negative) form; 0 for the other form."""
    if solref[0] >= 0:
        return 0.0
    return _restitution(-solref[1] / (2 * math.sqrt(-solref[0])))


def _restitution(ratio: float) -> float:
    """Restitution at a damping ratio >= 0."""
    root = math.sqrt(max(abs(1 - ratio * ratio), 1e-12))
    if ratio < 1:
        return math.exp(-ratio / root * math.atan2(2 * ratio * root, 2 * ratio * ratio - 1))
    return math.exp(-ratio / root * 2 * math.log(ratio + root))

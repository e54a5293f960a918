"""The library: cubes, balls and a peg, and objects of the YCB set with their sizes and masses.

YCB: Calli et al., "Benchmarking in Manipulation Research", IEEE Robotics & Automation Magazine 22(3), 2015, whose list of
objects gives sizes and masses; numbers such as 006 are the set's. Only sizes and masses are theirs: the shapes are our own and
simpler. Mass is spread evenly, though a can is no solid and a tennis ball is hollow.

How sure that is: the list was read from transcriptions in public code, masses from several that agree (tennis_ball: also 56
and 57 g; foam_brick: also 59 g), sizes from one or two. Sizes were then held against the boxes of the set's scans (SCANS): as
most scans stand turned about z, ours may be turned too, and fit within 5 mm. Two rows of the list do not, and there the scan is
followed: the mustard bottle, whose scan agrees with the 58 x 95 x 190 mm of A. Singh, "Benchmarks for Cloud Robotics", UC
Berkeley EECS-2016-142, 2016, and the mug's diameter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import trimesh

from rookery.assets import meshes
from rookery.assets.errors import unknown
from rookery.assets.objects import parts
from rookery.assets.objects.model import ObjectModel, build
from rookery.assets.objects.parts import Floats, Part

Color = tuple[float, float, float, float]
YCB = "YCB {}, Calli et al. 2015: {}"
SCANS: dict[str, tuple[float, float, float]] = {
    "cracker_box": (71.7, 164.0, 213.5), "sugar_box": (49.5, 94.0, 176.0), "tomato_soup_can": (67.9, 67.8, 102.0),
    "mustard_bottle": (97.2, 66.6, 191.4), "gelatin_box": (89.4, 101.1, 30.1), "potted_meat_can": (102.1, 60.3, 83.6),
    "banana": (108.9, 178.4, 36.7), "bleach_cleanser": (102.4, 67.7, 250.6), "bowl": (161.4, 161.1, 55.0),
    "mug": (117.0, 93.1, 81.4), "power_drill": (184.2, 57.3, 187.4), "foam_brick": (52.6, 77.8, 51.1),
}  # fmt: skip
"""mm, boxes around the set's scans, z up: BOP's YCB-V, models_info.json. The tennis ball is not among them."""
OWN = "our own choice, beech of 700 kg/m^3"
BEECH = 700.0  # kg/m^3
WOOD: Color = (0.80, 0.62, 0.42, 1.0)
_SIDES = 48


def cube(edge: float, color: Color) -> ObjectModel:
    """A wooden cube, m."""
    part = parts.box((edge, edge, edge))
    return build(f"cube_{1000 * edge:.0f}", part.mesh, [part], BEECH * edge**3, source=OWN, color=color)


def peg(radius: float = 0.010, length: float = 0.100) -> ObjectModel:
    """A round wooden peg that stands upright, m."""
    part = parts.cylinder(radius, length, (0, 0, 0))
    return build("peg", part.mesh, [part], BEECH * part.volume, source=OWN, color=WOOD)


def ball(name: str, radius: float, mass: float, source: str, color: Color) -> ObjectModel:
    """A ball, m and kg."""
    part = parts.sphere(radius)
    return build(name, part.mesh, [part], mass, source=source, color=color, rolls=True)


def carton(name: str, number: str, size: tuple[float, float, float], mass: float, color: Color) -> ObjectModel:
    """A box of edges [3] m, kg."""
    part = parts.box(size)
    published = " x ".join(f"{1000 * v:.0f}" for v in size) + f" mm, {1000 * mass:.0f} g"
    return build(name, part.mesh, [part], mass, source=YCB.format(number, published), color=color)


def tomato_soup_can() -> ObjectModel:
    """A can with two rims: it collides as a cylinder."""
    r = 0.033
    h = 0.101
    rim = 0.003
    inset = 0.0004
    profile = [
        (0, 0),
        (r, 0),
        (r, rim),
        (r - inset, rim + inset),
        (r - inset, h - rim - inset),
        (r, h - rim),
        (r, h),
        (0, h),
    ]
    source = YCB.format("005", "diameter 66 mm, height 101 mm, 349 g")
    part = parts.cylinder(r, h, (0, 0, 0.5 * h))
    return build("tomato_soup_can", lathe(profile), [part], 0.349, source=source, color=(0.80, 0.12, 0.10, 1))


def potted_meat_can() -> ObjectModel:
    """A prism over a rounded rectangle."""
    stack = outlines([(0.0, 0.025, 0.0485, 5.0), (0.082, 0.025, 0.0485, 5.0)])
    source = YCB.format("010", "50 x 97 x 82 mm, 370 g")
    return build(
        "potted_meat_can", meshes.loft(stack), parts.strip(stack), 0.370, source=source, color=(0.15, 0.28, 0.62, 1)
    )


def mustard_bottle() -> ObjectModel:
    """Oval body, shoulder and round cap."""
    stack = outlines([
        (0.000, 0.0280, 0.0460, 3.0), (0.006, 0.0290, 0.0475, 3.0), (0.119, 0.0290, 0.0475, 3.0),
        (0.152, 0.0175, 0.0185, 2.0), (0.158, 0.0175, 0.0175, 2.0), (0.190, 0.0085, 0.0085, 2.0),
    ])  # fmt: skip
    source = YCB.format("006", "603 g; 58 x 95 x 190 mm: Singh 2016 and the scan (the list has 50 x 85 x 175)")
    return build(
        "mustard_bottle", meshes.loft(stack), parts.strip(stack), 0.603, source=source, color=(0.95, 0.78, 0.10, 1)
    )


def bleach_cleanser() -> ObjectModel:
    """A tall bottle with a round cap."""
    stack = outlines([
        (0.000, 0.0310, 0.0475, 3.5), (0.006, 0.0325, 0.0490, 3.5), (0.150, 0.0325, 0.0490, 3.5),
        (0.215, 0.0180, 0.0190, 2.0), (0.222, 0.0190, 0.0190, 2.0), (0.250, 0.0190, 0.0190, 2.0),
    ])  # fmt: skip
    source = YCB.format("021", "250 x 98 x 65 mm, 1131 g")
    return build(
        "bleach_cleanser", meshes.loft(stack), parts.strip(stack), 1.131, source=source, color=(0.93, 0.95, 0.97, 1)
    )


def mug() -> ObjectModel:
    """A hollow body of wall segments on a bottom, with a handle of five pieces towards +x.

    Diameter and reach of the handle are the scan's; wall, bottom and the handle's shape are our own.
    """
    r = 0.0465
    h = 0.082
    wall = 0.0045
    bottom = 0.006
    profile = [(0, 0), (r, 0), (r, h), (r - wall, h), (r - wall, bottom), (0, bottom)]
    angle = np.linspace(-0.44 * np.pi, 0.44 * np.pi, 6)
    x, z = r - 0.0065 + 0.0282 * np.cos(angle), 0.5 * h + 0.028 * np.sin(angle)
    loop = bar(np.column_stack([x, 0.0 * x, z]), np.full(6, 0.0055), np.full(6, 0.0040), up=(0.0, 1.0, 0.0))
    mesh = meshes.join([lathe(profile), meshes.loft(loop)])
    solids = [*ring([(r - wall, bottom), (r, bottom), (r, h), (r - wall, h)], 16), *parts.strip(loop)]
    solids.append(parts.cylinder(r, bottom, (0, 0, 0.5 * bottom)))
    source = YCB.format(
        "025", "height 82 mm, 118 g; the scan: diameter 93 mm, 117 mm with the handle (the list has a diameter of 80)"
    )
    return build("mug", mesh, solids, 0.118, source=source, color=(0.78, 0.16, 0.14, 1))


def bowl() -> ObjectModel:
    """A round bowl: two rows of wall segments on a flat foot, which alone touches the table."""
    r = 0.0795
    h = 0.053
    foot = 0.036
    wall = 0.004
    bottom = 0.006
    low_in = (foot - 0.004, bottom)
    mid_out = (0.066, 0.026)
    mid_in = (0.062, 0.028)
    outer = [(foot, 0.0), (foot, bottom), mid_out, (r, h)]
    solids = [
        *ring([low_in, (foot, bottom), mid_out, mid_in], 16),
        *ring([mid_in, mid_out, (r, h), (r - wall, h)], 16),
        parts.cylinder(foot, bottom, (0, 0, 0.5 * bottom)),
    ]
    mesh = lathe([(0, 0), *outer, (r - wall, h), mid_in, low_in, (0, bottom)])
    source = YCB.format("024", "diameter 159 mm, height 53 mm, 147 g")
    return build("bowl", mesh, solids, 0.147, source=source, color=(0.85, 0.25, 0.20, 1))


def banana() -> ObjectModel:
    """A bent, tapered bar that lies on its side."""
    reach = 0.5 * 0.190
    bend = 0.125
    turn = 0.5 * 1.68
    angle = np.linspace(-turn, turn, 9)
    radius = 0.018 * np.array([0.35, 0.72, 0.92, 1.0, 1.0, 1.0, 0.92, 0.72, 0.35])
    # Each ring's lowest point is on the table: a bend that touched it in the middle only would tip over.
    path = np.column_stack([bend * np.sin(angle), bend * (1.0 - np.cos(angle)), radius])
    path[:, 0] *= reach / path[-1, 0]
    rings = bar(path * (1, 1, 0), radius, radius, up=(0.0, 0.0, 1.0)) + path[:, None] * (0, 0, 1)
    rings[:, :, 0] *= reach / np.abs(rings[:, :, 0]).max()
    source = YCB.format("011", "36 x 190 mm, 66 g; our own bend")
    return build("banana", meshes.loft(rings), parts.strip(rings), 0.066, source=source, color=(0.95, 0.83, 0.20, 1))


def power_drill() -> ObjectModel:
    """Barrel with chuck along +x, a handle and a battery that it stands on.

    Length and mass are published (35 x 46 x 184 mm, which leaves the handle out); height and width are the scan's.
    """
    top = 0.187 - 0.023
    radius = 0.023
    barrel = parts.cylinder(radius, 0.134, (-0.015, 0, top), (1, 0, 0))
    chuck = [ellipse_at((x, 0, top), r) for x, r in ((0.052, 0.021), (0.085, 0.017), (0.102, 0.008))]
    grip = outlines([(0.038, 0.024, 0.0165, 3.0), (0.150, 0.021, 0.0165, 3.0)])
    grip[:, :, 0] += np.array([[0.000], [-0.024]])  # it leans back
    battery = outlines([(0.0, 0.051, 0.0285, 5.0), (0.038, 0.047, 0.0270, 5.0)])
    mesh = meshes.join([barrel.mesh, meshes.loft(chuck[::-1]), meshes.loft(grip), meshes.loft(battery)])
    solids = [barrel, *parts.strip(chuck), *parts.strip(grip), *parts.strip(battery)]
    source = YCB.format("035", "length 184 mm, 895 g; the scan: height 187 mm, width 57 mm")
    return build("power_drill", mesh, solids, 0.895, source=source, color=(0.90, 0.42, 0.08, 1))


def outlines(levels: list[tuple[float, float, float, float]]) -> Floats:
    """Rings [S, P, 3] m for a loft: rounded rectangles, one for each (z, half x, half y, power)."""
    rings = []
    for z, x, y, power in levels:
        flat = meshes.superellipse(x, y, power, points=_SIDES)
        rings.append(np.column_stack([flat, np.full(len(flat), z)]))
    return np.array(rings)


def ellipse_at(centre: tuple[float, float, float], radius: float) -> Floats:
    """[P, 3] m: a circle around `centre` across x, anticlockwise as seen from -x."""
    angle = np.linspace(0, 2 * np.pi, _SIDES, endpoint=False)
    return np.column_stack([0 * angle, -np.cos(angle), np.sin(angle)]) * radius + np.asarray(centre)


def bar(path: Floats, wide: Floats, thick: Floats, up: tuple[float, float, float]) -> Floats:
    """Rings [S, P, 3] m of a bent bar of oval section along a path [S, 3] m that lies in a plane.

    Args:
        wide: [S] m, half width along `up`, the normal of that plane. thick: [S] m, half width within it.
    """
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    normal = np.asarray(up)
    side = np.cross(normal, along)
    angle = np.linspace(0, 2 * np.pi, 16, endpoint=False)[None, :, None]
    ring = np.cos(angle) * side[:, None] * thick[:, None, None] + np.sin(angle) * normal * wide[:, None, None]
    return path[:, None] + ring


def around(points: list[tuple[float, float]], start: float = 0.0, stop: float = 2 * np.pi) -> Floats:
    """Points (r, z) m turned about z between two angles, at the angles of the `lathe`'s sides: [V, 3] m."""
    first = round(start / (2 * np.pi) * _SIDES)
    last = round(stop / (2 * np.pi) * _SIDES)
    angle = 2 * np.pi * np.arange(first, last + 1) / _SIDES
    return np.concatenate([np.column_stack([r * np.cos(angle), r * np.sin(angle), 0 * angle + z]) for r, z in points])


def ring(section: list[tuple[float, float]], segments: int) -> list[Part]:
    """A convex section (r, z) m turned about z, as convex segments; within each, the inside is a chord."""
    edges = np.linspace(0, 2 * np.pi, segments + 1)
    return [parts.solid(around(section, a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def lathe(profile: list[tuple[float, float]]) -> trimesh.Trimesh:
    """A closed outline (r, z) m, anticlockwise from the axis back to the axis, turned about z."""
    return trimesh.creation.revolve(np.asarray(profile, float), sections=_SIDES)


LIBRARY: dict[str, Callable[[], ObjectModel]] = {
    "cube_40": lambda: cube(0.040, (0.20, 0.45, 0.80, 1)),
    "cube_50": lambda: cube(0.050, (0.85, 0.25, 0.20, 1)),
    "peg": peg,
    "ball": lambda: ball("ball", 0.030, BEECH * 4 / 3 * np.pi * 0.030**3, OWN, (0.25, 0.60, 0.30, 1)),
    "tennis_ball": lambda: ball(
        "tennis_ball", 0.5 * 0.0647, 0.058, YCB.format("056", "diameter 64.7 mm, 58 g"), (0.80, 0.90, 0.20, 1)
    ),
    "cracker_box": lambda: carton("cracker_box", "003", (0.060, 0.158, 0.210), 0.411, (0.75, 0.10, 0.10, 1)),
    "sugar_box": lambda: carton("sugar_box", "004", (0.038, 0.089, 0.175), 0.514, (0.95, 0.85, 0.30, 1)),
    "gelatin_box": lambda: carton("gelatin_box", "009", (0.085, 0.073, 0.028), 0.097, (0.70, 0.15, 0.25, 1)),
    "foam_brick": lambda: carton("foam_brick", "061", (0.075, 0.050, 0.050), 0.028, (0.70, 0.22, 0.20, 1)),
    "tomato_soup_can": tomato_soup_can,
    "potted_meat_can": potted_meat_can,
    "mustard_bottle": mustard_bottle,
    "bleach_cleanser": bleach_cleanser,
    "mug": mug,
    "bowl": bowl,
    "banana": banana,
    "power_drill": power_drill,
}


def names() -> tuple[str, ...]:
    """Names of all objects of the library."""
    return tuple(LIBRARY)


@cache
def find_object(name: str) -> ObjectModel:
    """The library's object of that name; the same one each time.

    Raises:
        RookeryError: there is no such object.
    """
    if name not in LIBRARY:
        raise unknown("object", name, LIBRARY)
    return LIBRARY[name]()

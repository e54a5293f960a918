"""Looks of drones: the colored parts of a Crazyflie 2.1 and of an Iris, made to fit any rotor layout.

Own geometry. The proportions follow photographs and the published outer dimensions (Crazyflie 2.1: 92 x 92 x 29 mm,
bitcraze.io; Iris: 550 mm between motors, 100 mm high). Body frame: x forward, y left, z up; the rotor plane's z = 0 is
the centre of mass. The front carries orange, so that videos show which way a drone points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rookery.assets import meshes

if TYPE_CHECKING:
    import trimesh

Rgba = tuple[float, float, float, float]
Rotors = Sequence[Sequence[float]]

FRONT: Rgba = (0.98, 0.42, 0.07, 1.0)
_DARK: Rgba = (0.10, 0.11, 0.13, 1.0)
_STEEL: Rgba = (0.72, 0.74, 0.77, 1.0)
_WHITE: Rgba = (0.93, 0.94, 0.95, 1.0)


@dataclass(frozen=True)
class AirframePart:
    """One visual geom: a closed mesh in the body frame (m) and its color; `shine` in [0, 1]."""

    name: str
    mesh: trimesh.Trimesh
    rgba: Rgba
    shine: float = 0.3


def crazyflie(rotors: Rotors, propeller_radius: float, height: float) -> list[AirframePart]:
    """The Crazyflie's parts: a cross-shaped board, the battery under its holder, four motors in white mounts.

    Args:
        rotors: [4][3] m, body frame.
        propeller_radius: m.
        height: from the feet to the propellers, m; the feet stand at -height / 2.
    """
    xy = np.asarray(rotors, float)[:, :2]
    s = float(np.linalg.norm(xy, axis=1).mean()) / 0.0396  # 1 for the real one
    low = -0.5 * height
    high = 0.5 * height
    deck = low + 0.36 * height
    board = [meshes.extrude(_cross(xy, 0.0135 * s, 0.0042 * s, 0.0175 * s), deck, deck + 0.0014 * s)]
    board += [meshes.box((0.021 * s, 0.024 * s, 0.0012 * s), (0, 0, deck + 0.0097 * s))]
    battery = meshes.box((0.0315 * s, 0.0195 * s, 0.0068 * s), (0, 0, deck + 0.0052 * s))
    pins = [meshes.box((0.020 * s, 0.0022 * s, 0.0125 * s), (0, y * s, deck + 0.0048 * s)) for y in (-0.0112, 0.0112)]
    mounts = []
    motors = []
    for p in xy:
        mounts.append(meshes.cylinder(0.0049 * s, deck - 0.0035 * s, deck + 0.0042 * s, p, sides=18))
        mounts.append(meshes.tube((*p, deck), (*(1.03 * p), low), (0.0021 * s, 0.0016 * s)))
        motors.append(meshes.cylinder(0.0034 * s, low + 0.10 * height, high - 0.12 * height, p, sides=18))
        motors.append(meshes.cylinder(0.0008 * s, high - 0.12 * height, high, p, sides=8))
    nose = [meshes.box((0.0030 * s, 0.0190 * s, 0.0030 * s), (0.0180 * s, 0, deck + 0.0024 * s))]
    nose += [meshes.extrude(_arrow(0.0085 * s), deck + 0.0104 * s, deck + 0.0110 * s)]
    lamps = [(-0.0165 * s, y * s) for y in (-0.006, 0.006)]
    tail = [meshes.cylinder(0.0016 * s, deck + 0.0014 * s, deck + 0.0040 * s, p) for p in lamps]
    return [
        AirframePart("board", meshes.join(board), (0.07, 0.08, 0.10, 1.0), 0.5),
        AirframePart("battery", battery, (0.55, 0.60, 0.66, 1.0), 0.6),
        AirframePart("pins", meshes.join(pins), _DARK),
        AirframePart("mounts", meshes.join(mounts), _WHITE),
        AirframePart("motors", meshes.join(motors), _STEEL, 0.9),
        AirframePart("front", meshes.join(nose), FRONT),
        AirframePart("tail", meshes.join(tail), (0.15, 0.45, 1.0, 1.0), 0.9),
    ]


def iris(rotors: Rotors, propeller_radius: float, height: float) -> list[AirframePart]:
    """The Iris's parts: a low shell with a hood, four tapered arms, motors and landing legs. See `crazyflie`."""
    at = np.asarray(rotors, float)
    xy = at[:, :2]
    s = float(np.linalg.norm(xy, axis=1).mean()) / 0.247
    low = -0.5 * height
    arm_z = 0.010 * s
    motor_top = 0.034 * s
    shell = [meshes.loft(_hull(0.120 * s, 0.062 * s, -0.022 * s, 0.034 * s))]
    hood = [meshes.loft(_hull(0.088 * s, 0.044 * s, 0.020 * s, 0.046 * s))]
    hood.append(meshes.cylinder(0.022 * s, 0.040 * s, 0.056 * s, (-0.030 * s, 0), sides=24))
    arms: list[trimesh.Trimesh] = []
    front: list[trimesh.Trimesh] = []
    motors = []
    for p in xy:
        forward = p[0] > 0
        root = 0.20 * p
        arm = meshes.tube((*root, arm_z), (*p, arm_z), (0.017 * s, 0.014 * s, 0.0115 * s, 0.0105 * s), sides=12)
        foot = (*(1.06 * p), low)
        leg = meshes.tube((*(0.93 * p), arm_z), foot, (0.0075 * s, 0.0065 * s, 0.0050 * s), sides=10)
        pad = meshes.cylinder(0.011 * s, low, low + 0.007 * s, foot[:2], sides=14)
        pod = meshes.cylinder(0.0185 * s, arm_z - 0.014 * s, arm_z + 0.008 * s, p, sides=20)
        arms.append(pod)
        (front if forward else arms).extend([arm, leg, pad])
        motors.append(meshes.cylinder(0.0140 * s, arm_z + 0.008 * s, motor_top - 0.003 * s, p, sides=20))
        motors.append(meshes.cylinder(0.0030 * s, motor_top - 0.003 * s, motor_top + 0.006 * s, p, sides=10))
    lens = meshes.tube((0.105 * s, 0, -0.004 * s), (0.131 * s, 0, -0.006 * s), (0.016 * s, 0.014 * s), sides=16)
    return [
        AirframePart("shell", meshes.join(shell), (0.13, 0.14, 0.17, 1.0), 0.7),
        AirframePart("hood", meshes.join(hood), (0.09, 0.33, 0.66, 1.0), 0.8),
        AirframePart("arms", meshes.join(arms), _DARK, 0.5),
        AirframePart("front", meshes.join(front), FRONT, 0.5),
        AirframePart("motors", meshes.join(motors), _STEEL, 0.9),
        AirframePart("lens", lens, (0.55, 0.75, 0.85, 1.0), 1.0),
    ]


def propeller_height(look: str, rotors: Rotors, height: float) -> float:
    """z of the propellers above the rotor sites, m. It is only looks: thrust along body z does not depend on it."""
    s = float(np.linalg.norm(np.asarray(rotors, float)[:, :2], axis=1).mean())
    return 0.46 * height if look == "crazyflie" else 0.034 * s / 0.247


def _cross(xy: NDArray[np.float64], core: float, arm: float, length: float) -> NDArray[np.float64]:
    """[P, 2] m: outline of a board, `core` half wide and `length` half long along x, with an arm to each rotor."""
    outline: list[NDArray[np.float64]] = []
    order = sorted(xy, key=lambda p: math.atan2(p[1], p[0]))
    for i, p in enumerate(order):
        direction = p / np.linalg.norm(p)
        side = arm * np.array([-direction[1], direction[0]])
        root = direction * core * 1.25
        outline += [root - 1.15 * side, p - 0.75 * side, p + 0.75 * side, root + 1.15 * side]
        nxt = order[(i + 1) % len(order)]
        middle = p / np.linalg.norm(p) + nxt / np.linalg.norm(nxt)
        middle /= np.linalg.norm(middle)
        reach = length if abs(middle[0]) > abs(middle[1]) else core
        across = np.array([-middle[1], middle[0]])
        outline += [middle * reach - across * core * 0.62, middle * reach + across * core * 0.62]
    return np.stack(outline)


def _arrow(size: float) -> NDArray[np.float64]:
    """[3, 2] m: a triangle that points forward."""
    return np.array([[size, 0.0], [-0.6 * size, 0.75 * size], [-0.6 * size, -0.75 * size]])


def _hull(half_length: float, half_width: float, bottom: float, top: float) -> NDArray[np.float64]:
    """[S, P, 3] m: rings of a fuselage along x, fullest a little behind its nose."""
    rings = []
    middle = 0.5 * (bottom + top)
    for t in (-1.0, -0.96, -0.82, -0.55, -0.15, 0.3, 0.65, 0.88, 0.98, 1.0):
        full = (1 - abs(t) ** 3.2) ** 0.5 if abs(t) < 1 else 0.0
        full = max(full * (1.0 + 0.10 * t), 0.12)
        ring = meshes.superellipse(half_width * full, 0.5 * (top - bottom) * full**0.7, power=2.7, points=24)
        rings.append(np.column_stack([np.full(len(ring), half_length * t), ring[:, 0], middle + ring[:, 1]]))
    return np.stack(rings)

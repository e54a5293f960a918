"""Looks of the arms: own meshes of bars, barrels and shells, in the links' frames.

The proportions follow the joint frames (assets/arms.py) and photographs. Airbot Play is white with dark joints, ARX5 dark
with gray joints; both carry an orange mark on the gripper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from rookery.assets import meshes
from rookery.assets.geometry import add_visual_mesh, looks_wanted

if TYPE_CHECKING:
    import trimesh

Vec = Sequence[float]
Rgba = tuple[float, float, float, float]
_WHITE: Rgba = (0.92, 0.93, 0.94, 1.0)
_DARK: Rgba = (0.13, 0.14, 0.16, 1.0)
_GREY: Rgba = (0.55, 0.57, 0.60, 1.0)
_ORANGE: Rgba = (0.98, 0.42, 0.07, 1.0)


@dataclass(frozen=True)
class ArmLook:
    """One visual geom: a closed mesh in the frame of its body (m)."""

    body: str
    name: str
    mesh: trimesh.Trimesh
    rgba: Rgba


def add_looks(spec: mujoco.MjSpec, bodies: Mapping[str, mujoco.MjsBody], arm: str) -> None:
    """Add the visual geoms of `arm`, "airbot_play" or "arx5", to its bodies (by name)."""
    if not looks_wanted():
        return
    for look in {"airbot_play": _airbot_play, "arx5": _arx5}[arm]():
        add_visual_mesh(spec, bodies[look.body], f"look_{look.name}", look.mesh, look.rgba)


def _airbot_play() -> list[ArmLook]:
    """Joint axes along each link's z; the upper arm runs along x of link 2, the forearm along y of link 3."""
    elbow = 0.27009
    wrist = 0.29015
    tool = 0.23645
    return [
        ArmLook("base", "foot", plate((0.085, 0.075), 0.0, 0.012, (-0.01, 0, 0)), _DARK),
        ArmLook("base", "base", barrel((0, 0, 0.012), (0, 0, 0.075), 0.052), _WHITE),
        ArmLook("link1", "turret", barrel((0, 0, -0.036), (0, 0, 0.006), 0.047), _DARK),
        ArmLook("link1", "shoulder", barrel((0, -0.040, 0), (0, 0.040, 0), 0.042), _WHITE),
        ArmLook("link2", "shoulder_caps", barrel((0, 0, -0.047), (0, 0, 0.047), 0.034), _DARK),
        ArmLook("link2", "upper_arm", limb((0.01, 0, 0), (elbow - 0.01, 0, 0), (0, 0, 1), 0.036, 0.030), _WHITE),
        ArmLook("link2", "elbow", barrel((elbow, 0, -0.040), (elbow, 0, 0.040), 0.038), _WHITE),
        ArmLook("link3", "elbow_caps", barrel((0, 0, -0.046), (0, 0, 0.046), 0.030), _DARK),
        ArmLook("link3", "forearm", limb((0, 0.01, 0), (0, wrist - 0.085, 0), (0, 0, 1), 0.034, 0.027), _WHITE),
        ArmLook("link4", "wrist_roll", barrel((0, 0, -0.088), (0, 0, -0.030), 0.029), _DARK),
        ArmLook("link4", "wrist_fork", limb((0, 0, -0.050), (0, 0, 0.012), (1, 0, 0), 0.030, 0.024), _WHITE),
        ArmLook("link5", "wrist", barrel((0, 0, -0.034), (0, 0, 0.034), 0.027), _DARK),
        ArmLook("link5", "hand_roll", barrel((0, 0.012, 0), (0, 0.062, 0), 0.029), _WHITE),
        ArmLook("link6", "flange", barrel((0, 0, 0.060), (0, 0, 0.0955), 0.031), _DARK),
        ArmLook("link6", "gripper", _hand((0, 0, 0.0955), (0, 0, tool - 0.058), (1, 0, 0), 0.055, 0.025), _WHITE),
        ArmLook("link6", "mark", barrel((0, -0.0265, 0.130), (0, -0.0235, 0.130), 0.008), _ORANGE),
        *_fingers(0.078, 0.025, 0.0105),
    ]


def _arx5() -> list[ArmLook]:
    """The upper arm runs backwards along x of link 2, the forearm along x of link 3; the wrist bends twice."""
    return [
        ArmLook("base", "foot", plate((0.060, 0.060), 0.0, 0.010, (0, 0, 0)), _GREY),
        ArmLook("base", "base", barrel((0, 0, 0.010), (0, 0, 0.055), 0.034), _DARK),
        ArmLook("link1", "turret", limb((0, 0, 0), (0.02, 0, 0.047), (0, 1, 0), 0.030, 0.034), _DARK),
        ArmLook("link1", "shoulder", barrel((0.02, -0.030, 0.047), (0.02, 0.030, 0.047), 0.030), _GREY),
        ArmLook("link2", "shoulder_caps", barrel((0, -0.044, 0), (0, 0.044, 0), 0.028), _DARK),
        ArmLook("link2", "upper_arm", limb((-0.01, 0, 0), (-0.254, 0, 0), (0, 1, 0), 0.030, 0.026), _DARK),
        ArmLook("link2", "elbow", barrel((-0.264, -0.030, 0), (-0.264, 0.030, 0), 0.030), _GREY),
        ArmLook("link3", "elbow_caps", barrel((0, -0.044, 0), (0, 0.044, 0), 0.028), _DARK),
        ArmLook("link3", "elbow_arm", limb((0, 0, 0), (0.065, 0, -0.056), (0, 1, 0), 0.028, 0.024), _DARK),
        ArmLook("link3", "forearm", limb((0.045, 0, -0.056), (0.235, 0, -0.060), (0, 1, 0), 0.028, 0.026), _DARK),
        ArmLook("link4", "wrist", barrel((0, -0.032, 0), (0, 0.032, 0), 0.026), _GREY),
        ArmLook("link4", "wrist_arm", limb((0, 0, 0), (0.070, 0, -0.070), (0, 1, 0), 0.022, 0.022), _DARK),
        ArmLook("link5", "wrist_yaw", barrel((0, 0, -0.010), (0, 0, 0.110), 0.026), _DARK),
        ArmLook("link5", "hand_roll", barrel((0.010, 0, 0.083391), (0.027, 0, 0.083391), 0.028), _GREY),
        ArmLook("link6", "gripper", _hand((0.005, 0, 0), (0.080, 0, 0), (0, 1, 0), 0.050, 0.025), _DARK),
        ArmLook("link6", "mark", barrel((0.05, 0, 0.0235), (0.05, 0, 0.0265), 0.008), _ORANGE),
        *_fingers(0.070, 0.020, 0.0105),
    ]


def _fingers(length: float, ahead: float, width: float) -> list[ArmLook]:
    """Both fingers in their bodies' frames: a tapering bar with a dark pad, `ahead` m beyond the tool frame."""
    looks = []
    for name, side in (("finger_left", 1.0), ("finger_right", -1.0)):
        bar = meshes.box((length, 0.009, 1.6 * width), (ahead - 0.5 * length, side * 0.0085, 0.0))
        pad = meshes.box((0.040, 0.004, 2 * width), (ahead - 0.020, side * 0.0020, 0.0))
        looks += [ArmLook(name, name, bar, _GREY), ArmLook(name, f"{name}_pad", pad, _DARK)]
    return looks


def plate(half: Sequence[float], bottom: float, top: float, at: Vec) -> trimesh.Trimesh:
    mesh = meshes.extrude(meshes.superellipse(half[0], half[1], 5.0), bottom, top)
    mesh.apply_translation(at)
    return mesh


def barrel(start: Vec, end: Vec, radius: float) -> trimesh.Trimesh:
    """A cylinder with bevelled rims from `start` to `end`."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    rim = min(0.15 * radius, 0.25 * float(np.linalg.norm(b - a)))
    u = (b - a) / np.linalg.norm(b - a)
    return meshes.join([
        meshes.tube(a.tolist(), (a + rim * u).tolist(), (radius - rim, radius), 20),
        meshes.tube((a + rim * u).tolist(), (b - rim * u).tolist(), (radius, radius), 20),
        meshes.tube((b - rim * u).tolist(), b.tolist(), (radius, radius - rim), 20),
    ])  # fmt: skip


def limb(start: Vec, end: Vec, side: Vec, width: float, depth: float) -> trimesh.Trimesh:
    """A rounded box that slims by a fifth on its way; `width` is its half width along `side`, `depth` across it."""
    return _shell(start, end, side, [(0.0, width, depth), (1.0, 0.8 * width, 0.8 * depth)])


def _hand(start: Vec, end: Vec, side: Vec, width: float, depth: float) -> trimesh.Trimesh:
    """A gripper's body: narrow at the flange, `width` (half) along `side` where the fingers run."""
    return _shell(start, end, side, [(0.0, 0.55 * width, depth), (0.45, width, depth), (1.0, width, 0.85 * depth)])


def _shell(start: Vec, end: Vec, side: Vec, rings: Sequence[tuple[float, float, float]]) -> trimesh.Trimesh:
    """Loft of rounded rectangles from `start` to `end`: share of the way, half width along `side`, half depth across."""
    a, b = np.asarray(start, float), np.asarray(end, float)
    along = (b - a) / np.linalg.norm(b - a)
    u = np.asarray(side, float) - np.dot(side, along) * along
    u /= np.linalg.norm(u)
    v = np.cross(along, u)
    loops = []
    for share, width, depth in rings:
        flat = meshes.superellipse(width, depth, 4.0, 24)
        loops.append(a + share * (b - a) + flat[:, :1] * u + flat[:, 1:] * v)
    return meshes.loft(loops)

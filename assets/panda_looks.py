"""Looks of the Panda: own meshes of barrels and shells, in the links' frames; white links, dark joints."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import mujoco

from rookery.assets import meshes
from rookery.assets.arm_looks import ArmLook, barrel, limb, plate
from rookery.assets.geometry import add_visual_mesh, looks_wanted

_WHITE = (0.93, 0.94, 0.95, 1.0)
_DARK = (0.16, 0.17, 0.19, 1.0)
_GREY = (0.55, 0.57, 0.60, 1.0)
_GREEN = (0.20, 0.75, 0.45, 1.0)


def add_looks(spec: mujoco.MjSpec, bodies: Mapping[str, mujoco.MjsBody]) -> None:
    """Add the visual geoms to the bodies (by name) that are there."""
    for look in _looks() if looks_wanted() else ():
        if look.body in bodies:
            add_visual_mesh(spec, bodies[look.body], f"look_{look.name}", look.mesh, look.rgba)


@functools.cache
def _looks() -> list[ArmLook]:
    """Made once, to be read: every Panda looks the same."""
    return _links() + _hand()


def _links() -> list[ArmLook]:
    return [
        ArmLook("link0", "foot", plate((0.115, 0.095), 0.0, 0.03, (-0.045, 0, 0)), _WHITE),
        ArmLook("link0", "base", barrel((0, 0, 0.03), (0, 0, 0.145), 0.075), _WHITE),
        ArmLook("link1", "turret", barrel((0, 0, -0.19), (0, 0, -0.05), 0.068), _WHITE),
        ArmLook("link1", "shoulder", barrel((0, -0.075, 0), (0, 0.075, 0), 0.068), _WHITE),
        ArmLook("link2", "shoulder_caps", barrel((0, 0, -0.088), (0, 0, 0.088), 0.055), _DARK),
        ArmLook("link2", "upper_arm", barrel((0, -0.06, 0), (0, -0.20, 0), 0.064), _WHITE),
        ArmLook("link3", "elbow_barrel", barrel((0, 0, -0.115), (0, 0, -0.045), 0.062), _DARK),
        ArmLook("link3", "elbow_side", limb((0.0, 0, -0.055), (0.0825, 0, 0), (0, 1, 0), 0.062, 0.060), _WHITE),
        ArmLook("link4", "elbow_caps", barrel((0, 0, -0.082), (0, 0, 0.082), 0.052), _DARK),
        ArmLook("link4", "elbow", limb((0, 0, 0), (-0.0825, 0.075, 0), (0, 0, 1), 0.066, 0.058), _WHITE),
        ArmLook("link4", "forearm_top", barrel((-0.0825, 0.06, 0), (-0.0825, 0.13, 0), 0.058), _WHITE),
        ArmLook("link5", "forearm", barrel((0, 0, -0.255), (0, 0, -0.09), 0.056), _DARK),
        ArmLook("link5", "wrist_side", limb((0, 0.02, -0.20), (0, 0.045, -0.01), (1, 0, 0), 0.054, 0.050), _WHITE),
        ArmLook("link5", "wrist", barrel((0, 0.005, 0), (0, 0.095, 0), 0.048), _WHITE),
        ArmLook("link6", "wrist_caps", barrel((0, 0, -0.055), (0, 0, 0.06), 0.044), _DARK),
        ArmLook("link6", "wrist_arm", limb((0.0, 0, 0), (0.088, 0, 0), (0, 1, 0), 0.052, 0.046), _WHITE),
        ArmLook("link7", "flange_barrel", barrel((0, 0, -0.035), (0, 0, 0.075), 0.046), _WHITE),
        ArmLook("link7", "flange", barrel((0, 0, 0.075), (0, 0, 0.107), 0.036), _DARK),
        ArmLook("link7", "mark", barrel((0.040, 0, 0.045), (0.048, 0, 0.045), 0.010), _GREEN),
    ]


def _hand() -> list[ArmLook]:
    looks = [
        ArmLook("hand", "hand", meshes.box((0.055, 0.200, 0.045), (0, 0, 0.0395)), _WHITE),
        ArmLook("hand", "hand_neck", barrel((0, 0, 0), (0, 0, 0.02), 0.034), _DARK),
    ]
    for body, side in (("left_finger", 1.0), ("right_finger", -1.0)):
        looks += [
            ArmLook(body, f"{body}_bar", meshes.box((0.018, 0.012, 0.034), (0, side * 0.013, 0.017)), _GREY),
            ArmLook(body, f"{body}_tip", meshes.box((0.018, 0.007, 0.024), (0, side * 0.0045, 0.042)), _DARK),
        ]
    return looks

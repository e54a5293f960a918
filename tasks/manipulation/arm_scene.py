"""Arms at a table: where they stand, where their tools may go, and which of their contacts are counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from rookery.robots.manipulators.model import ManipulatorModel
from rookery.sim.engines.contact_counts import WORLD
from rookery.sim.scene import Scene
from rookery.tasks.manipulation.scripted import about_z

UNDESIRED, SELF = "undesired", "self"
"""Counts of contacts (`Scene.count_contacts`)."""
Box = tuple[tuple[float, float, float], tuple[float, float, float]]
"""m, two corners, the lower values first."""


@dataclass(frozen=True)
class ArmMount:
    """Mount of an arm: prefix of its names in the scene (None: its name), m, and orientation wxyz, a rotation about z."""

    prefix: str | None = None
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)


def base_of(mount: ArmMount, nearer: float) -> tuple[float, float, float]:
    """Place of an arm's base, m, `nearer` m ahead of its mount: arms of short reach are nearer to what they are for."""
    yaw = 2.0 * math.atan2(mount.quat[3], mount.quat[0])
    x, y, z = mount.pos
    return x + nearer * math.cos(yaw), y + nearer * math.sin(yaw), z


def world_box(box: Box, mount: ArmMount) -> Box:
    """A box of the mount's frame in the world, of a mount that is rotated by quarters."""
    yaw = 2.0 * math.atan2(mount.quat[3], mount.quat[0])
    corners = torch.tensor(box, dtype=torch.float64) @ about_z(torch.tensor([yaw]))[0].double().T
    corners += torch.tensor(mount.pos, dtype=torch.float64)
    return tuple(corners.amin(0).tolist()), tuple(corners.amax(0).tolist())


def count_arm_contacts(scene: Scene, model: ManipulatorModel, mounts: Iterable[ArmMount]) -> None:
    """Count what arms should not touch: with anything but fingers the table, and each other, or with one link another."""
    names = [model.name if mount.prefix is None else mount.prefix for mount in mounts]
    arms = [f"body:{name}/{model.base}" for name in names]
    fingers = [f"joint:{name}/{finger}" for name in names for finger in model.fingers]
    scene.count_contacts(UNDESIRED, [(arm, WORLD) for arm in arms], [(finger, WORLD) for finger in fingers])
    hands = [f"site:{name}/{model.tool}" for name in names]
    pairs = [(arm, other) for i, arm in enumerate(arms) for other in arms[i:]]
    scene.count_contacts(SELF, pairs, [(hand, hand) for hand in hands])

"""Poses and velocities between MuJoCo's layout and Bullet's bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.sim.engines.pybullet.build import Built, xyzw
from rookery.sim.engines.pybullet.model import Plan, conjugate, multiply, rotate


def read_base(p: Any, client: int, uid: int) -> tuple[float, ...]:
    """[13] of a base, see `base_to_body`."""
    pos, quat = p.getBasePositionAndOrientation(uid, physicsClientId=client)
    linear, angular = p.getBaseVelocity(uid, physicsClientId=client)
    return (*pos, *quat, *linear, *angular)


def read_joints(p: Any, client: int, built: Built, tree: int, links: Sequence[int]) -> list[tuple[float, float]]:
    """Position and velocity of the joints of some links (of the plan) of a tree."""
    numbers = [built.links[tree][k] for k in links]
    return [s[:2] for s in p.getJointStates(built.trees[tree], numbers, physicsClientId=client)]


def write_mocap(p: Any, client: int, uid: int, pose: np.ndarray, start: np.ndarray) -> None:
    """Put a mocap body at `pose` [7]. Bullet's base is at the world's origin, and the body a link fixed to it at `start`."""
    rotation = multiply(pose[3:7], conjugate(start[3:7]))
    base = (pose[:3] - rotate(rotation, start[:3])).tolist()
    p.resetBasePositionAndOrientation(uid, base, xyzw(rotation), physicsClientId=client)


def base_to_body(
    plan: Plan, root: int, com: np.ndarray, raw: np.ndarray, ahead: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """qpos [n, 7] and qvel [n, 6] of a floating body.

    Args:
        plan: the scene.
        root: the body.
        com: [n, 3] m, its centre of mass in its frame.
        raw: [n, 13] of Bullet's base: position of the centre of mass, quat xyzw, velocity of the centre of mass and
            angular velocity, both world.
        ahead: s, how far Bullet's pose is ahead of the body's, see `body_to_base`.
    """
    quat = multiply(raw[:, [6, 3, 4, 5]], conjugate(plan.model.body_iquat[root])[None])
    offset = rotate(quat, com)
    linear = raw[:, 7:10] - np.cross(raw[:, 10:13], offset)
    angular = rotate(conjugate(quat), raw[:, 10:13])
    qpos, qvel = np.concatenate((raw[:, 0:3] - offset, quat), axis=1), np.concatenate((linear, angular), axis=1)
    return (_moved(qpos, qvel, -ahead) if ahead else qpos), qvel


def body_to_base(
    plan: Plan, root: int, com: np.ndarray, qpos: np.ndarray, qvel: np.ndarray, ahead: float = 0.0
) -> np.ndarray:
    """The inverse: [n, 13] of Bullet's base.

    Bullet's step changes velocities by the forces at its pose, then the pose by the new velocities. With the pose half a step
    (`ahead`, in s) ahead of the velocities this is the leapfrog method: forces are those of the middle of the step, and the
    error of free flight is of second order.
    """
    if ahead:
        qpos = _moved(qpos, qvel, ahead)
    quat = qpos[:, 3:7]
    offset = rotate(quat, com)
    angular = rotate(quat, qvel[:, 3:6])
    turned = multiply(quat, plan.model.body_iquat[root][None])[:, [1, 2, 3, 0]]
    return np.concatenate((qpos[:, 0:3] + offset, turned, qvel[:, 0:3] + np.cross(angular, offset), angular), axis=1)


def _moved(qpos: np.ndarray, qvel: np.ndarray, time: float) -> np.ndarray:
    """Poses [n, 7] after some time (s) with constant velocities [n, 6] (angular in body axes)."""
    half = 0.5 * time * qvel[:, 3:6]
    angle = np.linalg.norm(half, axis=1, keepdims=True)
    turn = np.concatenate((np.cos(angle), np.sinc(angle / np.pi) * half), axis=1)
    return np.concatenate((qpos[:, 0:3] + time * qvel[:, 0:3], multiply(qpos[:, 3:7], turn)), axis=1)

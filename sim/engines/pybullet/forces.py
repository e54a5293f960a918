"""External forces on bodies: which act in a step, and how Bullet is given them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.sim.engines.pybullet.build import Built
from rookery.sim.engines.pybullet.model import rotate

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld


def external_wrenches(world: PyBulletWorld) -> np.ndarray:
    """[N, nbody, 6] world-frame forces and torques at the centres of mass: the user's, the air's, gravity compensation,
    and the damping of floating bodies. Only of bodies that can move."""
    out = np.zeros_like(world.wrench)
    m = world.model
    params = world.params.arrays
    movable = list(world.plan.at)
    out[:, movable] = world.wrench[:, movable]
    if world.aerodynamics is not None:
        out[:, world.aerodynamics.bodies] += world.aerodynamics.wrench
        out[:, world.aerodynamics.bodies, 3:] += world.aerodynamics.precession
    for b in world.compensated:
        out[:, b, 0:3] -= params["gravity"] * (params["mass"][:, b] * m.body_gravcomp[b])[:, None]
    for b in world.damped:
        q, v = int(m.jnt_qposadr[m.body_jntadr[b]]), int(m.body_dofadr[b])
        c = params["damping"][:, v : v + 1]
        quat = world.qpos[:, q + 3 : q + 7]
        force = -c * world.qvel[:, v : v + 3]  # at the body's origin
        torque = rotate(quat, -c * world.qvel[:, v + 3 : v + 6])
        out[:, b, 0:3] += force
        out[:, b, 3:6] += torque - np.cross(rotate(quat, params["com"][:, b]), force)
    return out


def apply_local(p: Any, client: int, built: Built, tree: int, at: int, wrench: np.ndarray) -> None:
    """A wrench [6] in the body's frame, at its centre of mass: Bullet's local frame is the inertial one."""
    rotation = built.frames[tree][at + 1].T
    link = built.links[tree][at] if at >= 0 else -1
    uid = built.trees[tree]
    p.applyExternalForce(uid, link, (rotation @ wrench[0:3]).tolist(), [0, 0, 0], p.LINK_FRAME, physicsClientId=client)
    p.applyExternalTorque(uid, link, (rotation @ wrench[3:6]).tolist(), p.LINK_FRAME, physicsClientId=client)


def apply_world(p: Any, client: int, built: Built, tree: int, at: int, wrench: np.ndarray) -> None:
    """A wrench [6] in the world's frame, at the body's centre of mass."""
    uid = built.trees[tree]
    link = built.links[tree][at] if at >= 0 else -1
    if link < 0:
        com = p.getBasePositionAndOrientation(uid, physicsClientId=client)[0]
    else:
        com = p.getLinkState(uid, link, computeForwardKinematics=1, physicsClientId=client)[0]
    p.applyExternalForce(uid, link, wrench[0:3].tolist(), com, p.WORLD_FRAME, physicsClientId=client)
    p.applyExternalTorque(uid, link, wrench[3:6].tolist(), p.WORLD_FRAME, physicsClientId=client)

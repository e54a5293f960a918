"""Building a `Plan` into a Bullet client: shapes, multibodies, their constants and collision filters.

What Bullet does by itself and must be told not to: damp all motion by 4 % a second, hold joints with a velocity motor,
clamp velocities at 100, compute inertia from collision shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from rookery.sim.engines.pybullet import contact as contact
from rookery.sim.engines.pybullet.model import BulletLink, Collider, Plan, Tree, matrix, rotate
from rookery.sim.errors import RookeryError

_GEOM = mujoco.mjtGeom
_JNT = mujoco.mjtJoint

_IMPACT_ERP = 0.005
"""Share of a bouncing body's penetration that Bullet removes a step. Its usual 0.2 pushes the body out so fast that a
ball gains a fifth of its speed; with this, what a landing leaves is pushed out over some hundred steps instead."""

_IMPACT_STIFFNESS = 1e7  # N/m; only its ratio to the damping matters, which gives _IMPACT_ERP

_RESTITUTION_SPEED = 0.05  # m/s: slower contacts do not bounce, so that things come to rest

_SLAB = (100.0, 100.0, 10.0)
"""Half-widths in m of the slab that stands for a plane. Bullet's own plane touches a box or cylinder at one point a
step, so that a cylinder which lands flat falls over; a slab touches at four."""

ROTOR_GEAR = 100.0
"""Turns of a rotor for one of its joint (rad/m for a slide). Bullet has no armature; a small disc on the parent, geared to the
joint, is one but for the coupling with the parent's own turning, which goes down with one over this number. Armature added
to the link itself would be wrong there by all of it: the Go2's trot lost half of its speed."""

_ROTOR_MASS = 1e-6  # kg

_GROUND_WEIGHT = 30.0
"""How much more the friction of a pair counts where one of the two cannot move, if not all pairs can be had."""

_MARGIN = 1e-5  # m, by which Bullet swells convex hulls; its usual 1 mm would show

_SELF_COLLISION = 8 | 8192  # URDF_USE_SELF_COLLISION | ..._INCLUDE_PARENT: the filter pairs decide


@dataclass
class Constants:
    """One world's physical parameters, in MuJoCo's shapes: mass [nbody], inertia [nbody, 3], friction [ngeom, 3],
    gravity [3], damping, armature and frictionloss [nv], com [nbody, 3] (centres of mass in their bodies' frames), height
    [ngeom] (z of static geoms)."""

    mass: np.ndarray
    inertia: np.ndarray
    friction: np.ndarray
    gravity: np.ndarray
    damping: np.ndarray
    armature: np.ndarray
    frictionloss: np.ndarray
    com: np.ndarray
    height: np.ndarray


@dataclass
class Built:
    """Things made in a client.

    Attributes:
        trees: Bullet's id of each tree's multibody.
        links: for each tree, Bullet's index of each link (Bullet numbers them depth first).
        seats: (Bullet id, Bullet link) of each collider.
        frames: for each tree, the rotation [3, 3] from Bullet's inertial frame to the body's; base first, then links.
        factor_error: largest relative error of friction over the pairs, see pybullet_contact.factors.
        rotors: for each tree, (link of the plan, Bullet's index) of the discs that stand for armature.
    """

    trees: list[int]
    links: list[list[int]]
    seats: list[tuple[int, int]]
    frames: list[list[np.ndarray]]
    factor_error: float
    rotors: list[list[tuple[int, int]]]


def xyzw(q: np.ndarray) -> list[float]:
    """Bullet's order of a quaternion wxyz."""
    return [float(q[1]), float(q[2]), float(q[3]), float(q[0])]


def build(p: Any, client: int, plan: Plan, constants: Constants, dt: float) -> Built:
    """Empty the client and make the plan's world in it, at qpos0 and at rest.

    Args:
        p: the pybullet module.
        client: its client.
        plan: what to make.
        constants: this world's parameters.
        dt: s, Bullet's step.
    """
    p.resetSimulation(physicsClientId=client)
    p.setPhysicsEngineParameter(
        fixedTimeStep=dt, numSubSteps=0, restitutionVelocityThreshold=_RESTITUTION_SPEED,
        deterministicOverlappingPairs=1, physicsClientId=client,
    )  # fmt: skip
    p.setGravity(*(float(g) for g in constants.gravity), physicsClientId=client)
    built = Built([], [], [(-1, -1)] * len(plan.colliders), [], 0.0, [])
    for number, tree in enumerate(plan.trees):
        _make_tree(p, client, plan, tree, constants, built)
        for index, collider in enumerate(plan.colliders):
            if collider.tree == number:
                link = built.links[number][collider.link] if collider.link >= 0 else -1
                built.seats[index] = (built.trees[number], link)
    for index, collider in enumerate(plan.colliders):
        if collider.tree < 0:
            built.seats[index] = (_make_static(p, client, plan, collider, constants), -1)
    _set_contacts(p, client, plan, constants, built, dt)
    return built


def _anchor(plan: Plan, collider: Collider) -> np.ndarray:
    """Origin of a collider's link frame in its body's frame, m."""
    if collider.tree < 0 or collider.link < 0:
        return np.zeros(3)
    return plan.trees[collider.tree].links[collider.link].anchor


def _make_static(p: Any, client: int, plan: Plan, collider: Collider, c: Constants) -> int:
    pos, quat = plan.pose[collider.body]
    shape = _shape(p, client, plan, collider)
    geom = collider.geoms[0]
    pos = pos + np.array([0.0, 0.0, c.height[geom] - plan.model.geom_pos[geom, 2]])
    return int(p.createMultiBody(0.0, shape, -1, pos.tolist(), xyzw(quat), physicsClientId=client))


def _shape(p: Any, client: int, plan: Plan, collider: Collider | None) -> int:
    """Bullet's id of the (compound) shape of a collider, -1 for none."""
    if collider is None:
        return -1
    anchor = _anchor(plan, collider)
    parts = [_primitive(p, plan.model, g) for g in collider.geoms]
    places = [(plan.model.geom_pos[g] - anchor).tolist() for g in collider.geoms]
    turns = [xyzw(plan.model.geom_quat[g]) for g in collider.geoms]
    if len(parts) == 1:
        kind = parts[0].pop("shapeType")
        if plan.model.geom_type[collider.geoms[0]] == _GEOM.mjGEOM_PLANE:
            down = rotate(plan.model.geom_quat[collider.geoms[0]], np.array([0.0, 0.0, -_SLAB[2]]))
            places[0] = (np.array(places[0]) + down).tolist()
        shape = p.createCollisionShape(
            kind, collisionFramePosition=places[0], collisionFrameOrientation=turns[0], physicsClientId=client,
            **parts[0],
        )  # fmt: skip
    else:
        shape = p.createCollisionShapeArray(
            shapeTypes=[o["shapeType"] for o in parts],
            radii=[o.get("radius", 0.0) for o in parts],
            halfExtents=[o.get("halfExtents", [0.0, 0.0, 0.0]) for o in parts],
            lengths=[o.get("height", 0.0) for o in parts],
            collisionFramePositions=places, collisionFrameOrientations=turns, physicsClientId=client,
        )  # fmt: skip
    return int(shape)


def _primitive(p: Any, model: mujoco.MjModel, g: int) -> dict[str, Any]:
    kind = _GEOM(int(model.geom_type[g]))
    size = model.geom_size[g].astype(float)
    if kind == _GEOM.mjGEOM_PLANE:
        return {"shapeType": p.GEOM_BOX, "halfExtents": list(_SLAB)}
    if kind == _GEOM.mjGEOM_SPHERE:
        return {"shapeType": p.GEOM_SPHERE, "radius": float(size[0])}
    if kind == _GEOM.mjGEOM_BOX:
        return {"shapeType": p.GEOM_BOX, "halfExtents": size.tolist()}
    if kind in (_GEOM.mjGEOM_CAPSULE, _GEOM.mjGEOM_CYLINDER):
        name = p.GEOM_CAPSULE if kind == _GEOM.mjGEOM_CAPSULE else p.GEOM_CYLINDER
        return {"shapeType": name, "radius": float(size[0]), "height": 2.0 * float(size[1])}
    points = _ball(200) * size if kind == _GEOM.mjGEOM_ELLIPSOID else _hull(model, int(model.geom_dataid[g]))
    return {"shapeType": p.GEOM_MESH, "vertices": points.tolist()}


def _ball(n: int) -> np.ndarray:
    """n points spread evenly over the unit sphere (a Fibonacci lattice)."""
    z = 1.0 - 2.0 * (np.arange(n) + 0.5) / n
    turn = np.pi * (1.0 + 5.0**0.5) * np.arange(n)
    r = np.sqrt(1.0 - z * z)
    return np.stack((r * np.cos(turn), r * np.sin(turn), z), axis=1)


def _hull(model: mujoco.MjModel, mesh: int) -> np.ndarray:
    """Vertices [n, 3] of a mesh's convex hull, which is what MuJoCo collides."""
    start = int(model.mesh_vertadr[mesh])
    points = model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])]
    at = int(model.mesh_graphadr[mesh])
    if at >= 0:  # mesh_graph: number of vertices, number of faces, edge addresses, then the hull's vertex ids
        n = int(model.mesh_graph[at])
        points = points[model.mesh_graph[at + 2 + n : at + 2 + 2 * n]]
    return np.asarray(points, dtype=float)


def _inertia(plan: Plan, link: BulletLink, c: Constants) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Mass kg, principal moments kg m^2, and the inertial frame (pos m, quat wxyz) in the link's frame."""
    if not link.massive:
        return 0.0, np.zeros(3), np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    b = link.body
    return float(c.mass[b]), c.inertia[b].astype(float), c.com[b] - link.anchor, plan.model.body_iquat[b].copy()


def _rotor(model: mujoco.MjModel, link: BulletLink, c: Constants) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The same of the disc that stands for the armature of a link's joint."""
    quat = np.zeros(4)
    mujoco.mju_quatZ2Vec(quat, model.jnt_axis[link.joint])
    spin = float(c.armature[model.jnt_dofadr[link.joint]]) / ROTOR_GEAR**2
    return _ROTOR_MASS, np.array([0.5 * spin, 0.5 * spin, spin]), np.zeros(3), quat


def _make_tree(p: Any, client: int, plan: Plan, tree: Tree, c: Constants, built: Built) -> None:
    model = plan.model
    kinds = {int(_JNT.mjJNT_HINGE): p.JOINT_REVOLUTE, int(_JNT.mjJNT_SLIDE): p.JOINT_PRISMATIC}
    geared = [i for i, k in enumerate(tree.links) if k.joint >= 0 and c.armature[model.jnt_dofadr[k.joint]] > 0]
    nodes = tree.links + [tree.links[i] for i in geared]  # a rotor sits where its joint's link does
    inertias = [_inertia(plan, k, c) for k in tree.links] + [_rotor(model, tree.links[i], c) for i in geared]
    shapes = [_shape(p, client, plan, plan.colliders[k.collider] if k.collider >= 0 else None) for k in tree.links]
    types = [kinds[int(model.jnt_type[k.joint])] if k.joint >= 0 else p.JOINT_FIXED for k in tree.links]
    uid = p.createMultiBody(
        **_base(p, client, plan, tree, c),
        linkMasses=[i[0] for i in inertias],
        linkCollisionShapeIndices=shapes + [-1] * len(geared),
        linkVisualShapeIndices=[-1] * len(nodes),
        linkPositions=[k.pos.tolist() for k in nodes],
        linkOrientations=[xyzw(k.quat) for k in nodes],
        linkInertialFramePositions=[i[2].tolist() for i in inertias],
        linkInertialFrameOrientations=[xyzw(i[3]) for i in inertias],
        linkParentIndices=[k.parent + 1 for k in nodes],
        linkJointTypes=types + [p.JOINT_REVOLUTE] * len(geared),
        linkJointAxis=[model.jnt_axis[k.joint].tolist() if k.joint >= 0 else [0.0, 0.0, 1.0] for k in nodes],
        flags=_SELF_COLLISION, physicsClientId=client,
    )  # fmt: skip
    if uid < 0:
        raise RookeryError("PyBullet refused to make a body of the scene: use engine 'mujoco'.")
    order = {p.getJointInfo(uid, i, physicsClientId=client)[1]: i for i in range(len(nodes))}
    numbers = [order[f"joint{i + 1}".encode()] for i in range(len(nodes))]
    links = numbers[: len(tree.links)]
    rotors = numbers[len(tree.links) :]
    built.trees.append(int(uid))
    built.links.append(links)
    built.rotors.append(list(zip(geared, rotors, strict=True)))
    base = matrix(model.body_iquat[tree.root]) if tree.free else np.eye(3)
    built.frames.append([base] + [matrix(i[3]) for i in inertias])
    base_moments = c.inertia[tree.root] if tree.free else np.zeros(3)
    _set_dynamics(p, client, uid, [-1, *numbers], [base_moments, *(i[1] for i in inertias)])
    for link, bullet in zip(tree.links, links, strict=True):
        if link.joint >= 0:
            _set_joint(p, client, model, uid, bullet, link.joint, c)
    for i, rotor in built.rotors[-1]:
        _gear(p, client, uid, rotor, links[i])


def _base(p: Any, client: int, plan: Plan, tree: Tree, c: Constants) -> dict[str, Any]:
    """Arguments of createMultiBody of the base."""
    if not tree.free:
        return {"baseMass": 0.0, "basePosition": [0.0, 0.0, 0.0]}
    pos, quat = plan.pose[tree.root]
    collider = plan.colliders[tree.base_collider] if tree.base_collider >= 0 else None
    return {
        "baseMass": float(c.mass[tree.root]), "basePosition": pos.tolist(), "baseOrientation": xyzw(quat),
        "baseInertialFramePosition": c.com[tree.root].tolist(),
        "baseInertialFrameOrientation": xyzw(plan.model.body_iquat[tree.root]),
        "baseCollisionShapeIndex": _shape(p, client, plan, collider),
    }  # fmt: skip


def _gear(p: Any, client: int, uid: int, rotor: int, link: int) -> None:
    p.setJointMotorControl2(uid, rotor, p.VELOCITY_CONTROL, force=0.0, physicsClientId=client)
    gear = p.createConstraint(
        uid, rotor, uid, link, jointType=p.JOINT_GEAR, jointAxis=[0, 0, 1], parentFramePosition=[0, 0, 0],
        childFramePosition=[0, 0, 0], physicsClientId=client,
    )  # fmt: skip
    # Bullet's ratio: speed of the first + ratio x speed of the second = 0. Only speeds matter, so angles may drift (erp 0)
    p.changeConstraint(gear, gearRatio=-ROTOR_GEAR, maxForce=1e6, erp=0.0, physicsClientId=client)


def _set_dynamics(p: Any, client: int, uid: int, links: Sequence[int], moments: Sequence[np.ndarray]) -> None:
    for link, moment in zip(links, moments, strict=True):
        p.changeDynamics(
            uid, link, linearDamping=0.0, angularDamping=0.0, jointDamping=0.0, maxJointVelocity=1e9,
            physicsClientId=client,
        )  # fmt: skip
        # alone, because beside other settings Bullet ignores it for links
        if moment.any():
            p.changeDynamics(uid, link, localInertiaDiagonal=moment.tolist(), physicsClientId=client)


def _set_joint(p: Any, client: int, model: mujoco.MjModel, uid: int, link: int, joint: int, c: Constants) -> None:
    dof = int(model.jnt_dofadr[joint])
    ref = float(model.qpos0[model.jnt_qposadr[joint]])
    # a velocity motor towards zero with a bounded force is dry friction
    friction = float(c.frictionloss[dof])
    p.setJointMotorControl2(uid, link, p.VELOCITY_CONTROL, targetVelocity=0.0, force=friction, physicsClientId=client)
    p.changeDynamics(uid, link, jointDamping=float(c.damping[dof]), physicsClientId=client)
    if model.jnt_limited[joint]:
        low, high = (float(r) - ref for r in model.jnt_range[joint])
        p.changeDynamics(uid, link, jointLowerLimit=low, jointUpperLimit=high, physicsClientId=client)


def _set_contacts(p: Any, client: int, plan: Plan, c: Constants, built: Built, dt: float) -> None:
    """Friction, restitution and filters of all colliders."""
    count = len(plan.colliders)
    friction = c.friction[:, 0]
    pairs = []
    for i, j in plan.touching:
        a, b = plan.colliders[i], plan.colliders[j]
        weight = 1.0 if a.tree >= 0 and b.tree >= 0 else _GROUND_WEIGHT
        pairs.append(contact.ContactPair(i, j, *contact.mixed(plan.model, a.geoms[0], b.geoms[0], friction), weight))
    slide, built.factor_error = contact.factors(count, pairs, "friction")
    bounce, _ = contact.factors(count, pairs, "restitution")
    bouncy = {k for q in pairs if q.restitution > contact.BOUNCY for k in (q.first, q.second)}
    for index, collider in enumerate(plan.colliders):
        # Bullet applies forces before it looks at the speed of a contact: a foot under a servo's load would hop all the time
        if collider.link >= 0 and index not in bouncy:
            bounce[index] = 0.0
    for index, collider in enumerate(plan.colliders):
        uid, link = built.seats[index]
        g = collider.geoms[0]
        condim = int(plan.model.geom_condim[g])
        p.changeDynamics(
            uid, link, lateralFriction=float(slide[index]), restitution=float(bounce[index]),
            spinningFriction=float(c.friction[g, 1]) if condim >= 4 else 0.0,
            rollingFriction=float(c.friction[g, 2]) if condim >= 6 else 0.0, physicsClientId=client,
        )  # fmt: skip
        if _GEOM(int(plan.model.geom_type[g])) in (_GEOM.mjGEOM_MESH, _GEOM.mjGEOM_ELLIPSOID):
            p.changeDynamics(uid, link, collisionMargin=_MARGIN, physicsClientId=client)
        if index in bouncy and collider.tree >= 0:
            # contacts ahead of time would take part of the speed before the impact
            damping = _IMPACT_STIFFNESS * dt * (1.0 / _IMPACT_ERP - 1.0)
            p.changeDynamics(
                uid, link, contactProcessingThreshold=0.0, contactStiffness=_IMPACT_STIFFNESS, contactDamping=damping,
                physicsClientId=client,
            )  # fmt: skip
        moving = collider.tree >= 0
        p.setCollisionFilterGroupMask(uid, link, 1 if moving else 2, 3 if moving else 1, physicsClientId=client)
    allowed = set(plan.touching)
    for i in range(count):
        for j in range(i + 1, count):
            if (i, j) not in allowed and (plan.colliders[i].tree >= 0 or plan.colliders[j].tree >= 0):
                u1, l1 = built.seats[i]
                u2, l2 = built.seats[j]
                p.setCollisionFilterPair(u1, u2, l1, l2, 0, physicsClientId=client)

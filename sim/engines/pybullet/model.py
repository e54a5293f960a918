"""Reading a compiled MuJoCo model as Bullet multibodies: which links and colliders stand for which bodies and geoms.

Nothing here calls Bullet: a `Plan` is made once and built into as many clients as there are worlds (pybullet_build).

Mental model. A MuJoCo body with joints j1..jn becomes n links in a chain, all but the last without mass, each with its
frame at the joint's anchor and the body's orientation. A body without joints becomes a fixed link. A floating body is
the base of its own multibody; a body that hangs on the world by joints gets a fixed base. Everything that cannot move
(the world's geoms and those of bodies welded to it) becomes single fixed colliders. Bullet keeps friction and
restitution by link, so geoms of one body that differ in them sit on further fixed links without mass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np

from rookery.sim.errors import RookeryError

_JNT = mujoco.mjtJoint
_GEOM = mujoco.mjtGeom
_SENS = mujoco.mjtSensor

_SOLID = (_GEOM.mjGEOM_SPHERE, _GEOM.mjGEOM_CAPSULE, _GEOM.mjGEOM_CYLINDER, _GEOM.mjGEOM_BOX)
# each on a link of its own: a slab stands for a plane, and Bullet's compounds take no hulls
_SINGLE = {int(g) for g in (_GEOM.mjGEOM_PLANE, _GEOM.mjGEOM_MESH, _GEOM.mjGEOM_ELLIPSOID)}
SHAPES = {int(g) for g in _SOLID} | _SINGLE
"""Geom types that can collide here."""


@dataclass
class BulletLink:
    """One link of a multibody.

    Args:
        joint: MuJoCo joint id, -1 for a fixed link.
        body: MuJoCo body whose frame it follows.
        massive: it carries that body's mass and inertia.
        parent: index of the parent link, -1 for the base.
        pos, quat: its frame in the parent's link frame, at qpos0; m, wxyz.
        anchor: origin of its frame in the body's frame, m.
        collider: index into Plan.colliders, or -1.
    """

    joint: int
    body: int
    massive: bool
    parent: int
    pos: np.ndarray
    quat: np.ndarray
    anchor: np.ndarray
    collider: int = -1


@dataclass
class Tree:
    """One multibody: a floating base (`free`, the body `root`) or a fixed one at the world's origin, and its links."""

    root: int
    free: bool
    links: list[BulletLink] = field(default_factory=list)
    base_collider: int = -1


@dataclass
class Collider:
    """Geoms of one body that share their contact parameters; `tree` is -1 where it cannot move."""

    body: int
    geoms: list[int]
    tree: int = -1
    link: int = -1


@dataclass
class Plan:
    """See the module's text.

    Attributes:
        at: by MuJoCo body id: (tree, link), link -1 for a base; bodies that cannot move are missing.
        pose: by MuJoCo body id at qpos0: world position m and quaternion wxyz.
        touching: pairs of collider indices that MuJoCo's filters let collide.
    """

    model: mujoco.MjModel
    trees: list[Tree]
    colliders: list[Collider]
    at: dict[int, tuple[int, int]]
    pose: list[tuple[np.ndarray, np.ndarray]]
    touching: list[tuple[int, int]]


def rotate(quat: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v turned by a unit quaternion wxyz; both [..., 4] and [..., 3], broadcast."""
    w, u = quat[..., 0:1], quat[..., 1:4]
    t = 2.0 * np.cross(u, v)
    return v + w * t + np.cross(u, t)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of quaternions wxyz, [..., 4]."""
    aw, av, bw, bv = a[..., 0:1], a[..., 1:4], b[..., 0:1], b[..., 1:4]
    w = aw * bw - (av * bv).sum(-1, keepdims=True)
    return np.concatenate((w, aw * bv + bw * av + np.cross(av, bv)), axis=-1)


def conjugate(q: np.ndarray) -> np.ndarray:
    """Inverse of unit quaternions wxyz, [..., 4]."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def matrix(quat: np.ndarray) -> np.ndarray:
    """Rotation matrix [3, 3] of a quaternion wxyz."""
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, np.asarray(quat, dtype=np.float64))
    return out.reshape(3, 3)


def name_of(model: mujoco.MjModel, kind: str, i: int) -> str:
    """Name of a model element for a message."""
    return mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), i) or f"number {i}"


def read(model: mujoco.MjModel) -> Plan:
    """The plan of a model.

    Raises:
        RookeryError: the model uses something that Bullet, or this reading of it, has no counterpart for; it is named.
    """
    _refuse_unknown(model)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    plan = Plan(model, [], [], {}, [(data.xpos[b].copy(), data.xquat[b].copy()) for b in range(model.nbody)], [])
    for body in range(1, model.nbody):
        if model.body_weldid[body] != 0:
            _add_body(plan, body)
    for body in range(model.nbody):
        _add_colliders(plan, body)
    plan.touching = [
        (i, j) for i in range(len(plan.colliders)) for j in range(i + 1, len(plan.colliders)) if _touches(plan, i, j)
    ]
    return plan


def _refuse_unknown(model: mujoco.MjModel) -> None:
    def refuse(what: str) -> None:
        raise RookeryError(f"the engine 'pybullet' cannot build this scene: it has no {what}; use engine 'mujoco'.")

    if model.neq and model.eq_active0.any():
        refuse("equality constraints")
    if model.nflex:
        refuse("flexible bodies")
    if model.npair:
        refuse("explicit contact pairs")
    if model.opt.density or model.opt.viscosity:
        refuse("fluid (option density or viscosity)")
    for j in range(model.njnt):
        if what := _unknown_joint(model, j):
            refuse(f"{what} ({name_of(model, 'joint', j)!r})")
    for t in range(model.ntendon):
        if what := _unknown_tendon(model, t):
            refuse(f"{what} (tendon {name_of(model, 'tendon', t)!r})")
    for g in range(model.ngeom):
        if (model.geom_contype[g] or model.geom_conaffinity[g]) and int(model.geom_type[g]) not in SHAPES:
            refuse(
                f"collision shape {mujoco.mjtGeom(int(model.geom_type[g])).name} (geom {name_of(model, 'geom', g)!r})"
            )


def _unknown_joint(model: mujoco.MjModel, j: int) -> str:
    """The parts of a joint without counterpart; empty for nothing."""
    if model.jnt_type[j] == _JNT.mjJNT_BALL:
        return "ball joints"
    dofs = slice(
        int(model.jnt_dofadr[j]), int(model.jnt_dofadr[j]) + (6 if model.jnt_type[j] == _JNT.mjJNT_FREE else 1)
    )
    if model.jnt_type[j] == _JNT.mjJNT_FREE and (model.dof_armature[dofs].any() or model.dof_frictionloss[dofs].any()):
        return "armature or friction loss on a free joint"
    if model.dof_dampingpoly[dofs].any():
        return "nonlinear joint damping"
    if model.jnt_stiffnesspoly[j].any() or model.jnt_plasticadr[j] >= 0:
        return "nonlinear or plastic joint stiffness"
    return ""


def _unknown_tendon(model: mujoco.MjModel, t: int) -> str:
    """Likewise of a tendon."""
    if model.wrap_type[model.tendon_adr[t]] != mujoco.mjtWrap.mjWRAP_JOINT:
        return "tendons in space"
    if model.tendon_limited[t] or model.tendon_actfrclimited[t]:
        return "limits of tendons"
    if model.tendon_frictionloss[t] or model.tendon_armature[t]:
        return "friction loss or armature of tendons"
    if model.tendon_stiffnesspoly[t].any() or model.tendon_dampingpoly[t].any() or model.tendon_plasticadr[t] >= 0:
        return "nonlinear or plastic springs of tendons"
    return ""


def _add_body(plan: Plan, body: int) -> None:
    """Append the links of a movable body, or start its tree."""
    model = plan.model
    parent = int(model.body_parentid[body])
    joints = range(int(model.body_jntadr[body]), int(model.body_jntadr[body]) + int(model.body_jntnum[body]))
    if len(joints) == 1 and model.jnt_type[joints[0]] == _JNT.mjJNT_FREE:
        plan.at[body] = (len(plan.trees), -1)
        plan.trees.append(Tree(body, True))
        return
    if parent in plan.at:
        tree, at = plan.at[parent]
        origin = plan.trees[tree].links[at].anchor if at >= 0 else np.zeros(3)
        pos = model.body_pos[body] - origin
        quat = model.body_quat[body].copy()
    else:  # hangs on the world
        tree = len(plan.trees)
        at = -1
        plan.trees.append(Tree(body, False))
        pos, quat = plan.pose[body]
    links = plan.trees[tree].links
    anchor = np.zeros(3)
    for joint in list(joints) or [-1]:
        step = (model.jnt_pos[joint] if joint >= 0 else np.zeros(3)) - anchor
        anchor = anchor + step
        links.append(BulletLink(joint, body, False, at, pos + rotate(quat, step), quat, anchor))
        at = len(links) - 1
        pos = np.zeros(3)
        quat = np.array([1.0, 0.0, 0.0, 0.0])
    links[-1].massive = True
    plan.at[body] = (tree, at)


def _add_colliders(plan: Plan, body: int) -> None:
    """Sort the geoms of a body by contact parameters, and put the groups on its link and on further fixed links."""
    model = plan.model
    groups: dict[tuple[float, ...], list[int]] = {}
    watched = {
        int(i[s])
        for s in range(model.nsensor)
        if model.sensor_type[s] == _SENS.mjSENS_CONTACT
        for i, kind in ((model.sensor_objid, model.sensor_objtype), (model.sensor_refid, model.sensor_reftype))
        if kind[s] == mujoco.mjtObj.mjOBJ_GEOM
    }
    for g in range(int(model.body_geomadr[body]), int(model.body_geomadr[body]) + int(model.body_geomnum[body])):
        if not (model.geom_contype[g] or model.geom_conaffinity[g]):
            continue
        alone = g in watched or int(model.geom_type[g]) in _SINGLE
        key = (
            g if alone else -1, *model.geom_friction[g], *model.geom_solref[g], model.geom_solmix[g],
            model.geom_priority[g], model.geom_condim[g], model.geom_contype[g], model.geom_conaffinity[g],
        )  # fmt: skip
        groups.setdefault(tuple(float(k) for k in key), []).append(g)
    for geoms in groups.values():
        index = len(plan.colliders)
        plan.colliders.append(Collider(body, geoms))
        if body in plan.at:
            _seat_collider(plan, body, index)


def _seat_collider(plan: Plan, body: int, index: int) -> None:
    number, at = plan.at[body]
    tree = plan.trees[number]
    taken = tree.base_collider if at < 0 else tree.links[at].collider
    if taken < 0 and at < 0:
        tree.base_collider = index
    elif taken < 0:
        tree.links[at].collider = index
    else:
        anchor = tree.links[at].anchor if at >= 0 else np.zeros(3)
        still = np.array([1.0, 0.0, 0.0, 0.0])
        tree.links.append(BulletLink(-1, body, False, at, np.zeros(3), still, anchor, index))
        at = len(tree.links) - 1
    plan.colliders[index].tree = number
    plan.colliders[index].link = at


def _touches(plan: Plan, i: int, j: int) -> bool:
    """MuJoCo's collision filter (documentation, Computation: Collision detection, Selection) for two colliders."""
    model = plan.model
    a = plan.colliders[i]
    b = plan.colliders[j]
    g1, g2 = a.geoms[0], b.geoms[0]
    if not (model.geom_contype[g1] & model.geom_conaffinity[g2] or model.geom_contype[g2] & model.geom_conaffinity[g1]):
        return False
    w1, w2 = int(model.body_weldid[a.body]), int(model.body_weldid[b.body])
    if w1 == w2 or (model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT):
        return False
    if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT:
        p1, p2 = (int(model.body_weldid[model.body_parentid[w]]) for w in (w1, w2))
        if (w1 and w1 == p2) or (w2 and w2 == p1):
            return False
    low, high = sorted((a.body, b.body))
    return (low << 16) + high not in model.exclude_signature

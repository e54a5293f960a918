"""The legs of a robot that comes from a file: which hinges they are, where they end, and at which angles they stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.robots.quadrupeds.model import LEGS, PARTS
from rookery.sim.errors import RookeryError

Floats = NDArray[np.float64]
REACH = 0.75
"""Share of a leg's length at which it stands where nobody says; a Go2 has 0.7."""
UPRIGHT = 0.005  # 1/rad^2, cost of a hip away from the file's 0, beside (m/m)^2 of a foot that is off
SEPARATE = 0.05  # of the diagonal between hips: how far apart front and rear, left and right hips are at least
_HINGE = int(mujoco.mjtJoint.mjJNT_HINGE)
_FREE = int(mujoco.mjtJoint.mjJNT_FREE)


def check_family(path: Path, spec: mujoco.MjSpec) -> None:
    """Refuse what is no quadruped by the number of its joints, before anything else of it is looked at.

    Raises:
        RookeryError: other than twelve joints.
    """
    moved = [j.name for j in spec.joints if j.type != mujoco.mjtJoint.mjJNT_FREE]
    if len(moved) != 12:
        raise RookeryError(
            f"{path} is no quadruped that tasks here know: it has {len(moved)} joints, and four legs of three are needed: fix "
            "all other joints in its file, or use it in a task for what it is (docs/own_robot.md)."
        )


def find_legs(path: Path, model: mujoco.MjModel) -> list[list[int]]:
    """Ids of the hinges of each leg from the trunk outwards, in LEGS' order.

    Raises:
        RookeryError: it has no four legs of three hinges, or x is not forward, y left and z up.
    """
    for j in range(model.njnt):
        if model.jnt_type[j] not in (_HINGE, _FREE):
            raise RookeryError(f"{path}: joint {model.joint(j).name!r} is no hinge: a quadruped here has hinges alone.")
    hinges = [j for j in range(model.njnt) if model.jnt_type[j] == _HINGE]
    chains = [_chain_to(model, j) for j in hinges]
    legs = [chain for chain in chains if not any(chain == other[: len(chain)] and other != chain for other in chains)]
    if len(legs) != len(LEGS) or any(len(leg) != len(PARTS) for leg in legs):
        shape = ", ".join(str(len(leg)) for leg in legs)
        raise RookeryError(
            f"{path} is no quadruped that tasks here know: it has {len(legs)} limbs of {shape} joints, and four legs of three "
            "are needed: fix all other joints in its file, or use it in a task for what it is (docs/own_robot.md)."
        )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    base = data.body("base")
    turn = base.xmat.reshape(3, 3)
    hips = np.array([(data.xanchor[leg[0]] - base.xpos) @ turn for leg in legs])
    front_first = np.argsort(-hips[:, 0], kind="stable")
    order = [*sorted(front_first[:2], key=lambda i: -hips[i, 1]), *sorted(front_first[2:], key=lambda i: -hips[i, 1])]
    sorted_hips = hips[order]
    sideways = [abs(float(data.xaxis[leg[1]] @ turn[:, 1])) for leg in legs]
    ahead = sorted_hips[:2, 0].min() - sorted_hips[2:, 0].max()
    wide = min(sorted_hips[0, 1] - sorted_hips[1, 1], sorted_hips[2, 1] - sorted_hips[3, 1])
    apart = SEPARATE * float(np.linalg.norm(np.ptp(hips[:, :2], axis=0)))
    if ahead < apart or wide < apart or min(sideways) < 0.7:
        raise RookeryError(
            f"{path}: its legs, with hips at {np.round(hips, 3).tolist()} m, do not walk along x: x must be forward, y left "
            "and z up in the root link; turn its frame by rpy = [roll, pitch, yaw] (rad) in the settings."
        )
    return [legs[i] for i in order]


def _chain_to(model: mujoco.MjModel, joint: int) -> list[int]:
    """Hinges from the trunk to this one."""
    out = []
    body = int(model.jnt_bodyid[joint])
    while body:
        first = int(model.body_jntadr[body])
        out += [j for j in range(first, first + int(model.body_jntnum[body])) if model.jnt_type[j] == _HINGE][::-1]
        body = int(model.body_parentid[body])
    return out[::-1]


def tip_of(model: mujoco.MjModel, body: int) -> tuple[int, Floats]:
    """The shape of a leg's last body that reaches farthest from its joint, and that point in the body's frame (m).

    Returns:
        Id of the geom, -1 if nothing on the body collides, and the point [3].
    """
    best, where, far = -1, np.zeros(3), -1.0
    first = int(model.body_geomadr[body])
    for g in range(first, first + int(model.body_geomnum[body])):
        if not (model.geom_contype[g] or model.geom_conaffinity[g]):
            continue
        points = corners(model, g)
        distance = np.linalg.norm(points, axis=1)
        if distance.max() > far:
            far = float(distance.max())
            best, where = g, points[int(distance.argmax())]
    return best, where


def corners(model: mujoco.MjModel, g: int) -> Floats:
    """[P, 3] m, in the body's frame: outermost points of a geom."""
    kind = int(model.geom_type[g])
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[g])
    size = model.geom_size[g]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        centre = model.geom_pos[g]
        return (centre * (1.0 + size[0] / max(float(np.linalg.norm(centre)), 1e-9)))[None]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = int(model.geom_dataid[g])
        start = int(model.mesh_vertadr[mesh])
        local = model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])].astype(float)
    else:
        half = {
            int(mujoco.mjtGeom.mjGEOM_CAPSULE): (0.0, 0.0, size[1] + size[0]),
            int(mujoco.mjtGeom.mjGEOM_CYLINDER): (size[0], size[0], size[1]),
        }.get(kind, tuple(size))
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
        local = signs * np.array(half)
    return local @ turn.reshape(3, 3).T + model.geom_pos[g]


Chain = tuple[Floats, Floats, Floats]
"""Turns [4, 3, 3], offsets [4, 3] m, axes [3, 3], see kinematics.chain_of."""


def forward(chain: Chain, q: Floats) -> tuple[Floats, Floats]:
    """Places [S, 3] m in the trunk's frame of knee and foot at angles q [S, 3] rad."""
    turns, offsets, axes = chain
    turn = np.broadcast_to(np.eye(3), (len(q), 3, 3))
    place = np.zeros((len(q), 3))
    knee = place
    for j in range(3):
        place = place + turn @ offsets[j]
        knee = place
        x, y, z = axes[j]
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        s, c = np.sin(q[:, j])[:, None, None], 1.0 - np.cos(q[:, j])[:, None, None]
        turn = turn @ turns[j] @ (np.eye(3) + s * cross + c * cross @ cross)
    return knee, place + turn @ offsets[3]


def guess_home(chain: Chain, low: Floats, high: Floats) -> Floats:
    """[3] rad, at which a leg stands: the foot below its second joint, REACH of the leg's length down, the hip near the file's
    0, the knee behind where the limits leave a choice, and near the middle of them. No joint is a turn away."""
    _, offsets, _ = chain
    low, high = _within_a_turn(low, high)
    zero = np.zeros((1, 3))
    hip = offsets[0] + chain[0][0] @ _turned(chain, zero[0, 0]) @ offsets[1]
    length = float(np.linalg.norm(offsets[2]) + np.linalg.norm(offsets[3]))
    goal = hip - np.array([0.0, 0.0, REACH * length])
    rng = np.random.default_rng(0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    centre, width = middle, half
    for count in (20000, *[2000] * 8):
        q = np.clip(centre + width * rng.uniform(-1.0, 1.0, (count, 3)), low, high)
        q[0] = centre
        knee, foot = forward(chain, q)
        cost = ((foot - goal) ** 2).sum(1) / length**2 + 0.01 * (knee[:, 0] - hip[0]) / length
        cost += 2e-4 * (((q - middle) / half) ** 2).sum(1) + UPRIGHT * q[:, 0] ** 2
        centre = q[int(cost.argmin())]
        width = 0.35 * width if count < 20000 else 0.1 * half
    return centre


def _within_a_turn(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Limits cut to +-pi, beyond which a joint stands as within; but those of a joint whose range lies elsewhere."""
    least, most = np.maximum(low, -np.pi), np.minimum(high, np.pi)
    elsewhere = (most - least < 0.5 * (high - low)) & (high - low <= 2.0 * np.pi)
    return np.where(elsewhere, low, least), np.where(elsewhere, high, most)


def _turned(chain: Chain, angle: float) -> Floats:
    x, y, z = chain[2][0]
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def mirror_of(axes: Floats) -> tuple[int, ...] | None:
    """QuadrupedModel.mirror of hinges with these axes [12, 3] in the trunk's frame at angle 0.

    Seen in a mirror on the plane of x and z, a turn about a is one about -M a, M turning y round.
    """
    out = []
    for i, axis in enumerate(axes):
        other = i + 3 if i % 6 < 3 else i - 3
        image = axis * (-1.0, 1.0, -1.0)
        sign = float(image @ axes[other])
        if abs(sign) < 0.99:
            return None
        out.append((other + 1) * (1 if sign > 0 else -1))
    return tuple(out)


def same_sides(mirror: Sequence[int], home: Floats) -> bool:
    """True where a stance is its own mirror image."""
    image = [np.sign(m) * home[abs(m) - 1] for m in mirror]
    return bool(np.allclose(image, home, atol=1e-3))

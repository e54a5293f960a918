"""The arm in a robot's file: a chain of hinges from the base, what ends it, and the tool's frame."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.robots.manipulators.model import LEAST, MOST
from rookery.robots.own.legs import corners
from rookery.robots.own.reading import BASE
from rookery.sim.errors import RookeryError, unknown

Floats = NDArray[np.float64]
TOOL = "tcp"
"""Name of the tool's site."""
BEFORE_TIP = 0.009
"""m, of the tool before the ends of the fingers, as Franka's own end-effector frame stands; at most a third of the fingers."""
ALONG = 0.98  # cosine to an axis of the last link from which on the tool's approach is that axis
_HINGE, _SLIDE, _FREE = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_FREE


def moved_by(body: mujoco.MjsBody) -> list[mujoco.MjsBody]:
    """The bodies next below one that joints move; those of floating bases aside."""
    out: list[mujoco.MjsBody] = []
    for child in body.bodies:
        out += [child] if any(j.type != _FREE for j in child.joints) else moved_by(child)
    return out


def is_arm(spec: mujoco.MjSpec) -> bool:
    """True where one chain of joints alone hangs on the base, such as an arm has."""
    at = moved_by(spec.worldbody)
    count = 0
    while len(at) == 1:
        count += 1
        at = moved_by(at[0])
    return count >= LEAST - 1


def find_chain(path: Path, spec: mujoco.MjSpec, named: list[str] | None) -> list[mujoco.MjsJoint]:
    """The arm's hinges from the base outwards: those `named`, or all up to where the robot branches or slides.

    Raises:
        RookeryError: no such chain, or one of a length that no task knows.
    """
    at = moved_by(spec.worldbody)
    if len(at) != 1:
        raise RookeryError(
            f"{path} is no arm that tasks here know: {len(at)} parts move on its base, and an arm is one chain of hinges on a "
            "base that stands: give the arm's own file, without wheels or a second arm, or use the robot for what it is "
            "(docs/own_robot.md)."
        )
    joints: list[mujoco.MjsJoint] = []
    while len(at) == 1 and len(at[0].joints) == 1 and at[0].joints[0].type == _HINGE:
        joints.append(at[0].joints[0])
        at = moved_by(at[0])
    names = [j.name for j in joints]
    if named is not None:
        for name in named:
            if name not in names:
                raise unknown(f"hinge in joints of {path.name}", name, names)
        if named != names[: len(named)]:
            raise RookeryError(f"joints of {path.name} must follow each other from the base on: {', '.join(names)}.")
        joints = joints[: len(named)]
    if not LEAST <= len(joints) <= MOST:
        raise RookeryError(
            f"{path} is no arm that tasks here know: {len(joints)} hinges follow each other from its base "
            f"({', '.join(j.name for j in joints)}), and {LEAST} to {MOST} are needed: name the arm's own by joints = [...] in "
            f"{path.stem}.toml, whereupon the others are held, or use the robot for what it is (docs/own_robot.md)."
        )
    return joints


def find_fingers(last: mujoco.MjsBody) -> list[mujoco.MjsJoint]:
    """The two slides of a parallel gripper, none where there is another one or none."""
    beyond = moved_by(last)
    slides = [j for body in beyond for j in body.joints]
    if len(beyond) != 2 or len(slides) != 2 or any(j.type != _SLIDE for j in slides) or any(map(moved_by, beyond)):
        return []
    return slides


def hold_others(spec: mujoco.MjSpec, kept: list[mujoco.MjsJoint]) -> list[str]:
    """Delete all joints but those of the arm, and what couples joints; returns a note on them."""
    for coupling in [*spec.equalities, *spec.tendons]:  # what is left of a gripper is coupled anew
        spec.delete(coupling)
    names = {j.name for j in kept}
    others = [j for j in spec.joints if j.name not in names and j.type != _FREE]
    if not others:
        return []
    note = f"{len(others)} joints beyond the arm's are held: {', '.join(j.name for j in others)}."
    for joint in others:
        spec.delete(joint)
    return [note]


def place_tool(path: Path, spec: mujoco.MjSpec, name: str, offset: tuple[float, ...], rpy: tuple[float, ...]) -> None:
    """Add the tool's site in the frame of a link, or of a site, of that name.

    Args:
        offset: m. rpy: rad, fixed axes; of the tool in that frame.

    Raises:
        RookeryError: there is none.
    """
    frames = {b.name: b for b in spec.bodies if b.name not in ("world", BASE)}
    frames |= {s.name: s for s in spec.sites if s.name}
    if name not in frames:
        raise unknown(f"tool of {path.name}, a link or site,", name, frames)
    frame = frames[name]
    site = isinstance(frame, mujoco.MjsSite)
    body = frame.parent if site else frame
    turn = matrix_of(np.array(frame.quat)) if site else np.eye(3)
    place = np.array(frame.pos) if site else np.zeros(3)
    free_name(spec)
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.array(rpy), "XYZ")
    whole = np.zeros(4)
    mujoco.mju_mat2Quat(whole, (turn @ matrix_of(quat)).ravel())
    body.add_site(name=TOOL, pos=list(place + turn @ np.array(offset)), quat=list(whole), size=[0.005] * 3, group=4)


def free_name(spec: mujoco.MjSpec) -> None:
    """Give a site of the file that has the tool's name another one."""
    for site in spec.sites:
        if site.name == TOOL:
            site.name = f"{TOOL}_of_file"


def last_frame(last: mujoco.MjsBody) -> mujoco.MjsBody:
    """The end of the links that are fixed to the last one that moves, itself where they branch."""
    at = last
    while len(at.bodies) == 1 and not at.bodies[0].joints:
        at = at.bodies[0]
    return at


def end_of(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> float:
    """m, how far the shapes of a body reach along the z axis of its tool, from there; at least 0."""
    site = data.site(TOOL)
    axis = site.xmat.reshape(3, 3)[:, 2]
    points = points_of(model, data, body)
    return max(0.0, float(((points - site.xpos) @ axis).max())) if len(points) else 0.0


def points_of(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> Floats:
    """[P, 3] m, world: outermost points of a body's shapes that collide."""
    first = int(model.body_geomadr[body])
    solid = [g for g in range(first, first + int(model.body_geomnum[body])) if model.geom_contype[g]]
    local = np.concatenate([corners(model, g) for g in solid]) if solid else np.zeros((0, 3))
    return local @ data.xmat[body].reshape(3, 3).T + data.xpos[body]


def straighten_fingers(path: Path, spec: mujoco.MjSpec, fingers: list[str]) -> float:
    """Make each finger's slide 0 where it is closed, and positive as it opens; returns the stroke of one, m.

    Raises:
        RookeryError: a finger without limits or shape, or two that do not move against each other.
    """
    model = spec.copy().compile()
    ranges = np.array([model.joint(f).range for f in fingers])
    if any(not model.joint(f).limited[0] for f in fingers) or (ranges[:, 1] - ranges[:, 0]).min() < 1e-4:
        raise RookeryError(f"{path}: the fingers {' and '.join(fingers)} need limits: give <limit lower upper> in m.")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    axes = np.array([data.joint(f).xaxis for f in fingers])
    if abs(axes[0] @ axes[1]) < 0.9:
        raise RookeryError(f"{path}: the fingers {' and '.join(fingers)} do not slide along one line.")
    middles = []
    for f in fingers:
        points = points_of(model, data, int(model.jnt_bodyid[model.joint(f).id]))
        if not len(points):
            raise RookeryError(f"{path}: nothing on the finger of {f!r} collides: give its link a <collision>.")
        middles.append(0.5 * (points.min(0) + points.max(0)))
    apart = middles[0] - middles[1]
    for i, f in enumerate(fingers):
        outward = float(axes[i] @ apart) * (1.0 if i == 0 else -1.0)
        sign = 1.0 if outward >= 0.0 else -1.0
        joint = spec.joint(f)
        low, high = ranges[i] * sign if sign > 0.0 else ranges[i][::-1] * sign
        axis = sign * np.array(joint.axis)
        body = joint.parent
        body.pos = list(np.array(body.pos) + matrix_of(np.array(body.quat)) @ (axis * low))
        joint.axis = list(axis)
        joint.range = [0.0, high - low]
        joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    return float((ranges[:, 1] - ranges[:, 0]).min())


def tool_between(spec: mujoco.MjSpec, last: str, fingers: list[str]) -> None:
    """Add the tool's site to the last link, between the finger tips: z is the approach, y the way they close."""
    model = spec.copy().compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    body = model.body(last).id
    turn = data.xmat[body].reshape(3, 3)
    points = np.concatenate([points_of(model, data, int(model.jnt_bodyid[model.joint(f).id])) for f in fingers])
    points = (points - data.xpos[body]) @ turn
    closing = data.joint(fingers[0]).xaxis @ turn
    out = 0.5 * (points.min(0) + points.max(0))
    out = out - closing * (closing @ out)
    out /= np.linalg.norm(out)
    nearest = int(np.abs(out).argmax())
    if abs(out[nearest]) > ALONG or _hand_axis(points, nearest):
        out = np.sign(out[nearest]) * np.eye(3)[nearest]
        out = out - closing * (closing @ out)
        out /= np.linalg.norm(out)
    along = points @ out
    length = float(along.max() - along.min())
    tips = points[along > along.max() - 0.25 * length]
    across = np.cross(closing, out)
    place = (
        out * (along.max() - min(BEFORE_TIP, length / 3.0))
        + across * float((tips @ across).min() + (tips @ across).max()) / 2.0
        + closing * float((points @ closing).min() + (points @ closing).max()) / 2.0
    )
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.stack((across, closing, out), 1).ravel())
    spec.body(last).add_site(name=TOOL, pos=list(place), quat=list(quat), size=[0.005] * 3, group=4)


def _hand_axis(points: Floats, axis: int) -> bool:
    """True where all of the fingers are on one side of the last link along an axis."""
    return float(points[:, axis].min()) * float(points[:, axis].max()) > 0.0


def matrix_of(quat: Floats) -> Floats:
    """[3, 3] of a quaternion wxyz."""
    out = np.zeros(9)
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)

"""Checks of every robot, whatever its kind: what no real robot has is refused with a sentence and the way out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from rookery.assets.arms import LINK_BIT
from rookery.assets.drones import COLLISION_GROUP, VISUAL_GROUP
from rookery.robots.own.reading import Source
from rookery.sim.errors import RookeryError, unknown

GROUND_BIT = 1
"""Bit of the ground and of objects (contype 1)."""
ROUNDED = 1e-3
"""Share of a body's largest moment of inertia by which it may exceed the sum of the others: figures of a file are rounded."""
OVERLAP_M = 1e-3  # m, up to which shapes of a robot at home may lie in each other


def check_mass(source: Source, mend: bool = False, stands: str = "") -> list[str]:
    """Refuse masses and inertias that no rigid bodies have, by name; compiled, MuJoCo would stop at the first of them.

    Args:
        mend: raise the smaller moments of inertia where the largest exceeds their sum; the notes say so.
        stands: name of a body that nothing moves: whatever inertia it has counts for nothing.
    """
    notes = []
    for body in source.spec.bodies:
        if not body.explicitinertial:
            continue
        moments = _moments(body)
        if body.name == stands and body.mass > 0.0:
            body.fullinertia = [math.nan] * 6
            body.inertia = [max(float(np.abs(moments).max()), 1e-6)] * 3
            continue
        name = f"{source.path}: body {body.name!r}"
        if not (0.0 < body.mass < np.inf) and moments.any():
            raise RookeryError(f"{name} has mass {body.mass:g} kg: it must be above 0. Mend its <inertial>.")
        if body.mass > 0.0 and not moments.any() and body.joints:
            raise RookeryError(
                f"{name} has {body.mass:g} kg and no moments of inertia, and a joint moves it: mend its <inertia>, such as by "
                "a CAD program's figures."
            )
        if moments.min() < 0.0:
            raise RookeryError(
                f"{name} has a negative moment of inertia {moments.min():.3g} kg m^2: mend its <inertial>."
            )
        short = 2.0 * moments.max() - moments.sum()
        if short <= 0.0:
            continue
        share = 100.0 * short / moments.max()
        if short <= ROUNDED * moments.max():
            _raise_moments(body, 0.505 * short)
        elif mend:
            _raise_moments(body, 0.505 * short)
            notes.append(
                f"the largest moment of inertia of {body.name} is {share:.2g} % too large for a body: the others are raised."
            )
        else:
            x, y, z = moments
            raise RookeryError(
                f"{name} has the principal moments {x:.4g}, {y:.4g} and {z:.4g} kg m^2, which no rigid body has: the largest "
                "must not exceed the sum of the others. Mend its <inertia>, such as by a CAD program's figures, or have the "
                f"others raised by mend_inertia = true in {source.path.stem}.toml."
            )
    return notes


def _raise_moments(body: mujoco.MjsBody, by: float) -> None:
    """Add `by` kg m^2 to the two smaller principal moments."""
    full = np.array(body.fullinertia)
    if np.isfinite(full).all():
        xx, yy, zz, xy, xz, yz = full
        values, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        values[:2] += by
        m = axes @ np.diag(values) @ axes.T
        body.fullinertia = [m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]]
    else:
        values = np.array(body.inertia)
        values[np.argsort(values)[:2]] += by
        body.inertia = list(values)


def _moments(body: mujoco.MjsBody) -> np.ndarray:
    """[3] kg m^2, principal, in growing order."""
    full = np.array(body.fullinertia)
    if np.isfinite(full).all():
        xx, yy, zz, xy, xz, yz = full
        return np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return np.sort(body.inertia)


def fuse_static(source: Source) -> None:
    """Fuse what no joint moves, for which MuJoCo reads the meshes.

    Raises:
        RookeryError: MuJoCo refuses the robot.
    """
    try:
        source.spec.fuse_static()
    except ValueError as e:
        raise RookeryError(f"MuJoCo refuses {source.path}: {' '.join(str(e).split())}. Mend the file.") from e


def compile_source(source: Source) -> mujoco.MjModel:
    """The robot alone, as its file says.

    Raises:
        RookeryError: MuJoCo refuses it.
    """
    check_mass(source)
    try:
        return source.spec.copy().compile()
    except ValueError as e:
        raise RookeryError(f"MuJoCo refuses {source.path}: {' '.join(str(e).split())}. Mend the file.") from e


def set_contacts(spec: mujoco.MjSpec) -> None:
    """Shapes that collide meet the ground, objects and other links; all others are only looked at."""
    for geom in spec.geoms:
        if geom.contype or geom.conaffinity:
            geom.contype = LINK_BIT
            geom.conaffinity = GROUND_BIT | LINK_BIT
            geom.condim = 3
            geom.group = COLLISION_GROUP
        else:
            geom.group = VISUAL_GROUP


def exclude_overlaps(
    source: Source, spec: mujoco.MjSpec, poses: Sequence[dict[str, float]], allowed: Sequence[Sequence[str]]
) -> list[str]:
    """Let links pass through each other whose shapes overlap at home though the links do not; returns what was done.

    Only pairs one link apart are taken for such; `allowed` are pairs of bodies that the user names.

    Args:
        poses: joint angles, rad: home, and others in which whatever overlaps is taken for such.

    Raises:
        RookeryError: farther links overlap, so that the robot would push itself apart.
    """
    names = {b.name for b in spec.bodies}
    for first, second in allowed:
        for name in (first, second):
            if name not in names:
                raise unknown(f"body in exclude of {source.path.name}", name, names)
        spec.add_exclude(bodyname1=first, bodyname2=second)
    model = spec.copy().compile()
    data = mujoco.MjData(model)
    notes: list[str] = []
    done: set[tuple[int, ...]] = set()
    for i, pose in enumerate(poses):
        for joint, angle in pose.items():
            data.joint(joint).qpos[0] = angle
        mujoco.mj_forward(model, data)
        notes += _exclude(source, spec, model, data, done, at_home=i == 0)
    return notes


def _exclude(
    source: Source,
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    done: set[tuple[int, ...]],
    at_home: bool,
) -> list[str]:
    notes = []
    for contact in data.contact:
        bodies = [int(model.geom_bodyid[g]) for g in contact.geom]
        pair = tuple(sorted(bodies))
        if -contact.dist < OVERLAP_M or pair in done or 0 in pair:
            continue
        done.add(pair)
        first, second = (model.body(b).name for b in bodies)
        if at_home and _apart(model, *bodies) > 2:
            raise RookeryError(
                f"{source.path}: the bodies {first!r} and {second!r} lie {-1e3 * contact.dist:.0f} mm in each other at home: "
                f'give another home, smaller shapes, or exclude = [["{first}", "{second}"]] in {source.path.stem}.toml.'
            )
        spec.add_exclude(bodyname1=first, bodyname2=second)
        notes.append(
            f"{first} and {second} overlap by {-1e3 * contact.dist:.0f} mm {'at home' if at_home else 'over the table'}: they "
            "do not collide."
        )
    return notes


def _apart(model: mujoco.MjModel, first: int, second: int) -> int:
    """Links between two bodies, along the tree; fixed bodies count with what they are fixed to."""

    def path(body: int) -> list[int]:
        out: list[int] = []
        while body:
            if not out or out[-1] != model.body_weldid[body]:
                out.append(int(model.body_weldid[body]))
            body = int(model.body_parentid[body])
        return [*out, 0]

    a, b = path(first), path(second)
    return min(i + j for i, x in enumerate(a) for j, y in enumerate(b) if x == y)


def check_driven(source: Source, joints: Sequence[str]) -> None:
    """Refuse to drive a joint that the file lets follow another one, or hold: the robot has no motor there.

    Raises:
        RookeryError: naming the first such joint.
    """
    joint_equality = mujoco.mjtEq.mjEQ_JOINT
    held = {e.name1: e.name2 for e in source.spec.equalities if e.type == joint_equality and e.active}
    for name, leader in (held | dict(source.mimics)).items():
        if name in joints:
            does = f"follows {leader!r}" if leader else "is held"
            raise RookeryError(
                f"{source.path}: joint {name!r} {does} (<mimic> or <equality>), and tasks here give it its own motor: take "
                "that out of the file where the robot has such a motor, or use the robot for what it is (docs/own_robot.md)."
            )


def check_inertia(model: mujoco.MjModel) -> list[str]:
    """Notes on bodies whose inertia does not fit the size of their shapes."""
    notes = []
    for body in range(1, model.nbody):
        mass = float(model.body_mass[body])
        geoms = range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body])
        reach = max(
            (float(np.linalg.norm(model.geom_pos[g])) + float(model.geom_rbound[g]) for g in geoms), default=0.0
        )
        if reach and mass > 0.0 and float(model.body_inertia[body].max()) > 4.0 * mass * reach**2:
            notes.append(
                f"the inertia of {model.body(body).name} is that of a body several times its size: see whether it is in kg m^2."
            )
    return notes

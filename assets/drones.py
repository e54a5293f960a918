"""Quadrotors as MuJoCo specs, from numbers alone: the constants of each type live in `rookery.robots`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import mujoco
import numpy as np

from rookery.assets import airframes, meshes
from rookery.assets.errors import RookeryError, unknown
from rookery.assets.geometry import add_visual_mesh, looks_wanted

LOOKS = {"crazyflie": airframes.crazyflie, "iris": airframes.iris}
VISUAL_GROUP = 2
COLLISION_GROUP = 3
RACKET_THICKNESS = 0.006  # m


def quadrotor_spec(
    *,
    mass: float,
    inertia: Sequence[float],
    rotor_positions: Sequence[Sequence[float]],
    propeller_radius: float,
    rotor_directions: Sequence[int],
    body_radius: float,
    body_height: float,
    look: str = "crazyflie",
    visual: bool = True,
    racket_radius: float = 0.0,
    racket_height: float | None = None,
) -> mujoco.MjSpec:
    """A free-flying quadrotor with its centre of mass at the origin; x forward, y left, z up.

    Names: body `base` with free joint `root` and collision cylinder `collision` (group 3); sites `base` and
    `rotor_1` ... `rotor_4`; actuators `rotor_1` ... `rotor_4` (N, along body z at the rotor's site) and `reaction`
    (N m, about body z); sensors `imu_gyro` (rad/s, body), `imu_acc` (m/s^2, body) and `imu_quat` (wxyz, body to world);
    cameras `chase` and `onboard`. Visual geoms are in group 2, do not collide and weigh nothing. With a racket there is also
    the collision disc `racket`, drawn as it is.

    Args:
        mass: kg.
        inertia: [3] kg m^2, about the body axes.
        rotor_positions: [4][3] m, body frame.
        propeller_radius: m.
        rotor_directions: [4], sign of the reaction torque about body z: +1 where the propeller turns clockwise.
        body_radius: m, of the collision cylinder.
        body_height: m, of the collision cylinder.
        look: which airframe to draw, "crazyflie" or "iris".
        visual: False leaves the visual geoms and meshes out.
        racket_radius: m, of a flat disc on top of the body to play balls with; 0 for none. It weighs nothing.
        racket_height: m, of the disc's upper face above the centre of mass; None lays the disc on the body.

    Raises:
        RookeryError: no rigid body has such an inertia (the largest moment exceeds the sum of the other two), the look is
            unknown, or the racket has a negative radius or reaches into the body.
    """
    if look not in LOOKS:
        raise unknown("look of a quadrotor", look, LOOKS)
    spec = mujoco.MjSpec()
    spec.modelname = look
    base = _add_base(spec, mass, inertia, body_radius, body_height)
    if racket_radius != 0.0:
        _add_racket(base, racket_radius, racket_height, 0.5 * body_height)
    _add_actuation(spec, base, rotor_positions, propeller_radius)
    _add_sensors(spec)
    _add_cameras(base, body_radius)
    if visual and looks_wanted():
        _add_looks(spec, base, look, rotor_positions, rotor_directions, propeller_radius, body_height)
    return spec


def _add_base(
    spec: mujoco.MjSpec, mass: float, inertia: Sequence[float], radius: float, height: float
) -> mujoco.MjsBody:
    """The free body `base`, its centre of mass and principal axes those of its frame, with its collision cylinder."""
    if 2 * max(inertia) > sum(inertia):
        raise RookeryError(
            f"no rigid body has the principal moments {tuple(inertia)} kg m^2: the largest must not exceed the sum of "
            f"the other two, {sum(inertia) - max(inertia):.7g}."
        )
    base = spec.worldbody.add_body(name="base")
    base.add_freejoint(name="root")
    base.simple = 0  # randomization may move the centre of mass and turn the axes
    base.explicitinertial = True
    base.mass = mass
    base.inertia = list(inertia)
    base.ipos = [0, 0, 0]
    base.iquat = [1, 0, 0, 0]
    base.add_geom(
        name="collision",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[radius, 0.5 * height, 0],
        group=COLLISION_GROUP,
        contype=1,
        conaffinity=1,
        rgba=[0.5, 0.5, 0.5, 0.3],
    )
    return base


def _add_racket(base: mujoco.MjsBody, radius: float, height: float | None, body_top: float) -> None:
    top = body_top + RACKET_THICKNESS if height is None else height
    if radius < 0 or top < body_top + RACKET_THICKNESS - 1e-9:
        raise RookeryError(
            f"a racket needs a positive radius and an upper face at {body_top + RACKET_THICKNESS:.4g} m or more, above the "
            f"body; got radius {radius} m and height {top} m."
        )
    base.add_geom(
        name="racket",
        type=mujoco.mjtGeom.mjGEOM_CYLINDER,
        size=[radius, 0.5 * RACKET_THICKNESS, 0],
        pos=[0, 0, top - 0.5 * RACKET_THICKNESS],
        rgba=[0.20, 0.55, 0.85, 0.55],
        group=VISUAL_GROUP,
        contype=1,
        conaffinity=1,
        mass=0,
    )


def _add_actuation(
    spec: mujoco.MjSpec, base: mujoco.MjsBody, rotors: Sequence[Sequence[float]], propeller_radius: float
) -> None:
    """Sites and actuators of the rotors, and the sum of their reaction torques as one actuator at the centre."""
    dot = [0.1 * propeller_radius] * 3
    base.add_site(name="base", pos=[0, 0, 0], size=dot, group=4)
    for i, pos in enumerate(rotors, start=1):
        base.add_site(name=f"rotor_{i}", pos=list(pos), size=dot, group=4)
        _motor(spec, f"rotor_{i}", f"rotor_{i}", [0, 0, 1, 0, 0, 0])
    _motor(spec, "reaction", "base", [0, 0, 0, 0, 0, 1])


def _motor(spec: mujoco.MjSpec, name: str, site: str, gear: list[float]) -> None:
    actuator = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_SITE, target=site, gear=gear)
    actuator.set_to_motor()


def _add_sensors(spec: mujoco.MjSpec) -> None:
    kinds = {
        "imu_gyro": mujoco.mjtSensor.mjSENS_GYRO,
        "imu_acc": mujoco.mjtSensor.mjSENS_ACCELEROMETER,
        "imu_quat": mujoco.mjtSensor.mjSENS_FRAMEQUAT,
    }
    for name, kind in kinds.items():
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="base")


def _add_cameras(base: mujoco.MjsBody, body_radius: float) -> None:
    """A camera that keeps its place behind, right and above in the world's axes, and one that looks out of the nose."""
    back = np.array([-0.80, -0.55, 0.42])
    base.add_camera(
        name="chase",
        mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,
        pos=list(7.0 * body_radius * back),
        quat=list(look_along(-back)),
        fovy=45,
    )
    nose = np.array([1.0, 0.0, -0.10])
    base.add_camera(name="onboard", pos=[1.05 * body_radius, 0, 0], quat=list(look_along(nose)), fovy=80)


def look_along(direction: Sequence[float] | np.ndarray) -> np.ndarray:
    """[4] wxyz: a MuJoCo camera (it looks along its -z) that looks along `direction` [3] with the horizon level."""
    back = -np.asarray(direction, float) / np.linalg.norm(direction)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.column_stack([right, np.cross(back, right), back]).ravel())
    return quat


def _add_looks(
    spec: mujoco.MjSpec,
    base: mujoco.MjsBody,
    look: str,
    rotors: Sequence[Sequence[float]],
    directions: Sequence[int],
    radius: float,
    height: float,
) -> None:
    for part in _parts(look, tuple(tuple(p) for p in rotors), radius, height):
        add_visual_mesh(spec, base, part.name, part.mesh, part.rgba, shine=part.shine, group=VISUAL_GROUP)
    rise = airframes.propeller_height(look, rotors, height)
    for i, (pos, direction) in enumerate(zip(rotors, directions, strict=True), start=1):
        color = airframes.FRONT if pos[0] > 0 else (0.16, 0.17, 0.20, 1.0)
        spin: meshes.Spin = "cw" if direction > 0 else "ccw"
        blades = meshes.propeller(radius, spin)
        at = (pos[0], pos[1], pos[2] + rise)
        add_visual_mesh(spec, base, f"propeller_{i}_{spin}", blades, color, pos=at, group=VISUAL_GROUP)
        base.add_geom(
            name=f"disc_{i}",
            type=mujoco.mjtGeom.mjGEOM_CYLINDER,
            size=[radius, 0.004 * radius, 0],
            pos=list(at),
            rgba=[*color[:3], 0.16],
            group=VISUAL_GROUP,
            contype=0,
            conaffinity=0,
            mass=0,
        )


@functools.cache
def _parts(
    look: str, rotors: tuple[tuple[float, ...], ...], radius: float, height: float
) -> list[airframes.AirframePart]:
    """Made once for each drone, to be read: a swarm is many of one kind."""
    return LOOKS[look](rotors, radius, height)

"""Unitree Go2 as a MuJoCo spec: 12 joints, primitives for the physics, generated shells for the video.

Masses, inertias, frames and limits: Unitree's description as in MuJoCo Menagerie's unitree_go2/go2.xml. Legs and joints stand
in the order front left, front right, rear left, rear right; hip, thigh, calf.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from rookery.assets.arms import LINK_BIT
from rookery.assets.drones import COLLISION_GROUP
from rookery.assets.geometry import add_visual_mesh, looks_wanted
from rookery.assets.go2_looks import LEG_LOOKS, TRUNK_LOOKS, Go2Look

LEGS = ("FL", "FR", "RL", "RR")
PARTS = ("hip", "thigh", "calf")
JOINTS = tuple(f"{leg}_{part}" for leg in LEGS for part in PARTS)
HOME_LEG = {"FL": (0.1, 0.8, -1.5), "FR": (-0.1, 0.8, -1.5), "RL": (0.1, 1.0, -1.5), "RR": (-0.1, 1.0, -1.5)}
"""rad, hip, thigh and calf of the stand that unitree_rl_gym and Isaac Lab use."""
FOOT_RADIUS, THIGH_LENGTH, CALF_LENGTH = 0.022, 0.213, 0.213  # m
HIP = (0.1934, 0.0465)  # m, x and y of the hip joints in the trunk
HIP_OFFSET = 0.0955  # m, y from hip joint to thigh joint
TRUNK_TOP = 0.057  # m, upper face of the trunk's box
GROUND_BIT = 1
"""Bit of the ground and of objects (contype 1), which the robot has in its conaffinity."""


@dataclass(frozen=True)
class Motor:
    """One kind of joint actuator.

    Attributes:
        torque: N m, at the joint and at rest.
        speed: rad/s at which no torque is left; in between the limit falls on a straight line, as in Isaac Lab's DCMotor.
        armature: kg m^2, the rotor's inertia at the joint.
        damping: N m s/rad.
        friction: N m, dry friction (see `go2_spec`).
    """

    torque: float
    speed: float
    armature: float
    damping: float
    friction: float


# The knee is the same motor behind a linkage of 1.917. Rotor inertia: 1.11842e-4 kg m^2 behind gears of 6 (x 1.5 for the
# knee in mjlab's Go1 tables; the Go2's linkage gives 6 x 1.917). Friction and damping: Menagerie's 0.2 N m; its
# damping of 2 N m s/rad stands for a servo's and is left to the servo here.
HIP_MOTOR = Motor(torque=23.7, speed=30.1, armature=0.00403, damping=0.1, friction=0.2)
KNEE_MOTOR = Motor(torque=45.43, speed=15.70, armature=0.0148, damping=0.2, friction=0.2)
MOTORS = {"hip": HIP_MOTOR, "thigh": HIP_MOTOR, "calf": KNEE_MOTOR}
KP, KD = 40.0, 1.0
"""N m/rad and N m s/rad of the joint servos: UMI-on-Legs' Go2 with an arm (arXiv 2407.10353)."""
BUS_VOLTAGE = 1.0  # V; only ratios matter to a motor whose gains are given in torque
RANGES = {
    "hip": (-1.0472, 1.0472), "front_thigh": (-1.5708, 3.4907), "rear_thigh": (-0.5236, 4.5379), "calf": (-2.7227, -0.83776)
}  # fmt: skip  # rad


def go2_spec(visual: bool = True, kp: float = KP, kd: float = KD, dry_friction: bool = False) -> mujoco.MjSpec:
    """A free Go2, its trunk's frame at the origin; x forward, y left, z up.

    Names: body `base` with free joint `root`; bodies, joints and actuators as in JOINTS; foot geoms and sites `FL_foot` ...;
    sites `imu` and `arm_mount` (top of the trunk); sensors `imu_gyro` (rad/s), `imu_acc` (m/s^2), `imu_quat`; cameras
    `chase` and `onboard`. Actuators are position servos: the control is the joint's target in rad, the torque follows
    kp (target - q) - kd dq until the motor's torque-speed line limits it, all inside the engine.

    Args:
        visual: False leaves shells and meshes out.
        kp, kd: N m/rad, N m s/rad of the servos.
        dry_friction: model the joints' friction as Coulomb friction. It takes a row of MuJoCo's constraint solver for each
            joint, a quarter of the whole time; otherwise damping of the same loss at 2 rad/s stands for it.
    """
    spec = mujoco.MjSpec()
    spec.modelname = "go2"
    spec.compiler.degree = False
    base = spec.worldbody.add_body(name="base")
    base.add_freejoint(name="root")
    _inertia(base, 6.921, (0.021112, 0.0, -0.005366), (0.107027, 0.0980771, 0.0244531),
             (-0.000543471, 0.713435, -0.00173769, 0.700719))  # fmt: skip
    _collider(base, "trunk", mujoco.mjtGeom.mjGEOM_BOX, (0.1881, 0.04675, 0.057))
    _collider(base, "head", mujoco.mjtGeom.mjGEOM_SPHERE, (0.057, 0, 0), pos=(0.293, 0.0, -0.03))
    base.add_site(name="imu", pos=[-0.02557, 0.0, 0.04232], size=[0.01, 0.01, 0.01], group=5)
    base.add_site(name="arm_mount", pos=[0.0, 0.0, TRUNK_TOP], size=[0.01, 0.01, 0.01], group=5)
    for leg in LEGS:
        _add_leg(spec, base, leg, kp, kd, dry_friction, visual)
    if visual:
        _add_looks(spec, base, "trunk", TRUNK_LOOKS, 1)
    _add_sensors(spec)
    add_cameras(base)
    base.add_camera(name="onboard", pos=[0.34, 0.0, 0.02], xyaxes=[0, -1, 0, 0, 0, 1], fovy=70)
    return spec


def add_cameras(base: mujoco.MjsBody, scale: float = 1.0) -> None:
    """Cameras `chase` and `side`, which keep their directions and follow the centre of mass, at `scale` times the distance."""
    for name, pos in (("chase", (-1.1, -1.3, 0.6)), ("side", (0.0, -1.8, 0.3))):
        x, y, z = (-v for v in pos)
        base.add_camera(
            name=name, pos=[scale * v for v in pos], fovy=45, xyaxes=[y, -x, 0.0, -x * z, -y * z, x * x + y * y],
            mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM,
        )  # fmt: skip


def _inertia(body: mujoco.MjsBody, mass: float, com, diagonal, quat) -> None:  # type: ignore[no-untyped-def]
    body.explicitinertial = True
    body.mass = mass
    body.ipos = list(com)
    body.inertia = list(diagonal)
    body.iquat = list(quat)


def _collider(body: mujoco.MjsBody, name: str, shape: mujoco.mjtGeom, size, **more) -> mujoco.MjsGeom:  # type: ignore[no-untyped-def]
    return body.add_geom(
        name=name, type=shape, size=list(size), contype=LINK_BIT, conaffinity=GROUND_BIT | LINK_BIT,
        group=COLLISION_GROUP, mass=0.0, rgba=[0.5, 0.5, 0.5, 0.3], condim=3, **{k: list(v) for k, v in more.items()},
    )  # fmt: skip


def _add_leg(
    spec: mujoco.MjSpec, base: mujoco.MjsBody, leg: str, kp: float, kd: float, dry_friction: bool, visual: bool
) -> None:
    front = leg[0] == "F"
    left = leg[1] == "L"
    x, y = (1 if front else -1), (1 if left else -1)
    hip = base.add_body(name=f"{leg}_hip", pos=[x * HIP[0], y * HIP[1], 0.0])
    quat = {"FL": (0.497014, 0.499245, 0.505462, 0.498237), "FR": (0.498237, 0.505462, 0.499245, 0.497014),
            "RL": (0.505462, 0.498237, 0.497014, 0.499245), "RR": (0.499245, 0.497014, 0.498237, 0.505462)}[leg]  # fmt: skip
    _inertia(hip, 0.678, (-x * 0.0054, y * 0.00194, -0.000105), (0.00088403, 0.000596003, 0.000479967), quat)
    thigh = hip.add_body(name=f"{leg}_thigh", pos=[0.0, y * HIP_OFFSET, 0.0])
    quat = (0.829533, 0.0847635, -0.0200632, 0.551623) if left else (0.551623, -0.0200632, 0.0847635, 0.829533)
    _inertia(thigh, 1.152, (-0.00374, -y * 0.0223, -0.0327), (0.00594973, 0.00584149, 0.000878787), quat)
    calf = thigh.add_body(name=f"{leg}_calf", pos=[0.0, 0.0, -THIGH_LENGTH])
    quat = (0.710672, 0.00154099, -0.00450087, 0.703508) if left else (0.703508, -0.00450087, 0.00154099, 0.710672)
    _inertia(calf, 0.241352, (0.00629595, -y * 0.000622121, -0.141417), (0.0014901, 0.00146356, 5.31397e-05), quat)
    thigh_range = "front_thigh" if front else "rear_thigh"
    for body, part, axis, limits in (
        (hip, "hip", (1, 0, 0), RANGES["hip"]),
        (thigh, "thigh", (0, 1, 0), RANGES[thigh_range]),
        (calf, "calf", (0, 1, 0), RANGES["calf"]),
    ):
        _add_joint(spec, body, f"{leg}_{part}", axis, limits, MOTORS[part], kp, kd, dry_friction)
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    _collider(thigh, f"{leg}_thigh", capsule, (0.017, 0, 0), fromto=(0, 0, -0.03, 0, 0, -0.2))
    _collider(calf, f"{leg}_calf", capsule, (0.012, 0, 0), fromto=(0.0, 0, 0.0, 0.02, 0, -0.15))
    foot = _collider(
        calf, f"{leg}_foot", mujoco.mjtGeom.mjGEOM_SPHERE, (FOOT_RADIUS, 0, 0), pos=(-0.002, 0, -CALF_LENGTH)
    )
    foot.friction = [0.8, 0.02, 0.01]
    foot.priority = 1
    foot.solimp = [0.9, 0.98, 0.002, 0.5, 2.0]  # firm: Menagerie's soft foot sinks in by 17 mm
    calf.add_site(name=f"{leg}_foot", pos=[-0.002, 0.0, -CALF_LENGTH], size=[0.005, 0.005, 0.005], group=5)
    if visual:
        for part, body in (("hip", hip), ("thigh", thigh), ("calf", calf)):
            _add_looks(spec, body, f"{leg}_{part}", LEG_LOOKS[part], y, x)


def _add_joint(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, axis: tuple[int, int, int], limits: tuple[float, float],
    motor: Motor, kp: float, kd: float, dry_friction: bool,
) -> None:  # fmt: skip
    joint = body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=list(axis), range=list(limits))
    joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    joint.armature = motor.armature
    joint.damping = [motor.damping if dry_friction else motor.damping + motor.friction / 2.0, 0, 0]
    joint.frictionloss = motor.friction if dry_friction else 0.0
    add_motor(spec, name, motor.torque, motor.speed, kp, kd)


def add_motor(spec: mujoco.MjSpec, joint: str, torque: float, speed: float, kp: float, kd: float) -> None:
    """A position servo on a joint and of its name, within the motor's torque-speed line; see Motor and `go2_spec`."""
    actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    actuator.set_to_dcmotor(
        motorconst=[0.0, 0.0], resistance=0.0, nominal=[BUS_VOLTAGE, torque, speed],
        saturation=[torque, 0.0, 0.0], ctrlspec=int(mujoco.mjtCtrlInput.mjINPUT_POS),
        controller=[kp, 0.0, kd, 0.0, 0.0, BUS_VOLTAGE],
    )  # fmt: skip


def _add_looks(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, looks: tuple[Go2Look, ...], side: int, end: int = 1
) -> None:
    for i, look in enumerate(looks if looks_wanted() else ()):
        add_visual_mesh(spec, body, f"{name}_{i}", look.make(side, end), look.rgba)


def _add_sensors(spec: mujoco.MjSpec) -> None:
    site = mujoco.mjtObj.mjOBJ_SITE
    for name, kind in (
        ("imu_gyro", mujoco.mjtSensor.mjSENS_GYRO),
        ("imu_acc", mujoco.mjtSensor.mjSENS_ACCELEROMETER),
        ("imu_quat", mujoco.mjtSensor.mjSENS_FRAMEQUAT),
    ):
        spec.add_sensor(name=name, type=kind, objtype=site, objname="imu")

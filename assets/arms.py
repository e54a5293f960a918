"""Six-joint arms with parallel grippers as MuJoCo specs: Airbot Play (G2 gripper) and ARX5.

Both have body `base` without a joint, bodies `link1` ... `link6`, `finger_left`, `finger_right`; joints and position servos
`joint1` ... `joint6` (N m out); finger slides `finger_left` and `finger_right` (m); the servo `gripper`, whose control is
the opening between the fingers in m; and the site `tcp` between the finger tips: x is the approach, y left, z up at home.

The gripper: one servo on a fixed tendon (the sum of both slides, that is the opening) gives both fingers the same force,
and a spring on their difference stands for the rack that couples them. Neither is a constraint, so neither costs rows in
the solver.

Contacts, group 3. The finger pads and the gripper's body touch the world (contype 1, conaffinity 1). The links have bit 2 in
contype and conaffinity: they meet each other, other robots' links, and whatever has that bit in its contype; the gripper has
it in its contype too. Links joined by a joint do not meet, nor do the pairs of SELF_EXCLUDED, two joints apart, whose
primitives overlap where the links do not. The base does not collide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.assets.arm_looks import add_looks

Vec = tuple[float, float, float]
Six = tuple[float, float, float, float, float, float]
Floats = NDArray[np.float64]
PI = np.pi
COLLISION_GROUP = 3
TOUCH_BIT = 1
LINK_BIT = 2
SELF_EXCLUDED = {"airbot_play": (("link3", "link5"),), "arx5": ()}
"""Bodies of an arm, two joints apart, whose primitives overlap at every angle of the joints."""
FIXTURE_BIT = 4
"""Contype of furniture that only fingers and palm touch (assets.workshop): they have it in their conaffinity."""


@dataclass(frozen=True)
class Mass:
    """A rigid body's mass, kg.

    Args:
        kg: mass.
        com: [3] m, centre of mass in the body frame.
        inertia: [6] kg m^2 about the centre of mass, body axes: xx, yy, zz, xy, xz, yz (elements of the matrix).
    """

    kg: float
    com: tuple[float, ...]
    inertia: tuple[float, ...]

    def moved(self, by: Sequence[float]) -> Mass:
        """The same mass, `by` [3] m further on."""
        return Mass(self.kg, tuple(c + d for c, d in zip(self.com, by, strict=True)), self.inertia)

    def mirrored_y(self) -> Mass:
        """Its mirror image in the plane y = 0."""
        xx, yy, zz, xy, xz, yz = self.inertia
        return Mass(self.kg, (self.com[0], -self.com[1], self.com[2]), (xx, yy, zz, -xy, xz, -yz))


@dataclass(frozen=True)
class ArmLink:
    """A body and the hinge that moves it: its frame in the parent's, m and rad (fixed axes roll, pitch, yaw)."""

    mass: Mass
    pos: Vec
    rpy: Vec
    axis: Vec = (0.0, 0.0, 1.0)


@dataclass(frozen=True)
class GripperModel:
    """Two fingers that slide apart along y of the tool frame, whose x is the approach.

    Args:
        pos: m, origin of the tool frame in link 6: where the fingers' tips meet, the site `tcp`.
        axes: [3][3] columns x, y, z of the tool frame in link 6.
        finger: mass of the left finger in its body frame, which is the tool frame pushed out to its pad; the right one is
            its mirror image.
        stroke: m, way of one finger.
        pad: m, half sizes (along, thickness, width) of the box that is a finger.
        pad_behind: m, from the box's centre to the tool frame along x.
        palm: m, half sizes of the gripper's body and its centre in the tool frame.
    """

    pos: Vec
    axes: tuple[Vec, Vec, Vec]
    finger: Mass
    stroke: float
    pad: Vec
    pad_behind: float
    palm: tuple[Vec, Vec]


@dataclass(frozen=True)
class ArmNumbers:
    """All numbers of an arm that its spec is made of; six values are those of joint 1 to 6.

    Args:
        lower, upper: rad. effort: N m. kp: N m/rad. kd: N m s/rad. damping: N m s/rad. armature: kg m^2.
        dry: N m, dry friction.
        limbs: capsules for contacts: link number, from, to (m, link frame), radius (m).
    """

    name: str
    base: Mass
    links: tuple[ArmLink, ...]
    gripper: GripperModel
    lower: Six
    upper: Six
    effort: Six
    kp: Six
    kd: Six
    damping: Six
    armature: Six
    dry: Six
    limbs: tuple[tuple[int, Vec, Vec, float], ...]

    @property
    def mass(self) -> float:
        """Kg, fingers included."""
        return self.base.kg + sum(link.mass.kg for link in self.links) + 2 * self.gripper.finger.kg


def about_joint(kg: float, com: Sequence[float], inertia: Sequence[float]) -> Mass:
    """A mass (kg) whose moments (kg m^2) are published about the frame's origin, though its products are about `com`.

    Args:
        inertia: [3 to 6], xx yy zz xy xz yz.
    """
    moments = np.asarray(inertia[:3]) - np.diag(_shift(kg, np.asarray(com, float)))
    return Mass(kg, tuple(com), tuple([*moments.tolist(), *inertia[3:], 0.0, 0.0, 0.0][:6]))


def principal(kg: float, com: Sequence[float], quat: Sequence[float], moments: Sequence[float]) -> Mass:
    """A mass (kg) given by principal moments [3] (kg m^2) and the quaternion (wxyz) of their axes, as in MuJoCo files."""
    unit = np.asarray(quat, float) / np.linalg.norm(quat)
    axes = np.zeros(9)
    mujoco.mju_quat2Mat(axes, unit)
    turn = axes.reshape(3, 3)
    return Mass(kg, tuple(com), _six(turn @ np.diag(moments) @ turn.T))


def merge(*parts: Mass) -> Mass:
    """Several masses of one frame as one rigid body."""
    kg = sum(p.kg for p in parts)
    com = sum((p.kg * np.asarray(p.com, float) for p in parts), np.zeros(3)) / kg
    total = sum((_matrix(p.inertia) + _shift(p.kg, np.asarray(p.com, float) - com) for p in parts), np.zeros((3, 3)))
    return Mass(kg, tuple(com.tolist()), _six(total))


def quat_of_rpy(rpy: Sequence[float]) -> tuple[float, ...]:
    """Quaternion wxyz of a URDF's roll, pitch, yaw (rad, about the fixed axes x, y, z in this order)."""
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.asarray(rpy, float), "XYZ")
    return tuple(quat.tolist())


def _shift(kg: float, r: Floats) -> Floats:
    """[3, 3] kg m^2: inertia of a point mass at r [3] m."""
    return kg * (np.dot(r, r) * np.eye(3) - np.outer(r, r))


def _matrix(six: Sequence[float]) -> Floats:
    xx, yy, zz, xy, xz, yz = six
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _six(m: Floats) -> tuple[float, ...]:
    return tuple(float(v) for v in (m[0, 0], m[1, 1], m[2, 2], m[0, 1], m[0, 2], m[1, 2]))


# The maker's URDF of the Play with the G2 gripper (airbot_force.urdf). Its moments of inertia are taken about the joints, not
# about the centres of mass as URDF wants: about the latter, link 2 (270 mm long) would have a radius of gyration of 195 mm, and
# link 6, a disc, one of 68 mm. Shifted, both are sane. The products of inertia fit neither origin nor sign convention
# throughout once shifted (link 2 would be no rigid body), but have the size and sign of set A's as they stand, so they stay.
# The base has no published inertia there: that of set A, scaled with the mass; likewise the fingers'.
_AIRBOT_FINGER = 0.054 / 0.0622
AIRBOT_PLAY = ArmNumbers(
    name="airbot_play",
    base=Mass(0.6735, (-0.010729, -0.00017, 0.041712), tuple(
        0.6735 / 0.77705 * x for x in (8.454e-4, 1.1821e-3, 1.2443e-3, -7.5e-6, 2.06e-5, -6.4e-6))),
    links=(
        ArmLink(about_joint(0.607, (0.0001, -0.001, -0.021), (1.1117e-3, 1.0136e-3, 3.867e-4)), (0, 0, 0.1127), (0, 0, 0)),
        ArmLink(about_joint(0.918, (0.13769, 0.012537, 0.0044739),
                         (9.4437e-4, 0.03479442, 0.03461144, 1.12155e-3, -6.3705e-4)), (0, 0, 0), (-PI / 2, -0.3867, PI)),
        ArmLink(about_joint(0.700, (0, 0.10706, 0.0082136), (0.01565914, 4.5929e-4, 0.0154811, 0, 0, 1.0253e-4)),
             (0.27009, 0, 0), (0, 0, 1.9575)),
        ArmLink(about_joint(0.359, (0, 0.003, -0.0194), (5.1773e-4, 5.2925e-4, 1.3681e-4)), (0, 0.29015, 0),
             (-PI / 2, -PI / 2, 0)),
        ArmLink(about_joint(0.403, (0, 0.033144, 0.0024), (1.16016e-3, 2.4251e-4, 1.08456e-3, 0, 0, -4.809e-5)), (0, 0, 0),
             (PI / 2, 0, 0)),
        # with the flange (a disc of 28 mm radius) and the G2's body, which starts at the flange, 95.5 mm out
        ArmLink(merge(
            about_joint(0.110, (0, 0, 0.0666), (5.1e-4, 5.1e-4, 1.73e-5)),
            Mass(0.019, (0, 0, 0.0955), (3.8e-6, 3.8e-6, 7.4e-6, 0, 0, 0)),
            about_joint(0.488, (0, 0, 0.0418), (1.155e-3, 1.373e-3, 4.2e-4)).moved((0, 0, 0.0955)),
        ), (0, 0, 0), (-PI / 2, 0, 0)),
    ),
    gripper=GripperModel(
        pos=(0, 0, 0.23645),  # the v3 URDF in DISCOVERSE: origin of the gripper's link, between the pads
        axes=((0, 0, 1), (-1, 0, 0), (0, -1, 0)),
        finger=Mass(0.054, (-0.049, 0.0097, 0), tuple(_AIRBOT_FINGER * x for x in (1.89e-5, 2.73e-5, 1.2e-5, 0, 0, 0))),
        stroke=0.0366, pad=(0.040, 0.004, 0.008), pad_behind=0.015, palm=((0.043, 0.055, 0.025), (-0.098, 0, 0)),
    ),
    lower=(-3.1416, -2.9671, -0.087266, -3.0107, -1.7628, -3.0107),
    upper=(2.0944, 0.17453, 3.1416, 3.0107, 1.7628, 3.0107),
    effort=(18, 18, 18, 3, 3, 3),  # Airbot Play's URDF in DISCOVERSE
    kp=(95, 115, 100, 52, 54, 55), kd=(3.5, 3.8, 2.5, 1.5, 1.5, 1.5),  # as the next line: UniLab 0.1.0's go2_arm
    damping=(0.2, 0.2, 0.2, 0.1, 0.1, 0.1), armature=(0.01,) * 6, dry=(1, 1, 1, 0.5, 0.5, 0.5),
    limbs=(
        (2, (0, 0, 0), (0.270, 0, 0), 0.040), (3, (0, 0.05, 0), (0, 0.250, 0), 0.032),
        (5, (0, -0.01, 0), (0, 0.060, 0), 0.035),
    ),
)  # fmt: skip

# mujoco_menagerie arx_l5: geometry, masses, inertias, joint ranges, armature, friction and gains, all of one set. It leaves the
# base's mass to its mesh: that is of UMI-on-Legs (arXiv 2407.10353), and so are the torques. Damping as UniLab's arm.
ARX5 = ArmNumbers(
    name="arx5",
    base=Mass(0.428, (0, 0, 0.0304), (6.07e-4, 6.08e-4, 1.92e-4, 0, 0, 0)),
    links=(
        ArmLink(principal(0.096804, (0.0050395, -0.0077407, 0.020897), (0.632157, 0.714526, -0.263733, 0.142391),
                       (1.18945e-4, 9.40205e-5, 4.70346e-5)), (0, 0, 0.0565), (0, 0, 0)),
        ArmLink(principal(1.1988, (-0.12992, -0.0011822, -2.6366e-5), (0.501263, 0.501263, 0.498734, 0.498734),
                       (0.0164704, 0.01646, 6.49595e-4)), (0.02, 0, 0.047), (0, 0, 0), (0, 1, 0)),
        ArmLink(principal(0.84082, (0.16181, 0.0011723, -0.05455), (0.518857, 0.484372, 0.465704, 0.52848),
                       (8.4909e-3, 8.41207e-3, 7.47034e-4)), (-0.264, 0, 0), (PI, 0, 0), (0, 1, 0)),
        ArmLink(principal(0.12432, (0.041751, 0.0054236, -0.03337), (0.919386, -0.0641253, 0.311071, -0.23206),
                       (3.03193e-4, 2.35316e-4, 1.01491e-4)), (0.245, -5e-5, -0.06), (0, 0, 0), (0, 1, 0)),
        ArmLink(principal(0.63601, (-8.3435e-5, -1.5428e-5, 0.052216), (0.998247, 0, -0.0591776, 0),
                       (8.48329e-4, 8.2e-4, 2.51671e-4)), (0.073914, 5e-5, -0.083391), (0, 0, 0)),
        ArmLink(principal(0.44089, (0.041697, 2.4368e-5, 1.4464e-4), (0.5, 0.5, -0.5, 0.5), (5e-4, 3.8e-4, 2.8e-4)),
             (0.025286, 0, 0.083391), (PI, 0, 0), (1, 0, 0)),
    ),
    gripper=GripperModel(
        pos=(0.13657, 0, -2.4e-4),  # menagerie: the pads' centre
        axes=((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        finger=principal(0.064798, (-0.05036, 0.017, 0), (0.5, 0.5, 0.5, 0.5), (3e-5, 3e-5, 2e-5)),
        stroke=0.044, pad=(0.035, 0.004, 0.008), pad_behind=0.015, palm=((0.045, 0.050, 0.025), (-0.095, 0, 0)),
    ),
    lower=(-3.14, 0, 0, -1.7, -1.7, -3.14), upper=(3.14, 3.14, 3.14, 1.7, 1.7, 3.14),
    effort=(20, 20, 15, 7, 5, 5),
    kp=(80, 80, 80, 40, 10, 10), kd=(5, 5, 5, 5, 1.5, 1.5),
    damping=(0.2, 0.2, 0.2, 0.1, 0.1, 0.1), armature=(0.005,) * 6, dry=(0.3,) * 6,
    limbs=(
        (2, (0, 0, 0), (-0.264, 0, 0), 0.035), (3, (0.05, 0, -0.05), (0.22, 0, -0.06), 0.032),
        (5, (0, 0, 0.02), (0, 0, 0.09), 0.032),
    ),
)  # fmt: skip

# The gripper's drive is not published; our choice. 20 N carries the rated 1.5 kg between pads of friction 1.
GRIP_FORCE = 20.0  # N, on each finger
GRIP_KP, GRIP_KD = 1000.0, 40.0  # N/m, N s/m, of the opening
# kg, the motor's rotor behind its gear. A saturated servo is undamped, so fingers without it would chatter.
FINGER_ARMATURE = 0.3
FINGER_DAMPING = 10.0  # N s/m
RACK_STIFFNESS, RACK_DAMPING = 4000.0, 20.0  # N/m, N s/m, of the difference of the slides
PAD_FRICTION: Vec = (1.2, 0.01, 0.0005)
"""Sliding, torsional (m), rolling (m): rubber."""
# Friction as hard as the solver allows: with MuJoCo's own softness (0.9 to 0.95) what is held creeps out of the hand.
PAD_SOLIMP = (0.99, 0.9995, 0.0002, 0.5, 2.0)
# Not as hard on an arm that walks: at physics steps of 5 ms fingers chatter in a shaken hand, which drops its load. With
# MuJoCo's own time constant of 20 ms, friction that answers a slip within it alone lets a turning hand's load creep outward.
CARRIED_PAD_SOLIMP = (0.98, 0.999, 0.001, 0.5, 2.0)
CARRIED_PAD_SOLREF = (0.01, 2.0)


def airbot_play_spec(visual: bool = True, *, collide: bool = True, dry_friction: bool = False) -> mujoco.MjSpec:
    """Airbot Play with the G2 gripper, 4.39 kg; names and contacts as in the module's docstring.

    Args:
        visual: False leaves the visual geoms and meshes out.
        collide: False leaves all collision geoms out.
        dry_friction: add the joints' dry friction; a constraint row for each joint, so it costs time.
    """
    return _arm(AIRBOT_PLAY, visual, collide, dry_friction)


def arx5_spec(visual: bool = True, *, collide: bool = True, dry_friction: bool = False) -> mujoco.MjSpec:
    """ARX5 (L5), 3.90 kg; arguments as for `airbot_play_spec`."""
    return _arm(ARX5, visual, collide, dry_friction)


def _arm(arm: ArmNumbers, visual: bool, collide: bool, dry_friction: bool) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.modelname = arm.name
    spec.compiler.degree = False
    bodies = [spec.worldbody.add_body(name="base")]
    _weigh(bodies[0], arm.base)
    for i, link in enumerate(arm.links):
        body = bodies[-1].add_body(name=f"link{i + 1}", pos=list(link.pos), quat=list(quat_of_rpy(link.rpy)))
        _weigh(body, link.mass)
        joint = body.add_joint(name=f"joint{i + 1}", axis=list(link.axis), range=[arm.lower[i], arm.upper[i]])
        joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        joint.armature = arm.armature[i]
        joint.damping = [arm.damping[i], 0, 0]
        joint.frictionloss = arm.dry[i] if dry_friction else 0.0
        bodies.append(body)
    bodies += _add_gripper(spec, bodies[-1], arm.gripper, collide)
    for i in range(6):
        servo = spec.add_actuator(name=f"joint{i + 1}", trntype=mujoco.mjtTrn.mjTRN_JOINT, target=f"joint{i + 1}")
        set_servo(servo, arm.kp[i], arm.kd[i], arm.effort[i], (arm.lower[i], arm.upper[i]))
    servo = spec.add_actuator(name="gripper", trntype=mujoco.mjtTrn.mjTRN_TENDON, target="opening")
    set_servo(servo, GRIP_KP, GRIP_KD, GRIP_FORCE, (0.0, 2 * arm.gripper.stroke))
    if collide:
        _add_limbs(bodies, arm)
        for first, second in SELF_EXCLUDED[arm.name]:
            spec.add_exclude(name=f"{first}_{second}", bodyname1=first, bodyname2=second)
    if visual:
        add_looks(spec, {b.name: b for b in bodies}, arm.name)
    return spec


def _weigh(body: mujoco.MjsBody, mass: Mass) -> None:
    body.explicitinertial = True
    body.mass = mass.kg
    body.ipos = list(mass.com)
    body.fullinertia = list(mass.inertia)


def set_servo(
    actuator: mujoco.MjsActuator, kp: float, kd: float, force: float, reach: Sequence[float] | None = None
) -> None:
    """force = kp (control - length) - kd velocity, within +-force; controls are clipped to `reach` if it is given."""
    actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.gainprm = [kp, *[0.0] * (len(actuator.gainprm) - 1)]
    actuator.biasprm = [0.0, -kp, -kd, *[0.0] * (len(actuator.biasprm) - 3)]
    actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
    actuator.forcerange = [-force, force]
    if reach is not None:
        actuator.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
        actuator.ctrlrange = list(reach)


def _add_gripper(spec: mujoco.MjSpec, palm: mujoco.MjsBody, grip: GripperModel, collide: bool) -> list[mujoco.MjsBody]:
    axes = np.array(grip.axes, float).T
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.ravel())
    palm.add_site(name="tcp", pos=list(grip.pos), quat=list(quat), size=[0.005] * 3, group=4)
    if collide:
        half, centre = grip.palm
        at = np.array(grip.pos) + axes @ np.array(centre, float)
        box = palm.add_geom(name="palm", type=mujoco.mjtGeom.mjGEOM_BOX, size=list(half), pos=list(at), quat=list(quat))
        _touches(box)
    fingers = []
    for name, side in (("finger_left", 1.0), ("finger_right", -1.0)):
        finger = palm.add_body(name=name, pos=list(grip.pos), quat=list(quat))
        _weigh(finger, grip.finger if side > 0 else grip.finger.mirrored_y())
        slide = finger.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, side, 0], range=[0, grip.stroke])
        slide.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        slide.armature = FINGER_ARMATURE
        slide.damping = [FINGER_DAMPING, 0, 0]
        if collide:
            at = [-grip.pad_behind, side * grip.pad[1], 0]
            box = finger.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=list(grip.pad), pos=at)
            _touches(box)
            box.condim = 4
            box.priority = 1
            box.friction = list(PAD_FRICTION)
            box.solimp = list(CARRIED_PAD_SOLIMP)
            box.solref = list(CARRIED_PAD_SOLREF)
        fingers.append(finger)
    spec.add_exclude(name="fingers", bodyname1="finger_left", bodyname2="finger_right")
    couple_fingers(spec)
    return fingers


def couple_fingers(spec: mujoco.MjSpec, fingers: Sequence[str] = ("finger_left", "finger_right")) -> None:
    """Add the tendons `opening`, the sum of both slides `fingers`, and `rack`, the spring on their difference."""
    for name, right in (("opening", 1.0), ("rack", -1.0)):
        tendon = spec.add_tendon(name=name)
        tendon.wrap_joint(fingers[0], 1.0)
        tendon.wrap_joint(fingers[1], right)
        if name == "rack":
            tendon.stiffness = [RACK_STIFFNESS, 0, 0]
            tendon.damping = [RACK_DAMPING, 0, 0]
            tendon.springlength = [0.0, 0.0]


def _touches(geom: mujoco.MjsGeom) -> None:
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = TOUCH_BIT | FIXTURE_BIT
    geom.group = COLLISION_GROUP
    geom.mass = 0.0
    geom.rgba = [0.2, 0.5, 0.8, 0.4]


def _add_limbs(bodies: Sequence[mujoco.MjsBody], arm: ArmNumbers) -> None:
    for link, start, end, radius in arm.limbs:
        geom = bodies[link].add_geom(
            name=f"limb{link}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[*start, *end], size=[radius, 0, 0]
        )
        geom.contype = LINK_BIT
        geom.conaffinity = LINK_BIT
        geom.group = COLLISION_GROUP
        geom.mass = 0.0
        geom.rgba = [0.8, 0.5, 0.2, 0.4]

"""Franka Emika Panda with its hand as a MuJoCo spec, from published numbers.

Bodies `link0` (fixed) to `link7`, `hand`, `left_finger`, `right_finger`; hinges `joint1` to `joint7`, slides `finger_left` and
`finger_right` (m); site `flange`, and with the hand `tcp` between the finger tips (z is the approach, y the way the fingers
close). Masses, inertias, limits and gains: MuJoCo Menagerie's panda.xml, identified by Gaz et al.
(RA-L 2019).

Drives: "position" has servos `joint1` to `joint7` (N m out, rad in) with the gains below, "torque" has motors of these
names (N m in and out). Both are over gravity compensation, as the robot's own controller is; the joints' torque limits hold
for the sum. The servo `gripper` takes the opening between the fingers in m.

Contacts, group 3: finger pads, fingers and hand touch the world (contype 1, conaffinity 1 and furniture). The links have bit 2
in contype and conaffinity: they meet each other, other robots' links and whatever has that bit in its contype, as the hand
has. Links joined by a joint do not meet, nor do the pairs of SELF_EXCLUDED, whose capsules overlap where the links do not.
"""

from __future__ import annotations

import mujoco

from rookery.assets.arms import (
    COLLISION_GROUP,
    FIXTURE_BIT,
    LINK_BIT,
    PAD_FRICTION,
    PAD_SOLIMP,
    TOUCH_BIT,
    Mass,
    couple_fingers,
    set_servo,
)
from rookery.assets.errors import RookeryError
from rookery.assets.panda_looks import add_looks

Seven = tuple[float, float, float, float, float, float, float]
JOINTS = tuple(f"joint{i}" for i in range(1, 8))
FINGERS = ("finger_left", "finger_right")

# place in the parent's frame (m), quaternion (not normalized), mass; inertia xx yy zz xy xz yz: Menagerie's panda.xml
_H = 0.70710678
_LINKS: tuple[tuple[tuple[float, ...], tuple[float, ...], Mass], ...] = (
    ((0, 0, 0), (1, 0, 0, 0), Mass(
        0.629769, (-0.041018, -0.00014, 0.049974), (0.00315, 0.00388, 0.004285, 8.29e-7, 0.00015, 8.23e-6))),
    ((0, 0, 0.333), (1, 0, 0, 0), Mass(
        4.970684, (0.003875, 0.002081, -0.04762), (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169))),
    ((0, 0, 0), (_H, -_H, 0, 0), Mass(
        0.646926, (-0.003141, -0.02872, 0.003495), (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704))),
    ((0, -0.316, 0), (_H, _H, 0, 0), Mass(
        3.228604, (0.027518, 0.039252, -0.066502), (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805))),
    ((0.0825, 0, 0), (_H, _H, 0, 0), Mass(
        3.587895, (-0.05317, 0.104419, 0.027454), (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641))),
    ((-0.0825, 0.384, 0), (_H, -_H, 0, 0), Mass(
        1.225946, (-0.011953, 0.041065, -0.038437), (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229))),
    ((0, 0, 0), (_H, _H, 0, 0), Mass(
        1.666555, (0.060149, -0.014117, -0.010517), (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341))),
    ((0.088, 0, 0), (_H, _H, 0, 0), Mass(
        0.735522, (0.010517, -0.004252, 0.061597), (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741))),
)  # fmt: skip
FLANGE = 0.107  # m, out of link 7 along its z
_HAND_QUAT = (0.92387953, 0, 0, -0.38268343)
_HAND = Mass(0.73, (-0.01, 0, 0.03), (0.001, 0.0025, 0.0017, 0, 0, 0))
_FINGER_Z = 0.0584  # m, of the fingers in the hand's frame
_FINGER = Mass(0.015, (0, 0, 0.0225), (2.375e-6, 2.375e-6, 7.5e-7, 0, 0, 0))
TCP = 0.1034  # m, of the point between the finger tips in the hand's frame: Franka's own end-effector frame

LOWER: Seven = (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973)  # rad
UPPER: Seven = (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)
TORQUE: Seven = (87, 87, 87, 87, 12, 12, 12)  # N m
# Joints 5 to 7 have a third and a tenth of the published gains: at those, and steps of 2.5 ms, their servos flip between both
# torque limits while the arm moves (measured), as a damping of 200 N m s/rad is too much for a tenth of a kg m^2.
KP: Seven = (4500, 4500, 3500, 3500, 600, 600, 600)  # N m/rad
KD: Seven = (450, 450, 350, 350, 20, 20, 20)  # N m s/rad
ARMATURE, DAMPING = 0.1, 1.0  # kg m^2, N m s/rad

STROKE = 0.04  # m, of a finger
GRIP_FORCE = 20.0  # N, on each finger: the hand's force is a setting of up to 70 (Franka Hand manual)
FINGER_SPEED = 0.2  # m/s
# Such that the drive's force limit moves a free finger at that speed. N/m, N s/m and kg are our choice: stiff, not bouncing.
FINGER_DAMPING = GRIP_FORCE / FINGER_SPEED
GRIP_KP = 3000.0
GRIP_KD = 60.0
FINGER_ARMATURE = 0.3

HAND_SOLREF = (0.005, 1.0)
"""s, 1: stiffer than MuJoCo's 0.02, with which what is carried about fast slips by 2 mm before it is held (with this, 0.7 mm)
and fingers press 3 mm deep (2 mm)."""

# contact shapes: link, from, to (m, link frame), radius (m)
_LIMBS = (
    (2, (0, 0, 0), (0, -0.26, 0), 0.065), (4, (-0.07, 0.05, 0), (-0.0825, 0.30, 0.02), 0.055),
    (5, (0, 0.06, -0.03), (0, 0.03, -0.20), 0.055), (6, (0.01, 0, 0), (0.088, 0, 0), 0.055),
    (7, (0, 0, -0.02), (0, 0, 0.09), 0.05),
)  # fmt: skip


SELF_EXCLUDED = (
    *(("link4", far) for far in ("link6", "link7", "hand", "left_finger", "right_finger")),
    ("link5", "link7"),
    ("link5", "hand"),
)
"""Link 4 meets none of these at any angle of the joints (MoveIt's panda.srdf, pairs with the reason "Never"), but its capsule
is thicker than the link; the last two are neighbours but one in the wrist."""


def panda_spec(*, hand: bool = True, drive: str = "position", visual: bool = True) -> mujoco.MjSpec:
    """The Panda; names, drives and contacts as in the module's docstring.

    Args:
        hand: False ends it at the site `flange`, for another hand.
        drive: "position" or "torque".
        visual: False leaves out what is only looked at.

    Raises:
        RookeryError: an unknown drive.
    """
    if drive not in ("position", "torque"):
        raise RookeryError(f"the Panda has no drive {drive!r}: choose 'position' or 'torque'.")
    spec = mujoco.MjSpec()
    spec.modelname = "panda"
    spec.compiler.degree = False
    bodies: list[mujoco.MjsBody] = []
    for i, (pos, quat, mass) in enumerate(_LINKS):
        parent = bodies[-1] if bodies else spec.worldbody
        body = parent.add_body(name=f"link{i}", pos=list(pos), quat=list(quat))
        _weigh(body, mass)
        if i:
            _add_joint(spec, body, i - 1, drive)
        bodies.append(body)
    bodies[-1].add_site(name="flange", pos=[0, 0, FLANGE], size=[0.005] * 3, group=4)
    for link, start, end, radius in _LIMBS:
        geom = bodies[link].add_geom(
            name=f"limb{link}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=[*start, *end], size=[radius, 0, 0]
        )
        geom.contype = LINK_BIT
        geom.conaffinity = LINK_BIT
        geom.group = COLLISION_GROUP
        geom.mass = 0.0
    if hand:
        bodies += _add_hand(spec, bodies[-1])
    names = {b.name for b in bodies}
    for first, second in (pair for pair in SELF_EXCLUDED if names.issuperset(pair)):
        spec.add_exclude(name=f"{first}_{second}", bodyname1=first, bodyname2=second)
    if visual:
        add_looks(spec, {b.name: b for b in bodies})
    return spec


def _weigh(body: mujoco.MjsBody, mass: Mass) -> None:
    body.explicitinertial = True
    body.mass = mass.kg
    body.ipos = list(mass.com)
    body.fullinertia = list(mass.inertia)
    body.gravcomp = 1.0


def _add_joint(spec: mujoco.MjSpec, body: mujoco.MjsBody, i: int, drive: str) -> None:
    joint = body.add_joint(name=JOINTS[i], axis=[0, 0, 1], range=[LOWER[i], UPPER[i]])
    joint.limited = joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_TRUE
    joint.armature = ARMATURE
    joint.damping = [DAMPING, 0, 0]
    joint.actfrcrange = [-TORQUE[i], TORQUE[i]]
    joint.actgravcomp = True
    act = spec.add_actuator(name=JOINTS[i], trntype=mujoco.mjtTrn.mjTRN_JOINT, target=JOINTS[i])
    if drive == "position":
        # without a range: to follow a moving reference without lag, kd/kp times its velocity is added to the control
        set_servo(act, KP[i], KD[i], TORQUE[i])
    else:
        act.set_to_motor()
        act.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
        act.forcerange = [-TORQUE[i], TORQUE[i]]


def _add_hand(spec: mujoco.MjSpec, flange: mujoco.MjsBody) -> list[mujoco.MjsBody]:
    hand = flange.add_body(name="hand", pos=[0, 0, FLANGE], quat=list(_HAND_QUAT))
    _weigh(hand, _HAND)
    hand.add_site(name="tcp", pos=[0, 0, TCP], size=[0.005] * 3, group=4)
    # looks along the fingers from beside the hand; cameras look along their -z
    hand.add_camera(name="wrist", pos=[0.07, 0.0, 0.02], quat=[0.0, 1.0, 0.0, 0.0], fovy=70.0)
    _touching(hand.add_geom(name="hand", type=_BOX, size=[0.03, 0.10, 0.033], pos=[0, 0, 0.033]))
    fingers = []
    for name, body_name, side in (("finger_left", "left_finger", 1.0), ("finger_right", "right_finger", -1.0)):
        finger = hand.add_body(name=body_name, pos=[0, 0, _FINGER_Z])
        _weigh(finger, _FINGER)
        slide = finger.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, side, 0], range=[0, STROKE])
        slide.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        slide.armature = FINGER_ARMATURE
        slide.damping = [FINGER_DAMPING, 0, 0]
        # the pad's face is at the tool's centre when the hand is closed; the finger behind it stands back
        pad = finger.add_geom(
            name=f"{name}_pad", type=_BOX, size=[0.0105, 0.004, 0.0095], pos=[0, side * 0.004, 0.0445]
        )
        _touching(pad)
        pad.condim = 4
        pad.priority = 1
        pad.friction = list(PAD_FRICTION)
        pad.solimp = list(PAD_SOLIMP)
        _touching(finger.add_geom(name=name, type=_BOX, size=[0.0105, 0.007, 0.0175], pos=[0, side * 0.0125, 0.0175]))
        fingers.append(finger)
    spec.add_exclude(name="fingers", bodyname1="left_finger", bodyname2="right_finger")
    couple_fingers(spec)
    servo = spec.add_actuator(name="gripper", trntype=mujoco.mjtTrn.mjTRN_TENDON, target="opening")
    set_servo(servo, GRIP_KP, GRIP_KD, GRIP_FORCE, (0.0, 2 * STROKE))
    return [hand, *fingers]


_BOX = mujoco.mjtGeom.mjGEOM_BOX


def _touching(geom: mujoco.MjsGeom) -> None:
    geom.contype = TOUCH_BIT | LINK_BIT
    geom.conaffinity = TOUCH_BIT | FIXTURE_BIT
    geom.group = COLLISION_GROUP
    geom.mass = 0.0
    geom.solref = list(HAND_SOLREF)
    geom.rgba = [0.2, 0.5, 0.8, 0.4]

"""The Allegro right hand (Wonik, V3) as a MuJoCo spec: four fingers of four joints, made of boxes and capsules.

Body `palm`, whose z runs along the middle finger, x out of the palm and y to the side of the first finger. Fingers `ff`, `mf`,
`rf` (first, middle, ring) and the thumb `th`: bodies `ff_base`, `ff_proximal`, `ff_medial`, `ff_distal`, `ff_tip`; joints and
position servos `ff0` ... `ff3` from the palm outwards; touch sensors `ff_touch` (N) of the rubber tips, and `palm_touch`.

Site and body `grasp`: the grasp frame in front of the palm, between fingers and thumb. Its z is the approach (out of the
palm), its y the closing axis (from the thumb to the finger tips), its x the way from the ring finger to the first.

Contacts, group 3: as the arms' fingers (assets.arms), so that the hand also meets fixtures. Fingers meet each other, but not
their neighbours in the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from rookery.assets import meshes
from rookery.assets.arms import COLLISION_GROUP, FIXTURE_BIT, PAD_FRICTION, PAD_SOLIMP, TOUCH_BIT
from rookery.assets.geometry import add_visual_mesh, looks_wanted

if TYPE_CHECKING:
    import trimesh

Vec = tuple[float, float, float]
Quat = tuple[float, float, float, float]
FINGERS = ("ff", "mf", "rf", "th")
JOINTS = tuple(f"{finger}{i}" for finger in FINGERS for i in range(4))
"""Joints and servos, from the palm outwards."""
WRIST = ("wrist_x", "wrist_y", "wrist_z", "wrist_roll", "wrist_pitch", "wrist_yaw")
"""Slides (m) along and hinges (rad) about the axes of the world (of the frame that the hand is attached to)."""
TOUCH = (*(f"{finger}_touch" for finger in FINGERS), "palm_touch")
"""Touch sensors, N."""


@dataclass(frozen=True)
class FingerLink:
    """One moving part: where its joint is in the part before, its axis and range, and the box that it is.

    Args:
        name: of the part.
        pos, quat: m and wxyz, in the frame of the part before.
        axis: of its hinge.
        reach: rad, range of the hinge.
        half, centre: m, half sizes of the box and its middle.
        kg: mass.
    """

    name: str
    pos: Vec
    axis: Vec
    reach: tuple[float, float]
    half: Vec
    centre: Vec
    kg: float
    quat: Quat = (1.0, 0.0, 0.0, 0.0)


_X, _Y, _Z = (-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
_WIDE = 0.01375
_DEEP = 0.0098
# Geometry and ranges: MuJoCo Menagerie's wonik_allegro; the thumb's boxes from the maker's URDF
# (simlabrobotics/allegro_hand_ros). Masses: the maker states none of a single link, and boxes of 800 kg/m^3 make 0.715 kg
# together, where the maker states 1.08 kg. So the links weigh what a later URDF gives them (as in Remiles45/mp_project bare.g:
# 12, 65, 36, 10 g; thumb 18, 12, 38, 39 g), the tips are rubber of 800 kg/m^3, and the palm, with boards and flange, takes what
# is missing to 1.08 kg.
HAND_KG = 1.08
TIP_DENSITY = 800.0


def _finger(pos: Vec, tilt: float) -> tuple[FingerLink, ...]:
    """A finger at `pos` on the palm, leaning to the side by `tilt` (rad, about x)."""
    return (
        FingerLink("base", pos, _Z, (-0.47, 0.47), (_DEEP, _WIDE, 0.0082), (0, 0, 0.0082), 0.0119,
             (float(np.cos(tilt / 2)), float(np.sin(tilt / 2)), 0.0, 0.0)),
        FingerLink("proximal", (0, 0, 0.0164), _Y, (-0.196, 1.61), (_DEEP, _WIDE, 0.027), (0, 0, 0.027), 0.065),
        FingerLink("medial", (0, 0, 0.054), _Y, (-0.174, 1.709), (_DEEP, _WIDE, 0.0192), (0, 0, 0.0192), 0.0355),
        FingerLink("distal", (0, 0, 0.0384), _Y, (-0.227, 1.618), (_DEEP, _WIDE, 0.008), (0, 0, 0.008), 0.0096),
    )  # fmt: skip


_LEAN = 0.08726646  # rad, 5 degrees: the outer fingers spread
CHAINS: dict[str, tuple[FingerLink, ...]] = {
    "ff": _finger((0, 0.0435, -0.001542), -_LEAN),
    "mf": _finger((0, 0, 0.0007), 0.0),
    "rf": _finger((0, -0.0435, -0.001542), _LEAN),
    "th": (
        FingerLink("base", (-0.0182, 0.019333, -0.045987), _X, (0.263, 1.396), (0.0179, 0.017, 0.02275),
                   (-0.0179, 0.009, 0.0145), 0.0176, (0.477714, -0.521334, -0.521334, -0.477714)),
        FingerLink("proximal", (-0.027, 0.005, 0.0399), _Z, (-0.105, 1.163), (_DEEP, _WIDE, 0.00885), (0, 0, 0.00885), 0.0119),
        FingerLink("medial", (0, 0, 0.0177), _Y, (-0.189, 1.644), (_DEEP, _WIDE, 0.0257), (0, 0, 0.0257), 0.038),
        FingerLink("distal", (0, 0, 0.0514), _Y, (-0.162, 1.719), (_DEEP, _WIDE, 0.0157), (0, 0, 0.0157), 0.0388),
    ),
}  # fmt: skip
TIP_RADIUS = 0.012  # m, of the rubber capsules
TIPS = {finger: (0.035, 0.008) if finger == "th" else (0.019, 0.010) for finger in FINGERS}
"""m, of each tip: middle of the capsule from the last joint, and half the length of its straight part."""
PALM_HALF = (0.0204, 0.0565, 0.0475)
PALM_CENTRE = (-0.0093, 0.0, -0.0475)
FLANGE_TO_PALM = 0.095
"""m, from the mounting face to the fingers' roots, where the frame of `palm` is."""
GRASP_POS: Vec = (0.06, 0.0, -0.01)
"""m, the grasp frame in the palm's; its axes x, y, z are the palm's y, z, x."""
GRASP_QUAT: Quat = (0.5, 0.5, 0.5, 0.5)

# The maker's torque, speed and dry friction (Wonik's Allegro Hand V4 data sheet). The servo: stiffness as in the Allegro tasks
# of Isaac Gym (3 N m/rad). The joint's damping is the motor's line of torque over speed, so that a servo at its limit ends at
# the maker's 6.283 rad/s; the servo's own brings a stretched finger to 1.1 of critical damping. The rotor's inertia behind the
# gear is not published: our choice. It keeps the last joint at 55 rad/s: 0.14 rad in a step of 2.5 ms.
TORQUE = 0.35
SPEED = 6.283
DRY = 0.035
KP = 3.0
KD = 0.09
ARMATURE = 0.001
DAMPING = TORQUE / SPEED

HAND_SOLREF = (0.008, 1.0)
HAND_SOLMIX = 20.0
"""s, 1; weight against what is touched. With MuJoCo's .02 s the hand dips 2.9 mm into what it closes around, and what it holds
still moves by up to 6.7 mm in a second; with this, 1.7 mm and 2.8 mm (benchmarks/contacts.py, five objects). With .005 s it is
0.8 mm, but a box that is held by its edges is dropped."""

# The wrist stands for an arm: our choice. Force over damping is its highest speed, 1 m/s and 2.5 rad/s (the Panda can do 1.7
# and 2.5, Franka Control Interface documentation); the armature is what of the arm moves along.
SLIDE = 0.5
HINGE = 3.15
"""m and rad, ranges to both sides."""
SLIDE_KP = 2000.0
SLIDE_FORCE = 80.0
SLIDE_DAMPING = 80.0
SLIDE_ARMATURE = 1.0
HINGE_KP = 80.0
HINGE_FORCE = 10.0
HINGE_DAMPING = 4.0
HINGE_ARMATURE = 0.02


def allegro(wrist: bool = True, looks: bool = True, *, dry_friction: bool = False) -> mujoco.MjSpec:
    """The right hand, 1.08 kg; names, frames and contacts as in the module's docstring.

    Args:
        wrist: hang it on six joints, WRIST, whose axes meet in the grasp frame, with servos of the same names: at zero the
            grasp frame is at the origin, the palm looks down and the fingers point along x. Roll tips the palm to the side,
            yaw (the outer one) and pitch do the rest: R = Rz(yaw) Ry(pitch) Rx(roll). Whoever carries the hand carries its
            weight. False: the origin is the mounting face, the fingers point along z, and nothing moves it: for a flange.
        looks: False leaves the visual geoms and meshes out.
        dry_friction: add the joints' dry friction; a constraint row for each joint, so it costs time.
    """
    spec = mujoco.MjSpec()
    spec.modelname = "allegro"
    spec.compiler.degree = False
    palm = spec.worldbody.add_body(name="palm", pos=[0, 0, FLANGE_TO_PALM])
    box = palm.add_geom(name="palm", type=mujoco.mjtGeom.mjGEOM_BOX, size=list(PALM_HALF), pos=list(PALM_CENTRE))
    box.mass = HAND_KG - sum(link.kg for chain in CHAINS.values() for link in chain) - sum(map(_tip_kg, FINGERS))
    _touches(box)
    pad = [PALM_CENTRE[0] + PALM_HALF[0], 0.0, PALM_CENTRE[2]]
    _touch(spec, palm, "palm", mujoco.mjtGeom.mjGEOM_BOX, [0.004, PALM_HALF[1], PALM_HALF[2]], pad)
    grasp = palm.add_body(name="grasp", pos=list(GRASP_POS), quat=list(GRASP_QUAT))
    grasp.add_site(name="grasp", size=[0.005] * 3, group=4)
    if wrist:
        _add_wrist(spec, palm, HAND_KG / box.mass)
    for finger, chain in CHAINS.items():
        _add_finger(spec, palm, finger, chain, dry_friction)
    if looks:
        _add_looks(spec)
    return spec


def _tip_kg(finger: str) -> float:
    straight = 2.0 * TIPS[finger][1]
    return TIP_DENSITY * float(np.pi) * TIP_RADIUS**2 * (straight + 4.0 / 3.0 * TIP_RADIUS)


def _add_finger(
    spec: mujoco.MjSpec, palm: mujoco.MjsBody, finger: str, chain: tuple[FingerLink, ...], dry_friction: bool
) -> None:
    body = palm
    for i, link in enumerate(chain):
        name = f"{finger}_{link.name}"
        body = body.add_body(name=name, pos=list(link.pos), quat=list(link.quat))
        joint = body.add_joint(name=f"{finger}{i}", axis=list(link.axis), range=list(link.reach))
        joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        joint.damping = [DAMPING, 0, 0]
        joint.armature = ARMATURE
        joint.frictionloss = DRY if dry_friction else 0.0
        box = body.add_geom(name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=list(link.half), pos=list(link.centre))
        box.mass = link.kg
        _touches(box)
        _servo(spec, f"{finger}{i}", KP, KD, TORQUE, link.reach)
        if (
            i < 2
        ):  # a hand on a fixed flange is part of the world, whose parts MuJoCo does not take for anybody's parents
            spec.add_exclude(name=f"palm_{name}", bodyname1="palm", bodyname2=name)
    at, half = TIPS[finger]
    body = body.add_body(name=f"{finger}_tip", pos=[0, 0, at])
    tip = body.add_geom(name=f"{finger}_tip", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[TIP_RADIUS, half, 0])
    tip.mass = _tip_kg(finger)
    _touches(tip)
    tip.condim = 4
    tip.priority = 1
    tip.friction = list(PAD_FRICTION)
    tip.solimp = list(PAD_SOLIMP)
    _touch(spec, body, finger, mujoco.mjtGeom.mjGEOM_CAPSULE, [TIP_RADIUS + 0.002, half, 0], [0, 0, 0])


def _add_wrist(spec: mujoco.MjSpec, palm: mujoco.MjsBody, load: float) -> None:
    """Six joints of the palm; `load` is the hand's weight over the palm's, all of which the wrist carries."""
    axes = {"x": [0, 0, 1], "y": [0, 1, 0], "z": [-1, 0, 0]}  # of the world, in the palm's frame at zero
    turn = np.array([axes[a] for a in "xyz"], float)  # palm to world
    palm.quat = [np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0]
    palm.pos = (-turn @ GRASP_POS).tolist()
    palm.gravcomp = load
    for axis, name in zip("xyz", WRIST[:3], strict=True):
        slide = palm.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axes[axis], range=[-SLIDE, SLIDE])
        slide.damping = [SLIDE_DAMPING, 0, 0]
        slide.armature = SLIDE_ARMATURE
    for axis, name in (("z", "wrist_yaw"), ("y", "wrist_pitch"), ("x", "wrist_roll")):
        hinge = palm.add_joint(name=name, axis=axes[axis], pos=list(GRASP_POS), range=[-HINGE, HINGE])
        hinge.damping = [HINGE_DAMPING, 0, 0]
        hinge.armature = HINGE_ARMATURE
    for joint in palm.joints:
        joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    for name in WRIST[:3]:
        _servo(spec, name, SLIDE_KP, 0.0, SLIDE_FORCE, (-SLIDE, SLIDE))
    for name in WRIST[3:]:
        _servo(spec, name, HINGE_KP, 0.0, HINGE_FORCE, (-HINGE, HINGE))


def _servo(spec: mujoco.MjSpec, joint: str, kp: float, kd: float, force: float, reach: tuple[float, float]) -> None:
    """force = kp (control - angle) - kd speed, within +-force; controls are clipped to `reach`."""
    servo = spec.add_actuator(name=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint)
    servo.set_to_position(kp=kp, kv=kd)
    servo.forcelimited = servo.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
    servo.forcerange = [-force, force]
    servo.ctrlrange = list(reach)


def _touches(geom: mujoco.MjsGeom) -> None:
    geom.contype = TOUCH_BIT
    geom.conaffinity = TOUCH_BIT | FIXTURE_BIT
    geom.group = COLLISION_GROUP
    geom.solref = list(HAND_SOLREF)
    geom.solmix = HAND_SOLMIX
    geom.rgba = [0.2, 0.5, 0.8, 0.4]


def _touch(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, shape: mujoco.mjtGeom, size: list[float], pos: list[float]
) -> None:
    """A sensor of the normal force, N, on that zone of a body."""
    body.add_site(name=f"{name}_touch", type=shape, size=size, pos=pos, group=4, rgba=[1.0, 0.8, 0.1, 0.3])
    spec.add_sensor(
        name=f"{name}_touch",
        type=mujoco.mjtSensor.mjSENS_TOUCH,
        objtype=mujoco.mjtObj.mjOBJ_SITE,
        objname=f"{name}_touch",
    )


_BLACK = (0.13, 0.13, 0.14, 1.0)
_GREY = (0.42, 0.44, 0.47, 1.0)
_WHITE = (0.93, 0.93, 0.91, 1.0)


def _add_looks(spec: mujoco.MjSpec) -> None:
    """Black shells with rounded edges, gray caps on the joints' axes, white rubber tips."""
    if not looks_wanted():
        return
    palm = spec.body("palm")
    x, y, z = PALM_CENTRE
    shell = _shell(PALM_HALF, PALM_CENTRE, 8.0)
    add_visual_mesh(spec, palm, "look_palm", shell, _BLACK, shine=0.15)
    plate = _shell((0.0008, 0.040, 0.032), (x + PALM_HALF[0], y, z - 0.006), 8.0)
    add_visual_mesh(spec, palm, "look_plate", plate, _GREY, shine=0.4)
    for finger, chain in CHAINS.items():
        for i, link in enumerate(chain):
            name = f"{finger}_{link.name}"
            add_visual_mesh(
                spec, spec.body(name), f"look_{name}", _shell(link.half, link.centre, 5.0), _BLACK, shine=0.15
            )
            if link.axis == _Y:
                cap = meshes.cylinder(0.0062, -_WIDE - 0.0008, _WIDE + 0.0008, (0.0, 0.0))
                cap.apply_transform([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
                add_visual_mesh(spec, spec.body(name), f"look_{finger}{i}", cap, _GREY, shine=0.5)
        half = TIPS[finger][1]
        tip = _dome(TIP_RADIUS, half)
        add_visual_mesh(spec, spec.body(f"{finger}_tip"), f"look_{finger}_tip", tip, _WHITE, shine=0.05)


def _shell(half: Vec, centre: Vec, power: float) -> trimesh.Trimesh:
    """A box with rounded edges along z and bevelled ends."""
    bevel = min(0.0015, 0.25 * min(half))
    rings = []
    for z, less in ((-1, bevel), (-1, 0.0), (1, 0.0), (1, bevel)):
        flat = meshes.superellipse(half[0] - less, half[1] - less, power, 24)
        height = centre[2] + z * (half[2] - (0.0 if less else bevel))
        rings.append(np.column_stack([flat + np.asarray(centre[:2]), np.full(len(flat), height)]))
    return meshes.loft(rings)


def _dome(radius: float, half: float) -> trimesh.Trimesh:
    """A capsule along z."""
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 12)
    circle = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    rings = []
    for angle in angles:
        r, z = radius * max(np.cos(angle), 0.02), radius * np.sin(angle) + np.sign(angle) * half
        rings.append(np.column_stack([r * np.cos(circle), r * np.sin(circle), np.full(20, z)]))
    return meshes.loft(rings)

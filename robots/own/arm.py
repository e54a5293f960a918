"""An arm from a URDF or MJCF file: five to seven hinges on a base that stands, with two sliding fingers or none."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.assets.arms import COLLISION_GROUP, FINGER_ARMATURE, couple_fingers
from rookery.assets.panda import FINGER_SPEED, GRIP_FORCE
from rookery.robots.arms.kinematics import chain_of
from rookery.robots.manipulators.chain import HingeChain
from rookery.robots.manipulators.model import ManipulatorModel
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.own import checks
from rookery.robots.own.arm_drives import HOLD_S, ArmDrives, hold, loads, set_contact, spec_of
from rookery.robots.own.arm_links import (
    TOOL,
    end_of,
    find_chain,
    find_fingers,
    free_name,
    hold_others,
    last_frame,
    matrix_of,
    place_tool,
    straighten_fingers,
    tool_between,
)
from rookery.robots.own.parts import motors_of, name_all, name_bodies, strip, take_refs
from rookery.robots.own.placeholders import wide_limits, without_placeholders
from rookery.robots.own.postures import Postures, search
from rookery.robots.own.reading import BASE, read, stamp
from rookery.robots.own.result import OwnRobot, plain_name
from rookery.robots.own.settings import RobotSettings
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY

SETTINGS = (
    "family", "name", "rpy", "joints", "tool", "tool_offset", "tool_rpy", "home", "nearer", "kp", "kd", "torque", "speed",
    "acceleration", "torque_rate", "armature", "damping", "grip_force", "exclude", "mend_inertia",
)  # fmt: skip
BANDWIDTH = 60.0
"""rad/s, of a servo whose gains are guessed: kp = BANDWIDTH^2 times the largest inertia about the joint over the table, with
its armature, and kd such that it is critically damped."""
SPEED, ACCELERATION = 2.0, 15.0  # rad/s, rad/s^2, of a Panda's first joint, about
JERK = 500.0  # 1/s, times the acceleration, as a Panda's
RATE = 12.0  # 1/s, times the largest torque, likewise
SPINS_UP = 400.0  # rad/s^2, that a motor gives its own rotor at most where the armature is guessed
ARMATURE = 0.1  # kg m^2, at most, of a guess: a Panda's
MOST_TORQUE = 5.0
"""Of a motor, in the arm's weight times its reach (a Panda's first: 0.6): from there on an effort is no motor's."""
MOST_SPEED = 100.0  # rad/s, likewise: a Panda's last joint goes at 2.6
STILL = 0.002  # rad, that a joint may be away from home from then on
Floats = NDArray[np.float64]


def load_arm(path: str | Path, **given: Any) -> OwnRobot[ManipulatorModel]:
    """The arm of a URDF or MJCF file, checked.

    Args:
        path: of the file; ``my.toml`` beside ``my.urdf`` may hold settings.
        given: settings, before those of the TOML file, see docs/own_robot.md.

    Raises:
        RookeryError: the file cannot be read, is no arm, or has what no arm has; with the way out.
    """
    file = Path(path)
    return _ArmBuilder(file, given).build() if given else _cached(file, stamp(file))


@functools.lru_cache(maxsize=8)
def _cached(file: Path, changed: tuple[int, ...]) -> OwnRobot[ManipulatorModel]:
    return _ArmBuilder(file, {}).build()


class _ArmBuilder:
    """One loading: what is known of the arm so far."""

    def __init__(self, file: Path, given: Mapping[str, Any]) -> None:
        named = given.get("joints", RobotSettings.peek(file, "joints"))
        find_chain(file, read(file, floating=True).spec, named)  # before settings, which are another family's then
        self.path = file
        self.settings = s = RobotSettings(file, given, SETTINGS)
        self.source = read(file, floating=True, rpy=s.vector("rpy"))
        self.name = plain_name(str(s.raw("name") or self.source.name))
        if self.name == PANDA.name and not s.has("name"):
            self.name = f"own_{self.name}"
            s.guess("name", f"{self.name}, since {PANDA.name} is Rookery's own")
        self.notes = list(self.source.notes)
        self.warnings: list[str] = []
        self.spec = self.source.spec
        name_bodies(self.spec)
        self.motors = motors_of(self.spec, floats=False)
        strip(self.spec)
        chain = find_chain(file, self.spec, named)
        self.joints = tuple(j.name for j in chain)
        checks.check_driven(self.source, self.joints)
        last = chain[-1].parent
        slides = find_fingers(last)
        self.fingers = tuple(j.name for j in slides)
        self.last = last.name
        self._set_tool(last)
        self.notes += hold_others(self.spec, [*chain, *slides])
        self._make_rigid()
        model = checks.compile_source(self.source)
        self.notes += checks.check_inertia(model)
        take_refs(file, self.spec, (*self.joints, *self.fingers))
        self._finish_tool()
        if not self.fingers:
            self.notes.append("it has no two sliding fingers: tasks that grip refuse it.")

    def _set_tool(self, last: mujoco.MjsBody) -> None:
        s = self.settings
        name = s.raw("tool")
        self.guess_tool = name is None
        if name is None and self.fingers:
            free_name(self.spec)
            return
        if name is None:
            name = last_frame(last).name
        place_tool(self.path, self.spec, str(name), s.vector("tool_offset"), s.vector("tool_rpy"))

    def _make_rigid(self) -> None:
        """Fuse what no joint moves, and let the base stand."""
        s = self.settings
        for body in self.spec.bodies:
            moved = any(j.type != mujoco.mjtJoint.mjJNT_FREE for j in body.joints)
            if body.explicitinertial and not body.mass and not moved:  # of links that stand, or are frames alone
                body.explicitinertial = False
                body.fullinertia = [math.nan] * 6
                body.inertia = [0.0] * 3
        tool = next((site for site in self.spec.sites if site.name == TOOL), None)
        name_all(self.spec)
        if tool is not None:
            tool.name = TOOL
        self.notes += checks.check_mass(self.source, s.raw("mend_inertia") is True, stands=BASE)
        checks.fuse_static(self.source)
        for joint in [j for j in self.spec.joints if j.type == mujoco.mjtJoint.mjJNT_FREE]:
            self.spec.delete(joint)
        last = self.spec.body(self.last)
        hand = {self.last, *(self.spec.joint(f).parent.name for f in self.fingers)}
        for body in self.spec.bodies:
            body.gravcomp = 1.0 if body.name != "world" else 0.0
            for geom in body.geoms:
                set_contact(geom, body.name in hand, body.name in hand and body.name != last.name)

    def _finish_tool(self) -> None:
        s = self.settings
        if self.fingers:
            self.stroke = straighten_fingers(self.path, self.spec, list(self.fingers))
            if self.guess_tool:
                tool_between(self.spec, self.last, list(self.fingers))
                s.guess("tool", "9 mm before the ends of the fingers, between them")
            self._finish_fingers()
        else:
            self.stroke = self.force = 0.0
            if self.guess_tool:
                self._move_tool_out()
        self._add_camera()

    def _move_tool_out(self) -> None:
        model = self.spec.copy().compile()
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        out = round(end_of(model, data, model.body(self.last).id), 4)
        site = self.spec.site(TOOL)
        site.pos = list(np.array(site.pos) + out * matrix_of(np.array(site.quat))[:, 2])
        self.settings.guess(
            "tool", f"the last link's frame, {1e3 * out:.0f} mm further along its z axis, where its shapes end"
        )

    def _finish_fingers(self) -> None:
        known = self.source.efforts
        guess = min((known[f] for f in self.fingers if f in known), default=GRIP_FORCE)
        self.force = self.settings.number("grip_force", guess, "N") if self.settings.has("grip_force") else guess
        speed = min((self.source.speeds[f] for f in self.fingers if f in self.source.speeds), default=FINGER_SPEED)
        for name in self.fingers:
            joint = self.spec.joint(name)
            joint.armature = FINGER_ARMATURE
            joint.damping = [self.force / speed, 0.0, 0.0]  # the drive's force moves a free finger at its speed
            joint.frictionloss = 0.0
            joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
        self.pads = tuple(
            g.name for f in self.fingers for g in self.spec.joint(f).parent.geoms if g.group == COLLISION_GROUP
        )
        couple_fingers(self.spec, self.fingers)
        first, second = (self.spec.joint(f).parent.name for f in self.fingers)
        self.spec.add_exclude(bodyname1=first, bodyname2=second)

    def _add_camera(self) -> None:
        """`wrist`: it looks along the tool's approach, from beside it."""
        site = self.spec.site(TOOL)
        turn = matrix_of(np.array(site.quat))
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, (turn @ np.diag((1.0, -1.0, -1.0))).ravel())
        place = np.array(site.pos) + turn @ np.array((0.07, 0.0, -0.083))
        site.parent.add_camera(name="wrist", pos=list(place), quat=list(quat), fovy=70.0)

    def build(self) -> OwnRobot[ManipulatorModel]:
        s = self.settings
        model = self.spec.copy().compile()
        lower, upper = self._limits(model)
        torque = self._torque(model)
        home = self._home()
        nearer = None if not s.has("nearer") else _any_number(s, "nearer")
        chain = HingeChain(*chain_of(model, self.joints, BASE, TOOL))
        chooses = bool(self.fingers) and len(self.joints) > 5  # which way its fingers close
        found = search(chain, lower, upper, home, nearer, chooses)
        if self.fingers and not chooses:
            self.notes.append(
                "five joints do not choose which way its fingers close: things with sides are not for it."
            )
        if found is None:
            raise RookeryError(
                f"{self.path}: its tool, looking straight down, does not reach the places of the table-top tasks, 0.3 to "
                "0.7 m ahead of its base: see that z of the root link is up and x forward (rpy turns it), that z of the tool's "
                "frame points out of the hand (tool, tool_rpy), and give home (rad) if there is one."
            )
        if home is None:
            s.guess("home", "[" + ", ".join(f"{v:.3g}" for v in found.home) + "] rad")
        if nearer is None and found.nearer:
            s.guess("nearer", f"{found.nearer:.3g} m: it stands that much nearer to the table's things than a Panda")
        inertia, gravity = loads(
            model, self.joints, np.concatenate((found.home[None], found.across[None], found.poses))
        )
        brisk = 1.5 * gravity + 2.0 * ACCELERATION * inertia
        torque = [float(f"{need:.3g}") if math.isinf(t) else t for t, need in zip(torque, brisk, strict=True)]
        weak = [n for n, need, most in zip(self.joints, gravity, torque, strict=True) if need > 0.9 * most]
        if weak:
            raise RookeryError(
                f"{self.path}: the motors of {', '.join(weak)} cannot hold the arm over the table: gravity takes "
                f"{', '.join(f'{gravity[self.joints.index(n)]:.3g}' for n in weak)} N m: mend effort or masses, or give torque."
            )
        drives, values = self._drives(model, inertia, torque)
        self._exclude(found)
        made = ManipulatorModel(
            name=self.name, spec=functools.partial(spec_of, self.spec, drives), joints=self.joints, fingers=self.fingers,
            pads=self.pads if self.fingers else (), lower=_each(lower), upper=_each(upper), torque=_each(torque),
            inertial_torque=_each(0.5 * (np.array(torque) - gravity)), kp=drives.kp, kd=drives.kd, stroke=self.stroke,
            home=_each(found.home), home_across=_each(found.across), base=BASE, tool=TOOL, nearer=found.nearer, **values,
        )  # fmt: skip
        drift = hold(made)
        if not drift < STILL:
            raise RookeryError(
                f"{self.path}: it does not hold still at home: a joint is {drift:.3g} rad away from it in {HOLD_S:g} s. Give "
                "other gains kp and kd, or a larger armature."
            )
        self.notes.append(f"it holds still at home for {HOLD_S:g} s: joints drift by at most {1e3 * drift:.2g} mrad.")
        return OwnRobot(made.name, "arm", self.path, made, tuple(s.guessed), tuple(self.notes), tuple(self.warnings))

    def _limits(self, model: mujoco.MjModel) -> tuple[Floats, Floats]:
        missing = [j for j in self.joints if j in self.source.unlimited]
        if missing:
            raise RookeryError(
                f"{self.path}: the revolute joints {', '.join(missing)} have no limits: give each a <limit lower upper effort "
                'velocity>, or type="continuous".'
            )
        ranges = np.array([model.joint(j).range for j in self.joints])
        free = [i for i, j in enumerate(self.joints) if not model.joint(j).limited[0]]
        if free:
            ranges[free] = (-math.pi, math.pi)
            self.notes.append(f"{len(free)} joints have no limits: from -pi to pi rad is taken.")
        self.warnings += wide_limits(self.path, self.joints, ranges)
        return ranges[:, 0].copy(), ranges[:, 1].copy()

    def _torque(self, model: mujoco.MjModel) -> list[float]:
        """N m, by joint; infinite where the file's figure is no motor's."""
        s = self.settings
        known = self.motors["torque"] | self.source.efforts
        moved = float(model.body_mass.sum())
        reach = float(
            sum(np.linalg.norm(model.body_pos[int(model.jnt_bodyid[model.joint(j).id])]) for j in self.joints)
        )
        if not s.has("torque"):
            most = MOST_TORQUE * moved * GRAVITY * reach
            real, warnings = without_placeholders(
                self.path, "torque", known, self.joints, most, "what gravity and a brisk start need"
            )
            self.warnings += warnings
            known = real | {j: math.inf for j in self.joints if j in known and j not in real}
        missing = [j for j in self.joints if j not in known]
        if missing and not s.has("torque"):
            raise RookeryError(
                f"{self.path} does not say what the motors of {', '.join(missing)} can do: give effort in their <limit> "
                f"(URDF), forcerange (MJCF), or torque (N m) in {self.path.stem}.toml."
            )
        values = [known.get(j, 1.0) for j in self.joints]
        return s.by_joint("torque", self.joints, values, "N m") if s.has("torque") else values

    def _home(self) -> Floats | None:
        if not self.settings.has("home"):
            return None
        return np.array(self.settings.by_joint("home", self.joints, [0.0] * len(self.joints), "rad", signed=True))

    def _drives(self, model: mujoco.MjModel, inertia: Floats, torque: list[float]) -> tuple[ArmDrives, dict[str, Any]]:
        s = self.settings
        dofs = [int(model.joint(j).dofadr[0]) for j in self.joints]
        speeds = self.source.speeds
        if not s.has("speed"):
            speeds, warnings = without_placeholders(
                self.path, "speed", speeds, self.joints, MOST_SPEED, f"{SPEED:g} rad/s"
            )
            self.warnings += warnings
        speed = [speeds.get(j, SPEED) for j in self.joints]
        if s.has("speed") or not all(j in speeds for j in self.joints):
            speed = s.by_joint("speed", self.joints, speed, "rad/s")
        known = model.dof_armature[dofs]
        guess = [float(a) or min(ARMATURE, t / SPINS_UP) for a, t in zip(known, torque, strict=True)]
        armature = guess
        if s.has("armature") or not known.all():
            armature = s.by_joint("armature", self.joints, guess, "kg m^2")
        damping = [float(model.dof_damping[d] + 0.5 * model.dof_frictionloss[d]) for d in dofs]
        if s.has("damping"):
            damping = s.by_joint("damping", self.joints, damping, "N m s/rad")
        whole = inertia - known + np.array(armature)
        kp = [
            self.motors["kp"].get(j, float(f"{BANDWIDTH**2 * m:.3g}")) for j, m in zip(self.joints, whole, strict=True)
        ]
        kd = [
            self.motors["kd"].get(j, float(f"{2.0 * math.sqrt(k * m):.3g}"))
            for j, k, m in zip(self.joints, kp, whole, strict=True)
        ]
        if s.has("kp") or not all(j in self.motors["kp"] for j in self.joints):
            kp = s.by_joint("kp", self.joints, kp, "N m/rad")
        if s.has("kd") or not all(j in self.motors["kd"] for j in self.joints):
            kd = s.by_joint("kd", self.joints, kd, "N m s/rad")
        acceleration = s.by_joint("acceleration", self.joints, [ACCELERATION] * len(dofs), "rad/s^2")
        rate = s.number("torque_rate", RATE * max(torque), "N m/s")
        for name, most, rotor, loss in zip(self.joints, torque, armature, damping, strict=True):
            joint = self.spec.joint(name)
            joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_TRUE
            joint.actfrcrange = [-most, most]
            joint.actgravcomp = True
            joint.armature = rotor
            joint.damping = [loss, 0.0, 0.0]
            joint.frictionloss = 0.0
        gripper = "gripper" if self.fingers else None
        drives = ArmDrives(self.joints, tuple(kp), tuple(kd), tuple(torque), gripper, self.force, self.stroke)
        values = {
            "speed": tuple(speed), "acceleration": tuple(acceleration), "jerk": tuple(JERK * a for a in acceleration),
            "torque_rate": rate, "damping": tuple(damping), "armature": tuple(armature),
        }  # fmt: skip
        return drives, values

    def _exclude(self, found: Postures) -> None:
        poses = [dict(zip(self.joints, q.tolist(), strict=True)) for q in (found.home, found.across, *found.poses)]
        first = self.spec.joint(self.joints[0]).parent.name
        self.spec.add_exclude(bodyname1=BASE, bodyname2=first)  # a base that stands is no parent to MuJoCo
        self.notes += checks.exclude_overlaps(self.source, self.spec, poses, self.settings.raw("exclude") or ())


def _any_number(settings: RobotSettings, name: str) -> float:
    value = settings.raw(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1.0 < value < 1.0:
        raise RookeryError(f"{name} of {settings.path.name} must be a number of m between -1 and 1, got {value!r}.")
    return float(value)


def _each(values: Any) -> tuple[float, ...]:
    return tuple(float(v) for v in values)

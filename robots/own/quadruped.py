"""A quadruped from a URDF or MJCF file: twelve hinges, four feet, and what the file cannot say."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from rookery.assets.go2 import KD, KP, LEGS, add_cameras, add_motor, go2_spec
from rookery.assets.scenery import ground
from rookery.robots.own import checks
from rookery.robots.own.legs import check_family, corners, find_legs, forward, guess_home, mirror_of, same_sides, tip_of
from rookery.robots.own.parts import home_key, keys_of, motors_of, name_all, strip, take_refs
from rookery.robots.own.placeholders import wide_limits, without_placeholders
from rookery.robots.own.reading import BASE, Source, read, stamp
from rookery.robots.own.result import OwnRobot, plain_name
from rookery.robots.own.settings import RobotSettings
from rookery.robots.quadrupeds.go2 import GO2
from rookery.robots.quadrupeds.model import QuadrupedModel
from rookery.robots.quadrupeds.quadruped import add_quadruped, leg_chains
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim.scene import Scene

SETTINGS = (
    "family", "name", "rpy", "home", "swing", "kp", "kd", "torque", "speed", "armature", "damping", "exclude", "foot_radius",
    "mend_inertia",
)  # fmt: skip
SWING = tuple(GO2.swing[:3])  # rad, of hip, thigh and calf
STAND_S = 2.0  # s, of standing on the ground in which the height is measured
CHECK_S = 0.1  # s, between two looks at how high it is
THROWN = 1.5  # of the height at which it stands: more is no matter of standing
DEEP = 0.005  # of the legs' length, overlap of two shapes that throws
UPRIGHT = 0.95  # cosine between the trunk's up and the world's that counts as standing
IMPRATIO = 10.0
_WARN = mujoco.mjtWarning
_DIVERGED = [int(w) for w in (_WARN.mjWARN_BADQPOS, _WARN.mjWARN_BADQVEL, _WARN.mjWARN_BADQACC)]
MOST_TORQUE = 5.0
"""Of a leg's motor, in the robot's weight times its legs' length (a Go2's knee: 0.7), and"""
MOST_SPEED = 20.0
"""in sqrt(g / leg length) (a Go2's hip: 6): beyond these a limit is no motor's, but a number put where one must stand."""


def load_quadruped(path: str | Path, **given: Any) -> OwnRobot[QuadrupedModel]:
    """The quadruped of a URDF or MJCF file, checked.

    Args:
        path: of the file; ``my.toml`` beside ``my.urdf`` may hold settings.
        given: settings, before those of the TOML file, see docs/own_robot.md.

    Raises:
        RookeryError: the file cannot be read, is no quadruped, or has what no robot has; with the way out.
    """
    file = Path(path)
    if given:
        return _load(file, given)
    return _cached(file, stamp(file))


@functools.lru_cache(maxsize=8)
def _cached(file: Path, changed: tuple[int, ...]) -> OwnRobot[QuadrupedModel]:
    return _load(file, {})


def _load(file: Path, given: Mapping[str, Any]) -> OwnRobot[QuadrupedModel]:
    check_family(file, read(file, floating=True).spec)  # before settings, which are another family's then
    settings = RobotSettings(file, given, SETTINGS)
    source = read(file, floating=True, rpy=settings.vector("rpy"))
    return _QuadrupedBuilder(source, settings).build()


class _QuadrupedBuilder:
    """One loading: what is known of the robot so far."""

    def __init__(self, source: Source, settings: RobotSettings) -> None:
        self.source = source
        self.settings = settings
        self.name = plain_name(str(settings.raw("name") or source.name))
        self.notes = list(source.notes)
        self.warnings: list[str] = []
        self.notes += checks.check_mass(source, settings.raw("mend_inertia") is True)
        self.spec = source.spec
        self.motors = motors_of(self.spec, floats=True)
        self.keys = keys_of(self.spec)
        strip(self.spec)
        checks.fuse_static(self.source)
        name_all(self.spec)
        checks.set_contacts(self.spec)
        model = checks.compile_source(source)
        self.notes += checks.check_inertia(model)
        legs = find_legs(source.path, model)
        hinges = [j for leg in legs for j in leg]
        self.joints = tuple(model.joint(j).name for j in hinges)
        checks.check_driven(source, self.joints)
        take_refs(source.path, self.spec, self.joints)
        self.links = tuple(model.body(int(model.jnt_bodyid[j])).name for j in hinges)
        self.mass = float(model.body_mass.sum())
        self.limits = model.jnt_range[hinges].copy()
        free = [n for n, j in zip(self.joints, hinges, strict=True) if not model.jnt_limited[j]]
        self.limits[[self.joints.index(n) for n in free]] = (-math.pi, math.pi)
        if free:
            self.notes.append(f"{len(free)} joints have no limits: from -pi to pi rad is taken.")
        self.warnings += wide_limits(source.path, self.joints, self.limits)
        self._add_feet(model)

    def _add_feet(self, model: mujoco.MjModel) -> None:
        """Balls and sites `FL_foot` ...; a leg that ends in something else gets a ball at its tip."""
        made: list[str] = []
        radii: list[float] = []
        for i, leg in enumerate(LEGS):
            link = self.links[3 * i + 2]
            geom, tip = tip_of(model, model.body(link).id)
            if geom < 0:
                raise RookeryError(
                    f"{self.source.path}: nothing on the link {link!r} at the end of a leg collides: give it or its foot a "
                    "<collision>, best a sphere."
                )
            body = self.spec.body(link)
            old = self.spec.geom(model.geom(geom).name)
            reach = float(np.linalg.norm(tip))
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE and not self.settings.has("foot_radius"):
                foot = old
                radius = float(model.geom_size[geom, 0])
                centre = model.geom_pos[geom]
            else:
                if not made:
                    self.foot_radius = self.settings.number("foot_radius", round(0.06 * reach, 4), "m")
                radius = self.foot_radius
                made.append(leg)
                old.contype = old.conaffinity = 0
                centre = tip * (1.0 - radius / reach)
                foot = body.add_geom(
                    type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0.0, 0.0], pos=list(centre), mass=0.0
                )
            foot.name = f"{leg}_foot"
            _make_foot(foot)
            body.add_site(name=f"{leg}_foot", pos=list(centre), size=[0.005] * 3, group=5)
            radii.append(radius)
        if made:
            self.notes.append(f"legs end in no ball: one of {radii[0]:.3g} m touches the ground at each tip.")
        self.foot_radius = float(np.mean(radii))

    def build(self) -> OwnRobot[QuadrupedModel]:
        model = self.spec.copy().compile()
        s = self.settings
        chains = list(zip(*leg_chains(model, self.joints), strict=True))
        home = self._home(model, chains)
        drop = float(np.mean([-forward(c, home[None, 3 * i : 3 * i + 3])[1][0, 2] for i, c in enumerate(chains)]))
        height = drop + self.foot_radius
        if drop <= 0.0:
            raise RookeryError(
                f"{self.source.path}: at home the feet are above the trunk: z must be up in the root link; give home, or turn "
                "the frame by rpy = [roll, pitch, yaw] (rad) in the settings."
            )
        share = self.mass / GO2.mass
        size = height / GO2.stand_height
        guesses = {"torque": GO2.torque[0] * share * size, "speed": GO2.speed[0] / math.sqrt(size)}
        legs = float(np.mean([np.linalg.norm(offsets[2]) + np.linalg.norm(offsets[3]) for _, offsets, _ in chains]))
        most = MOST_TORQUE * self.mass * GRAVITY * legs, MOST_SPEED * math.sqrt(GRAVITY / legs)
        torques = self.motors.get("torque", {}) | self.source.efforts
        torque = self._limit("torque", torques, guesses["torque"], "N m", most[0])
        speed = self._limit("speed", self.source.speeds, guesses["speed"], "rad/s", most[1])
        kp = s.by_joint("kp", self.joints, self._each("kp", KP * share * size), "N m/rad")
        kd = s.by_joint("kd", self.joints, self._each("kd", KD * share * size**1.5), "N m s/rad")
        swing = s.by_joint("swing", self.joints, SWING * 4, "rad")
        self._finish_joints(model, share * size**2)
        for values in zip(self.joints, torque, speed, kp, kd, strict=True):
            add_motor(self.spec, *values)
        angles = dict(zip(self.joints, home.tolist(), strict=True))
        self.notes += checks.exclude_overlaps(self.source, self.spec, [angles], s.raw("exclude") or ())
        self.spec.body(BASE).add_site(name="imu", size=[0.01] * 3, group=5)
        add_cameras(self.spec.body(BASE), size)
        mirror = mirror_of(_axes(model, chains))
        shift = (round(size * 0.2, 3), round(size * 0.1, 3), round(size * 0.1, 3))
        made = QuadrupedModel(
            name=self.name, spec=self.spec.copy, joints=self.joints, links=self.links, lower=tuple(self.limits[:, 0].tolist()),
            upper=tuple(self.limits[:, 1].tolist()), home=tuple(home.tolist()), swing=tuple(swing), kp=tuple(kp), kd=tuple(kd),
            torque=tuple(torque), speed=tuple(speed), stand_height=height, mass=self.mass, leg_length=legs,
            foot_radius=self.foot_radius, top=_top(model),
            payload=_scaled(GO2.payload, share), typical_payload=_scaled(GO2.typical_payload, share),
            com_shift=shift, typical_shift=round(size * GO2.typical_shift, 4),
            mirror=mirror if mirror is not None and same_sides(mirror, home) else None,
        )  # fmt: skip
        made = _stand(self.source.path, made)
        return OwnRobot(
            made.name, "quadruped", self.source.path, made, tuple(s.guessed), tuple(self.notes), tuple(self.warnings)
        )

    def _each(self, name: str, guess: float) -> list[float]:
        """Values of an MJCF's actuators for each joint, else the guess."""
        known = self.motors.get(name, {})
        return [known.get(j, guess) for j in self.joints]

    def _limit(self, name: str, known: Mapping[str, float], guess: float, unit: str, most: float) -> list[float]:
        """Values of each joint, from the settings, else the file, else the guess. What the file says above `most` is no
        motor's."""
        if not self.settings.has(name):
            instead = f"{guess:.3g} {unit}, a Go2's for this weight and height,"
            known, warnings = without_placeholders(self.source.path, name, known, self.joints, most, instead)
            self.warnings += warnings
        if not self.settings.has(name) and all(j in known for j in self.joints):
            return [known[j] for j in self.joints]
        return self.settings.by_joint(name, self.joints, [known.get(j, guess) for j in self.joints], unit)

    def _home(self, model: mujoco.MjModel, chains: list[Any]) -> np.ndarray:
        if self.settings.has("home"):
            zero = [float(np.clip(0.0, *limits)) for limits in self.limits]
            home = np.array(self.settings.by_joint("home", self.joints, zero, "rad", signed=True))
        elif (key := home_key(self.keys, model, self.joints)) is not None:
            home = key
        else:
            home = np.concatenate([guess_home(c, *self.limits[3 * i : 3 * i + 3].T) for i, c in enumerate(chains)])
            mirror = mirror_of(_axes(model, chains))
            for i, image in enumerate(mirror or ()):
                if i % 6 >= 3:
                    home[i] = math.copysign(1.0, image) * home[abs(image) - 1]
            home = np.round(home, 3)
            self.settings.guess("home", "[" + ", ".join(f"{v:.3g}" for v in home) + "] rad")
        outside = [n for n, q, (low, high) in zip(self.joints, home, self.limits, strict=True) if not low <= q <= high]
        if outside:
            raise RookeryError(
                f"{self.source.path}: home is beyond the limits of {', '.join(outside)}: give another home."
            )
        return home

    def _finish_joints(self, model: mujoco.MjModel, inertia: float) -> None:
        """Limits, the rotors' inertia, and friction as damping, as in assets.go2."""
        known = {n: float(model.dof_armature[model.joint(n).dofadr[0]]) for n in self.joints}
        guesses = [known[n] or 0.004 * inertia for n in self.joints]
        if all(known.values()) and not self.settings.has("armature"):
            armature = guesses
        else:
            armature = self.settings.by_joint("armature", self.joints, guesses, "kg m^2")
        damping = None
        if self.settings.has("damping"):
            damping = self.settings.by_joint("damping", self.joints, [0.1] * len(self.joints), "N m s/rad")
        for i, name in enumerate(self.joints):
            joint = self.spec.joint(name)
            joint.range = list(self.limits[i])
            joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
            joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE  # the motors have their own
            joint.armature = armature[i]
            dof = int(model.joint(name).dofadr[0])
            dry = float(model.dof_frictionloss[dof])
            joint.damping = [float(model.dof_damping[dof]) + dry / 2.0 if damping is None else damping[i], 0.0, 0.0]
            joint.frictionloss = 0.0


def _make_foot(geom: mujoco.MjsGeom) -> None:
    like = _go2_foot()
    geom.contype, geom.conaffinity, geom.group, geom.condim = like.contype, like.conaffinity, like.group, like.condim
    geom.friction, geom.priority, geom.solimp = list(like.friction), like.priority, list(like.solimp)


@functools.cache
def _go2_spec() -> mujoco.MjSpec:
    return go2_spec(visual=False)


def _go2_foot() -> mujoco.MjsGeom:
    return _go2_spec().geom("FL_foot")


def _axes(model: mujoco.MjModel, chains: list[Any]) -> np.ndarray:
    """[12, 3] of the joints in the trunk's frame at angle 0."""
    out = []
    for turns, _, axes in chains:
        turn = np.eye(3)
        for j in range(3):
            turn = turn @ turns[j]
            out.append(turn @ axes[j])
    return np.array(out)


def _top(model: mujoco.MjModel) -> float:
    """m, upper face of the trunk's shapes."""
    base = model.body(BASE).id
    first = int(model.body_geomadr[base])
    solid = [g for g in range(first, first + int(model.body_geomnum[base])) if model.geom_contype[g]]
    return max((float(corners(model, g)[:, 2].max()) for g in solid), default=0.0)


def _scaled(pair: tuple[float, float], share: float) -> tuple[float, float]:
    low, high = (round(share * v, 2) for v in pair)
    return low, high


def _overlap(compiled: mujoco.MjModel, data: mujoco.MjData, name: str) -> tuple[float, str, str] | None:
    """The deepest overlap of the robot's shapes with each other and with the ground in `data`: m, and the names of the two
    bodies, "world" first for the ground. None without one."""
    mujoco.mj_forward(compiled, data)
    names = [compiled.body(int(b)).name.removeprefix(f"{name}/") for b in compiled.geom_bodyid]
    found = [(-c.dist, *sorted((names[c.geom1], names[c.geom2]), key="world".__ne__)) for c in data.contact]
    return max(found, default=None)


def _thrown(path: Path, model: QuadrupedModel, what: str, overlap: tuple[float, str, str] | None) -> str:
    """Why a robot that is put down at its home does not stay on the ground.

    Args:
        what: happens to it.
        overlap: see `_overlap`.
    """
    if overlap is not None and overlap[0] > DEEP * model.leg_length:
        depth, one, other = overlap
        if one == "world":
            return (
                f"{path}: put down at home {what}: the shapes of {other} reach {1e3 * depth:.0f} mm below its feet, into the "
                "ground. Mend them, or give another home."
            )
        return (
            f"{path}: put down at home {what}: the shapes of {one} and {other} overlap by {1e3 * depth:.0f} mm there, and push "
            f'each other away. Mend them, give another home, or take the pair out by exclude = [["{one}", "{other}"]].'
        )
    compiled = model.spec().compile()
    inertia = 1.0 / compiled.dof_invweight0[[int(compiled.joint(j).dofadr[0]) for j in model.joints]]
    stiff = int(np.argmax(np.array(model.kp) / inertia))
    motor = (
        f"the motor of {model.joints[stiff]} moves {inertia[stiff]:.2g} kg m^2 with kp = {model.kp[stiff]:.3g} N m/rad"
    )
    return (
        f"{path}: put down at home {what}, and no shapes overlap: {motor}, too little for physics steps of 5 ms. Mend its "
        "links' inertias, or give a larger armature or a smaller kp."
    )


def _stand(path: Path, model: QuadrupedModel) -> QuadrupedModel:
    """The model with the height at which it stands, measured.

    Raises:
        RookeryError: it does not stand.
    """

    def floor() -> mujoco.MjSpec:
        spec = ground()
        spec.option.impratio = IMPRATIO
        return spec

    compiled = add_quadruped(Scene(floor, dt=0.005), model).compile()
    data = mujoco.MjData(compiled)
    for joint, angle in zip(model.joints, model.home, strict=True):
        data.joint(f"{model.name}/{joint}").qpos[0] = angle
        data.actuator(f"{model.name}/{joint}").ctrl[0] = angle
    trunk = data.body(f"{model.name}/{BASE}")
    overlap = _overlap(compiled, data, model.name)
    highest = 0.0
    for _ in range(round(STAND_S / CHECK_S)):
        mujoco.mj_step(compiled, data, round(CHECK_S / 0.005))
        highest = max(highest, float(trunk.xpos[2]))
    if data.warning.number[_DIVERGED].any():
        raise RookeryError(_thrown(path, model, "its simulation diverges", overlap))
    if highest > THROWN * model.stand_height:
        raise RookeryError(_thrown(path, model, f"it is thrown {highest:.2f} m high", overlap))
    up, height = float(trunk.xmat[8]), float(trunk.xpos[2])
    tilt = math.degrees(math.acos(min(1.0, max(-1.0, up))))
    sunk = 1.0 - height / model.stand_height
    if not (up > UPRIGHT and sunk < 0.3 and np.isfinite(data.qpos).all()):
        raise RookeryError(
            f"{path}: it does not stand at home: after {STAND_S:g} s its trunk is {height:.2f} m high in place of "
            f"{model.stand_height:.2f} m and tilts by {tilt:.0f} degrees. Give a home at "
            f"which its feet surround its weight, larger kp (now {model.kp[0]:.3g} N m/rad) or torque (now "
            f"{model.torque[0]:.3g} N m)."
        )
    return replace(model, stand_height=round(height, 4))

"""A drone of four rotors from a URDF, MJCF or SDF file: mass, inertia and places of the rotors.

The rotors' thrust is a setting, or what the motors of an SDF say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.robots.drones.hummingbird import HUMMINGBIRD
from rookery.robots.own import checks
from rookery.robots.own.legs import corners
from rookery.robots.own.parts import is_rotor, name_all, strip
from rookery.robots.own.reading import BASE, Source, read, stamp
from rookery.robots.own.result import OwnRobot, plain_name
from rookery.robots.own.sdf import SdfMotor
from rookery.robots.own.settings import RobotSettings
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY, CascadeGains, DroneParameters, Triple

SETTINGS = (
    "family", "name", "rpy", "rotors", "directions", "max_thrust", "torque_ratio", "tau", "propeller_radius", "max_tilt",
    "max_velocity", "mend_inertia",
)  # fmt: skip
MARK = "rookery_rotor_"  # names of the sites at the rotors
DIRECTIONS = (-1, 1, -1, 1)
"""Signs of the reaction torques, clockwise from the front right, as a Crazyflie's."""
CROSS_TERM = 0.05  # of the smallest moment: up to this, axes that are not the principal ones are taken for them

Floats = NDArray[np.float64]


def load_drone(path: str | Path, **given: Any) -> OwnRobot[DroneParameters]:
    """The drone of a URDF, MJCF or SDF file, checked.

    Args:
        path: of the file; ``my.toml`` beside ``my.urdf`` may hold settings.
        given: settings, before those of the TOML file, see docs/own_robot.md.

    Raises:
        RookeryError: the file cannot be read, is no drone, or has what no drone has; with the way out.
    """
    file = Path(path)
    return _load(file, given) if given else _cached(file, stamp(file))


@functools.lru_cache(maxsize=8)
def _cached(file: Path, changed: tuple[int, ...]) -> OwnRobot[DroneParameters]:
    return _load(file, {})


def _load(file: Path, given: Mapping[str, Any]) -> OwnRobot[DroneParameters]:
    _check_family(file, read(file, floating=True).spec)  # before settings, which are another family's then
    s = RobotSettings(file, given, SETTINGS)
    source = read(file, floating=True, rpy=s.vector("rpy"))
    notes = [*source.notes, "it is drawn as an airframe of its size; its own meshes are left out."]
    strip(source.spec)
    marked = _mark_rotors(source)
    for joint in _moved(source.spec):
        source.spec.delete(joint)  # the engine has the rotors' own motion
    notes += checks.check_mass(source, s.raw("mend_inertia") is True)
    checks.fuse_static(source)
    model = checks.compile_source(source)
    notes += checks.check_inertia(model)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    mass, centre, tensor = _whole(model, data)
    rotors = _rotors(s, model, data) - centre
    order = sorted(
        range(4), key=lambda i: -math.atan2(rotors[i, 1], rotors[i, 0]) % math.tau
    )  # from ahead to the right
    rotors = rotors[order]
    motors = _motors(s, source, [marked[i] for i in order] if not s.has("rotors") else [])
    directions = s.raw("directions")
    if directions is None and motors:
        directions = tuple(m.direction for m in motors)
    if directions is None:
        s.guess("directions", f"{list(DIRECTIONS)}, clockwise from the front right")
        directions = DIRECTIONS
    moments = _moments(file, tensor)
    gap = min(float(np.linalg.norm(rotors[i] - rotors[j])) for i in range(4) for j in range(i))
    radius = s.number("propeller_radius", round(0.4 * gap, 4), "m")
    stated = motors[0] if motors else None
    thrust = _stated(s, "max_thrust", None if stated is None else stated.thrust, round(0.5 * mass * GRAVITY, 4), "N")
    ratio = _stated(s, "torque_ratio", None if stated is None else stated.ratio, round(0.16 * radius, 5), "m")
    tau_up = _stated(s, "tau", None if stated is None else stated.tau_up, 0.04, "s")
    tau_down = _stated(s, "tau", None if stated is None else stated.tau_down, 0.04, "s")
    body_radius, body_height = _size(model, centre, rotors)
    name = plain_name(str(s.raw("name") or source.name))
    made = DroneParameters(
        name=name, mass=round(mass, 6), inertia=moments, rotor_positions=tuple(_triple(r) for r in rotors),
        directions=tuple(directions), thrust_curve=(0.0, 0.0, thrust), torque_curve=(0.0, 0.0, ratio * thrust),
        tau_up=tau_up, tau_down=tau_down, propeller_radius=radius, body_radius=body_radius, body_height=body_height,
        max_rate=HUMMINGBIRD.max_rate, max_tilt=s.number("max_tilt", HUMMINGBIRD.max_tilt, "rad"),
        max_velocity=s.number("max_velocity", HUMMINGBIRD.max_velocity, "m/s"), gains=HUMMINGBIRD.gains, look="iris",
    )  # fmt: skip
    if made.thrust_to_weight <= 1.0:
        raise RookeryError(
            f"{file} does not fly: its rotors give at most {4 * thrust:.4g} N, and its {mass:.4g} kg weigh "
            f"{mass * GRAVITY:.4g} N: raise max_thrust (N, of one rotor)."
        )
    made = _with_gains(made)
    return OwnRobot(made.name, "drone", file, made, tuple(s.guessed), tuple(notes))


def _motors(s: RobotSettings, source: Source, links: list[str]) -> list[SdfMotor]:
    """Parameters that the motors of these links state, where they all do; empty where none does."""
    found = [source.motors[name] for name in links if name in source.motors]
    if not found:
        return []
    if len(found) != len(links):
        missing = [name for name in links if name not in source.motors]
        raise RookeryError(f"{source.path} has motors, but none for {', '.join(missing)}: give each rotor one.")
    first = found[0]
    for m in found:
        pairs = (
            (m.thrust, first.thrust),
            (m.ratio, first.ratio),
            (m.tau_up, first.tau_up),
            (m.tau_down, first.tau_down),
        )
        if not all(math.isclose(a, b, rel_tol=0.01) for a, b in pairs):
            raise RookeryError(
                f"the motors of {source.path} differ, and a drone here has four alike: give them the same constants, or leave "
                "them out and give max_thrust, torque_ratio and tau in the settings."
            )
    return found


def _stated(s: RobotSettings, name: str, stated: float | None, guess: float, unit: str) -> float:
    """A setting, else what the file states (above 0), else the guess, which is told once."""
    if not s.has(name) and stated:
        return stated
    if not s.has(name) and any(g.startswith(f"{name} = ") for g in s.guessed):
        return guess
    return s.number(name, guess, unit)


def _mark_rotors(source: Source) -> list[str]:
    """Name all parts, and put a site at each rotor: the file's own sites, else the origins of the rotors' links; where
    all of these are one, the places that their <inertial>s give. Gives the names of sites or links."""
    sites = [site for site in source.spec.sites if is_rotor(site.name)]
    links = [] if sites else [b for b in source.spec.bodies if is_rotor(b.name) and b.name != BASE]
    at_once = len({(b.parent.name, *np.round(b.pos, 6)) for b in links}) == 1 < len(links)
    places = [source.centres.get(b.name, (0.0, 0.0, 0.0)) if at_once else (0.0, 0.0, 0.0) for b in links]
    names = [part.name for part in (sites or links)]
    name_all(source.spec)
    sites += [body.add_site(pos=list(place)) for body, place in zip(links, places, strict=True)]
    for i, site in enumerate(sites):
        site.name = f"{MARK}{i}"
    return names


def _moved(spec: mujoco.MjSpec) -> list[mujoco.MjsJoint]:
    return [j for j in spec.joints if j.type != mujoco.mjtJoint.mjJNT_FREE]


def _check_family(file: Path, spec: mujoco.MjSpec) -> None:
    for joint in _moved(spec):
        if not is_rotor(joint.parent.name):
            raise RookeryError(
                f"{file} is no drone that tasks here know: joint {joint.name!r} moves something else than a rotor (a link "
                "called rotor, prop or motor): fix it in the file, or use the robot for what it is (docs/own_robot.md)."
            )


def _triple(values: Floats) -> Triple:
    x, y, z = (round(float(v), 6) for v in values)
    return x, y, z


def _whole(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[float, Floats, Floats]:
    """Mass (kg), centre of mass (m, root's frame) and inertia tensor (kg m^2) about it, of all bodies together."""
    base = data.body(BASE)
    turn = base.xmat.reshape(3, 3)
    mass = float(model.body_mass.sum())
    centre = (model.body_mass[:, None] * data.xipos).sum(0) / mass
    tensor = np.zeros((3, 3))
    for b in range(1, model.nbody):
        axes = data.ximat[b].reshape(3, 3)
        r = data.xipos[b] - centre
        tensor += axes @ np.diag(model.body_inertia[b]) @ axes.T
        tensor += model.body_mass[b] * (r @ r * np.eye(3) - np.outer(r, r))
    return mass, turn.T @ (centre - base.xpos), turn.T @ tensor @ turn


def _rotors(s: RobotSettings, model: mujoco.MjModel, data: mujoco.MjData) -> Floats:
    """[4, 3] m, root's frame."""
    given = s.raw("rotors")
    if given is not None:
        try:
            out = np.array(given, dtype=float)
        except (TypeError, ValueError):
            out = np.zeros(0)
        if out.shape != (4, 3) or not np.isfinite(out).all():
            raise RookeryError(f"rotors of {s.path.name} must be four places [x, y, z] in m, got {given!r}.")
        return out
    base = data.body(BASE)
    turn = base.xmat.reshape(3, 3)
    marked = [i for i in range(model.nsite) if model.site(i).name.startswith(MARK)]
    marked.sort(key=lambda i: int(model.site(i).name.removeprefix(MARK)))
    places = [turn.T @ (data.site_xpos[i] - base.xpos) for i in marked]
    if len(places) != 4:
        raise RookeryError(
            f"{s.path}: {len(places)} links are called rotor, prop or motor, and a drone here has four: name them so, or give "
            "rotors = [[x, y, z], ...] (m, root link's frame) in the settings."
        )
    return np.array(places)


def _moments(file: Path, tensor: Floats) -> Triple:
    """kg m^2, about the body axes."""
    diagonal = np.diag(tensor)
    cross = float(np.abs(tensor - np.diag(diagonal)).max())
    if cross > CROSS_TERM * float(diagonal.min()):
        raise RookeryError(
            f"{file}: the products of inertia of the whole drone reach {cross:.3g} kg m^2, and its axes must be principal "
            "ones: x forward, y left, z up, and a symmetric frame."
        )
    x, y, z = (float(v) for v in diagonal)
    return x, y, z


def _size(model: mujoco.MjModel, centre: Floats, rotors: Floats) -> tuple[float, float]:
    """m, radius and height of the collision cylinder: of what collides, else to the rotors."""
    base = model.body(BASE).id
    points = [corners(model, g) for g in range(model.ngeom) if model.geom_contype[g] and model.geom_bodyid[g] == base]
    if not points:
        return float(np.linalg.norm(rotors[:, :2], axis=1).max()), 0.2 * float(np.linalg.norm(rotors[0, :2]))
    all_points = np.concatenate(points) - centre
    radius = max(
        float(np.linalg.norm(all_points[:, :2], axis=1).max()), float(np.linalg.norm(rotors[:, :2], axis=1).max())
    )
    return round(radius, 4), round(2.0 * max(float(np.abs(all_points[:, 2]).max()), 0.01 * radius), 4)


def _authority(d: DroneParameters) -> Floats:
    """[3] rad/s^2 about x, y and z of all rotors' commands moved by 1 against each other, in hover."""
    slope = d.thrust_curve[1] + 2.0 * d.thrust_curve[2] * d.hover_speed
    twist = d.torque_curve[1] + 2.0 * d.torque_curve[2] * d.hover_speed
    places = np.abs(np.array(d.rotor_positions))
    return np.array([places[:, 1].sum() * slope, places[:, 0].sum() * slope, 4.0 * twist]) / np.array(d.inertia)


def _with_gains(d: DroneParameters) -> DroneParameters:
    """The Hummingbird's loops, made as fast as this drone's rotors allow: its rate loops' crossover times the rotors' lag, and
    the outer loops' gains likewise."""
    pace = HUMMINGBIRD.tau_up / d.tau_up
    rate = pace * _authority(HUMMINGBIRD) / _authority(d)
    g = HUMMINGBIRD.gains
    slow = min(1.0, pace)

    def times(values: Triple, factor: Floats | float) -> Triple:
        x, y, z = (float(v) for v in np.array(values) * factor)
        return x, y, z

    gains: CascadeGains = g._replace(
        rate_kp=times(g.rate_kp, rate), rate_ki=times(g.rate_ki, slow * rate), rate_kd=times(g.rate_kd, rate / pace),
        attitude_kp=times(g.attitude_kp, slow), attitude_ki=times(g.attitude_ki, slow**2),
        velocity_kp=times(g.velocity_kp, slow), velocity_ki=times(g.velocity_ki, slow**2),
        position_kp=times(g.position_kp, slow), max_tilt=d.max_tilt, max_velocity=d.max_velocity,
    )  # fmt: skip
    return replace(d, gains=gains)

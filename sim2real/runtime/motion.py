"""Motions that a jointed robot follows in a policy's place, behind the same safety filter and with the same log: such as those
that `rookery sysid --design` writes, whose logs it identifies.

The robot is held by its trunk, clear of everything. Its contract is the bundle's, but for the drives' gains, the control period
and the range of commands: the motion's gains and rate, and the joints' own limits.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.quantities import joint_angles, joint_velocities
from rookery.sim.untrusted import read_npz
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.links.joints import JointTargets
from rookery.sim2real.runtime.controller import Controller, group_of
from rookery.sim2real.runtime.onnx_controller import read_contract
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.runtime.settings import family_of

UNEVEN = 0.01  # of a period, by which times of samples may differ from a fixed rate
NEAR_HOME_RAD = 0.1  # rad, from home where a motion begins and ends: there the entry leaves the joints
MOST_GAIN = 5.0  # of the contract's, above which gains are those of another robot, or in other units
SLOWEST_HZ, FASTEST_HZ = 20.0, 1000.0


@dataclass(frozen=True)
class JointMotion:
    """See the module.

    Args:
        name: of its file, for messages.
        dt: s, between samples.
        target: [T, J] rad.
        joints: names [J].
        kp, kd: [J] N m/rad and N m s/rad, of the drives.
        robot: its name; "" where the file tells none.
    """

    name: str
    dt: float
    target: NDArray[np.float64]
    joints: tuple[str, ...]
    kp: NDArray[np.float64]
    kd: NDArray[np.float64]
    robot: str = ""

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.target) * self.dt


def read_motion(path: Path) -> JointMotion:
    """A motion of a file, .npz with `time` [T] s, `target` [T, J] rad, `joints` [J], `kp` and `kd` [J], and `robot`.

    Raises:
        RookeryError: it cannot be read, or is no motion.
    """
    if not path.is_file():
        raise RookeryError(f"there is no motion {path}: write one with `rookery sysid --design ROBOT --motion {path}`.")
    try:
        arrays = read_npz(path)
    except (OSError, ValueError) as error:
        raise RookeryError(
            f"{path} is no motion ({error}): --motion takes a file of `rookery sysid --design`."
        ) from None
    missing = [name for name in ("time", "target", "joints", "kp", "kd") if name not in arrays]
    if missing:
        raise RookeryError(f"{path} is no motion, it lacks {', '.join(missing)}: docs/sysid.md says what it has.")
    names = tuple(str(name) for name in arrays["joints"].ravel())
    try:
        time, target, kp, kd = (np.asarray(arrays[name], float) for name in ("time", "target", "kp", "kd"))
    except ValueError:
        raise RookeryError(f"{path} is no motion: its times, targets and gains must be numbers.") from None
    shapes = {"time": time.shape[:1], "target": (*time.shape[:1], len(names)), "kp": (len(names),), "kd": (len(names),)}
    for name, values in (("time", time), ("target", target), ("kp", kp), ("kd", kd)):
        if values.shape != shapes[name] or not values.size or not np.isfinite(values).all():
            raise RookeryError(
                f"{path}: {name} must be finite numbers of the shape {shapes[name]}, got one of {values.shape}."
            )
    steps = np.diff(time)
    dt = round(float(steps.mean()), 9) if len(steps) else 0.0
    if not (1.0 / FASTEST_HZ <= dt <= 1.0 / SLOWEST_HZ and np.abs(steps - dt).max() <= UNEVEN * dt):
        raise RookeryError(f"{path}: times must go up by equal steps, at {SLOWEST_HZ:g} to {FASTEST_HZ:g} Hz.")
    robot = str(arrays["robot"]) if "robot" in arrays else ""
    return JointMotion(str(path), dt, target, names, kp, kd, robot)


def motion_contract(contract: Contract, group: str, motion: JointMotion) -> Contract:
    """The contract of a robot that follows a motion.

    Raises:
        RookeryError: the motion is for another robot, or leaves its limits.
    """
    of = contract.groups[group]
    if family_of(of) != "joints":
        raise RookeryError(
            f"motions are for robots whose drives take angles and gains, and the bundle's is of the family {family_of(of)}."
        )
    JointTargets(of)  # refuses other ways from a command to the drives
    assert of.actuation is not None
    joints = {joint.name: joint for joint in of.actuation.joints}
    known = contract.task_config.get("robot", motion.robot)
    if set(motion.joints) != set(joints) or (motion.robot and known != motion.robot):
        raise RookeryError(
            f"{motion.name} is for {motion.robot or 'a robot'} with the joints {', '.join(motion.joints)}, and the bundle for "
            f"{known or 'one'} with {', '.join(joints)}."
        )
    _check_limits(of, motion)
    moved = tuple(
        dataclasses.replace(joints[name], kp=float(kp), kd=float(kd))
        for name, kp, kd in zip(motion.joints, motion.kp, motion.kd, strict=True)
    )
    action = dataclasses.replace(
        of.spec.action, names=motion.joints, low=tuple(j.lower for j in moved), high=tuple(j.upper for j in moved),
        units=("rad",) * len(moved), neutral=(0.0,) * len(moved),
    )  # fmt: skip
    changed = dataclasses.replace(
        of,
        spec=dataclasses.replace(of.spec, action=action),
        actuation=dataclasses.replace(of.actuation, joints=moved),
        stages=None,
    )
    robot = {"robot": motion.robot} if motion.robot else {}
    return dataclasses.replace(
        contract, control_dt=motion.dt, groups={group: changed}, task_config={**contract.task_config, **robot}
    )


def _check_limits(of: ContractGroup, motion: JointMotion) -> None:
    assert of.actuation is not None
    joints = {joint.name: joint for joint in of.actuation.joints}
    speeds = np.abs(np.diff(motion.target, axis=0)).max(axis=0) / motion.dt
    for i, name in enumerate(motion.joints):
        joint, way = joints[name], motion.target[:, i]
        if way.min() < joint.lower or way.max() > joint.upper:
            raise RookeryError(
                f"{motion.name} moves {name} from {way.min():.2f} to {way.max():.2f} rad, and its limits are {joint.lower:.2f} "
                f"and {joint.upper:.2f}: design it for this robot."
            )
        if joint.no_load_speed is not None and speeds[i] > joint.no_load_speed:
            raise RookeryError(
                f"{motion.name} moves {name} at up to {speeds[i]:.1f} rad/s, and its motor makes {joint.no_load_speed:.1f}."
            )
        ends = max(abs(way[0] - joint.home), abs(way[-1] - joint.home))
        if ends > NEAR_HOME_RAD:
            raise RookeryError(
                f"{motion.name} begins or ends {ends:.2f} rad from where {name} is at home: it must be within "
                f"{NEAR_HOME_RAD:g} rad."
            )
        for given, own, unit in ((motion.kp[i], joint.kp, "N m/rad"), (motion.kd[i], joint.kd, "N m s/rad")):
            if not 0.0 <= given <= MOST_GAIN * own:
                raise RookeryError(
                    f"{motion.name} has a gain of {given:g} {unit} for {name}, and this robot's is {own:g}: it may be 0 to "
                    f"{MOST_GAIN:g} times as large."
                )


class MotionController(Controller):
    """Plays a motion, a sample at each control step.

    Args:
        folder: a bundle, or a contract, of the robot.
        group: of its contract; None for the only one.
        motion: see JointMotion.

    Raises:
        RookeryError: see `motion_contract`.
    """

    def __init__(self, folder: Path | str, group: str | None, motion: JointMotion) -> None:
        contract = read_contract(Path(folder))
        self.group = group_of(contract, group)
        self.contract = motion_contract(contract, self.group, motion)
        self.spec = self.contract.groups[self.group]
        count = len(motion.joints)
        self.wanted = [joint_angles(count), joint_velocities(count)]
        self.action = np.zeros(count, np.float32)
        self._target: Array = motion.target.astype(np.float32)
        self._next = 0

    def begin(self) -> None:
        """Begin at the first sample."""
        self._next = 0

    def step(self, values: Any) -> Array:
        """[J] rad, the next sample; the last one behind the end."""
        target = self._target[min(self._next, len(self._target) - 1)]
        self._next += 1
        return target.copy()

"""Motions that make parameters visible: Fourier series within the joints' limits, chosen by the condition of what they show.

Each joint follows a sum of sines about its home, with a soft beginning and end (Swevers et al., "Optimal robot excitation and
identification", IEEE Trans. Robotics and Automation 13, 1997). Of some random series, the one is taken whose Jacobian, in
units of `FitParameter.size`, has the least ratio of its greatest singular value to its least one among what can be seen at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.sysid.jointed.parameters import joint_parameters
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.robot import JointedRobot
from rookery.sim2real.sysid.logs import JointLog

Array = NDArray[np.float64]
RATE = 200.0  # Hz, of the targets
BASE_HZ = 0.15
HIGHEST_HZ = 2.5
MOST_RAD = 0.5
"""rad, farthest from home, however far the limits are."""
RANGE, SPEED = 0.8, 0.5
"""Shares of the way from home to the nearer limit, and of the motor's speed, that a motion uses."""
FADE_S = 1.0
CANDIDATES = 8
NOISE_RAD = 1e-3
"""rad, standard deviation of encoders and model, for the expected intervals."""
SHOWN = 1e-3
"""Least singular value, of the greatest, of a combination that counts as visible: servo and joint damping never are apart."""
NOT_DESIGNED = ("motor_strength", "motor_speed", "kd")
"""Left out of the choice: limits that a gentle motion does not reach, and what cannot be told from viscous friction."""
FRICTION_NM = 0.2
"""N m, of the model that is excited: without any, derivatives to it are those of a joint at rest."""


@dataclass(frozen=True)
class Design:
    """A motion.

    Args:
        time: [T] s. target: [T, J] rad.
        condition: ratio of singular values. expected: half of the 95 % interval to be expected, by parameter, at NOISE_RAD of
            white noise.
    """

    time: Array
    target: Array
    condition: float
    expected: dict[str, float]


def design(
    robot: JointedRobot, kp: Array, kd: Array, seconds: float = 20.0, seed: int = 0, fit: Collection[str] | None = None
) -> Design:
    """The best of CANDIDATES motions.

    Args:
        robot: the model.
        kp, kd: [J] N m/rad and N m s/rad, of the drives.
        seconds: of the motion, 4 to 120.
        seed: of the candidates.
        fit: quantities that shall be seen; None for all.

    Raises:
        RookeryError: an unknown quantity, or a time out of range.
    """
    if not 4.0 <= seconds <= 120.0:
        raise RookeryError(f"a motion takes 4 to 120 s, got {seconds:g}: change --seconds.")
    parameters = tuple(p for p in joint_parameters(robot, fit) if p.quantity not in NOT_DESIGNED)
    if not parameters:
        raise RookeryError(f"no motion is designed for {', '.join(fit or ())}: name other quantities with --fit.")
    size = np.array([p.size for p in parameters])
    x = np.array([max(p.nominal, FRICTION_NM) if p.quantity == "friction" else p.nominal for p in parameters])
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    best: Design | None = None
    for _ in range(CANDIDATES):
        target = series(robot, time, rng)
        log = JointLog("design", robot.joints, time, target, target, kp, kd)
        jacobian = JointProblem(robot, log, parameters).jacobian(x)[1] * size / NOISE_RAD
        values = np.linalg.svd(jacobian, compute_uv=False)
        shown = values[values > SHOWN * values[0]]
        condition = float(shown[0] / shown[-1]) * 10.0 ** (len(values) - len(shown))
        if best is None or condition < best.condition:
            prior = np.diag([0.0 if p.prior is None else (p.size / p.prior) ** 2 for p in parameters])
            spread = np.sqrt(np.diag(np.linalg.pinv(jacobian.T @ jacobian + prior, hermitian=True)))
            expected = {p.name: float(1.96 * s * p.size) for p, s in zip(parameters, spread, strict=True)}
            best = Design(time, target, condition, expected)
    assert best is not None
    return best


def series(robot: JointedRobot, time: Array, rng: np.random.Generator) -> Array:
    """[T, J] rad, a random Fourier series of each joint, within limits of position and speed."""
    count = max(2, round(HIGHEST_HZ / BASE_HZ))
    frequency = BASE_HZ * np.arange(1, count + 1)
    size = rng.standard_normal((count, 2, len(robot.joints))) / np.sqrt(frequency)[:, None, None]
    phase = 2.0 * math.pi * frequency[:, None] * time
    wave = np.einsum("kt,kj->tj", np.sin(phase), size[:, 0]) + np.einsum("kt,kj->tj", np.cos(phase), size[:, 1])
    edge = np.clip(np.minimum(time, time[-1] - time) / FADE_S, 0.0, 1.0)
    wave *= (edge**2 * (3.0 - 2.0 * edge))[:, None]
    room = np.minimum(RANGE * np.minimum(robot.home - robot.lower, robot.upper - robot.home), MOST_RAD)
    speed = np.abs(np.gradient(wave, time, axis=0)).max(axis=0)
    scale = np.minimum(room / np.abs(wave).max(axis=0), SPEED * np.minimum(robot.speed, 2.0 * math.pi) / speed)
    return np.asarray(robot.home + np.maximum(scale, 0.0) * wave)


def save(path: Path, robot: JointedRobot, kp: Array, kd: Array, found: Design) -> None:
    """Write a motion: NumPy's .npz with `time`, `target`, `joints`, `kp`, `kd` and `robot`.

    Raises:
        RookeryError: it cannot be written.
    """
    _savez(
        path,
        time=found.time,
        target=found.target,
        joints=np.array(robot.joints),
        kp=kp,
        kd=kd,
        robot=np.array(robot.name),
    )


def rehearse(path: Path, robot: JointedRobot, kp: Array, kd: Array, found: Design, seed: int = 0) -> dict[str, float]:
    """Write the log of a simulated robot that follows a motion, with parameters drawn about the nominal ones, and encoders'
    noise; returns the parameters."""
    parameters = joint_parameters(robot, ("armature", "damping", "friction", "delay"))
    rng = np.random.default_rng(seed)
    x = np.array([p.nominal * rng.uniform(0.7, 1.5) + 2.0 * p.size * rng.uniform(0.2, 1.5) for p in parameters])
    log = JointLog("rehearsal", robot.joints, found.time, found.target, found.target, kp, kd)
    angles = JointProblem(robot, log, parameters, window=math.inf).predict(x[None])[0]
    position = np.vstack((found.target[:1], angles)) + 0.5 * NOISE_RAD * rng.standard_normal(found.target.shape)
    _savez(
        path, time=found.time, position=position, target=found.target, joints=np.array(robot.joints), kp=kp, kd=kd,
        robot=np.array(robot.name),
    )  # fmt: skip
    return {p.name: float(v) for p, v in zip(parameters, x, strict=True)}


def _savez(path: Path, **arrays: NDArray[np.generic]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise RookeryError(f"cannot write {path}: {error.strerror}.") from error

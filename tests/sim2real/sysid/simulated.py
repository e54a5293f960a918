"""Logs of a leg with known parameters, simulated by an engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray

from rookery.sim.engines import make_world
from rookery.sim.scene import Scene
from rookery.sim2real.sysid.held import held
from rookery.sim2real.sysid.jointed.robot import JointedRobot, make_robot
from rookery.sim2real.sysid.logs import JointLog

Array = NDArray[np.float64]
JOINTS = ("hip", "thigh", "calf")
LIMIT, TORQUE, SPEED = (3.0,) * 3, (25.0, 25.0, 40.0), (30.0, 30.0, 20.0)
KP, KD = (20.0, 20.0, 20.0), (1.0, 1.0, 1.0)
PERIOD = 0.005  # s, of samples
STEP = 0.00025  # s, of the physics


@dataclass(frozen=True)
class Truth:
    """Parameters of the simulated leg; the nominal leg has the defaults."""

    armature: tuple[float, float, float] = (0.01, 0.01, 0.01)
    damping: tuple[float, float, float] = (0.1, 0.1, 0.1)
    friction: tuple[float, float, float] = (0.0, 0.0, 0.0)
    kp: tuple[float, float, float] = (1.0, 1.0, 1.0)
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    delay: float = 0.0


@dataclass(frozen=True)
class Motion:
    """Sines of each joint: amplitudes rad, frequencies Hz."""

    seconds: float = 12.0
    seed: int = 0
    amplitude: float = 0.35
    frequencies: tuple[float, ...] = field(default=(0.4, 0.9, 1.7))

    def targets(self) -> tuple[Array, Array]:
        """Times [T] s and targets [T, 3] rad."""
        rng = np.random.default_rng(self.seed)
        time = np.arange(round(self.seconds / PERIOD)) * PERIOD
        out = np.tile(np.array([0.0, 0.7, -1.4]), (len(time), 1))
        for f in self.frequencies:
            phase, scale = rng.uniform(0, 2 * np.pi, 3), self.amplitude * rng.uniform(0.5, 1.0, 3)
            out += scale * np.sin(2 * np.pi * f * rng.uniform(0.9, 1.1, 3) * time[:, None] + phase)
        return time, out


def leg(truth: Truth = Truth()) -> mujoco.MjSpec:
    """A fixed hip with a thigh and a calf of 0.2 m each, and position servos."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    body = spec.worldbody
    links = (((0, 0, 0), (1, 0, 0), 0.6, (0, 0.03, 0)), ((0, 0.08, 0), (0, 1, 0), 1.0, (0, 0, -0.05)),
             ((0, 0, -0.2), (0, 1, 0), 0.25, (0, 0, -0.1)))  # fmt: skip
    for i, (name, (place, axis, mass, com)) in enumerate(zip(JOINTS, links, strict=True)):
        body = body.add_body(name=name, pos=list(place))
        body.explicitinertial = True
        body.mass, body.ipos, body.inertia = mass, list(com), [0.004 * mass, 0.004 * mass, 0.001]
        joint = body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=list(axis))
        # Bullet's servo and damping take velocities of half a step before: as if there were h/2 (kd + damping) less inertia
        joint.armature = truth.armature[i] + 0.5 * STEP * (KD[i] + truth.damping[i])
        joint.damping = [truth.damping[i], 0, 0]
        joint.frictionloss = truth.friction[i]
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_dcmotor(
            motorconst=[0.0, 0.0], resistance=0.0, nominal=[1.0, TORQUE[i], SPEED[i]], saturation=[TORQUE[i], 0.0, 0.0],
            ctrlspec=int(mujoco.mjtCtrlInput.mjINPUT_POS),
            controller=[KP[i] * truth.kp[i], 0.0, KD[i], 0.0, 0.0, 1.0],
        )  # fmt: skip
    return spec


def nominal_leg() -> JointedRobot:
    """The model that is fitted."""
    low = tuple(-v for v in LIMIT)
    return make_robot("leg", "quadruped", leg(), JOINTS, JOINTS, low, LIMIT, TORQUE, SPEED, KP, KD, (0.0, 0.7, -1.4))


def log_of(truth: Truth, motion: Motion, engine: str = "pybullet", noise: float = 5e-4) -> JointLog:
    """What encoders with white noise (rad) read while the leg follows a motion."""
    scene = Scene(dt=STEP)
    scene.add(lambda: leg(truth), "leg")
    names = [f"leg/{j}" for j in JOINTS]
    time, target = motion.targets()
    world = make_world(engine, scene, 1)
    joints, actuators = world.joints(names), world.actuators(names)
    first = torch.tensor([0])
    joints.set_state(first, torch.tensor(target[:1], dtype=torch.float32), torch.zeros(1, 3))
    each = round(PERIOD / STEP)
    # a leapfrog's force is of its moment, from half a step before to half a step after it
    sent = held(time, target, (np.arange(len(time) * each + 1) - 0.5) * STEP - truth.delay)
    sent = sent + np.array(truth.bias) / (np.array(KP) * np.array(truth.kp))
    position = [target[0]]
    for k in range(len(time) - 1):
        actuators.set_control(torch.tensor(sent[None, k * each : (k + 1) * each], dtype=torch.float32))
        world.step(each)
        position.append(joints.pos[0].double().numpy().copy())
    drawn = np.random.default_rng(motion.seed + 1).standard_normal((len(time), 3))
    return JointLog(
        f"{engine} {motion.seed}", JOINTS, time, np.array(position) + noise * drawn, target, np.array(KP), np.array(KD)
    )

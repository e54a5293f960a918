"""A quadruped in N worlds, alone or with an arm on its back: views, actions, feet, and the parameters that randomization may
change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.assets.drones import VISUAL_GROUP
from rookery.robots.arms.kinematics import chain_of
from rookery.robots.quadrupeds.kernels import feet
from rookery.robots.quadrupeds.model import LEG_JOINTS, LEGS, QuadrupedModel
from rookery.robots.quadrupeds.parameters import quadruped_parameters
from rookery.sim.actuation import Actuation, Joint
from rookery.sim.buffers import Buffers
from rookery.sim.engines.contact_counts import WORLD
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.patches import FrictionPatches
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec
from rookery.sim.world import World

if TYPE_CHECKING:
    from rookery.robots.arms.arm import ArmModel

ARM_NAME = "arm"
SOFT_LIMIT = 0.95
"""Share of a joint's range that targets may use."""
ARM_SWING = (2.2, 1.5, 1.5, 1.7, 2.6, 2.0)
"""rad that an action of 1 moves the target of an arm's joint 1 to 6 away from home: all of the space in front and at the
sides."""
SERVO_STEPS = (
    "target = low + (a + 1) / 2 (high - low), held for the control step",
    "torque = kp (target - q) - kd dq at every physics step, within the joint's limits",
)
"""What becomes of an action, for contracts."""
HAND = "link6"
"""Body of an arm that carries the gripper."""
UNDESIRED = "undesired"
"""Count of contacts (`Scene.count_contacts`) of anything but the feet with the floor."""
SELF = "self"
"""Count of contacts of the robot with itself; the gripper's fingers may meet."""

TYPICAL_FRICTION = (0.3, 1.6)
"""Least and greatest sliding friction of rubber feet on floors."""

FOOT_STIFFNESS = 0.175
"""Of the feet's contact in MuJoCo's direct form, times the square of the physics step. With FOOT_DAMPING's first value feet do
not bounce at any phase of the step and sink in hardly deeper than they come within one step: 2.9 mm at 0.5 m/s and 5 ms, where
MuJoCo's default `solref` gives 4.5 mm, and 0.1 mm at rest (measured). A stiffer one bounces at some phases."""
FOOT_DAMPING = (
    (0.0, 0.03, 0.064, 0.128, 0.193, 0.273, 0.362, 0.464),
    (0.90, 0.585, 0.53, 0.47, 0.41, 0.35, 0.29, 0.23),
)
"""Restitution of a foot, and the contact's damping, times the physics step, that gives it: the mean over drops at 0.5, 1 and
2 m/s onto a plane at 32 phases of the step, which differ by up to 0.12 (measured). scenery.bounce, the closed form for short
steps, promises up to 0.17 more here."""


def foot_contact(dt: float, restitution: float = 0.0) -> tuple[float, float]:
    """MuJoCo's `solref` (-stiffness 1/s^2, -damping 1/s) of a foot at physics steps of `dt` s."""
    return -FOOT_STIFFNESS / dt**2, -float(np.interp(restitution, *FOOT_DAMPING)) / dt


def add_quadruped(
    scene: Scene, model: QuadrupedModel, arm: ArmModel | None = None, height: float | None = None
) -> Scene:
    """A quadruped in a scene, prefix ``name/``, with an arm on its back, prefix `arm/`.

    Args:
        height: m, of its trunk's frame; None: as it stands.

    Raises:
        RookeryError: an arm for a robot that has no place for one.
    """
    if arm is not None and not model.carries_arm:
        raise RookeryError(f"the quadruped {model.name!r} has no place for the arm {arm.name!r}: leave the arm out.")

    def make() -> mujoco.MjSpec:
        spec = model.spec()
        for leg in LEGS:
            spec.geom(f"{leg}_foot").solref = foot_contact(scene.dt)
        if arm is not None and arm.adapter > 0.0:
            plate = spec.body("base").add_body(name="adapter", pos=list(arm.adapter_pos))
            plate.add_geom(
                name="adapter", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.08, 0.05, 0.005], mass=arm.adapter, contype=0,
                conaffinity=0, rgba=[0.3, 0.3, 0.32, 1.0], group=VISUAL_GROUP,
            )  # fmt: skip
        return spec

    scene.add(make, model.name, pos=(0.0, 0.0, model.stand_height if height is None else height))
    if arm is not None:
        x, y, z = arm.mount
        scene.add(arm.spec, ARM_NAME, site=f"{model.name}/arm_mount", pos=(x, y, z - model.top))
    trunk = f"body:{model.name}/base"
    scene.count_contacts(UNDESIRED, [(trunk, WORLD)], [(f"geom:{model.name}/{leg}_foot", WORLD) for leg in LEGS])
    hand = f"body:{ARM_NAME}/{HAND}"
    scene.count_contacts(SELF, [(trunk, trunk)], [] if arm is None else [(hand, hand)])
    return scene


def leg_chains(model: mujoco.MjModel, joints: Sequence[str], prefix: str = "") -> tuple[NDArray[np.float64], ...]:
    """Turns [4, 4, 3, 3], offsets [4, 4, 3] m and axes [4, 3, 3] of the legs, as `kernels.feet` takes them.

    Args:
        model: compiled, with the robot's names behind `prefix`.
        joints: full names of the twelve.
    """
    chains = [
        chain_of(model, joints[3 * i : 3 * i + 3], f"{prefix}base", f"{prefix}{leg}_foot") for i, leg in enumerate(LEGS)
    ]
    return tuple(np.ascontiguousarray(parts) for parts in zip(*chains, strict=True))


class Quadruped(Buffers):
    """One quadruped in each of N worlds.

    Args:
        world: the engine's copies of the scene, with `add_quadruped`.
        model: the robot.
        arm: the arm on its back, if there is one.
        rng: the worlds' random streams, for the floor's friction; None for streams of its own.

    Attributes:
        base: view of the trunk.
        home: [J] rad, joint angles at rest: 12 of the legs, then those of the arm.
        pos, vel: [N, J] rad, rad/s, of `refresh`.
        peak: [N, J] N m, largest sizes of the servos' torques in any physics step of the last control step, of `read_forces`.
        rotation: [N, 9] row-major, trunk to world; foot_pos, foot_vel: [N, 4, 3] m, m/s, world; of `refresh`.
        knee_pos: [N, 4, 3] m, world, the legs' third joints; of `refresh`.
        torque_limits: [J] N m, of the motors.
        legs, arm_spec, whole: declarations of the actions: 12 leg joints, the arm's, both.
    """

    def __init__(
        self, world: World, model: QuadrupedModel, arm: ArmModel | None = None, rng: Streams | None = None
    ) -> None:
        super().__init__()
        self.world = world
        self.model = model
        self.arm = arm
        n = world.num_envs
        self.leg_names = tuple(f"{model.name}/{j}" for j in model.joints)
        arm_names = () if arm is None else tuple(f"{ARM_NAME}/{j}" for j in arm.joints)
        self.joint_names = self.leg_names + arm_names
        self.base = world.bodies([f"{model.name}/base"])
        self.joints = world.joints(self.joint_names)
        self.actuators = world.actuators(self.joint_names)
        self.actuators.keep_peaks()
        self.gripper = None if arm is None else world.actuators([f"{ARM_NAME}/gripper"])
        limits = np.stack((model.lower, model.upper), axis=1)
        swing = np.array(model.swing)
        home = np.array(model.home)
        if arm is not None:
            limits = np.concatenate((limits, np.stack((arm.lower, arm.upper), axis=1)))
            home = np.concatenate((home, arm.ready))
            swing = np.concatenate((swing, ARM_SWING))
        middle = limits.mean(1)
        half = 0.5 * SOFT_LIMIT * (limits[:, 1] - limits[:, 0])
        low = np.maximum(home - swing, middle - half)
        high = np.minimum(home + swing, middle + half)
        self.limits = torch.tensor(np.stack((middle - half, middle + half)), dtype=torch.float32)
        self.home = torch.tensor(home, dtype=torch.float32)
        self.legs = _spec("leg_position", self.leg_names, low[:LEG_JOINTS], high[:LEG_JOINTS], home[:LEG_JOINTS])
        self.whole = _spec("joint_position", self.joint_names, low, high, home)
        rest = slice(LEG_JOINTS, None)
        self.arm_spec = None if arm is None else _spec("arm_position", arm_names, low[rest], high[rest], home[rest])
        self._low = torch.tensor(low, dtype=torch.float32)
        self._half = 0.5 * torch.tensor(high - low, dtype=torch.float32)
        j = len(self.joint_names)
        self.buffer("target", n, j)
        self.buffer("force", n, j)
        self.peak = torch.zeros(n, j)
        self.buffer("offset", n, j)
        self._misread = False
        self.pos = torch.zeros(n, j)
        self.vel = torch.zeros(n, j)
        self.rotation = torch.zeros(n, 9)
        self.foot_pos = torch.zeros(n, 4, 3)
        self.foot_vel = torch.zeros(n, 4, 3)
        self.knee_pos = torch.zeros(n, 4, 3)
        self.torque_limits = torch.tensor((*model.torque, *(() if arm is None else arm.effort)), dtype=torch.float32)
        self.target.copy_(self.home)
        self._chains = leg_chains(world.model, self.leg_names, f"{model.name}/")
        feet_geoms = [f"{model.name}/{leg}_foot" for leg in LEGS]
        streams = Streams(n, 0, "floor") if rng is None else rng
        self.patches = FrictionPatches(world.params, feet_geoms, LEGS, streams, TYPICAL_FRICTION)
        self.child("patches", self.patches)

    target: Tensor
    """[N, J] rad, targets of the servos."""
    offset: Tensor
    """[N, J] rad, of the encoders."""
    force: Tensor
    """[N, J] N m, what they gave in the last physics step; no part of the engine's state, so it is kept here."""

    def actuation(self, start: int, stop: int) -> Actuation:
        """Everything between the actions of the joints `start` to `stop` and their motors."""
        names = [*self.model.joints, *(() if self.arm is None else self.arm.joints)]
        joints = []
        top: float | None
        for i in range(start, stop):
            x, y, z = (float(v) for v in self.world.model.joint(self.joint_names[i]).axis)
            low, high = self.limits[:, i].tolist()
            if i < LEG_JOINTS:
                m = self.model
                kp, kd, torque, top = m.kp[i], m.kd[i], m.torque[i], m.speed[i]
            else:
                assert self.arm is not None
                kp, kd, torque = (float(v[i - LEG_JOINTS]) for v in (self.arm.kp, self.arm.kd, self.arm.effort))
                top = None
            home = float(self.home[i])
            joints.append(Joint(names[i], (x, y, z), home, low, high, kp, kd, torque, no_load_speed=top))
        return Actuation(SERVO_STEPS, tuple(names[start:stop]), self.world.dt, joints=tuple(joints))

    def targets(self, action: Tensor) -> Tensor:
        """Joint angles [..., J or 12] rad that normalized actions in [-1, 1] ask for."""
        j = action.shape[-1]
        return self._low[:j] + self._half[:j] * (action + 1.0)

    def normalized(self, angles: Tensor) -> Tensor:
        """The actions for joint angles [..., J or 12] rad, clipped to [-1, 1]."""
        j = angles.shape[-1]
        return ((angles - self._low[:j]) / self._half[:j] - 1.0).clamp(-1.0, 1.0)

    def command(self, targets: Tensor) -> None:
        """Command the servos.

        Args:
            targets: [N, J] rad, held; or [N, K, J], one row a physics step.
        """
        sent = targets
        if self._misread:  # servos bring what they read to the target
            sent = targets - (self.offset if targets.dim() == 2 else self.offset[:, None])
        self.actuators.set_control(sent)
        self.target.copy_(targets if targets.dim() == 2 else targets[:, -1])

    def refresh(self) -> None:
        """Read the state and place the feet. To be called after each step and write."""
        self.pos.copy_(self.joints.pos)
        self.vel.copy_(self.joints.vel)
        feet(
            self.base.state.view(-1, 13).numpy(), self.pos.numpy(), self.vel.numpy(), self.rotation.numpy(),
            self.foot_pos.numpy(), self.foot_vel.numpy(), self.knee_pos.numpy(), *self._chains,
        )  # fmt: skip

    def standing_knees(self) -> Tensor:
        """[4] m, heights of the knees over flat ground at home."""
        base = np.zeros((1, 13), np.float32)
        base[0, 2], base[0, 3] = self.model.stand_height, 1.0
        still = np.zeros((1, LEG_JOINTS), np.float32)
        rotation, places, speeds, knees = (np.zeros(s, np.float32) for s in ((1, 9), (1, 4, 3), (1, 4, 3), (1, 4, 3)))
        feet(base, self.home[None, :LEG_JOINTS].numpy(), still, rotation, places, speeds, knees, *self._chains)
        return torch.from_numpy(knees[0, :, 2])

    def read_forces(self) -> None:
        """Store the servos' torques in `force` and `peak`. To be called after each control step."""
        self.force.copy_(self.actuators.force)
        self.peak.copy_(self.actuators.peak)

    def reset(self, ids: Tensor, state: Tensor, joints: Tensor) -> None:
        """Put robots at trunk states [n, 13] and joint angles [n, J] rad, at rest, servos holding them there."""
        self.base.set_state(ids, state[:, None])
        self.joints.set_state(ids, joints, torch.zeros_like(joints))
        self.patches.begin(ids)
        self.target[ids] = joints
        self.force[ids] = 0.0
        self.actuators.set_control(self.target)

    @property
    def up(self) -> Tensor:
        """[N, 3] the world's up in the trunk's frame: minus the projected gravity of other packages."""
        return self.rotation[:, 6:9]

    @property
    def velocity(self) -> Tensor:
        """[N, 3] m/s, of the trunk's frame, in its own axes."""
        return torch.einsum("nij,ni->nj", self.rotation.view(-1, 3, 3), self.base.lin_vel[:, 0])

    @property
    def yaw(self) -> Tensor:
        """[N] rad, heading."""
        return torch.atan2(self.rotation[:, 3], self.rotation[:, 0])

    def parameters(self) -> dict[str, Parameter]:
        """Physical quantities that can differ between worlds."""
        return quadruped_parameters(self, partial(foot_contact, self.world.dt), HAND)

    def set_offset(self, ids: Tensor, offset: Tensor) -> None:
        """Readings of the legs' encoders at an angle of 0, [n] or [n, 12] rad, in the worlds `ids`."""
        self.offset[ids, :LEG_JOINTS] = offset if offset.dim() == 2 else offset[:, None]
        self._misread = True

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._misread = bool(self.offset.any())

    @property
    def measured(self) -> Tensor:
        """[N, J] rad, what the encoders read: the angles of `pos` and their offsets."""
        return self.pos + self.offset if self._misread else self.pos


def _spec(kind: str, names: tuple[str, ...], low: np.ndarray, high: np.ndarray, home: np.ndarray) -> ActionSpec:
    neutral = 2.0 * (home - low) / (high - low) - 1.0
    return ActionSpec(
        kind, tuple(n.split("/")[1] for n in names), tuple(low.tolist()), tuple(high.tolist()), ("rad",) * len(names),
        tuple(neutral.tolist()),
    )  # fmt: skip

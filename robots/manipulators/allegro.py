"""The Allegro hand: names and limits, open and closed shapes, and AllegroHand, its views in a world."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import torch
from torch import Tensor

from rookery.assets.allegro import CHAINS, HINGE, JOINTS, SLIDE, SPEED, TOUCH, WRIST, allegro
from rookery.sim.actuation import Actuation, Joint
from rookery.sim.buffers import Buffers
from rookery.sim.envs.delays import ControlDelay
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import multiply
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec
from rookery.sim.world import World

HAND_NAME = "hand"
LOWER = torch.tensor([link.reach[0] for chain in CHAINS.values() for link in chain])
UPPER = torch.tensor([link.reach[1] for chain in CHAINS.values() for link in chain])
"""[16] rad, ranges of JOINTS."""
WRIST_REACH = torch.tensor([SLIDE] * 3 + [HINGE] * 3)
"""[6] m and rad, of WRIST, to both sides."""
WRIST_SPEED = torch.tensor([0.5] * 3 + [1.5] * 3)
"""[6] m/s and rad/s, the fastest that targets of the wrist move: half of what the servos can follow and more."""
TOUCH_SCALE = 5.0
"""N, of a firm touch: at their torque, stretched fingers press with 3 to 5 N (measured in the scripted grasps)."""


def _shape(finger: tuple[float, ...], thumb: tuple[float, ...]) -> Tensor:
    """[16] rad: the three fingers alike, their roots mirrored about the middle one."""
    root, *rest = finger
    return torch.tensor([-root, *rest, 0.0, *rest, root, *rest, *thumb])


OPEN = _shape((0.0, 0.6, 0.3, 0.2), (1.396, 0.3, 0.0, 0.0))
"""[16] rad: fingers half lifted, the thumb opposite: 0.10 m between them."""
FIST = _shape((0.0, 1.5, 1.2, 1.0), (1.396, 0.6, 0.9, 0.9))
"""[16] rad, where a power grasp of nothing ends: the fingers wrap, the thumb closes from the other side."""
PINCH_OPEN = _shape((0.1, 0.8, 0.4, 0.3), (1.396, 0.55, 0.0, 0.3))
PINCH_SHUT = _shape((0.1, 1.4, 0.65, 0.1), (1.396, 0.55, 0.85, 0.1))
"""[16] rad, a pinch of nothing: the fingers' tips, drawn together, meet the thumb's 40 mm before the grasp frame."""
PINCH_AHEAD = 0.04
"""m, from the grasp frame along the approach to where the tips meet in a pinch."""


def power(closing: Tensor) -> Tensor:
    """Joint angles [N, 16] rad of a power grasp, closing [N] from 0 (OPEN) to 1 (FIST)."""
    return torch.lerp(OPEN, FIST, closing[:, None].clamp(0.0, 1.0))


def pinch(closing: Tensor) -> Tensor:
    """Joint angles [N, 16] rad of a pinch by the finger tips, closing [N] from 0 (PINCH_OPEN) to 1 (PINCH_SHUT)."""
    return torch.lerp(PINCH_OPEN, PINCH_SHUT, closing[:, None].clamp(0.0, 1.0))


def add_allegro(
    scene: Scene, *, wrist: bool = True, height: float = 0.3, site: str | None = None, looks: bool = True
) -> Scene:
    """A hand in a scene, prefix `hand/`.

    Args:
        wrist: it hangs on six servos; False with `site`: it is screwed to an arm's flange.
        height: m, of the wrist's zero above the world's origin.
        site: full name of the flange, whose z the fingers will point along.
        looks: False leaves the visual geoms out.

    Raises:
        RookeryError: a wrist on a flange.
    """
    if wrist and site is not None:
        raise RookeryError(f"the hand at {site!r} needs no wrist of its own: give wrist=False.")

    def make() -> mujoco.MjSpec:
        return allegro(wrist=wrist, looks=looks)

    return scene.add(make, HAND_NAME, pos=(0.0, 0.0, height if site is None else 0.0), site=site)


class AllegroHand(Buffers):
    """One Allegro hand in each of N worlds.

    Args:
        world: the engine's copies of the scene.
        name: the hand's prefix in the scene.
        control_dt: s between commands, for the rate limits.
        wrist: whether it has its own.

    Attributes:
        grasp: view of the grasp frame's body; tips: of the four finger tips, ff, mf, rf, th.
        lower, upper: [J] limits of the targets: 16 finger joints, rad, then the six of the wrist, m and rad, if it has them.
        fingers, whole: declarations of the actions: joint targets of the fingers, of all J joints.
    """

    target: Tensor
    """[N, J] rad (m), targets of the servos."""

    def __init__(self, world: World, name: str = HAND_NAME, *, control_dt: float, wrist: bool = True) -> None:
        super().__init__()
        if control_dt <= 0.0:
            raise RookeryError(f"control_dt must be positive, got {control_dt} s.")
        self.world = world
        self.joint_names = tuple(f"{name}/{j}" for j in (*JOINTS, *(WRIST if wrist else ())))
        self.joints = world.joints(self.joint_names)
        self.actuators = world.actuators(self.joint_names)
        self.grasp = world.bodies([f"{name}/grasp"])
        self.tips = world.bodies([f"{name}/{finger}_tip" for finger in CHAINS])
        self._touch = [world.sensors(f"{name}/{sensor}") for sensor in TOUCH]
        self.lower = torch.cat((LOWER, -WRIST_REACH)) if wrist else LOWER
        self.upper = torch.cat((UPPER, WRIST_REACH)) if wrist else UPPER
        speed = torch.cat((torch.full((16,), SPEED), WRIST_SPEED)) if wrist else torch.full((16,), SPEED)
        self.control_dt = control_dt
        self.step_limit = speed * control_dt
        """[J] rad (m), the farthest that a target moves between commands."""
        self.home = torch.cat((OPEN, torch.zeros(6))) if wrist else OPEN
        self.fingers = self._spec("finger_position", 16)
        self.whole = self._spec("joint_position", len(self.joint_names))
        self.buffer("target", world.num_envs, len(self.joint_names)).copy_(self.home)
        self.delay = ControlDelay(world.num_envs, round(control_dt / world.dt), len(self.joint_names), world.dt)
        self.child("delay", self.delay)

    def _spec(self, kind: str, count: int) -> ActionSpec:
        low = self.lower[:count]
        high = self.upper[:count]
        home = self.home[:count]
        neutral = (2.0 * (home - low) / (high - low) - 1.0).tolist()
        names = tuple(n.split("/")[-1] for n in self.joint_names[:count])
        units = tuple("m" if n in WRIST[:3] else "rad" for n in names)
        return ActionSpec(kind, names, tuple(low.tolist()), tuple(high.tolist()), units, tuple(neutral))

    def actuation(self, steps: tuple[str, ...], count: int, leashes: Sequence[float | None]) -> Actuation:
        """Everything between the actions of the first `count` joints and their servos.

        Args:
            steps: what becomes of an action, in words, up to the targets.
            count: 16 for the fingers, or all J.
            leashes: [count] rad (m), how far a target may be from its joint; None: anywhere.
        """
        model = self.world.model
        speeds = (self.step_limit / self.control_dt).tolist()
        joints = []
        for i in range(count):
            servo = model.actuator(self.joint_names[i])
            x, y, z = (float(v) for v in model.joint(self.joint_names[i]).axis)
            joints.append(
                Joint(
                    self.joint_names[i].split("/")[-1], (x, y, z), home=float(self.home[i]), lower=float(self.lower[i]),
                    upper=float(self.upper[i]), kp=float(servo.gainprm[0]), kd=-float(servo.biasprm[2]),
                    torque=float(servo.forcerange[1]), target_speed=speeds[i], leash=leashes[i],
                )
            )  # fmt: skip
        steps += (
            "the target moves there no faster than target_speed, once a control step",
            "torque = kp (target - q) - kd dq at every physics step, within the joint's limit",
        )
        return Actuation(steps, tuple(j.name for j in joints), self.world.dt, joints=tuple(joints))

    def targets(self, action: Tensor) -> Tensor:
        """Joint targets [..., 16 or J] rad (m) that normalized actions in [-1, 1] ask for."""
        j = action.shape[-1]
        return torch.lerp(self.lower[:j], self.upper[:j], 0.5 * (action.clamp(-1.0, 1.0) + 1.0))

    def normalized(self, targets: Tensor) -> Tensor:
        """The actions for joint targets [..., 16 or J] rad (m), clipped to [-1, 1]."""
        j = targets.shape[-1]
        low = self.lower[:j]
        high = self.upper[:j]
        return (2.0 * (targets - low) / (high - low) - 1.0).clamp(-1.0, 1.0)

    def command(self, targets: Tensor, late: Tensor | None = None) -> None:
        """Move the servos' targets towards `targets` [N, 16 or J] rad (m), as fast as the joints' speeds allow.

        With 16 the wrist's targets stay. They reach the servos after `late` [N] int64 physics steps; None: at once, in all
        worlds.
        """
        part = self.target[:, : targets.shape[-1]]
        limit = self.step_limit[: targets.shape[-1]]
        part += (targets - part).clamp(-limit, limit)
        self.actuators.set_control(self.target if late is None else self.delay.push(self.target, late))

    def reset(self, ids: Tensor, joints: Tensor) -> None:
        """Put hands at joint positions [n, J] rad (m), at rest, servos holding them there."""
        self.joints.set_state(ids, joints, torch.zeros_like(joints))
        self.target[ids] = joints
        self.actuators.set_control(self.target)
        self.delay.reset(ids, self.target)

    @property
    def touch(self) -> Tensor:
        """[N, 5] N, normal forces on the tips ff, mf, rf, th and on the palm."""
        return torch.cat([sensor.data for sensor in self._touch], dim=-1)

    def observe(self) -> dict[str, Tensor]:
        """Pieces of observations.

        Returns:
            "joint_pos" and "joint_vel" [N, J] rad, rad/s (m, m/s); "joint_target" [N, J]; "grasp_pos" [N, 3] m and "grasp_quat"
            [N, 4], world; "tip_pos" [N, 12] m, world; "touch" [N, 5], 0 to 1, forces over TOUCH_SCALE.
        """
        return {
            "joint_pos": self.joints.pos,
            "joint_vel": self.joints.vel,
            "joint_target": self.target,
            "grasp_pos": self.grasp.pos[:, 0],
            "grasp_quat": self.grasp.quat[:, 0],
            "tip_pos": self.tips.pos.flatten(1),
            "touch": (self.touch / TOUCH_SCALE).clamp(max=1.0),
        }


_TO_WRIST = torch.tensor([0.0, -0.70710678, -0.70710678, 0.0])
"""Quaternion wxyz of the world's axes in the grasp frame of a wrist at zero, see assets.allegro."""


def wrist_angles(quat: Tensor) -> Tensor:
    """Roll, pitch and yaw [N, 3] rad of a wrist whose grasp frame has the orientation [N, 4] wxyz in the wrist's frame."""
    w, x, y, z = multiply(quat, _TO_WRIST.expand_as(quat)).unbind(-1)
    roll = torch.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = torch.asin((2.0 * (w * y - z * x)).clamp(-1.0, 1.0))
    yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return torch.stack((roll, pitch, yaw), dim=-1)

"""States of the Go2 set by hand, and what every reward and observation term should be in them.

The oracle is NumPy on the numbers that were set, and MuJoCo's own kinematics for the feet; it reads nothing of the task.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import torch

import rookery

CALM = {"push_s": 0.0, "start_joints": 0.0, "start_yaw": 0.0, "stand_share": 0.0, "resample_s": 1000.0}
FEET = ("go2/FL_foot", "go2/FR_foot", "go2/RL_foot", "go2/RR_foot")
N = 4
POS = np.array(
    [[0.3, -0.2, 0.31], [0.0, 0.0, 0.12], [1.0, 2.0, 0.65], [0.0, 0.0, 0.29]]
)  # feet deep in the ground, and high
TILT = np.array([[0.2, -0.1, 0.7], [-0.15, 0.25, -2.0], [0.0, 0.1, 3.0], [0.1, 0.0, 0.0]])  # rad: roll, pitch, yaw
LINEAR = np.array([[0.5, -0.2, 0.1], [-0.3, 0.6, -0.2], [0.9, 0.1, 0.3], [0.0, 0.0, 0.05]])  # m/s, world
ANGULAR = np.array([[0.3, -0.4, 0.5], [-0.6, 0.1, -0.7], [0.2, 0.2, 0.9], [0.0, 0.1, -0.1]])  # rad/s, body
COMMAND = np.array([[0.4, 0.1, 0.3], [-0.2, -0.3, -0.5], [0.8, 0.0, 0.6], [0.0, 0.0, 0.0]])  # the last one stands
PHASE = np.array([0.1, 0.35, 0.8, 0.2])
CONTACT = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 1]], bool)
FALLEN = np.array([False, True, False, False])
UNDESIRED = np.array([0, 3, 0, 1])  # contact points of anything but feet with the floor
COLLIDING = np.array([0, 0, 2, 0])
SWING = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)  # a trot: front left with rear right
SWING_PHASE = np.array([[0.1, 0, 0, 0.1], [0.35, 0, 0, 0.35], [0, 0.3, 0.3, 0], [0, 0, 0, 0]])
MOVING = np.array([1, 1, 1, 0])


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Body to world, intrinsic z-y-x."""
    (a, b, c), (x, y, z) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, a, -x], [0, x, a]])
    about_y = np.array([[b, 0, y], [0, 1, 0], [-y, 0, b]])
    about_z = np.array([[c, -z, 0], [z, c, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


ROTATION = np.stack([rotation(*tilt) for tilt in TILT])
BODY_VELOCITY = np.einsum("nji,nj->ni", ROTATION, LINEAR)  # world to body


class LeggedScene:
    """A task of the Go2 in that state; joints, torques and actions drawn once.

    Args:
        name: of the task.
        joints: 12, or 18 with an arm.
    """

    def __init__(self, name: str, joints: int, **config: Any) -> None:
        draw = np.random.default_rng(5)
        self.env = rookery.make(name, N, config={**CALM, **config})
        self.env.reset(seed=0)
        task = self.task = self.env.task
        self.offset = draw.uniform(-0.3, 0.3, (N, joints))
        self.speed = draw.uniform(-2.0, 2.0, (N, joints))
        self.torque = draw.uniform(-10.0, 10.0, (N, joints))
        self.action, self.before = draw.uniform(-1.0, 1.0, (2, N, joints))
        self.slip = draw.uniform(0.0, 1.0, N)
        quat = np.zeros((N, 4))
        for i in range(N):
            mujoco.mju_mat2Quat(quat[i], ROTATION[i].ravel())
        state = np.concatenate((POS, quat, LINEAR, ANGULAR), axis=1)
        self.home = task.robot.home.double().numpy()
        task.robot.base.set_state(None, torch.from_numpy(state).float()[:, None])
        angles = torch.from_numpy(self.home + self.offset).float()
        task.robot.joints.set_state(None, angles, torch.from_numpy(self.speed).float())
        self.env.world.forward()
        for buffer, value in (
            (task.command, COMMAND), (task.phase, PHASE), (task.contact, CONTACT), (task.robot.force, self.torque),
            (task.last_action, self.action), (task.before_action, self.before), (task.slip, self.slip),
            (task.fallen, FALLEN), (task.undesired, UNDESIRED), (task.colliding, COLLIDING),
        ):  # fmt: skip
            buffer.copy_(torch.from_numpy(value))
        task.refresh()
        self.feet = np.zeros((N, 4))  # m, of the lowest point of each foot
        self.foot_velocity = np.zeros((N, 4, 3))  # m/s, world
        self.knees = np.zeros((N, 4))  # m
        model = self.env.world.model
        stand = mujoco.MjData(model)
        stand.qpos[:7] = 0.0, 0.0, 0.29, 1.0, 0.0, 0.0, 0.0
        stand.qpos[7 : 7 + joints] = self.home
        mujoco.mj_forward(model, stand)
        calves = [model.joint(name.replace("foot", "calf")).id for name in FEET]
        self.standing_knees = stand.xanchor[calves, 2]  # m
        for i in range(N):
            data = self.env.mj_data(i)
            self.knees[i] = data.xanchor[calves, 2]
            for k, name in enumerate(FEET):
                self.feet[i, k] = data.geom(name).xpos[2] - model.geom(name).size[0]
                both = np.zeros(6)
                mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, model.site(name).id, both, 0)
                self.foot_velocity[i, k] = both[3:]

    def rewards(self, sigma: float) -> dict[str, np.ndarray]:
        """What each term of walking should be, [N]; legs alone, but for the action's rate.

        Args:
            sigma: (m/s)^2, of the reward for the commanded velocity.
        """
        up = ROTATION[:, 2]
        height = 0.04 * (1.0 - np.cos(4 * math.pi * SWING_PHASE))  # m, of a swinging foot
        falls = np.maximum(-self.foot_velocity[..., 2], 0.0) * (~CONTACT & (self.feet < 0.03))
        hips = self.offset[:, [0, 3, 6, 9]]
        error = BODY_VELOCITY[:, :2] - COMMAND[:, :2]
        return {
            "tracking_lin_vel": np.exp(-(error**2).sum(1) / sigma),
            "tracking_ang_vel": np.exp(-((ANGULAR[:, 2] - COMMAND[:, 2]) ** 2) / (2 * sigma)),
            "lin_vel_z": BODY_VELOCITY[:, 2] ** 2,
            "ang_vel_xy": ANGULAR[:, 0] ** 2 + ANGULAR[:, 1] ** 2,
            "orientation": up[:, 0] ** 2 + up[:, 1] ** 2,
            "base_height": (POS[:, 2] - 0.29) ** 2,
            "gait_phase": (CONTACT == SWING).mean(1),  # a fault: a foot that is down in its swing, or up in its stance
            "feet_clearance": ((self.feet - height) ** 2 * SWING).sum(1),
            "feet_slip": self.slip,
            "feet_landing": (falls**2).sum(1),
            "torques": (self.torque[:, :12] ** 2).sum(1),
            "power": np.maximum(self.torque * self.speed, 0.0)[:, :12].sum(1),
            "action_rate": ((self.action - self.before) ** 2).sum(1),
            "hip_pos": (hips**2).sum(1),
            "stand_still": np.abs(self.offset[:, :12]).sum(1) * (1 - MOVING),
            "undesired_contacts": (UNDESIRED > 0).astype(float),
            "self_collision": (COLLIDING > 0).astype(float),
            "kneeling": np.maximum((self.standing_knees - self.knees) / 0.18 - 0.4, 0.0).sum(1),
            "termination": FALLEN.astype(float),
            "alive": (~FALLEN).astype(float),
        }

    def observations(self) -> dict[str, np.ndarray]:
        """What each term of walking should be, [N, d]."""
        angle = 2 * math.pi * PHASE
        return {
            "angular_velocity": ANGULAR,
            "up": ROTATION[:, 2],  # the world's z axis in body axes
            "command": COMMAND,
            "gait": np.stack((np.sin(angle) * MOVING, np.cos(angle) * MOVING), 1),
            "joint_position": self.offset,
            "joint_velocity": self.speed,
            "last_action": self.action,
        }

    def state(self) -> np.ndarray:
        """What a critic of walking should know, [N, S]: the observations scaled, then what cannot be measured."""
        scale = {"angular_velocity": 0.25, "joint_velocity": 0.05, "last_action": 0.5}
        seen = [scale.get(name, 1.0) * value for name, value in self.observations().items()]
        hidden = (
            BODY_VELOCITY, POS[:, 2:] - 0.29, CONTACT, 10.0 * np.clip(self.feet, -0.1, 0.2), 0.02 * self.torque,
            0.2 * np.clip(self.foot_velocity, -5.0, 5.0).reshape(N, 12),
        )  # fmt: skip
        return np.concatenate((*seen, *hidden), axis=1)

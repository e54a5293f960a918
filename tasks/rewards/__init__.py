"""Reward terms that tasks share: functions of tensors, by the names that Isaac Lab's `mdp` terms and legged_gym's have.

    def rewards(self):
        b = self.robot.base
        return {"robot": {
            "tracking_lin_vel": track_lin_vel_xy_exp(self.robot.velocity, self.command[:, :2], std=0.5),
            "ang_vel_xy": ang_vel_xy_l2(b.ang_vel),
            "action_rate": action_rate_l2(self.last_action, self.before_action),
        }}

A term is unweighted; its weight stands in the task's config, where the sign says whether it is a reward or a cost. `_l2` is a
sum of squares and `_l1` a sum of sizes, as there. Tensors may have any leading shape: [N, d] of one robot in each of N worlds
gives [N], and [N, A, d] of A agents [N, A]. Penalties in physical units suit one robot; divide by a weight, length or limit of
it where a task is for many (`robots.quadrupeds.scale.Scale`).

| file | terms of |
|---|---|
| motion.py | bodies, joints and actions, whatever the robot |
| tracking.py | commands and targets |
| legs.py | feet and gait |
| meta_world.py | Meta-World's algebra of tolerances |
"""

from __future__ import annotations

from rookery.tasks.rewards.legs import (
    feet_air_time,
    feet_clearance_l2,
    feet_gait,
    feet_landing_l2,
    feet_slide_l2,
    kneeling,
)
from rookery.tasks.rewards.meta_world import gripper_caging, hamacher_product, tolerance
from rookery.tasks.rewards.motion import (
    action_l2,
    action_rate_l2,
    ang_vel_l2,
    ang_vel_xy_l2,
    base_height_l2,
    flat_orientation_l2,
    is_alive,
    is_terminated,
    joint_deviation_l1,
    joint_deviation_l2,
    joint_power,
    joint_torques_l2,
    joint_vel_l2,
    lin_vel_z_l2,
    undesired_contacts,
)
from rookery.tasks.rewards.tracking import (
    closeness_exp,
    closeness_inverse,
    closeness_tanh,
    distance,
    proximity_l2,
    track_ang_vel_z_exp,
    track_lin_vel_xy_exp,
)

__all__ = [
    "action_l2",
    "action_rate_l2",
    "ang_vel_l2",
    "ang_vel_xy_l2",
    "base_height_l2",
    "closeness_exp",
    "closeness_inverse",
    "closeness_tanh",
    "distance",
    "feet_air_time",
    "feet_clearance_l2",
    "feet_gait",
    "feet_landing_l2",
    "feet_slide_l2",
    "flat_orientation_l2",
    "gripper_caging",
    "hamacher_product",
    "is_alive",
    "is_terminated",
    "joint_deviation_l1",
    "joint_deviation_l2",
    "joint_power",
    "joint_torques_l2",
    "joint_vel_l2",
    "kneeling",
    "lin_vel_z_l2",
    "proximity_l2",
    "tolerance",
    "track_ang_vel_z_exp",
    "track_lin_vel_xy_exp",
    "undesired_contacts",
]

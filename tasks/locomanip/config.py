"""Values that all tasks of quadrupeds share, and what is randomized by default."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rookery.sim.randomization.ranges import Range

LIMITS = {"max_vx": 3.5, "max_back": 2.0, "max_vy": 1.5, "max_yaw_rate": 4.0, "gait_hz": 4.0, "swing_height_m": 0.2}
"""m/s, m/s, m/s, rad/s, Hz, m: beyond these no gait of a Go2 goes (its maker's top speed is 3.7 m/s)."""

# Ranges that cover UMI-on-Legs (arXiv 2407.10353), Deep Whole-Body Control (2210.10044), VBC (2403.16967), RoboDuet
# (2403.17367) and UniLab's go2_arm; each term is a switch of its own in a TOML file. Pushes are the task's (`push_s`).
# `restitution` of the feet (there 0 to 0.3) is a switch too, and off unless a file names it: the zoo's go2-velocity, which has
# not met it, does not fall at 0.3 but follows with an error of 0.14 m/s in place of 0.07 (24 episodes).
DEFAULT_RANDOMIZATION = {
    "friction": Range(0.3, 1.6),
    "payload": Range(-1.0, 3.0),
    "link_mass": Range(0.9, 1.1),
    "com_x": Range(-0.03, 0.03),
    "com_y": Range(-0.03, 0.03),
    "motor_strength": Range(0.85, 1.15),
    "kp": Range(0.8, 1.2),
    "kd": Range(0.8, 1.2),
    "armature": Range(0.8, 1.2),
    "joint_damping": Range(0.5, 2.0),
    "hand_payload": Range(0.0, 0.5),
    "gravity_tilt": Range(0.0, 0.02),
    "observation_noise": Range(1.0, 1.0),
    "observation_bias": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.02),
    "action_delay": Range(0.0, 0.03),
}


@dataclass(frozen=True)
class LeggedConfig:
    """Values that all tasks of quadrupeds share.

    Those marked * are a Go2's: another robot's follow from its legs' length as in robots that move alike, see `scale.Scale`.
    """

    robot: str = "go2"  # a quadruped by its name, or the path of a URDF or MJCF file (docs/own_robot.md)
    arm: str = "none"  # "none", "airbot_play" or "arx5"
    terrain: str = (
        "flat"  # "flat", "mixed", "stairs" (up and down), or one kind of assets.terrain: "rough", "stairs_up", ...
    )
    terrain_step_m: float = 0.18  # m, rise of the steps of the hardest row of stairs
    terrain_rows: int = 8  # rows of tiles, by difficulty
    terrain_columns: int = 10  # tiles in a row
    terrain_start_rows: int = 4  # worlds begin spread over so many of the easiest rows
    terrain_level: int = -1  # row on which all episodes begin; -1: by the curriculum
    episode_s: float = 20.0  # s
    control_dt: float = 0.02  # s
    dt: float = 0.005  # s
    history: int = 1  # frames that the policy sees; above 1 a state estimator can learn the base's velocity from them
    max_vx: float = 1.0  # m/s *, forward command; backward is max_back
    max_back: float = 0.6  # m/s *
    max_vy: float = 0.4  # m/s *
    max_yaw_rate: float = 0.8  # rad/s *
    stand_share: float = 0.1  # of the commands that say: stand
    resample_s: float = 4.0  # s between commands
    tracking_sigma: float = (
        0.1  # (m/s)^2 *, of the reward for the commanded velocity; twice that in (rad/s)^2 for turning
    )
    gait_hz: float = 2.0  # Hz *, of the trot (UniLab, go2_arm_manip_loco/mujoco.yaml)
    swing_height_m: float = 0.08  # m *, of a foot in the middle of its swing, above the ground
    push_speed: float = 0.5  # m/s *, largest sudden change of horizontal velocity
    push_s: float = 4.0  # s, mean time between pushes; 0 for none
    start_yaw: float = math.pi  # rad
    start_joints: float = 0.1  # rad, spread of the joints at the start
    fall_up: float = (
        0.5  # cosine between the trunk's up and the world's below which a robot has fallen (UniLab's go2_arm: 0.5)
    )
    fall_height_m: float = (
        0.15  # m, likewise, of a Go2's trunk above the ground; of others in proportion to how high they stand
    )

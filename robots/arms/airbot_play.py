"""Airbot Play with the G2 gripper (Discover Robotics)."""

from __future__ import annotations

from rookery.assets import arms
from rookery.robots.arms.arm import ArmModel

AIRBOT_PLAY = ArmModel(
    name="airbot_play",
    spec=arms.airbot_play_spec,
    numbers=arms.AIRBOT_PLAY,
    velocity=(3.14, 3.14, 3.14, 6.28, 6.28, 6.28),  # Airbot Play's URDF in DISCOVERSE
    # The home of UniLab's go2_arm model. Joints 4 and 6 undo each other here, so the wrist is singular: it cannot yaw at first.
    home=(0.0, 0.0, 0.0, 1.6, 0.0, -1.6),
    ready=(0.0, -1.5, 0.6, 1.5708, 0.9, -1.5708),  # our own: elbow up, each joint in the middle of its range
    # upper arm, forearm, wrist to tcp; to the flange it is 0.656, 0.647 in the data sheet
    reach=0.27009 + 0.29015 + 0.23645,
    mount=(0.0045, 0.0, 0.0945),  # this, adapter and adapter_pos: UniLab 0.1.0, go2_with_arm_mjx_full_collision.xml
    adapter=0.079,
    adapter_pos=(-0.03, 0.0, 0.08),
)

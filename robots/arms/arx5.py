"""ARX5 (L5) with its parallel gripper (ARX Robotics)."""

from __future__ import annotations

from rookery.assets import arms
from rookery.robots.arms.arm import ArmModel

ARX5 = ArmModel(
    name="arx5",
    spec=arms.arx5_spec,
    numbers=arms.ARX5,
    velocity=(10.0, 10.0, 10.0, 10.0, 10.0, 10.0),  # the ARX5's URDF in real-stanford/umi-on-legs
    home=(0.0, 0.251, 0.314, -0.063, 0.0, 0.0),  # menagerie's, with joint 4 at q2 - q3, which levels the gripper
    ready=(0.0, 1.2, 1.0, 0.2, 0.0, 0.0),  # our own
    reach=0.752,  # with the gripper level and joint 5 at 0: 0.264 + |(0.245, 0.06)| + 0.0992 + 0.13657, of the joint frames
    mount=(0.085, 0.0, 0.094),  # UMI-on-Legs (arXiv 2407.10353), its URDF of the Go2 with an ARX5
)

"""The cameras of the table-top tasks: `front`, across the table from the robot, and `wrist` on the hand."""

from __future__ import annotations

import mujoco
import torch

LENSES = ("front", "wrist")
FRONT = ((0.0, 1.45, 0.75), (0.0, 0.62, 0.05))  # m, eye and what it looks at
CROP = ((-0.6, 0.2, 0.002), (0.6, 1.1, 0.6))
"""m, world: what of the scene counts as a point: all that stands on the table, and not the table."""


def add_front_camera(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Add the camera `front` to a table."""
    eye, at = torch.tensor(FRONT, dtype=torch.float64)
    back = torch.nn.functional.normalize(eye - at, dim=0)
    right = torch.nn.functional.normalize(
        torch.linalg.cross(torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), back), dim=0
    )
    rotation = torch.stack((right, torch.linalg.cross(back, right), back), dim=1)
    camera = spec.worldbody.add_camera(name="front", pos=list(FRONT[0]), fovy=50.0)
    quat = torch.zeros(4, dtype=torch.float64).numpy()
    mujoco.mju_mat2Quat(quat, rotation.flatten().numpy())
    camera.quat = quat.tolist()
    return spec

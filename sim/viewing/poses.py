"""From the state of a world to where its geoms are drawn."""

from __future__ import annotations

import mujoco
import numpy as np

from rookery.sim.rendering.frame import FrameStage, Vector
from rookery.sim.viewing.drawing import Poses


def stage_poses(stage: FrameStage, data: mujoco.MjData) -> Poses:
    """Poses of a visual model's geoms in a state."""
    stage.set_state(data.qpos, data.time, data.mocap_pos, data.mocap_quat)
    return Poses(stage.data.geom_xpos.copy(), quaternions(stage.data.geom_xmat))


def quaternions(mats: Vector) -> Vector:
    """[n, 4] wxyz of rotation matrices [n, 9]."""
    out = np.empty((len(mats), 4))
    for i, row in enumerate(mats):
        mujoco.mju_mat2Quat(out[i], row)
    return out

"""A frame: what a picture shows, as plain arrays, and the visual model posed as one says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class View:
    """View from which a picture is taken, m and world axes; `camera_id` names a camera of the model, -1 for none."""

    eye: Vector
    target: Vector
    up: Vector
    fovy: float  # degrees
    camera_id: int = -1

    @property
    def axes(self) -> tuple[Vector, Vector, Vector]:
        """Unit vectors [3] of the picture in the world: to the right, down and forward."""
        forward = (self.target - self.eye) / np.linalg.norm(self.target - self.eye)
        right = np.cross(forward, self.up)
        right = right / np.linalg.norm(right)
        return right, -np.cross(right, forward), forward


@dataclass(frozen=True)
class FrameShape:
    """Something drawn beside the scene, m and world axes.

    Args:
        start: [3] centre of a sphere or box; where a capsule, cylinder or arrow begins.
        radius: of all but boxes; of an arrow's shaft.
        rgba: [4].
        end: [3] where a capsule, cylinder or arrow ends.
        kind: "sphere", "capsule", "cylinder", "arrow" or "box".
        half: [3] half the edges of a box.
        turn: [3, 3] axes of a box as columns.
    """

    start: Vector
    radius: float
    rgba: Sequence[float]
    end: Vector | None = None
    kind: str = "sphere"
    half: Vector | None = None
    turn: Vector | None = None


@dataclass(frozen=True)
class Frame:
    """All that one picture depends on, beside the visual model; it can be sent to another process.

    Args:
        qpos: [nq], as in MjData.
        time: s.
        mocap_pos: [nmocap, 3] m.
        mocap_quat: [nmocap, 4] wxyz.
        view: where the picture is taken from.
        shapes: drawn beside the scene.
    """

    qpos: Vector
    time: float
    mocap_pos: Vector
    mocap_quat: Vector
    view: View
    shapes: Sequence[FrameShape]


class FrameStage:
    """MjData of a visual model, posed for pictures.

    Args:
        model: the scene's visual model.

    Attributes:
        model, data: poses of all bodies, geoms, cameras and lights after `pose`.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self.data = mujoco.MjData(model)
        self._propellers = _propellers(model)

    def pose(self, frame: Frame) -> None:
        """Work out where everything is."""
        self.set_state(frame.qpos, frame.time, frame.mocap_pos, frame.mocap_quat)

    def set_state(self, qpos: Vector, time: float, mocap_pos: Vector, mocap_quat: Vector) -> None:
        """Work out where everything is, see `Frame`."""
        data = self.data
        data.qpos[:] = qpos
        data.time = time
        data.mocap_pos[:] = mocap_pos
        data.mocap_quat[:] = mocap_quat
        mujoco.mj_kinematics(self.model, data)
        mujoco.mj_comPos(self.model, data)
        mujoco.mj_camlight(self.model, data)
        self._spin_propellers()

    def _spin_propellers(self) -> None:
        """Turn the propellers, for looks: slower than real ones, which at 30 frames a second would seem to stand."""
        for geom, body, sense in self._propellers:
            axis = self.data.xmat[body].reshape(3, 3)[:, 2]
            quat = np.zeros(4)
            turn = np.zeros(9)
            mujoco.mju_axisAngle2Quat(quat, axis, sense * 37.0 * self.data.time)
            mujoco.mju_quat2Mat(turn, quat)
            self.data.geom_xmat[geom] = (turn.reshape(3, 3) @ self.data.geom_xmat[geom].reshape(3, 3)).ravel()


def _propellers(model: mujoco.MjModel) -> list[tuple[int, int, int]]:
    """(geom, body, sense of rotation about the body's z) of the geoms called ``propeller_<i>_ccw`` or ``..._cw``."""
    out = []
    for g in range(model.ngeom):
        name = model.geom(g).name.rsplit("/", 1)[-1]
        if name.startswith("propeller_"):
            out.append((g, int(model.geom_bodyid[g]), -1 if name.endswith("_cw") else 1))
    return out

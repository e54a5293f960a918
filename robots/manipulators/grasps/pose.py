"""GraspPose, the result of grasp samplers, and HandShape, the space that an open hand takes."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.assets.allegro import CHAINS, GRASP_POS, PALM_CENTRE, PALM_HALF

Floats = NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True, eq=False)
class GraspPose:
    """Pose of a hand when it closes, in the object's frame.

    Args:
        position: [3] m, of the hand's grasp frame: the site `tcp` of a parallel gripper, `grasp` of the Allegro hand.
        quaternion: [4] wxyz, grasp frame to object. Its z is the approach, its y the closing axis: the fingers close along
            it; on the Allegro hand (assets.allegro) it runs from the thumb to the finger tips.
        width: m, of the object between the fingers, along the closing axis.
        quality: in [0, 1], by the sampler; 1 is best.
        sampler: which one found it.
    """

    position: Floats
    quaternion: Floats
    width: float
    quality: float
    sampler: str

    @property
    def axes(self) -> Floats:
        """[3, 3]: columns are across, closing axis and approach, in the object's frame."""
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, self.quaternion)
        return turn.reshape(3, 3)


@dataclass(frozen=True)
class HandShape:
    """The space that an open hand takes: boxes in its grasp frame, x across, y the closing axis, z the approach.

    Args:
        name: for messages.
        width: m, largest opening.
        tips: m, from the grasp frame to the ends of the finger on the side of +y and of that on the other.
        breadth: m, half of what the fingers take across.
        thickness: m, likewise, what the fingers take along y.
        across, along, behind: m, the palm from low to high in x, y and z; it faces the object at the upper end of `behind`.
        opens_fully: before every grasp; False: as far as the object needs.
    """

    name: str
    width: float
    tips: Range
    breadth: float
    thickness: Range
    across: Range
    along: Range
    behind: Range
    opens_fully: bool = False

    @property
    def reach(self) -> float:
        """m, from the grasp frame to the end of the longer finger."""
        return max(self.tips)

    def opening(self, width: Floats, clearance: float) -> Floats:
        """[N] m, with which the hand comes to objects of width [N] m, with a clearance (m) on both sides."""
        return np.full_like(width, self.width) if self.opens_fully else np.minimum(width + 2.0 * clearance, self.width)

    def boxes(self, opening: Floats) -> Floats:
        """[..., 3, 2, 3] m: lower and upper corner of both fingers and the palm at openings [...] m."""
        half = 0.5 * np.asarray(opening, float)[..., None]
        low = np.zeros((*half.shape[:-1], 3, 3))
        high = np.zeros((*half.shape[:-1], 3, 3))
        face = self.behind[1]
        low[..., :2, 0] = -self.breadth
        high[..., :2, 0] = self.breadth
        low[..., :2, 2] = face
        high[..., :2, 2] = self.tips
        low[..., 0:1, 1] = half
        high[..., 0:1, 1] = half + self.thickness[0]
        low[..., 1:2, 1] = -half - self.thickness[1]
        high[..., 1:2, 1] = -half
        low[..., 2, :] = self.across[0], self.along[0], self.behind[0]
        high[..., 2, :] = self.across[1], self.along[1], self.behind[1]
        return np.stack((low, high), axis=-2)

    def lowest(self, axes: Floats, opening: Floats) -> Floats:
        """[N] m: how far the hand, axes [N, 3, 3], reaches below its grasp frame's origin, along z of the object."""
        up = axes[:, None, 2, :]  # z of the object, in the hand
        low, high = np.moveaxis(self.boxes(opening), -2, 0)
        bottom = np.minimum(up * low, up * high).sum(-1)  # of each box, the lowest corner
        return -bottom.min(-1)

    def inside(self, points: Floats, opening: Floats, slack: float) -> NDArray[np.bool_]:
        """[N]: whether points [N, P, 3] m of the grasp frame lie deeper than `slack` m in a finger or the palm."""
        low, high = np.moveaxis(self.boxes(opening), -2, 0)
        deep = (points[:, None] > low[:, :, None] + slack) & (points[:, None] < high[:, :, None] - slack)
        return deep.all(-1).any((1, 2))


# Opening, fingers and pads: MuJoCo Menagerie's panda.xml. Pads: 8.5 mm half height about the tool centre, 103 mm from the
# flange; fingers 21 mm broad; the body is 63 x 204 mm and ends 66 mm from the flange (maker's drawing).
PARALLEL = HandShape(
    "parallel gripper", 0.08, (0.009, 0.009), 0.0105, (0.015, 0.015), (-0.032, 0.032), (-0.102, 0.102), (-0.150, -0.037)
)
"""The Panda's hand."""

_SPREAD = CHAINS["ff"][0].pos[1] + 0.0115 + 0.014  # m, the outer fingers lean by 5 degrees over 128 mm
ALLEGRO = HandShape(
    "Allegro hand", 0.10, (0.039, 0.087), _SPREAD, (0.072, 0.03),
    (-PALM_HALF[1], PALM_HALF[1]),
    (PALM_CENTRE[2] - PALM_HALF[2] - GRASP_POS[2], -GRASP_POS[2]),
    (PALM_CENTRE[0] - PALM_HALF[0] - GRASP_POS[0], PALM_CENTRE[0] + PALM_HALF[0] - GRASP_POS[0]),
    opens_fully=True,
)  # fmt: skip
"""The Allegro hand in its open shape (robots.manipulators.allegro.OPEN): the fingers lean out, the thumb stands opposite."""


def quaternions(axes: Floats) -> Floats:
    """[N, 4] wxyz of rotation matrices [N, 3, 3]."""
    out = np.zeros((len(axes), 4))
    for quat, turn in zip(out, axes, strict=True):
        mujoco.mju_mat2Quat(quat, turn.ravel())
    return out

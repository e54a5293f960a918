"""Pictures and point clouds as observations of the table-top tasks: ``obs="depth"``, "rgb", "segmentation" or "points".

Two cameras see: `front`, across the table from the robot, and `wrist` on the hand. What they show takes the place of the
objects' poses; the robot's own state and the goal stay. How things look can be randomised, see VisualRandomization.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.quantities import own
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.visual import VisualRandomization
from rookery.sim.sensors.cameras import KINDS, Cameras
from rookery.sim.sensors.image_terms import depth_term, rgb_term, segmentation_term
from rookery.sim.sensors.point_cloud import PointCloud
from rookery.sim.specs import Term
from rookery.sim.world import World

OBSERVATIONS = ("state", *KINDS, "points")
CLOUD = "x, y, z of points of the depth pictures within the crop, the farthest of each other"
LENSES = ("front", "wrist")
FRONT = ((0.0, 1.45, 0.75), (0.0, 0.62, 0.05))  # m, eye and what it looks at
CROP = ((-0.6, 0.2, 0.002), (0.6, 1.1, 0.6))
"""m, world: what of the scene counts as a point: all that stands on the table, and not the table."""


@dataclass(frozen=True)
class PictureConfig:
    """What a table-top task shows instead of telling."""

    obs: str = (
        "state"  # or depth, rgb, segmentation: pictures in place of the objects' poses; points: a cloud of both cameras
    )
    image_width: int = 32  # pixels
    image_height: int = 24  # pixels
    image_range_m: float = 3.0  # m, farthest that the cameras see
    points: int = 128  # in a cloud


def picture_terms(cfg: PictureConfig) -> tuple[Term, ...]:
    """The declaration of what is shown; none with ``obs="state"``.

    Raises:
        RookeryError: unknown `obs`, or a picture without pixels, range or points.
    """
    if cfg.obs not in OBSERVATIONS:
        raise unknown("obs", cfg.obs, OBSERVATIONS)
    if cfg.image_width < 1 or cfg.image_height < 1 or cfg.image_range_m <= 0 or cfg.points < 1:
        raise RookeryError(
            "image_width, image_height, image_range_m and points must be positive, got "
            f"{cfg.image_width}, {cfg.image_height}, {cfg.image_range_m} m and {cfg.points}."
        )
    views = (len(LENSES), cfg.image_height, cfg.image_width)
    frame = "cameras front and wrist, rows from the top left"
    return {
        "state": (),
        "depth": (depth_term(views, frame, cfg.image_range_m),),
        "rgb": (rgb_term(views, frame),),
        "segmentation": (segmentation_term(views, frame),),
        "points": (Term("points", own(CLOUD, 3 * cfg.points, "m", "world")),),
    }[cfg.obs]


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


class Pictures:
    """The cameras of a table-top task, which are there with an `obs` other than "state".

    Args:
        world: with the cameras of LENSES.
        cfg: size and kind.
        rng: the worlds' streams, for how things look.
        arm: prefix of the arm's names.

    Attributes:
        visual: the switches of how things look, a child for the task to save.
    """

    def __init__(self, world: World, cfg: PictureConfig, rng: Streams, arm: str) -> None:
        kind = "depth" if cfg.obs == "points" else cfg.obs
        self._name = picture_terms(cfg)[0].name
        self._cameras = Cameras(
            world, (LENSES[0], f"{arm}/{LENSES[1]}"), cfg.image_width, cfg.image_height, kind, cfg.image_range_m
        )
        self.visual = VisualRandomization([self._cameras], rng)
        self._cloud = None
        if cfg.obs == "points":  # not at random: what a world sees must not depend on how often others are looked at
            self._cloud = PointCloud(self._cameras, cfg.points, box=CROP, subsample="farthest")

    def observe(self) -> dict[str, Tensor]:
        """The values [N, d] of `picture_terms` now."""
        pixels = self._cameras.read() if self._cloud is None else self._cloud.read()
        return {self._name: pixels.flatten(1).float()}

    def parameters(self) -> dict[str, Parameter]:
        """See VisualRandomization."""
        return self.visual.parameters()

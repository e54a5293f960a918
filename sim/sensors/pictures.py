"""Pictures and point clouds as observations, for every task whose config is a `PictureConfig`: ``obs="depth"``, "rgb",
"segmentation" or "points".

A task gives its cameras to `picture_terms`, and leaves out of its declaration what the picture takes the place of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.sensors.cameras import CLASSES, KINDS, Cameras
from rookery.sim.sensors.point_cloud import PointCloud
from rookery.sim.specs import Term
from rookery.sim.terms import Sensor
from rookery.sim.world import World

DEPTH_NOISE = 0.01
"""m: a RealSense D435 is within 2 % at 2 m (Intel's data sheet of the D400 series), taken as two standard deviations at half of
that distance."""
COLOR_NOISE = 2.5
"""1/255: a hundredth of full brightness, our choice."""

WHOLE_UNITS = ("1/255", "class")
"""Units of pictures whose raw values are whole numbers from 0 to 255."""
SHOWS = {
    "depth": ("distance along the view to the first surface of each pixel, the range where there is none", "m", 1),
    "rgb": ("red, green, blue of each pixel, 0 to 255", "1/255", 3),
    "segmentation": ("class of the first surface of each pixel, 0 for nothing", "class", 1),
}
"""By kind: what its pictures show, unit, and values a pixel."""
CLOUD = "x, y, z of points of the depth pictures within the crop, the farthest of each other"

Box = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class PictureConfig:
    """Settings of a task that shows instead of telling."""

    obs: str = "state"  # or depth, rgb, segmentation: pictures of the robot's cameras in place of what they can show
    image_width: int = 32  # pixels
    image_height: int = 24  # pixels
    image_range_m: float = 10.0  # m, farthest that cameras see


class Marks(NamedTuple):
    """Balls that pictures show for what agents are to reach.

    Args:
        places: [N, M, 3] m, world.
        radius: m.
        own: each agent sees only its own share of them, M / A in turn; else everybody sees all.
    """

    places: Tensor
    radius: float = 0.1
    own: bool = True


def is_whole(term: Term) -> bool:
    """True for pictures of whole numbers from 0 to 255, times their scale."""
    return bool(term.shape) and term.unit in WHOLE_UNITS


def picture_terms(
    cfg: PictureConfig, cameras: Sequence[Sequence[str]], said: str, marks: Callable[[], Marks | None] | None = None
) -> tuple[Term, ...]:
    """The declaration of the pictures, one value a pixel and color, rows from the top; none with ``obs="state"``.

    In the policy's eyes depth is 0 at the camera and 1 where nothing is within its range, colors go from 0 to 1, and classes
    (see `rookery.sim.sensors.cameras.CLASSES`) from 0, nothing, to 1.

    Args:
        cfg: kind and size.
        cameras: of each agent, names in the scene; the same number for all.
        said: which these are, for docs: "onboard camera".
        marks: what is marked now.

    Raises:
        RookeryError: unknown `obs`, or a picture without pixels.
    """
    check_pictures(cfg, ("state", *KINDS))
    if cfg.obs == "state":
        return ()
    what, unit, channels = SHOWS[cfg.obs]
    views = (len(cameras[0]), cfg.image_height, cfg.image_width)
    sensor = Sensor(
        what, math.prod(views) * channels, unit, doc=f"{said}, rows from the top left",
        make=lambda world: Pictures(world, cfg, cfg.obs, cameras, marks),
    )  # fmt: skip
    scale = {"depth": 1.0 / cfg.image_range_m, "rgb": 1.0 / 255.0, "segmentation": 1.0 / (len(CLASSES) - 1)}[cfg.obs]
    noise = {"depth": DEPTH_NOISE, "rgb": COLOR_NOISE, "segmentation": 0.0}[cfg.obs]
    return (Term(cfg.obs, sensor, scale=scale, noise=noise, shape=(*views, channels)),)


def cloud_term(cfg: PictureConfig, points: int, cameras: Sequence[str], crop: Box) -> Term:
    """The declaration of a point cloud in world axes of one agent's cameras.

    Args:
        cfg: size of the pictures.
        points: in the cloud.
        cameras: names in the scene.
        crop: m, world, lower and upper corner of what counts.

    Raises:
        RookeryError: no points, or pictures without pixels.
    """
    check_pictures(cfg, (cfg.obs,))
    if points < 1:
        raise RookeryError(f"a point cloud must have a point at least, got points={points}.")
    make = lambda world: Cloud(world, cfg, points, cameras, crop)  # noqa: E731
    return Term("points", Sensor(CLOUD, 3 * points, "m", "world", doc=f"from {crop[0]} to {crop[1]} m", make=make))


def check_pictures(cfg: PictureConfig, kinds: Sequence[str]) -> None:
    """Refuse a kind of observation that is not one of `kinds`, and pictures without pixels or range."""
    if cfg.obs not in kinds:
        raise unknown("obs", cfg.obs, kinds)
    if cfg.image_width < 1 or cfg.image_height < 1 or cfg.image_range_m <= 0:
        raise RookeryError(
            f"image_width, image_height and image_range_m must be positive, got {cfg.image_width}, {cfg.image_height} and "
            f"{cfg.image_range_m} m."
        )


class Pictures:
    """Reads `picture_terms`. Worlds in which nothing has moved since the last call cost next to nothing."""

    def __init__(
        self,
        world: World,
        cfg: PictureConfig,
        kind: str,
        cameras: Sequence[Sequence[str]],
        marks: Callable[[], Marks | None] | None,
    ) -> None:
        names = [name for own in cameras for name in own]
        self.cameras: Cameras | None = Cameras(world, names, cfg.image_width, cfg.image_height, kind, cfg.image_range_m)
        self._lenses = self.cameras
        self._agents = len(cameras)
        self._marks = marks

    def read(self) -> Tensor:
        """[N, A, d] float32."""
        marks = None if self._marks is None else self._marks()
        if marks is not None:
            self._lenses.spheres(marks.places, marks.radius, own=marks.own)
        return self._lenses.read().flatten(1).unflatten(1, (self._agents, -1)).float()


class Cloud:
    """Reads `cloud_term`. Points are not chosen at random: what a world sees must not depend on how often others are looked
    at."""

    def __init__(self, world: World, cfg: PictureConfig, points: int, cameras: Sequence[str], crop: Box) -> None:
        self.cameras: Cameras | None = Cameras(
            world, tuple(cameras), cfg.image_width, cfg.image_height, "depth", cfg.image_range_m
        )
        self._cloud = PointCloud(self.cameras, points, box=crop, subsample="farthest")

    def read(self) -> Tensor:
        """[N, 1, d]."""
        return self._cloud.read().flatten(1).float()[:, None]


BEACON_RADIUS = 0.2  # m
BEACON = torch.tensor([(1.5, 0.6, 0.0), (1.5, -0.6, 0.0), (1.5, 0.0, 0.6)])
"""[3, 3] m from a target, world: three balls in front of it. A ball at the target itself would be out of sight from there; a
single one ahead would look the same from everywhere on a sphere around it, the triangle does not."""


def beacon(target: Tensor) -> Marks:
    """The balls of `BEACON` for each target [N, A, 3]."""
    return Marks((target[:, :, None] + BEACON).flatten(1, 2), BEACON_RADIUS)

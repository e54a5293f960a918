"""Pictures of the drones' onboard cameras as observations, for every drone task: ``obs="depth"``, "rgb" or "segmentation".

A task adds `VisionConfig` to its config, `image_terms` to its declaration and `Vision.observe` to what it observes; with
``obs="state"`` all three add nothing. The task leaves out the terms that the picture takes the place of, and keeps what a
drone feels without looking: up, velocities, last action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.visual import VisualRandomization
from rookery.sim.sensors.cameras import KINDS, Cameras
from rookery.sim.sensors.image_terms import depth_term, rgb_term, segmentation_term
from rookery.sim.specs import Term
from rookery.sim.world import World

OBSERVATIONS = ("state", *KINDS)
MARK_RADIUS = 0.1  # m, of the ball that shows a drone its target
BEACON_RADIUS = 0.2  # m
BEACON = torch.tensor([(1.5, 0.6, 0.0), (1.5, -0.6, 0.0), (1.5, 0.0, 0.6)])
"""[3, 3] m from a target, world: three balls in front of it. A ball at the target itself would be out of sight from there; a
single one ahead would look the same from everywhere on a sphere around it, the triangle does not."""


@dataclass(frozen=True)
class VisionConfig:
    """What of a drone's world comes as a picture."""

    obs: str = "state"  # or depth, rgb, segmentation: the onboard camera's picture in place of what it can show
    image_width: int = 32  # pixels
    image_height: int = 24  # pixels
    image_range_m: float = 10.0  # m, farthest that the camera sees


def image_terms(cfg: VisionConfig) -> tuple[Term, ...]:
    """The declaration of the picture, one value a pixel and colour, rows from the top; none with ``obs="state"``.

    In the policy's eyes depth is 0 at the camera and 1 where nothing is within its range, colours go from 0 to 1, and classes
    (see `rookery.sim.sensors.cameras.CLASSES`) from 0, nothing, to 1.

    Raises:
        RookeryError: unknown `obs`, or a picture without pixels.
    """
    if cfg.obs not in OBSERVATIONS:
        raise unknown("obs", cfg.obs, OBSERVATIONS)
    if cfg.image_width < 1 or cfg.image_height < 1 or cfg.image_range_m <= 0:
        raise RookeryError(
            f"image_width, image_height and image_range_m must be positive, got {cfg.image_width}, {cfg.image_height} and "
            f"{cfg.image_range_m} m."
        )
    views = (1, cfg.image_height, cfg.image_width)
    frame = "onboard camera, rows from the top left"
    if cfg.obs == "depth":
        return (depth_term(views, frame, cfg.image_range_m),)
    if cfg.obs == "rgb":
        return (rgb_term(views, frame),)
    if cfg.obs == "segmentation":
        return (segmentation_term(views, frame),)
    return ()


class Vision:
    """The onboard cameras of a task's drones; idle with ``obs="state"``.

    Args:
        world: engine with the task's scene.
        names: prefixes of the drones that see, such as "drone_0"; each has a camera ``onboard``.
        cfg: size and kind of the pictures.
        rng: the worlds' streams, for how things look.

    Attributes:
        on: whether there are pictures at all.
        cameras: the cameras, None with ``obs="state"``.
        visual: the switches of how things look, a child for the task to save; None with ``obs="state"``.
    """

    cameras: Cameras | None = None
    visual: VisualRandomization | None = None

    def __init__(self, world: World, names: Sequence[str], cfg: VisionConfig, rng: Streams) -> None:
        self._terms = image_terms(cfg)
        self.on = cfg.obs != "state"
        if self.on:
            lenses = [f"{name}/onboard" for name in names]
            self.cameras = Cameras(world, lenses, cfg.image_width, cfg.image_height, cfg.obs, cfg.image_range_m)
            self.visual = VisualRandomization([self.cameras], rng)
            size = self._terms[0].size
            self._values = torch.zeros(world.num_envs, len(names), size)

    def parameters(self) -> dict[str, Parameter]:
        """See VisualRandomization."""
        return {} if self.visual is None else self.visual.parameters()

    def observe(self, marks: Tensor | None = None, radius: float = MARK_RADIUS, own: bool = True) -> dict[str, Tensor]:
        """The values of `image_terms` now. Worlds in which nothing has moved since the last call cost next to nothing.

        Args:
            marks: [N, M, 3] m, world: balls to show for what the drones are to reach, such as targets.
            radius: m, of these balls.
            own: each drone sees only its own share of them, M / A in turn; else everybody sees all.
        """
        if self.cameras is None:
            return {}
        if marks is not None:
            self.cameras.spheres(marks, radius, own=own)
        self._values.copy_(self.cameras.read().flatten(2))
        return {self._terms[0].name: self._values}


def beacon(target: Tensor) -> Tensor:
    """[N, 3 A, 3] m, world: the balls of `BEACON` for each target [N, A, 3], for `Vision.observe` with `BEACON_RADIUS`."""
    return (target[:, :, None] + BEACON).flatten(1, 2)

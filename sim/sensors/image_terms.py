"""Observation terms of camera images, the same for every task with cameras."""

from __future__ import annotations

import math

from rookery.sim.quantities import own
from rookery.sim.sensors.cameras import CLASSES
from rookery.sim.specs import Term

DEPTH_NOISE = 0.01
"""m: a RealSense D435 is within 2 % at 2 m (Intel's data sheet of the D400 series), taken as two standard deviations at half of
that distance."""
COLOUR_NOISE = 2.5
"""1/255: a hundredth of full brightness, our choice."""

WHOLE_UNITS = ("1/255", "class")
"""Units of pictures whose raw values are whole numbers from 0 to 255."""

Views = tuple[int, int, int]
"""How many cameras, and the rows and columns of their pictures."""


def is_whole(term: Term) -> bool:
    """Whether a term is a picture of whole numbers from 0 to 255, times its scale."""
    return bool(term.shape) and term.unit in WHOLE_UNITS


def depth_term(views: Views, frame: str, range_m: float) -> Term:
    """Distances [cameras * rows * columns] m that depth cameras see, scaled to 1 at their range.

    Args:
        views: cameras, rows, columns.
        frame: cameras, and the order of the pixels.
        range_m: m, what pixels without a surface get.
    """
    what = "distance along the view to the first surface of each pixel, the range where there is none"
    pixels = own(what, math.prod(views), "m", doc=frame)
    return Term("depth", pixels, scale=1.0 / range_m, noise=DEPTH_NOISE, shape=(*views, 1))


def rgb_term(views: Views, frame: str) -> Term:
    """Colours [cameras * rows * columns * 3] that cameras see, scaled to 1 at full brightness."""
    pixels = own("red, green, blue of each pixel, 0 to 255", 3 * math.prod(views), "1/255", doc=frame)
    return Term("rgb", pixels, scale=1.0 / 255.0, noise=COLOUR_NOISE, shape=(*views, 3))


def segmentation_term(views: Views, frame: str) -> Term:
    """Classes [cameras * rows * columns] of what cameras see, scaled to 1 at the last of `cameras.CLASSES`."""
    pixels = own("class of the first surface of each pixel, 0 for nothing", math.prod(views), "class", doc=frame)
    return Term("segmentation", pixels, scale=1.0 / (len(CLASSES) - 1), shape=(*views, 1))

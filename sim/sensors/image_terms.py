"""Observation terms of camera images, the same for every task with cameras."""

from __future__ import annotations

from rookery.sim.sensors.cameras import CLASSES
from rookery.sim.specs import Term

DEPTH_NOISE = 0.01
"""m: a RealSense D435 is within 2 % at 2 m (Intel's data sheet of the D400 series), taken as two standard deviations at half of
that distance."""
COLOUR_NOISE = 2.5
"""1/255: a hundredth of full brightness, our choice."""


def depth_term(pixels: int, frame: str, range_m: float) -> Term:
    """Distances [pixels] m that a depth camera sees, scaled to 1 at its range.

    Args:
        frame: cameras, and the order of the pixels.
        range_m: m, what pixels without a surface get.
    """
    formula = "distance along the view to the first surface of each pixel, the range where there is none"
    return Term("depth", pixels, "m", frame, scale=1.0 / range_m, noise=DEPTH_NOISE, formula=formula)


def rgb_term(pixels: int, frame: str) -> Term:
    """Colours [3 pixels] that a camera sees, scaled to 1 at full brightness."""
    return Term(
        "rgb", 3 * pixels, "1/255", frame, scale=1.0 / 255.0, noise=COLOUR_NOISE,
        formula="red, green, blue of each pixel, 0 to 255",
    )  # fmt: skip


def segmentation_term(pixels: int, frame: str) -> Term:
    """Classes [pixels] of what a camera sees, scaled to 1 at the last of `cameras.CLASSES`."""
    formula = "class of the first surface of each pixel, 0 for nothing"
    return Term("segmentation", pixels, "class", frame, scale=1.0 / (len(CLASSES) - 1), formula=formula)

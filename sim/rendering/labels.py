"""Labels: short texts beside robots in a picture."""

from __future__ import annotations

import numpy as np

from rookery.sim.rendering.frame import Vector, View

Box = tuple[float, float, float, float]


def project(view: View, points: Vector, aspect: float) -> Vector:
    """Project points into a picture.

    Args:
        view: from where.
        points: [n, 3] m.
        aspect: width of the picture over its height.

    Returns:
        [n, 2] shares of the width, from the left, and of the height, from the top; NaN of what is behind the camera.
    """
    right, down, forward = view.axes
    offset = points - view.eye
    depth = offset @ forward
    half = np.where(depth > 1e-6, depth, np.nan) * np.tan(np.radians(view.fovy) / 2)
    x = 0.5 + 0.5 * (offset @ right) / (half * aspect)
    y = 0.5 + 0.5 * (offset @ down) / half
    return np.stack((x, y), -1)


def place_labels(at: Vector, sizes: Vector, width: float, height: float, taken: Box | None = None) -> list[Box | None]:
    """Boxes of labels above what they are of, none over another: one that would be goes up.

    Args:
        at: [n, 2] pixels, from the left and from the top, above which they stand.
        sizes: [n, 2] pixels, of the labels.
        width, height: of the picture, pixels.
        taken: a box that stays free, too.

    Returns:
        (left, top, right, bottom) in pixels; None of what is outside of the picture, or has no room.
    """
    boxes: list[Box] = [] if taken is None else [taken]
    out: list[Box | None] = [None] * len(at)
    for k in sorted(range(len(at)), key=lambda i: -at[i, 1]):  # from the bottom, so that moving up finds room
        (x, y), (wide, tall) = at[k], sizes[k]
        if not (0.0 <= x <= width and 0.0 <= y <= height):
            continue
        left = max(min(x - 0.5 * wide, width - wide), 0.0)  # of what is longer than the picture, the beginning shows
        bottom = y
        beside = [box for box in boxes if box[0] < left + wide and left < box[2]]
        while hit := [box for box in beside if box[1] < bottom and bottom - tall < box[3]]:
            bottom = min(box[1] for box in hit)
        if bottom - tall >= 0.0:
            box = (left, bottom - tall, left + wide, bottom)
            boxes.append(box)
            out[k] = box
    return out

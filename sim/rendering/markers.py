"""Markers: what tasks show in videos beside the scene, as dicts, and the shapes that they are drawn as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rendering.frame import FrameShape

Marker = Mapping[str, Any]
KINDS = ("sphere", "box", "cylinder", "arrow")


def marker_shape(marker: Marker) -> FrameShape:
    """A marker as a shape.

    Args:
        marker: "pos" [3] m, in the world: the centre of a sphere or box, where a cylinder or an arrow begins; and optionally
            "shape", one of `KINDS` ("sphere");
            "size", m: the radius, of an arrow its shaft's, of a box half its edge or [3] half its edges (0.02);
            "end" [3] m: where a cylinder or an arrow ends, needed for those;
            "quat" [4] wxyz: how a box is turned (not at all);
            "rgba" [4].

    Raises:
        RookeryError: an unknown shape, or a cylinder or arrow without an end, or of no length.
    """
    kind = str(marker.get("shape", "sphere"))
    if kind not in KINDS:
        raise unknown("marker shape", kind, KINDS)
    pos = np.asarray(marker["pos"], float).reshape(3)
    size = np.asarray(marker.get("size", 0.02), float)
    r, g, b, a = (float(v) for v in marker.get("rgba", (0.2, 0.8, 0.3, 0.8)))
    if kind == "box":
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, np.asarray(marker.get("quat", (1.0, 0.0, 0.0, 0.0)), float))
        half = np.broadcast_to(size, 3).copy()
        return FrameShape(pos, float(half.max()), (r, g, b, a), kind=kind, half=half, turn=turn.reshape(3, 3))
    if kind == "sphere":
        return FrameShape(pos, float(size), (r, g, b, a))
    end = np.asarray(marker.get("end", pos), float).reshape(3)
    if np.linalg.norm(end - pos) < 1e-9:
        raise RookeryError(f'a marker of shape {kind!r} goes from "pos" to "end", two different points, got {marker}.')
    return FrameShape(pos, float(size), (r, g, b, a), end, kind)

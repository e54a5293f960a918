"""Looks of N worlds to their cameras: colors, patterns and light, and where each camera sits and how wide it sees.

All of it is what the scene says until somebody writes it (see `rookery.sim.randomization.visual`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.sensors.shading import CHEQUER, CONTRAST, DARK, DAYLIGHT, PATTERN, PERIOD, PHASE, SECOND, TEXTURE, TILE


class Look(Buffers):
    """The appearance of G geoms, and C cameras, in N worlds. After a write, call `Cameras.redraw`.

    Args:
        num_envs: N.
        paints: [G, 3] colors, 0 to 1.
        planes: [G] bool: the geoms that are planes, which get a chequer of half-meter tiles.
        mounts: positions [C, 3] m and axes [C, 9] of the cameras, in the frames of the bodies that carry them.

    Attributes:
        paint: [N, G, 3] colors.
        texture: [N, G, TEXTURE], light: [N, LIGHT]: rows as `rookery.sim.sensors.shading` lays them out.
        pos, mat: [N, C, 3] m and [N, C, 9], as `mounts`.
        zoom: [N, C] factor on the tangent of the angle of view.
    """

    paint: Tensor
    texture: Tensor
    light: Tensor
    pos: Tensor
    mat: Tensor
    zoom: Tensor

    def __init__(
        self, num_envs: int, paints: np.ndarray, planes: np.ndarray, mounts: tuple[np.ndarray, np.ndarray]
    ) -> None:
        super().__init__()
        geoms = len(paints)
        cameras = len(mounts[0])
        self.buffer("paint", num_envs, geoms, 3).copy_(torch.from_numpy(paints))
        self.buffer("texture", num_envs, geoms, TEXTURE)[..., PERIOD] = TILE
        tiles = torch.from_numpy(planes)
        self.texture[:, tiles, PATTERN] = float(CHEQUER)
        self.texture[:, tiles, CONTRAST] = 1.0
        self.texture[:, tiles, SECOND:PHASE] = (1.0 - DARK) * self.paint[:, tiles]
        self.texture[:, tiles, PHASE + 2] = 0.5 * TILE  # a plane's own z is 0, on the edge between two tiles
        self.buffer("light", num_envs, len(DAYLIGHT)).copy_(torch.from_numpy(DAYLIGHT))
        self.buffer("pos", num_envs, cameras, 3).copy_(torch.from_numpy(mounts[0]))
        self.buffer("mat", num_envs, cameras, 9).copy_(torch.from_numpy(mounts[1]))
        self.buffer("zoom", num_envs, cameras).fill_(1.0)

"""Pictures for the adapters' ``render()``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.env import Env
from rookery.sim.errors import unknown

RENDER_MODES = ("rgb_array",)


def check_mode(render_mode: str | None) -> str | None:
    """The mode, if it exists. Raises RookeryError otherwise."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise unknown("render mode", render_mode, RENDER_MODES)
    return render_mode


class Frames:
    """Renders worlds of an environment; the renderers are made when they are first needed."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._renderers: dict[int, Any] = {}

    def world(self, i: int) -> NDArray[np.uint8]:
        """World i as uint8 [H, W, 3]."""
        if i not in self._renderers:
            from rookery.sim.rendering.renderer import Renderer

            self._renderers[i] = Renderer(self._env.visual_model(i))
        picture: NDArray[np.uint8] = self._renderers[i].render(self._env.mj_data(i), self._env.markers(i))
        return picture

    def cut(self, i: int) -> None:
        """A new episode began in world i."""
        if i in self._renderers:
            self._renderers[i].cut()

    def close(self) -> None:
        """Free the renderers."""
        for r in self._renderers.values():
            r.close()
        self._renderers.clear()

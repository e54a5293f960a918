"""Pictures for the adapters' ``render()``."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.env import Env
from rookery.sim.errors import unknown

RENDER_MODES = ("rgb_array", "human")


def check_mode(render_mode: str | None) -> str | None:
    """The mode, if it exists.

    Raises:
        RookeryError: it does not, or it is "human" and there is no screen.
    """
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise unknown("render mode", render_mode, RENDER_MODES)
    if render_mode == "human":
        from rookery.sim.rendering.window import check_screen

        check_screen()
    return render_mode


class Frames:
    """Renders worlds of an environment; the renderers are made when they are first needed.

    Args:
        env: the environment.
        mode: None, "rgb_array", or "human" for a window with world 0.
        last: world 0 is shown in the last state of its episode until `cut`, for interfaces whose users begin the next one.
    """

    def __init__(self, env: Env, mode: str | None = None, last: bool = False) -> None:
        self.mode = check_mode(mode)
        self._env = env
        self._renderers: dict[int, Any] = {}
        self._window: Any = None
        self._keeps = last and self.mode is not None
        self._last: tuple[Any, list[dict[str, Any]]] | None = None  # what there is to draw of an episode that has ended
        self._listen()

    def _listen(self) -> None:
        if self._keeps:
            self._env.before_restart(self._keep)

    def _keep(self, ids: Tensor) -> None:
        """Remember world 0, whose episode has ended."""
        self._last = copy.deepcopy((self._env.mj_data(0), self._env.markers(0)))

    def world(self, i: int) -> NDArray[np.uint8]:
        """World i as uint8 [H, W, 3]."""
        if i not in self._renderers:
            from rookery.sim.rendering.renderer import Renderer

            self._renderers[i] = Renderer(self._env.visual_model(i), camera=self._env.camera)
        data, markers = self._last or (self._env.mj_data(i), self._env.markers(i))
        picture: NDArray[np.uint8] = self._renderers[i].render(data, markers)
        return picture

    def render(self) -> NDArray[np.uint8] | None:
        """The answer of ``render()``: world 0 in the mode "rgb_array", None in others; "human" shows it."""
        self.show()
        return self.world(0) if self.mode == "rgb_array" else None

    def show(self) -> None:
        """In the mode "human", show world 0 in the window, as Gymnasium asks for after every reset and step."""
        if self.mode != "human":
            return
        picture = self.world(0)
        if self._window is None:
            from rookery.sim.rendering.window import Window

            self._window = Window(self._env.task_id, picture.shape[1], picture.shape[0])
        self._window.show(picture)

    def cut(self, i: int) -> None:
        """A new episode began in world i."""
        self._last = None
        if i in self._renderers:
            self._renderers[i].cut()

    def __getstate__(self) -> dict[str, Any]:
        """Copies make renderers and windows of their own."""
        return self.__dict__ | {"_renderers": {}, "_window": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._listen()

    def close(self) -> None:
        """Free the renderers and close the window."""
        for r in self._renderers.values():
            r.close()
        self._renderers.clear()
        if self._window is not None:
            self._window.close()
            self._window = None

"""A window on the screen that shows pictures, by GLFW, which comes with MuJoCo."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError


def check_screen() -> None:
    """Refuse a machine without a screen.

    Raises:
        RookeryError: there is none that this process knows of.
    """
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise RookeryError(
            'render_mode="human" opens a window and there is no screen here (neither DISPLAY nor WAYLAND_DISPLAY is set): take '
            'render_mode="rgb_array", or `rookery play` for a video.'
        )


class Window:
    """A window of the size of its pictures.

    Args:
        title: of the window.
        width, height: pixels.

    Raises:
        RookeryError: there is no screen, or it gives no window.
    """

    def __init__(self, title: str, width: int, height: int) -> None:
        check_screen()
        import glfw

        self._glfw = glfw
        self.height = height
        self._window: Any = None
        if glfw.init():
            glfw.window_hint(glfw.RESIZABLE, glfw.FALSE)
            self._window = glfw.create_window(width, height, title, None, None)
        if not self._window:
            raise RookeryError(
                'the screen gives no window with OpenGL, which render_mode="human" needs: take render_mode="rgb_array".'
            )

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Show a picture [H, W, 3] of the window's size; what the user did to the window is handled."""
        GL = importlib.import_module("OpenGL.GL")

        glfw = self._glfw
        before = glfw.get_current_context()
        glfw.make_context_current(self._window)
        width, height = glfw.get_framebuffer_size(self._window)
        GL.glViewport(0, 0, width, height)
        GL.glPixelZoom(width / picture.shape[1], height / picture.shape[0])
        GL.glRasterPos2f(-1.0, -1.0)
        GL.glPixelStorei(GL.GL_UNPACK_ALIGNMENT, 1)
        upright = np.ascontiguousarray(picture[::-1])
        GL.glDrawPixels(picture.shape[1], picture.shape[0], GL.GL_RGB, GL.GL_UNSIGNED_BYTE, upright)
        glfw.swap_buffers(self._window)
        glfw.poll_events()
        glfw.make_context_current(before)

    def close(self) -> None:
        """Close the window. Safe to call twice."""
        if self._window:
            self._glfw.destroy_window(self._window)
            self._window = None

"""Videos of recorded episodes: small, one picture a control step, quick to seek in."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.datasets.writer import Writer
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.camera import Camera
from rookery.sim.rendering.encoder import encoding
from rookery.sim.rendering.renderer import Renderer

if TYPE_CHECKING:
    from rookery.sim.env import Env

Picture = NDArray[np.uint8]


class Shots:
    """Record needed to draw every world at every control step of a round later, when it is known which ones are kept."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self._data = env.mj_data(0)
        self._states: list[list[tuple[Any, ...]]] = [[] for _ in range(env.num_envs)]

    def note(self, t: int, running: Tensor) -> None:
        """The state before control step t of the worlds that still run."""
        for world in running.nonzero().flatten().tolist():
            data = self.env.mj_data(world, self._data)
            del self._states[world][t:]
            state = (data.qpos.copy(), float(data.time), data.mocap_pos.copy(), data.mocap_quat.copy())
            self._states[world].append((*state, self.env.markers(world)))

    def states(self, world: int, length: int) -> Iterator[tuple[mujoco.MjData, list[dict[str, Any]]]]:
        """Data and markers at each of the first `length` control steps."""
        data = self.env.mj_data(world)
        for qpos, time, mocap_pos, mocap_quat, markers in self._states[world][:length]:
            data.qpos[:] = qpos
            data.time = time
            data.mocap_pos[:] = mocap_pos
            data.mocap_quat[:] = mocap_quat
            yield data, markers


class Filming:
    """A camera that looks at every kept episode.

    Args:
        env: what is recorded.
        camera: "chase", "fixed", a camera of the scene, or (eye, target) in m, see `rookery.sim.rendering.renderer.Renderer`.
        width, height: pixels, even.
        name: of the videos' folder.

    Raises:
        RookeryError: an unknown camera, an odd size, no renderer.
    """

    def __init__(self, env: Env, camera: Camera, width: int = 160, height: int = 120, name: str | None = None) -> None:
        if width % 2 or height % 2:
            raise RookeryError(f"the video format needs an even width and height, got {width} x {height}.")
        self.name = name or (camera.replace("/", "_") if isinstance(camera, str) else "view")
        self.width = width
        self.height = height
        self.fps = 1.0 / env.control_dt
        self._renderer = Renderer(env.visual_model(), width=width, height=height, camera=camera)

    def declaration(self) -> dict[str, dict[str, Any]]:
        """Declaration for `Writer`."""
        return {self.name: {"width": self.width, "height": self.height, "fps": self.fps}}

    def film(self, shots: Shots | None, world: int, length: int, writer: Writer) -> None:
        """Write the video of the episode that `writer` takes next."""
        assert shots is not None
        self._renderer.cut()
        pictures = (self._renderer.render(data, markers) for data, markers in shots.states(world, length))
        encode(writer.video(self.name), pictures, self.fps, self.width, self.height)

    def close(self) -> None:
        """Free the renderer."""
        self._renderer.close()


def encode(path: Path, pictures: Iterator[Picture], fps: float, width: int, height: int, crf: int = 23) -> None:
    """Write an MP4 (H.264), whole or not at all.

    Every second picture is whole in itself, so that a reader that asks for single pictures, as training from video does,
    decodes at most one other for each. `crf` is the encoder's constant rate factor: less is finer and larger.

    Raises:
        RookeryError: it cannot be written or encoded.
    """
    output = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", str(crf), "-g", "2"]
    with encoding(path, fps, width, height, output) as write:
        for picture in pictures:
            write(picture)


class EpisodeVideo:
    """A video read from its first picture to its last, one in memory at a time; an iterator over pictures [H, W, 3].

    Args:
        path: of the file.

    Attributes:
        path: of the file.
        width, height: pixels.
        fps: pictures a second, as the file says, to two decimals.
        at: index of the picture that comes next.

    Raises:
        RookeryError: it is missing or damaged, or imageio-ffmpeg is; so does `next`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0
        if not path.is_file():
            raise RookeryError(f"{path} is missing.")
        # each picture of the file once, whatever its time stamp says
        self._frames = _ffmpeg().read_frames(str(path), output_params=["-fps_mode", "passthrough"])
        about = self._take()
        if about is None or not all(about["size"]):
            raise RookeryError(f"{path} cannot be read as a video: it has no pictures.")
        self.width, self.height = about["size"]
        self.fps = float(about["fps"])

    def __iter__(self) -> Iterator[Picture]:
        return self

    def __next__(self) -> Picture:
        raw = self._take()
        if raw is None:
            raise StopIteration
        self.at += 1
        return np.frombuffer(raw, np.uint8).reshape(self.height, self.width, 3)

    def close(self) -> None:
        """End the decoder."""
        self._frames.close()

    def _take(self) -> Any:
        """The next answer of the decoder, None at its end."""
        try:
            return next(self._frames, None)
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            why = (str(error).splitlines() or ["damaged"])[0].rstrip(".:")
            raise RookeryError(f"{self.path} cannot be read as a video: {why}.") from error


def decode(path: Path) -> Iterator[Picture]:
    """The pictures [H, W, 3] of a video, one by one.

    Raises:
        RookeryError: it is missing or damaged.
    """
    yield from EpisodeVideo(path)


def _ffmpeg() -> Any:
    """imageio_ffmpeg. Raises RookeryError where it is not installed."""
    try:
        return importlib.import_module("imageio_ffmpeg")
    except ImportError as error:
        raise RookeryError(
            "videos are read and written by imageio-ffmpeg, which is not installed: `pip install imageio-ffmpeg`."
        ) from error

"""Videos of a policy in an environment, MP4 or GIF in real time, and contact sheets of videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.camera import Camera, driven_bodies
from rookery.sim.rendering.encoder import completed, encoding
from rookery.sim.rendering.frame import Frame
from rookery.sim.rendering.overlay import Line, Overlay, annotate
from rookery.sim.rendering.painters import FramePainter
from rookery.sim.rendering.renderer import Composer

Picture = NDArray[np.uint8]
MOST_SECONDS = 86_400.0
"""s, longest video."""
_SUFFIXES = (".mp4", ".gif")
SAMPLES = 4
"""Averaged for each picture of a video, see `opengl.OpenGLPainter`."""


@dataclass(frozen=True)
class Video:
    """What `record_video` made: the file, its length in frames and in s, what drew it, and how many episodes ended in it."""

    path: Path
    frames: int
    seconds: float
    backend: str
    episodes: int


def record_video(
    env: Env,
    act: Act,
    path: str | os.PathLike[str],
    *,
    seconds: float = 10.0,
    fps: int = 30,
    width: int = 1280,
    height: int = 720,
    camera: Camera | None = None,
    world: int = 0,
    trail: bool = True,
    overlay: bool = True,
    seed: int | None = None,
    backend: str = "auto",
    samples: int = SAMPLES,
    progress: Callable[[int, float], None] = lambda frame, share: None,
) -> Video:
    """Record one world of `env` under `act` from a reset on, in real time: frame k shows the state at k / fps s.

    Without a GPU, pictures are drawn in as many processes as there are cores, see `FramePainter`.

    Args:
        env: the environment; it is reset with `seed`.
        act: from observations to actions, as `env.step` takes them.
        path: the video, .mp4 (H.264) or .gif; missing folders are made, and the file appears only when it is complete.
        seconds: simulated time to record.
        fps: frames a second.
        width, height: pixels, even.
        camera: "chase", "fixed", a camera of the scene, or (eye, target) in m, see `Renderer`; None is the task's own.
        world: which of the env's worlds.
        trail: draw the paths of all free bodies with actuators.
        overlay: write task, time, episode and metrics into the picture.
        seed: passed to ``env.reset``.
        backend: "auto", "opengl" or "software".
        samples: averaged for smooth edges and soft shadows, see `opengl.OpenGLPainter`; 1 is the fastest.
        progress: called before every frame with the frames finished and their share of all.

    Raises:
        RookeryError: unknown suffix or camera, impossible sizes, a path that cannot be written, no renderer.
    """
    path = _check(path, seconds, fps, width, height)
    total = max(1, round(seconds * fps))
    model = env.visual_model(_checked_world(world, env))
    trails = [model.body(i).name for i in driven_bodies(model)] if trail else []
    composer = Composer(
        model, height, camera=env.camera if camera is None else camera, trails=trails, aspect=width / height
    )
    text = Overlay(env, world)
    painter = FramePainter(model, width, height, backend, total, samples=samples)
    with painter, encoding(path, fps, width, height, _output(path)) as write:
        frames = _frames(env, act, composer, text, total, fps, seed)
        for k, (picture, lines) in enumerate(painter.paint(frames)):
            progress(k, k / total)
            write(annotate(picture, lines) if overlay else picture)
    return Video(path, total, total / fps, painter.name, text.episodes)


def _frames(
    env: Env, act: Act, composer: Composer, text: Overlay, total: int, fps: int, seed: int | None
) -> Iterator[tuple[Frame, list[Line]]]:
    """`total` frames of a world from a reset on, each with the lines over its picture."""
    observation, _ = env.reset(seed)
    data = None
    steps = 0
    for k in range(total):
        # Half a step of grace: 1 / fps and control_dt are not exact in binary.
        while (steps + 0.5) * env.control_dt < k / fps:
            steps += 1
            observation, _, _, _, info = env.step(act(observation))
            if text.note(info):
                composer.cut()
        data = env.mj_data(text.world, data)
        frame = composer.compose(data, env.markers(text.world))
        yield frame, text.lines(steps * env.control_dt, env.metrics() if steps else {})


def contact_sheet(
    video: str | os.PathLike[str] | Sequence[Picture],
    path: str | os.PathLike[str],
    *,
    columns: int = 4,
    rows: int = 3,
    width: int = 320,
    fps: float = 30.0,
) -> Path:
    """Write columns x rows pictures, evenly spread over a video, as one PNG with the time in each.

    Args:
        video: a video file, or its frames [H, W, 3] uint8.
        path: the PNG.
        columns: pictures side by side.
        rows: pictures above each other.
        width: pixels of one picture.
        fps: frames a second of `record_video` where it is given as frames.

    Raises:
        RookeryError: the video cannot be read or has no frames, or the PNG cannot be written.
    """
    if columns < 1 or rows < 1 or width < 16:
        raise RookeryError(f"a contact sheet needs columns, rows >= 1 and width >= 16, got {columns}, {rows}, {width}.")
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise RookeryError(f"a contact sheet is a .png file, got {path.name!r}.")
    frames, fps = _read(video) if isinstance(video, str | os.PathLike) else (list(video), fps)
    if not frames:
        raise RookeryError("the video has no frames, so there is nothing to put on a contact sheet.")
    height = round(width * frames[0].shape[0] / frames[0].shape[1])
    gap = 4
    sheet = Image.new("RGB", (columns * (width + gap) + gap, rows * (height + gap) + gap), (245, 246, 248))
    picks = np.linspace(0, len(frames) - 1, columns * rows).round().astype(int)
    for i, k in enumerate(picks):
        small = Image.fromarray(frames[k]).resize((width, height), Image.Resampling.LANCZOS)
        tile = annotate(np.asarray(small), [f"{k / fps:.1f} s"], corner="bottom")
        sheet.paste(Image.fromarray(tile), (gap + i % columns * (width + gap), gap + i // columns * (height + gap)))
    with completed(path) as partial:
        sheet.save(partial, "PNG")
    return path


def _checked_world(world: int, env: Env) -> int:
    if not 0 <= world < env.num_envs:
        raise RookeryError(f"there is no world {world} to record: this environment has 0 to {env.num_envs - 1}.")
    return world


def _check(path: str | os.PathLike[str], seconds: float, fps: int, width: int, height: int) -> Path:
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise RookeryError(f"a video is a {' or '.join(_SUFFIXES)} file, got {path.name!r}.")
    if not 0 < seconds <= MOST_SECONDS or fps < 1:
        raise RookeryError(
            f"a video needs a length from above 0 to {MOST_SECONDS:g} s and fps >= 1, got {seconds:g} s at {fps} fps."
        )
    if width % 2 or height % 2:
        raise RookeryError(f"the video format needs an even width and height, got {width} x {height}.")
    return path


def _output(path: Path) -> list[str]:
    """ffmpeg's options by the suffix."""
    if path.suffix.lower() == ".gif":
        palette = "split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer"
        return ["-c:v", "gif", "-pix_fmt", "pal8", "-vf", palette]
    return ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "veryfast", "-crf", "20", "-movflags", "+faststart"]


def _read(path: str | os.PathLike[str]) -> tuple[list[Picture], float]:
    """All frames [H, W, 3] of a video file, and its frames a second."""
    import imageio_ffmpeg

    if not Path(path).is_file():
        raise RookeryError(f"there is no video {os.fspath(path)!r}.")
    try:
        reader = imageio_ffmpeg.read_frames(str(path))
        meta = next(reader)
        width, height = meta["size"]
        frames = [np.frombuffer(raw, np.uint8).reshape(height, width, 3) for raw in reader]
    except (RuntimeError, OSError, StopIteration, ValueError, KeyError) as e:
        raise RookeryError(f"{os.fspath(path)!r} cannot be read as a video: {e}.") from e
    return frames, float(meta["fps"])

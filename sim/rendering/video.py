"""Videos of a policy in an environment, MP4 or GIF in real time, and contact sheets of videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.rendering import mosaic
from rookery.sim.rendering.camera import Camera
from rookery.sim.rendering.encoder import completed, encoding
from rookery.sim.rendering.overlay import annotate
from rookery.sim.rendering.painters import FramePainter
from rookery.sim.rendering.takes import Take

Picture = NDArray[np.uint8]
MOST_SECONDS = 86_400.0
"""s, longest video."""
_SUFFIXES = (".mp4", ".gif")
SAMPLES = 4
"""Averaged for each picture of a video, see `opengl.OpenGLPainter`."""


@dataclass(frozen=True)
class Video:
    """Result of `record_video`: the file, its length in frames and in s, what drew it, and how many episodes ended in it."""

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
    worlds: int = 1,
    beside: tuple[Env, Act] | None = None,
    titles: tuple[str, str] = ("before", "after"),
    slow: float = 1.0,
    trail: bool = True,
    overlay: bool = True,
    seed: int | None = None,
    backend: str = "auto",
    samples: int = SAMPLES,
    progress: Callable[[int, float], None] = lambda frame, share: None,
) -> Video:
    """Record `env` under `act` from a reset on, in real time: frame k shows the state at k / fps s.

    Args:
        env, act: the environment, and from observations to actions, as `env.step` takes them; it is reset with `seed`.
        path: the video, .mp4 (H.264) or .gif; missing folders are made, and the file appears only when it is complete.
        seconds, fps: simulated time to record, and frames a second.
        width, height: pixels, even.
        camera: a name, a `Follow`, or (eye, target) in m, see `Renderer`; None is the task's own.
        world, worlds: the first of the env's worlds to show, and how many, as a grid.
        beside, titles: another environment and what acts in it, to the left of this one, and what both are called.
        slow: how many times slower contacts are shown: of robots with things and with each other, and of free things.
        trail, overlay: draw the paths of robots; write task, time, what decides about success, and how episodes ended.
        backend: "auto", "opengl" or "software".
        samples: averaged for smooth edges and soft shadows, see `opengl.OpenGLPainter`; 1 is the fastest.
        progress: called before every frame with the frames finished and their share of all.

    Raises:
        RookeryError: unknown suffix or camera, impossible sizes, a path that cannot be written, no renderer; or slow motion of
            several worlds, whose contacts are at different times.
    """
    path = _check(path, seconds, fps, width, height)
    _check_shown(worlds, slow, beside is not None)
    sources = [(env, act, "")] if beside is None else [(*beside, titles[0]), (env, act, titles[1])]
    grid = mosaic.grid(worlds * len(sources), width, height)
    shown = range(world, world + worlds)
    takes = [Take(e, a, shown, title, camera, trail, grid.size, slow > 1.0) for e, a, title in sources]
    total = max(1, round(seconds * fps))
    painters = [FramePainter(t.model, *grid.size, backend, total * worlds, samples=samples) for t in takes]
    streams = [p.paint(t.frames(fps, seconds, slow, seed)) for p, t in zip(painters, takes, strict=True)]
    count = 0
    with ExitStack() as stack, encoding(path, fps, width, height, output(path)) as write:
        for painter in painters:
            stack.enter_context(painter)
        while tiles := [tile for stream in streams for tile in islice(stream, worlds)]:
            progress(min(count, total - 1), min(count / total, 1.0))
            write(grid.join([annotate(picture, lines) if overlay else picture for picture, lines in tiles]))
            count += 1
    return Video(path, count, count / fps, painters[0].name, takes[-1].episodes)


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
    frames, fps = read_video(video) if isinstance(video, str | os.PathLike) else (list(video), fps)
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


def _check_shown(worlds: int, slow: float, beside: bool) -> None:
    if worlds < 1 or not 1.0 <= slow <= 100.0 or (slow > 1.0 and (worlds > 1 or beside)):
        raise RookeryError(
            f"a video shows 1 world or more, and contacts of one world alone 1 to 100 times slower, got {worlds} worlds, slow "
            f"{slow:g}{' and two policies' if beside else ''}."
        )


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


def output(path: Path) -> list[str]:
    """ffmpeg's options by the suffix."""
    if path.suffix.lower() == ".gif":
        palette = "split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer"
        return ["-c:v", "gif", "-pix_fmt", "pal8", "-vf", palette]
    return ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "veryfast", "-crf", "20", "-movflags", "+faststart"]


def read_video(path: str | os.PathLike[str]) -> tuple[list[Picture], float]:
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

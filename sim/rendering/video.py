"""Videos of a policy in an environment, MP4 or GIF in real time, and contact sheets of videos."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.camera import Camera, driven_bodies
from rookery.sim.rendering.encoder import completed, encoding
from rookery.sim.rendering.frame import Frame
from rookery.sim.rendering.painters import FramePainter
from rookery.sim.rendering.renderer import Composer

Picture = NDArray[np.uint8]
MOST_SECONDS = 86_400.0
"""s, longest video."""
_SUFFIXES = (".mp4", ".gif")
_UNIT = re.compile(r"(?:N m|[kM]?(?:m|s|rad|g|N|W|J|Hz|bit))(?:/s)?(?=, )")
"""How a metric's definition begins: "m/s, mean over ..."."""
_INK = (255, 255, 255, 255)
_PANEL = (16, 22, 30, 165)


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
    width: int = 960,
    height: int = 540,
    camera: Camera | None = None,
    world: int = 0,
    trail: bool = True,
    overlay: bool = True,
    seed: int | None = None,
    backend: str = "auto",
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
        progress: called before every frame with the frames finished and their share of all.

    Raises:
        RookeryError: unknown suffix or camera, impossible sizes, a path that cannot be written, no renderer.
    """
    path = _check(path, seconds, fps, width, height)
    total = max(1, round(seconds * fps))
    model = env.visual_model(_checked_world(world, env))
    trails = [model.body(i).name for i in driven_bodies(model)] if trail else []
    composer = Composer(model, height, camera=env.camera if camera is None else camera, trails=trails)
    text = _Overlay(env, world)
    painter = FramePainter(model, width, height, backend, total)
    with painter, encoding(path, fps, width, height, _output(path)) as write:
        frames = _frames(env, act, composer, text, total, fps, seed)
        for k, (picture, lines) in enumerate(painter.paint(frames)):
            progress(k, k / total)
            write(_annotate(picture, lines) if overlay else picture)
    return Video(path, total, total / fps, painter.name, text.episodes)


def _frames(
    env: Env, act: Act, composer: Composer, text: _Overlay, total: int, fps: int, seed: int | None
) -> Iterator[tuple[Frame, list[str]]]:
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


class _Overlay:
    """The lines of text over the picture of one world."""

    def __init__(self, env: Env, world: int) -> None:
        self.task_id = env.task_id
        self.definitions = env.deployment().metrics
        self.world = world
        self.episodes = 0
        self.last = ""

    def note(self, info: Mapping[str, Any]) -> bool:
        """Read a step's info; True when this world's episode ended in it."""
        ended = info.get("episode")
        ids = [] if ended is None else [int(i) for i in ended["ids"]]
        if ended is None or self.world not in ids:
            return False
        self.episodes += 1
        success = ended["metrics"].get("success")
        if success is not None:
            self.last = "success" if float(success[ids.index(self.world)]) > 0.5 else "no success"
        return True

    def lines(self, time: float, metrics: Mapping[str, Any]) -> list[str]:
        out = [f"{self.task_id}   {time:.1f} s"]
        figure = next((name for name in metrics if name not in ("success", "crash")), None)
        if figure is not None:
            label, unit = _labelled(figure, self.definitions.get(figure, ""))
            out.append(f"{label} {float(metrics[figure][self.world]):.3f} {unit}".rstrip())
        return [*out, f"episode {self.episodes}: {self.last}"] if self.last else out


def _labelled(metric: str, definition: str) -> tuple[str, str]:
    """A metric's name for people, without an ending that repeats the unit, and its unit; "" for none."""
    found = _UNIT.match(definition)
    unit = found.group() if found else ""
    ending = f"_{unit.partition('/')[0].lower()}"
    return (metric.removesuffix(ending) if unit else metric).replace("_", " "), unit


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
        tile = _annotate(np.asarray(small), [f"{k / fps:.1f} s"], corner="bottom")
        sheet.paste(Image.fromarray(tile), (gap + i % columns * (width + gap), gap + i // columns * (height + gap)))
    with completed(path) as partial:
        sheet.save(partial, "PNG")
    return path


def _annotate(picture: Picture, lines: Sequence[str], corner: str = "top") -> Picture:
    """Write lines on a translucent panel in the left corner, as large as leaves the panel inside the picture."""
    if not lines:
        return picture
    height, width, _ = picture.shape
    draw = ImageDraw.Draw(Image.new("L", (1, 1)))
    text = "\n".join(lines)
    size = max(10.0, height / 26)
    while True:
        font = _font(size)
        left, top, right, bottom = draw.multiline_textbbox((0, 0), text, font=font, spacing=0.35 * size)
        if right - left < width - 2.6 * size or size <= 7:
            break
        size *= 0.9
    pad = 0.5 * size
    x = pad
    y = pad if corner == "top" else height - (bottom - top) - 3 * pad
    panel = (x, y, x + right - left + 2 * pad, y + bottom - top + 2 * pad)
    # Only the part of the picture that the panel covers is blended.
    x0, y0 = max(int(panel[0]) - 1, 0), max(int(panel[1]) - 1, 0)
    part = picture[y0 : int(panel[3]) + 2, x0 : int(panel[2]) + 2]
    layer = Image.new("RGBA", (part.shape[1], part.shape[0]))
    draw = ImageDraw.Draw(layer)
    box = (panel[0] - x0, panel[1] - y0, panel[2] - x0, panel[3] - y0)
    draw.rounded_rectangle(box, radius=0.5 * pad, fill=_PANEL)
    place = (x + pad - left - x0, y + pad - top - y0)
    draw.multiline_text(place, text, font=font, spacing=0.35 * size, fill=_INK)
    out = picture.copy()
    blended = Image.alpha_composite(Image.fromarray(part).convert("RGBA"), layer).convert("RGB")
    out[y0 : y0 + part.shape[0], x0 : x0 + part.shape[1]] = np.asarray(blended)
    return out


@functools.cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


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

"""Text over the pictures of a video: task, time, the quantities that decide about success, how episodes end, what agents are
about."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from rookery.sim.env import Env, Meets
from rookery.sim.gauge import labeled
from rookery.sim.rendering.labels import place_labels

Picture = NDArray[np.uint8]
_INK = (255, 255, 255, 255)
_MET = (140, 240, 150, 255)
_PANEL = (16, 22, 30, 165)


@dataclass(frozen=True)
class Line:
    """A line of text in the panel; green where `met`. With `at`, a label above that place, as shares of the picture's width and
    height, from the left and from the top."""

    text: str
    met: bool = False
    at: tuple[float, float] | None = None


class Overlay:
    """The lines of text over the picture of one world.

    Args:
        env: the world's.
        world: which of its worlds.
        title: "" for the task's name.
        meets: who plays which team, so that a win counts for who played it; None counts for the team.
    """

    def __init__(self, env: Env, world: int, title: str = "", meets: Meets | None = None) -> None:
        self.env = env
        self.title = title or env.task_id
        self.definitions = env.deployment().metrics
        self.world = world
        self.episodes = 0
        self.last = ""
        counted = [team for team in env.teams if f"{team}_wins" in self.definitions]
        self.teams = counted if len(counted) == 2 else []
        self.score: dict[str, int] = {}
        self._meets = meets
        self._playing: dict[str, str] = {}

    def note(self, info: Mapping[str, Any]) -> bool:
        """Read a step's info; True when this world's episode ended in it."""
        ended = info.get("episode")
        ids = [] if ended is None else [int(i) for i in ended["ids"]]
        if ended is None or self.world not in ids:
            return False
        self.episodes += 1
        at = ids.index(self.world)
        for team in self.teams:
            who = self._playing.get(team, team)
            self.score[who] = self.score.get(who, 0) + round(float(ended["metrics"][f"{team}_wins"][at]))
        success = ended["metrics"].get("success")
        if success is not None:
            self.last = "success" if float(success[at]) > 0.5 else "no success"
        return True

    def lines(self, time: float, metrics: Mapping[str, Any]) -> list[Line]:
        """Lines of text after `time` s; the first of `metrics` stands in where the task has no gauges."""
        out = [Line(f"{self.title}   {time:.1f} s")]
        if self.teams:
            self._playing = {} if self._meets is None else self._meets.playing(self.world)
            players = [self._playing.get(team, team) for team in self.teams]
            one, other = (n if n == team else f"{n} ({team})" for n, team in zip(players, self.teams, strict=True))
            ours, theirs = (self.score.get(name, 0) for name in players)
            return [*out, Line(f"{one} {ours} : {theirs} {other}")]
        gauges = self.env.gauges(self.world) if metrics else []
        figure = next((name for name in metrics if name not in ("success", "crash")), None)
        if gauges:
            out += [Line(str(gauge), gauge.met) for gauge in gauges]
        elif figure is not None:
            label, unit = labeled(figure, self.definitions.get(figure, ""))
            out.append(Line(f"{label} {float(metrics[figure][self.world]):.3f} {unit}".rstrip()))
        return [*out, Line(f"episode {self.episodes}: {self.last}", self.last == "success")] if self.last else out


@dataclass(frozen=True)
class OverlayPanel:
    """Places of text, pixels: the box (left, top, right, bottom) behind it, the lines' places and the letters' size."""

    box: tuple[float, float, float, float]
    places: tuple[tuple[float, float], ...]
    size: float


def layout(lines: Sequence[str], width: int, height: int, corner: str) -> OverlayPanel:
    """A panel in the "top" or "bottom" left corner, with letters as large as leaves it inside the picture, and inside the
    half of its height that is the corner's."""
    size = max(10.0, height / 30)
    while True:
        font = _font(size)
        step = 1.35 * size
        pad = 0.5 * size
        wide = max(font.getlength(line) for line in lines)
        if (wide + 4 * pad < width and step * len(lines) + 3 * pad < 0.5 * height) or size <= 7:
            break
        size *= 0.9
    tall = step * len(lines) + pad
    top = pad if corner == "top" else height - tall - pad
    places = tuple((2.0 * pad, top + 0.5 * pad + step * k) for k in range(len(lines)))
    return OverlayPanel((pad, top, 3.0 * pad + wide, top + tall), places, size)


def annotate(picture: Picture, lines: Sequence[Line | str], corner: str = "top") -> Picture:
    """The picture with lines on a translucent panel, see `layout`, and with labels."""
    said = [line if isinstance(line, Line) else Line(line) for line in lines]
    inside = [line for line in said if line.at is None]
    labels = [line for line in said if line.at is not None]
    if not said:
        return picture
    height, width, _ = picture.shape
    out = picture.copy()
    taken = None
    if inside:
        panel = layout([line.text for line in inside], width, height, corner)
        taken = panel.box
        texts = [(place, line.text, line.met) for place, line in zip(panel.places, inside, strict=True)]
        _write(out, panel.box, panel.size, texts)
    if labels:
        size = max(8.0, height / 45)
        room = np.array([(_font(size).getlength(line.text) + 0.8 * size, 1.4 * size) for line in labels])
        at = np.array([line.at for line in labels]) * (width, height)
        for line, box in zip(labels, place_labels(at, room, width, height, taken), strict=True):
            if box is not None:
                _write(out, box, size, [((box[0] + 0.4 * size, box[1] + 0.1 * size), line.text, line.met)])
    return out


def _write(
    picture: Picture, box: tuple[float, float, float, float], size: float,
    texts: Sequence[tuple[tuple[float, float], str, bool]],
) -> None:  # fmt: skip
    """Write texts (place, text, met) on a translucent box. Only the part of the picture that it covers is blended."""
    x0, y0 = max(int(box[0]) - 1, 0), max(int(box[1]) - 1, 0)
    part = picture[y0 : int(box[3]) + 2, x0 : int(box[2]) + 2]
    layer = Image.new("RGBA", (part.shape[1], part.shape[0]))
    draw = ImageDraw.Draw(layer)
    left, top, right, bottom = box
    draw.rounded_rectangle((left - x0, top - y0, right - x0, bottom - y0), radius=0.25 * size, fill=_PANEL)
    for (x, y), text, met in texts:
        draw.text((x - x0, y - y0), text, font=_font(size), fill=_MET if met else _INK)
    blended = Image.alpha_composite(Image.fromarray(part).convert("RGBA"), layer).convert("RGB")
    picture[y0 : y0 + part.shape[0], x0 : x0 + part.shape[1]] = np.asarray(blended)


@functools.cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)

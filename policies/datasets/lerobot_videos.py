"""The videos of LeRobot datasets, version 3.0: one file holds the pictures of many episodes, and each gets its own here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.policies.datasets.lerobot_places import place_of
from rookery.policies.datasets.video import EpisodeVideo, Picture
from rookery.sim.errors import RookeryError

WAY_OUT = "download the dataset again, or import it without videos by --no-videos"
RATE_ERROR = 0.006
"""1/s, by which the rate of a video may seem to differ: the decoder tells it to two decimals."""
BETWEEN = 0.25
"""Of a picture, by which an episode may begin beside one: time stamps add up the lengths of all episodes before."""


@dataclass(frozen=True)
class Span:
    """Place of an episode's pictures: `length` of them from number `start` on."""

    path: Path
    start: int
    length: int


class Clips:
    """The pictures of one camera, episode by episode; one of them is in memory at a time.

    Episodes are best taken in the order of the files, as LeRobot writes them: each file is then decoded once.

    Args:
        folder: of the dataset.
        info: its meta/info.json.
        lines: of its episodes' table, at least one.
        key: of the video, such as "observation.images.front".

    Attributes:
        name: of the camera, such as "front".
        width, height: pixels. fps: pictures a second, one a control step.

    Raises:
        RookeryError: a file is missing, or is not as the metadata say; so does `episode`.
    """

    def __init__(self, folder: Path, info: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], key: str) -> None:
        self.name = camera_name(key)
        self.fps = float(info["fps"])
        self._folder = folder
        self._key = key
        self._template = info.get("video_path")
        self._spans = [self._span(i, line) for i, line in enumerate(lines)]
        for path in dict.fromkeys(span.path for span in self._spans):
            if not path.is_file():
                raise RookeryError(f"{path} is missing: {WAY_OUT}.")
        self._video = self._open(self._spans[0].path)
        self.width = self._video.width
        self.height = self._video.height
        if self.width % 2 or self.height % 2:
            raise RookeryError(
                f"{self._video.path} has pictures of {self.width} x {self.height}, and videos here are even in width and "
                "height: import the dataset without them by --no-videos."
            )

    def declaration(self) -> dict[str, Any]:
        """Declaration of the camera for `Writer`."""
        return {"width": self.width, "height": self.height, "fps": self.fps}

    def episode(self, i: int) -> Iterator[Picture]:
        """The pictures [H, W, 3] of episode i."""
        span = self._spans[i]
        if self._video.path != span.path or self._video.at > span.start:
            self._video.close()
            self._video = self._open(span.path)
        while self._video.at < span.start + span.length:
            wanted = self._video.at >= span.start
            picture = next(self._video, None)
            if picture is None:
                raise RookeryError(
                    f"{span.path} is too short: episode {i} has its pictures {span.start} to "
                    f"{span.start + span.length - 1}, and it ends after {self._video.at}: {WAY_OUT}."
                )
            if wanted:
                yield picture

    def close(self) -> None:
        """End the decoder."""
        self._video.close()

    def _span(self, i: int, line: Mapping[str, Any]) -> Span:
        about = f"videos/{self._key}"
        try:
            at = {k: int(line[f"{about}/{k}"]) for k in ("chunk_index", "file_index")}
            begin, end = (float(line[f"{about}/{k}_timestamp"]) * self.fps for k in ("from", "to"))
            path = place_of(self._folder, self._template, video_key=self._key, **at)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise RookeryError(
                f"{self._folder / 'meta'} does not say where the pictures of {self._key!r} of episode {i} are "
                f"({type(error).__name__}: {error}): {WAY_OUT}."
            ) from error
        start = round(begin)
        length = int(line["length"])
        if begin < 0 or abs(begin - start) > BETWEEN:
            raise RookeryError(
                f"the video {self._key!r} of episode {i} begins at picture {begin:.2f} by its time stamp and "
                f"{self.fps:g} control steps a second, between two: {WAY_OUT}."
            )
        if end - begin < length - BETWEEN:
            raise RookeryError(
                f"the video {self._key!r} of episode {i} is too short: {end - begin:.4g} pictures by its time stamps, "
                f"and {length} control steps: {WAY_OUT}."
            )
        return Span(path, start, length)

    def _open(self, path: Path) -> EpisodeVideo:
        video = EpisodeVideo(path)
        if abs(video.fps - self.fps) > RATE_ERROR:
            raise RookeryError(
                f"{path} has {video.fps:g} pictures a second and the dataset {self.fps:g} control steps: {WAY_OUT}."
            )
        size = (video.width, video.height)
        if hasattr(self, "height") and size != (self.width, self.height):
            raise RookeryError(
                f"{path} has pictures of {size[0]} x {size[1]}, others of this camera {self.width} x {self.height}: "
                f"{WAY_OUT}."
            )
        return video


def camera_name(key: str) -> str:
    """The name of a video's camera here, fit for a folder: "front" for "observation.images.front"."""
    short = key.removeprefix("observation.").removeprefix("images.")
    return re.sub(r"[^A-Za-z0-9_.-]", "_", short).lstrip(".") or "camera"


def open_clips(
    folder: Path, info: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], features: Mapping[str, Mapping[str, Any]]
) -> list[Clips]:
    """The videos of a dataset, one for each camera.

    Raises:
        RookeryError: as `Clips`, or two have one name here.
    """
    keys = [k for k, f in features.items() if f.get("dtype") == "video"]
    named: dict[str, str] = {}
    for key in keys:
        other = named.setdefault(camera_name(key), key)
        if other != key:
            raise RookeryError(
                f"the videos {other!r} and {key!r} would both be of camera {camera_name(key)!r}: rename one, or import the "
                "dataset without videos by --no-videos."
            )
    return [Clips(folder, info, lines, key) for key in keys]

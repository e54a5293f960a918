"""TensorBoard: event files in the run folder."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.policies.tracking.tracker import Opened, RunTracker, TrackedRun

WIDTH = 320
"""Pixels of a video's pictures: TensorBoard shows GIFs, which are large."""
FRAMES = 120
"""Of a video, at most."""


class TensorBoard(RunTracker):
    """Event files in the run folder, which ``tensorboard --logdir runs`` shows."""

    def open(self, run: TrackedRun, state: Mapping[str, str]) -> Opened:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run.folder), purge_step=run.steps + 1, flush_secs=10)
        if not state:
            rows = (f"| {k} | {v} |" for k, v in (*run.settings.items(), *run.provenance.items()))
            self._writer.add_text("settings", "\n".join(("| setting | value |", "|---|---|", *rows)), run.steps)
        return Opened({"begun": "yes"})

    def log(self, row: Mapping[str, float], steps: int) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, steps)

    def evaluated(self, figures: Mapping[str, float], steps: int) -> None:
        self.log(figures, steps)

    def video(self, file: Path, name: str, steps: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        data, width, height = _gif(file)
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=data)
        writer: Any = self._writer
        writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=name, image=image)]), steps)

    def close(self, ended: str) -> None:
        self._writer.close()


def _gif(file: Path) -> tuple[bytes, int, int]:
    """A video as a small GIF, with its width and height in pixels."""
    import imageio.v3 as iio
    from PIL import Image

    frames = [Image.fromarray(frame) for frame in iio.imiter(file)]
    every = -(-len(frames) // FRAMES)
    frames = frames[::every]
    height = max(1, frames[0].height * WIDTH // frames[0].width)
    small = [frame.convert("RGB").resize((WIDTH, height)) for frame in frames]
    out = io.BytesIO()
    duration = 1000 * every / float(iio.immeta(file).get("fps", 30.0))  # ms
    small[0].save(out, "GIF", save_all=True, append_images=small[1:], duration=duration, loop=0)
    return out.getvalue(), WIDTH, height

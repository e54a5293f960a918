"""The picture at the top of README: the three robot families side by side, a GIF below 2 MB that GitHub shows.

python docs/site/readme_video.py      # writes docs/images/families.gif
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from rookery.experiments.run_env import open_env
from rookery.experiments.zoo import zoo
from rookery.sim.rendering.encoder import encoding
from rookery.sim.rendering.mosaic import row
from rookery.sim.rendering.video import output, read_video, record_video

OUT = Path(__file__).resolve().parents[1] / "images" / "families.gif"
SHOWN = (("swarm-surround", 5), ("go2-velocity", 4), ("table-pick-place", 1))
"""A task of each family, and the seed of its episode."""
WIDTH, HEIGHT = 248, 186  # pixels of each
SECONDS = 3.0
FPS = 10
MOST_BYTES = 2_000_000


def main() -> None:
    videos = []
    with tempfile.TemporaryDirectory() as folder:
        for task, seed in SHOWN:
            env, act = open_env(zoo()[task], 1, seed=seed)
            path = Path(folder) / f"{task}.mp4"
            record_video(env, act, path, seconds=SECONDS, fps=FPS, width=2 * WIDTH, height=2 * HEIGHT, seed=seed)
            env.close()
            videos.append(read_video(path)[0])
            print(task, flush=True)
    whole = row(len(SHOWN), (WIDTH, HEIGHT))
    with encoding(OUT, FPS, *whole.whole, output(OUT)) as write:
        for pictures in zip(*videos, strict=True):
            write(whole.join([_half(picture) for picture in pictures]))
    size = OUT.stat().st_size
    print(f"{OUT}: {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        sys.exit(f"{OUT} is larger than {MOST_BYTES / 1e6:g} MB: make it shorter.")


def _half(picture: np.ndarray) -> np.ndarray:
    """A picture of half the width and height, each pixel the mean of four."""
    height, width, _ = picture.shape
    return picture.reshape(height // 2, 2, width // 2, 2, 3).mean((1, 3)).astype(np.uint8)


if __name__ == "__main__":
    main()

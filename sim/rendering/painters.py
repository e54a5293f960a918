"""Painters: OpenGL or PyBullet's software renderer, in this process or in several."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedReader
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Protocol, TypeVar, cast

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.rendering import opengl
from rookery.sim.rendering.frame import Frame, FrameStage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rookery.sim.rendering.frame import FrameShape, View

Picture = NDArray[np.uint8]
T = TypeVar("T")

FRAME_S = 0.02
PIXEL_S = 6e-8
"""Processor time of a picture with software OpenGL, s: whatever its size, and of each pixel (llvmpipe, 2.1 GHz Xeon)."""
PROCESS_S = 1.5
"""Drawing time that pays for the start of one more process, s."""


class Painter(Protocol):
    """Draws one posed model."""

    name: str

    def paint(self, data: mujoco.MjData, view: View, shapes: Sequence[FrameShape]) -> Picture:
        """The picture [H, W, 3] of `data` (kinematics done) from `view`, with extra shapes."""

    def close(self) -> None:
        """Free what the back end holds. Safe to call twice."""


def choose_backend(backend: str) -> opengl.Backend | None:
    """The OpenGL back end for "opengl", "software" or "auto"; None for the software renderer.

    Raises:
        RookeryError: another name, or OpenGL is asked for and does not work here.
    """
    if backend not in ("auto", "opengl", "software"):
        raise unknown("rendering back end", backend, ("auto", "opengl", "software"))
    if backend == "software":
        return None
    found = opengl.probe() if opengl.find_backend() is not None else None
    if found is None and backend == "opengl":
        raise RookeryError(opengl.describe())
    return found


def make_painter(
    model: mujoco.MjModel, width: int, height: int, backend: opengl.Backend | None, samples: int = 1
) -> Painter:
    """A painter in this process, of pictures of width x height pixels; `samples` as for `opengl.OpenGLPainter`, of
    which the software renderer takes one.

    Raises:
        RookeryError: the picture is too small, or there is no way to draw.
    """
    if width < 16 or height < 16:
        raise RookeryError(f"a picture of {width} x {height} pixels is too small: use 16 x 16 or more.")
    if backend is not None:
        return opengl.OpenGLPainter(model, width, height, backend, samples)
    from rookery.sim.rendering.software import SoftwarePainter

    return SoftwarePainter(model, width, height)


class FramePainter:
    """Draws a sequence of frames: in this process, or in several where that is faster.

    On a GPU one process is enough. A CPU draws in one process a core, each with one thread: threads inside one picture wait
    for each other.

    Args:
        model: the scene's visual model.
        width, height: pixels.
        backend: "opengl", "software" or "auto".
        frames: how many are expected; few do not pay for more processes.
        processes: how many draw; None chooses.
        samples: averaged for a picture, see `opengl.OpenGLPainter`.

    Raises:
        RookeryError: see `choose_backend` and `make_painter`.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        width: int,
        height: int,
        backend: str = "auto",
        frames: int = 1,
        processes: int | None = None,
        samples: int = 1,
    ) -> None:
        chosen = choose_backend(backend)
        self.name = "software" if chosen is None else chosen.name
        count = _processes(chosen, width * height, frames * samples) if processes is None else processes
        self._shape = (height, width, 3)
        self._stage = FrameStage(model)
        self._painter = make_painter(model, width, height, chosen, samples) if count < 2 else None
        job = (model, width, height, chosen, samples)
        self._workers = [] if self._painter else [_Worker(job) for _ in range(count)]

    def paint(self, frames: Iterable[tuple[Frame, T]]) -> Iterator[tuple[Picture, T]]:
        """The pictures [H, W, 3] of frames, in their order, each with what came with its frame.

        Up to two frames a process are asked for ahead of the picture that is given out.

        Raises:
            RookeryError: a process that draws has ended.
        """
        if self._painter is not None:
            for frame, extra in frames:
                self._stage.pose(frame)
                yield self._painter.paint(self._stage.data, frame.view, frame.shapes), extra
            return
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            idle.put(worker)

        def draw(frame: Frame) -> Picture:
            worker = idle.get()
            try:
                return worker.paint(frame, self._shape)
            finally:
                idle.put(worker)

        waiting: deque[tuple[Future[Picture], T]] = deque()
        with ThreadPoolExecutor(len(self._workers)) as threads:
            try:
                for frame, extra in frames:
                    waiting.append((threads.submit(draw, frame), extra))
                    if len(waiting) > 2 * len(self._workers):
                        future, done = waiting.popleft()
                        yield future.result(), done
                while waiting:
                    future, done = waiting.popleft()
                    yield future.result(), done
            finally:
                for future, _ in waiting:
                    future.cancel()

    def close(self) -> None:
        """Free the back end; end the processes. Safe to call twice."""
        if self._painter is not None:
            self._painter.close()
        for worker in self._workers:
            worker.close()
        self._workers = []

    def __enter__(self) -> FramePainter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _processes(backend: opengl.Backend | None, pixels: int, frames: int) -> int:
    """The number of processes that draw `frames` pictures soonest."""
    if backend is not None and not backend.on_cpu:
        return 1
    work = frames * (FRAME_S + PIXEL_S * pixels)
    return int(min(usable_cores(), max(1.0, work / PROCESS_S)))


class _Worker:
    """A process that draws one frame after the other: requests go to its standard input, pictures come from its output."""

    def __init__(self, job: tuple[mujoco.MjModel, int, int, opengl.Backend | None, int]) -> None:
        backend = job[3]
        env = os.environ | {"LP_NUM_THREADS": "0", "OMP_NUM_THREADS": "1"}
        if backend is not None:
            env["MUJOCO_GL"] = backend.name
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._requests = cast(IO[bytes], self._process.stdin)
        self._pictures = cast(BufferedReader, self._process.stdout)
        self._job: object = job

    def paint(self, frame: Frame, shape: tuple[int, int, int]) -> Picture:
        """The picture of a frame. Raises RookeryError where the process has ended."""
        picture = np.empty(shape, np.uint8)
        try:
            if self._job is not None:  # not in __init__: a large model would wait there until the process reads
                pickle.dump(self._job, self._requests)
                self._job = None
            pickle.dump(frame, self._requests)
            self._requests.flush()
            got = self._pictures.readinto(picture.data.cast("B"))
        except OSError:
            got = 0
        if got != picture.nbytes:
            raise RookeryError(
                f"a process that draws pictures ended with code {self._process.wait()}: see the lines above, or make a "
                "smaller video."
            )
        return picture

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._requests, self._pictures):
            with contextlib.suppress(OSError):  # what was not sent is not wanted any more
                stream.close()


def _work() -> None:
    """Draw what standard input asks for until it closes; nothing else gets to standard output."""
    import signal

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches every process of a terminal: the first one ends the others
    pictures = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    model, width, height, backend, samples = pickle.load(requests)
    stage = FrameStage(model)
    painter = make_painter(model, width, height, backend, samples)
    try:
        while True:
            frame = pickle.load(requests)
            stage.pose(frame)
            pictures.write(painter.paint(stage.data, frame.view, frame.shapes).data.cast("B"))
            pictures.flush()
    except (EOFError, BrokenPipeError):
        pass


if __name__ == "__main__":
    _work()

"""Pictures to a video file through ffmpeg: the file appears whole, or an error says why it does not."""

from __future__ import annotations

import fcntl
import glob
import importlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError

Picture = NDArray[np.uint8]
Writer = Callable[[Picture], None]
NEW_S = 5.0
"""s after which an unfinished file without a lock is one that was left: between making and locking it is a moment."""


@contextmanager
def completed(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; moved into place at the end, removed if anything goes wrong.

    What a process that was killed has left there goes, too: it is locked by those who still write.

    Raises:
        RookeryError: the place cannot be written or is full.
    """
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(path)
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as e:
        raise RookeryError(f"cannot write {path}: {e.strerror}; choose another place.") from e
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield partial
        partial.replace(path)
        _flush(path.parent)
    except OSError as e:
        raise RookeryError(f"cannot write {path}: {e.strerror or e}; free some space or choose another place.") from e
    finally:
        partial.unlink(missing_ok=True)
        os.close(descriptor)


def _remove_left(path: Path) -> None:
    """Remove unfinished files of `path` that no process has locked."""
    for left in path.parent.glob(f".{glob.escape(path.stem)}.*.partial{glob.escape(path.suffix)}"):
        with suppress(OSError), left.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(opened.fileno()).st_mtime > NEW_S:
                left.unlink()


@contextmanager
def encoding(path: Path, fps: float, width: int, height: int, output: Sequence[str]) -> Iterator[Writer]:
    """Takes pictures [H, W, 3] one by one and encodes them.

    Args:
        path: the video; its suffix decides on the container.
        fps: pictures a second.
        width, height: pixels.
        output: ffmpeg's options for codec, pixel format and quality.

    Raises:
        RookeryError: there is no ffmpeg, it fails or got no pictures, or the place cannot be written or is full.
    """
    command = [ffmpeg(), "-y", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    with completed(path) as partial, tempfile.TemporaryFile() as complaints:
        command += ["-r", f"{fps:.9g}", "-i", "-", "-an", *output, str(partial)]
        process = _start(command, path, complaints)
        assert process.stdin is not None
        whole = False
        sent = 0

        def write(picture: Picture) -> None:
            nonlocal sent
            assert process.stdin is not None
            try:
                process.stdin.write(np.ascontiguousarray(picture).data)
            except BrokenPipeError as error:
                raise _failed(path, process.wait(), complaints) from error
            sent += 1

        try:
            yield write
            with suppress(BrokenPipeError):  # the status says it better
                process.stdin.close()
            whole = True
        finally:
            if not whole:
                process.kill()
            status = process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
        if status != 0 or not sent or partial.stat().st_size == 0:
            raise _failed(path, status, complaints)
        _flush(partial)


def ffmpeg() -> str:
    """The path of ffmpeg.

    Raises:
        RookeryError: imageio-ffmpeg, which brings it, is not installed.
    """
    try:
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise RookeryError("no video can be encoded without ffmpeg: `pip install imageio-ffmpeg` brings it.") from error


def _start(command: list[str], path: Path, complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        # A session of its own: Ctrl-C ends us, and we end the encoder.
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=complaints, start_new_session=True
        )
    except OSError as error:
        raise RookeryError(
            f"cannot write {path}: the encoder {command[0]} does not start ({error.strerror}); install imageio-ffmpeg again."
        ) from error


def _failed(path: Path, status: int, complaints: IO[bytes]) -> RookeryError:
    complaints.seek(0)
    lines = complaints.read(1 << 16).decode(errors="replace").splitlines()
    why = lines[-1].rpartition("] ")[2].rstrip(".") if lines else f"status {status}"
    return RookeryError(f"cannot write {path}: the encoder failed ({why}); is the disk full?")


def _flush(path: Path) -> None:
    """A file's data to the disk before the rename, since some file systems report that they are full only here; then the
    folder with its new name."""
    descriptor: Any = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

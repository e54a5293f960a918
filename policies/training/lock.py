"""One training at a time in a run folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType

from rookery.policies.training import store
from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder

FILE = ".lock"


def is_unused(folder: Path) -> bool:
    """True where there is no such folder, or nothing in it but what a process leaves that was killed as it began."""
    if not folder.is_dir():
        return not folder.exists()
    return all(path.name == FILE for path in folder.iterdir())


class RunLock:
    """Holds a run folder while active; the operating system lets go of it when the process ends, however it ends.

    Args:
        folder: run folder; made where it does not exist.

    Raises:
        RookeryError: another process trains there, or the folder cannot be written (on entering).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1

    def __enter__(self) -> RunLock:
        try:
            make_folder(self._folder)
            self._descriptor = os.open(self._folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise store.unwritable(self._folder, error) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return self  # a file system without locks
            owner = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise RookeryError(
                f"{self._folder} is being trained by another process{f' ({owner})' if owner else ''}: wait for its end, or "
                "stop it first."
            ) from error
        with contextlib.suppress(OSError):  # the number is only for the message above
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

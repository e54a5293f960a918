"""Runs a program with limits on time, memory and file size, in a session of its own that ends as a whole.

The limits stop programs that are endless or greedy. They are no sandbox: the program still has the user's rights.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rookery.sim.errors import RookeryError

MEMORY = 4 << 30
"""Bytes of address space."""
FILE = 256 << 20
"""Bytes of the largest file that may be written."""
LOG = 64 << 10
"""Bytes of output that are kept."""

# A small Python sets the limits on itself and becomes the program: unlike preexec_fn that is safe among threads.
_LAUNCH = """
import os, resource, sys
seconds, memory, file = map(int, sys.argv[1:4])
for what, most in (("CPU", seconds + 1), ("AS", memory), ("FSIZE", file), ("CORE", 0)):
    kind = getattr(resource, "RLIMIT_" + what)
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(kind, (most, most))
    except ValueError:  # macOS limits no address space
        if what != "AS" or sys.platform != "darwin":
            raise
os.execvp(sys.argv[4], sys.argv[4:])
"""
_KEPT = ("PATH", "HOME", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class Finished:
    """Sentence on how a program ended: `status` as subprocess gives it, None where its time ran out; and what it printed."""

    status: int | None
    output: str

    @property
    def reason(self) -> str:
        """In words, without anything that the program printed."""
        if self.status is None:
            return "it did not end in time"
        if self.status < 0:
            with contextlib.suppress(ValueError):
                return f"it was ended by {signal.Signals(-self.status).name}"
        return f"it ended with status {self.status}"


def run_limited(command: Sequence[str], folder: Path, seconds: int, memory: int = MEMORY, file: int = FILE) -> Finished:
    """Run a program and wait for its end; what it started in its session ends with it.

    Args:
        command: program and arguments.
        folder: its working folder, which must be temporary: `output.log` is written there.
        seconds: s, of the clock and of the processor.
        memory: bytes of address space.
        file: bytes of the largest file that it may write.

    Raises:
        RookeryError: the program cannot be started.
    """
    log = folder / "output.log"
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(seconds), str(memory), str(file), *command]
    environment = {k: os.environ[k] for k in _KEPT if k in os.environ}
    environment |= {"LC_ALL": "C", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with open(log, "wb") as output:
        try:
            process = subprocess.Popen(
                launch, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise RookeryError(f"cannot start {command[0]} ({error.strerror}): install or repair it.") from error
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with open(log, "rb") as output:
        return Finished(status, output.read(LOG).decode(errors="replace"))

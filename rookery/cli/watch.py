"""The viewer beside a training: a process of its own that shows the newest policy of the run in worlds of its own.

python -m rookery.cli.watch RUN PARENT PORT HOST WORLDS

It has one thread and the lowest priority once it shows the policy, which it loads when somebody opens the page, and computes
only while somebody looks, so that the training hardly notices. Until then its priority is low but not the lowest: beside a
training that keeps all processors busy, that of 15 in 1024 would take minutes to load.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.cli.viewing import PageOptions, ViewerOptions
from rookery.sim.cores import usable_cores
from rookery.sim.parent import end_with

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env

WAIT_S = 0.5
"""s between looks for the first policy and the first page."""
SHARE = 0.01
"""Of the time of all processors that showing takes at most: a training that uses them all is slowed by about as much."""
END_S = 5.0
"""s that the viewer has to end."""
LOADING, SHOWING = 10, 19
"""Niceness until the policy is shown, and from then on."""


@contextlib.contextmanager
def watching(run: Path, options: ViewerOptions) -> Iterator[None]:
    """While it lasts, a process shows the run, where the options ask for it; what it says goes to standard error."""
    if not options.viewer:
        yield
        return
    place = (str(options.viewer_port), options.viewer_host, str(options.viewer_worlds))
    env = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    words = [sys.executable, "-m", __name__, str(run.resolve()), str(os.getpid()), *place]
    process = subprocess.Popen(words, env=env, stdout=sys.stderr)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:  # a stopped process hears nothing
            process.kill()
            process.wait()


class Newest:
    """The newest policy of a run as it is trained.

    Args:
        run: its folder.
        parent: id of the process that trains; when that ends, so does this one.
        env: where the policy acts.
    """

    def __init__(self, run: Path, parent: int, env: Env) -> None:
        self._file = run / "contract.json"
        self._parent = parent
        self._env = env
        self._read = self._file.stat().st_mtime_ns

    def __call__(self) -> Act | None:
        """The policy that acts from now on, where the run has a newer one; raises KeyboardInterrupt at the end."""
        from rookery.experiments.runs import open_run
        from rookery.policies.training.evaluate import act_with
        from rookery.sim.errors import RookeryError

        _go_on(self._parent)
        written = self._file.stat().st_mtime_ns
        if written == self._read:
            return None
        try:
            policies, _ = open_run(self._file.parent)
        except RookeryError:  # weights and contract are replaced one after the other
            return None
        self._read = written
        return act_with(policies, self._env)


def _go_on(parent: int) -> None:
    if os.getppid() != parent:
        raise KeyboardInterrupt


def main(words: list[str]) -> int:
    """Show the run until the training ends."""
    from rookery.cli.viewing import show
    from rookery.experiments.pilots import pilots
    from rookery.experiments.run_env import open_env

    run, parent, port, host, worlds = words
    end_with(int(parent))  # at its low priority it could take minutes to see that it is alone, and hold the port
    os.nice(LOADING)
    folder = Path(run)
    server, _ = PageOptions(int(port), host).open()
    text = server.gui.add_markdown("The training has not saved a policy yet.")
    with contextlib.suppress(KeyboardInterrupt):
        while not ((folder / "contract.json").is_file() and server.get_clients()):
            _go_on(int(parent))
            time.sleep(WAIT_S)
        text.remove()
        env, act = open_env(folder, int(worlds), as_trained=True)
        newer: Callable[[], Act | None] = Newest(folder, int(parent), env)
        os.nice(SHOWING - LOADING)
        share = min(1.0, SHARE * usable_cores())
        show(server, env, pilots(folder, "policy", env, act), None, newer, share=share)
    return 0


if __name__ == "__main__":
    from rookery.cli.main import guarded

    sys.exit(guarded(lambda: main(sys.argv[1:])))

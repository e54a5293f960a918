"""The page beside a flight: a process of its own that draws the vehicles as their readings say, see
rookery.sim2real.runtime.shown.

python -m rookery.cli.fly_view BUNDLE GROUP COUNT PORT HOST DESCRIPTOR
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.viewing import PageOptions
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim2real.runtime.pilot import StepRecord

READY = "ready"
"""Line that says that the page is there."""
NICE = 10


@dataclass(frozen=True)
class FlightPageOptions(PageOptions):
    """The vehicles in the browser."""

    viewer: Annotated[bool, tyro.conf.arg(help="Show the vehicles in the browser, as their readings say they are.")] = (
        False
    )

    def check(self) -> None:
        if self.viewer:
            super().check()
        elif self != FlightPageOptions():
            raise RookeryError("--viewer-port and --viewer-host are options of --viewer: add it.")


@contextlib.contextmanager
def flight_page(
    options: FlightPageOptions, bundle: Path, group: str, count: int, say: Callable[[str], None]
) -> Iterator[Callable[[int, StepRecord], None]]:
    """While it lasts, a process shows what the yielded function is told of each step, where the options ask for it.

    Raises:
        RookeryError: the page could not be opened.
    """
    if not options.viewer:
        yield lambda i, record: None
        return
    from rookery.sim2real.runtime.shown import ReadingSender

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [str(bundle), group, str(count), str(options.viewer_port), options.viewer_host, str(theirs.fileno())]
    env = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *words], env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    theirs.close()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == READY:
                break
            say(line.rstrip())
        else:
            raise RookeryError("the viewer's page could not be opened: fly without --viewer.")
        yield ReadingSender(ours, count).seen
    finally:
        ours.close()
        process.terminate()
        process.wait()


def main(words: list[str]) -> int:
    """Show the vehicles until the flight's process closes the connection."""
    import rookery
    from rookery.sim.viewing.server import close_server
    from rookery.sim2real.runtime.onnx_controller import read_contract
    from rookery.sim2real.runtime.shown import FlightPage
    from rookery.sim2real.vehicles.dry_run import world_of

    bundle, group, count, port, host, descriptor = words
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the flight goes on after a Ctrl-C, and so does its page
    os.nice(NICE)
    contract = read_contract(Path(bundle))
    spec = contract.groups[group]
    task, config = world_of(contract, spec)
    env = rookery.make(task, num_envs=1, config=config)
    env.reset(0)
    server, _ = PageOptions(int(port), host).open()
    joints = () if spec.actuation is None else tuple(joint.name for joint in spec.actuation.joints)
    page = FlightPage(server, env, joints, int(count), Path(bundle).resolve().name)
    print(READY, flush=True)
    try:
        page.run(socket.socket(fileno=int(descriptor)))
    finally:
        close_server(server)
        env.close()
    return 0


if __name__ == "__main__":
    from rookery.cli.main import guarded

    sys.exit(guarded(lambda: main(sys.argv[1:])))

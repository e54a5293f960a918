"""Options of the live viewer, and its life from the first line to Ctrl-C; `play`, `train` and `replay` share them."""

from __future__ import annotations

import contextlib
import gc
import getpass
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from viser import ViserServer

    from rookery.sim.env import Act, Env
    from rookery.sim.viewing.server import Access
    from rookery.sim.viewing.viewer import Pilots, Shown

MOST_WORLDS = 36
"""Worlds that a page draws side by side at most."""


@dataclass(frozen=True)
class PageOptions:
    """Address of the page."""

    viewer_port: Annotated[
        int, tyro.conf.arg(metavar="PORT", help="Port of the viewer's page; 0 takes a free one.")
    ] = 8080
    viewer_host: Annotated[
        str,
        tyro.conf.arg(
            metavar="ADDRESS",
            help="Address the viewer listens on; the page asks for the token in the printed one.",
        ),
    ] = "127.0.0.1"

    def check(self) -> None:
        """Refuse a place that cannot be; raises RookeryError."""
        from rookery.sim.viewing.server import check_free, require_viser

        require_viser()
        check_free(self.viewer_host, self.viewer_port)

    def open(self) -> tuple[ViserServer, Access]:
        """Start the page's server and say where the page is; raises RookeryError where it cannot listen."""
        from rookery.sim.viewing.look import set_page
        from rookery.sim.viewing.server import is_loopback, open_server

        server, access = open_server(self.viewer_host, self.viewer_port)
        set_page(server, "loading", shadows=False)
        print(f"viewer: {access.url}   (Ctrl-C ends it)")
        if is_loopback(access.host):
            me = f"{getpass.getuser()}@{socket.gethostname()}"
            print(
                f"from another machine: ssh -L {access.port}:127.0.0.1:{access.port} {me}, then the same address there"
            )
        sys.stdout.flush()
        return server, access


@dataclass(frozen=True)
class ViewerOptions(PageOptions):
    """A live view in the browser."""

    viewer: Annotated[bool, tyro.conf.arg(help="Show it live in the browser, with controls.")] = False
    viewer_worlds: Annotated[int, tyro.conf.arg(metavar="N", help="Worlds in the viewer, side by side.")] = 4

    def check(self) -> None:
        if not 1 <= self.viewer_worlds <= MOST_WORLDS:
            raise RookeryError(f"--viewer-worlds must be from 1 to {MOST_WORLDS}, got {self.viewer_worlds}.")
        if self.viewer:
            super().check()
        elif self != ViewerOptions():
            raise RookeryError("--viewer-port, --viewer-host and --viewer-worlds are options of --viewer: add it.")


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage: modules and models are made to stay, and looking at them again and again while they are loaded
    takes a seventh of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def show(
    server: ViserServer,
    env: Env,
    pilots: Pilots,
    seed: int | None,
    newer: Callable[[], Act | None] = lambda: None,
    tasks: Mapping[str, Callable[[], Shown]] = MappingProxyType({}),
    share: float = 1.0,
) -> None:
    """Show an environment until Ctrl-C, see `Viewer`, and in its place what is chosen on the page; closes them all."""
    from rookery.sim.viewing.server import close_server
    from rookery.sim.viewing.viewer import Viewer

    shown: Shown | None = env, pilots
    try:
        with contextlib.suppress(KeyboardInterrupt):
            while shown is not None:
                env, pilots = shown
                viewer = Viewer(server, env, pilots, seed, newer, tasks, share)
                viewer.run()
                shown = viewer.next
                env.close()
                server.scene.reset()
                server.gui.reset()
    finally:
        env.close()
        close_server(server)
        gc.unfreeze()

"""The pages that are open: whether one has drawn what it was sent, and how quickly it draws.

Only a page knows when it has drawn its first picture: its graphics first compile what draws. It tells that it reaches
its next picture by answering a question from its drawing loop. The question is a field of view, different from the one
before by a millionth, which the page answers with its camera.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viser import ClientHandle, ViserServer

FIRST = 3
"""Answers until the first picture is drawn: the page has taken the meshes, has made them, and has drawn them."""
ROUNDS = 6
"""Answers until the page's speed is known."""
PATIENCE = 10.0
"""s that time stands still at most for a page that does not answer."""
QUICK = 0.06
"""s from question to answer, of a page that has graphics to spare: a fast one answers in two pictures and the network's
time."""
NOTCH = 1e-6
"""Of the field of view, between two questions."""


@dataclass
class _Page:
    """One page: the answers that it has given, what it is asked, and when it was (s)."""

    fov: float
    since: float
    answers: int = -1
    asked: float = 0.0
    times: list[float] = field(default_factory=list)

    def ask(self, client: ClientHandle, now: float) -> None:
        from viser._messages import SetCameraFovMessage

        self.answers += 1
        self.asked = now
        if self.answers < ROUNDS:
            client._websock_connection.queue_message(SetCameraFovMessage(self._next()))
            client.flush()

    def answered(self, client: ClientHandle) -> bool:
        return self.answers < ROUNDS and abs(client.camera.fov / self._next() - 1.0) < 0.1 * NOTCH

    def _next(self) -> float:
        return self.fov * (1.0 + NOTCH * (self.answers + 1) * (self.answers + 1 < ROUNDS))


class Spectators:
    """Those who look.

    Args:
        server: of the pages.
    """

    def __init__(self, server: ViserServer) -> None:
        self._server = server
        self._pages: dict[int, _Page] = {}

    def look(self) -> bool:
        """True where somebody does, who has a first picture or waits for it."""
        clients = self._server.get_clients()
        for gone in set(self._pages) - set(clients):
            del self._pages[gone]
        now = time.perf_counter()
        for i, client in clients.items():
            page = self._pages.get(i)
            if page is None:
                page = self._pages[i] = _Page(client.camera.fov, now)
                page.ask(client, now)
            elif page.answered(client):
                page.times.append(now - page.asked)
                page.ask(client, now)
        return bool(clients)

    def see(self) -> bool:
        """True where somebody has the first picture, as of the last `look`."""
        now = time.perf_counter()
        return any(page.answers >= FIRST or now - page.since > PATIENCE for page in self._pages.values())

    def quick(self) -> bool | None:
        """True where all pages draw quickly; None where that is not known."""
        if not self._pages or any(page.answers < ROUNDS for page in self._pages.values()):
            return None
        return all(statistics.median(page.times[FIRST:]) < QUICK for page in self._pages.values())

"""Messages from processes of a Ray cluster to the command, and its wish to stop."""

from __future__ import annotations

import time
from typing import Any

from rookery.sim.errors import ProcessLost

ANSWER_S = 120.0
"""s without an answer after which the process that keeps the messages counts as lost: it may be stopped."""
LOST = "the process of Ray that carries the workers' messages was lost."


class Letters:
    """Messages between workers and the command, in a process of Ray's."""

    def __init__(self) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.stopping = False
        self.end: dict[str, Any] | None = None
        self.failure = ""
        self.begun = 0

    def begin(self, steps: int) -> None:
        self.begun += 1
        if self.begun > 1:
            self.note(f"a worker was lost, and all go on from the checkpoint of {steps:,} steps")

    def put(self, row: dict[str, Any]) -> bool:
        self.waiting.append(row)
        return self.stopping

    def take(self) -> list[dict[str, Any]]:
        rows = self.waiting
        self.waiting = []
        return rows

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def take_notes(self) -> list[str]:
        notes = self.notes
        self.notes = []
        return notes

    def stop(self) -> None:
        self.stopping = True

    def finish(self, result: dict[str, Any]) -> None:
        self.end = result

    def fail(self, message: str) -> None:
        self.failure = self.failure or message

    def ends(self) -> tuple[dict[str, Any] | None, str]:
        return self.end, self.failure


class WorkerMailbox:
    """A worker's rows, its end, and the command's wish to stop.

    Args:
        actor: the process that keeps them.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self._reply: Any = None
        self._asked: dict[str, tuple[Any, float]] = {}  # open questions, and when they were asked

    def _get(self, reply: Any) -> Any:
        """The reply.

        Raises:
            ProcessLost: the process that keeps the messages is gone.
        """
        import ray

        try:
            return ray.get(reply, timeout=ANSWER_S)
        except ray.exceptions.RayError as error:
            raise ProcessLost(LOST) from error

    def begin(self, steps: int) -> None:
        """The workers begin, or go on after a loss, with so many steps; by the worker of rank 0."""
        self._get(self.actor.begin.remote(steps))

    def put(self, row: dict[str, Any]) -> None:
        """A row of the log, by the worker of rank 0; it does not wait."""
        self._reply = self.actor.put.remote(row)

    def note(self, sentence: str) -> None:
        """A sentence for the user, from any thread; it does not wait."""
        self.actor.note.remote(sentence)

    def wanted(self) -> bool:
        """True once the command wants to stop, as the reply to the latest row says."""
        return self._reply is not None and bool(self._get(self._reply))

    def finish(self, result: dict[str, Any]) -> None:
        """The end of a training."""
        self._get(self.actor.finish.remote(result))

    def fail(self, message: str) -> None:
        """An error that starting anew does not mend."""
        self._get(self.actor.fail.remote(message))

    def stop(self) -> None:
        """Ask the workers to stop after their iteration; it does not wait."""
        self.actor.stop.remote()

    def rows(self, wait: bool = True) -> list[dict[str, Any]]:
        """All rows since the last call; without `wait` those of an earlier question, where its answer is there."""
        return self._new("take", wait)

    def notes(self, wait: bool = True) -> list[str]:
        """The sentences since the last call, as `rows`."""
        return self._new("take_notes", wait)

    def _new(self, method: str, wait: bool) -> list[Any]:
        if not wait:
            return self._answered(method) or []
        before: list[Any] = self._get(self._asked.pop(method)[0]) if method in self._asked else []
        return before + self._get(getattr(self.actor, method).remote())

    def result(self) -> dict[str, Any] | None:
        """The result of a training that has ended; None before."""
        found: dict[str, Any] | None = self._get(self.actor.ends.remote())[0]
        return found

    def error(self, wait: bool = True) -> str:
        """Sentence of a worker that cannot go on; "" without one, and without `wait` where there is no answer yet."""
        ends = self._get(self.actor.ends.remote()) if wait else self._answered("ends")
        return str(ends[1]) if ends else ""

    def _answered(self, method: str) -> Any:
        """The answer to a question that is asked now, if none is open; None while there is none, for ANSWER_S."""
        import ray

        if method not in self._asked:
            self._asked[method] = getattr(self.actor, method).remote(), time.monotonic()
        reply, asked = self._asked[method]
        if not ray.wait([reply], timeout=0)[0]:
            if time.monotonic() < asked + ANSWER_S:
                return None
            raise ProcessLost(LOST)
        del self._asked[method]
        return self._get(reply)

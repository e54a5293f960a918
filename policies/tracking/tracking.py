"""The trackers of one run, each in a thread of its own: none of them can hold up or end a training."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rookery.policies.tracking.tracker import RunTracker, TrackedRun, named
from rookery.policies.tracking.trackers import find_tracker
from rookery.sim.errors import RookeryError
from rookery.sim.files import replace
from rookery.sim.untrusted import read_json
from rookery.sim.values import NONE

__all__ = ["FILE", "Note", "Tracking"]

FILE = "trackers.json"
"""In a run folder: by tracker, by what it finds the run again."""
Note = Callable[[str], None]
"""Takes a sentence for the user."""
CLOSE_S = 60.0
"""s that trackers have at the end for what is left."""


class Tracking:
    """The trackers of one run.

    Args:
        names: of the trackers; "none" stands for none.
        run: which they take.
        note: shows a sentence.
        close_s: s that they have at the end for what is left.
    """

    def __init__(
        self, names: Iterable[str], run: TrackedRun, note: Note | None = None, close_s: float = CLOSE_S
    ) -> None:
        self.names = [name for name in dict.fromkeys(names) if name != NONE]
        self.run = run
        self.failed: dict[str, str] = {}
        self._note = note or _say
        self._close_s = close_s
        self._file = run.folder / FILE
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}
        self._states: dict[str, dict[str, str]] = {}

    def open(self) -> None:
        """Begin, or go on with, the run of each tracker; it does not wait for them."""
        self._states = _read_states(self._file)
        for name in self.names:
            self._lanes[name] = _Lane(name, self)

    def log(self, row: Mapping[str, Any]) -> None:
        """A row of the log, with "steps"."""
        self._put("log", named(row), int(row["steps"]))

    def evaluated(self, figures: Mapping[str, float], steps: int) -> None:
        """Figures of an evaluation, see `RunTracker.evaluated`."""
        self._put("evaluated", dict(figures), steps)

    def video(self, file: Path, name: str, steps: int) -> None:
        """A video, see `RunTracker.video`."""
        self._put("video", file, name, steps)

    def close(self, ended: str, seconds: float | None = None) -> None:
        """Wait until everything has arrived, at most so long or `close_s`; see `RunTracker.close`."""
        self._put("close", ended)
        end = time.monotonic() + (self._close_s if seconds is None else seconds)
        for name, lane in self._lanes.items():
            lane.finish(max(0.0, end - time.monotonic()))
            if lane.is_alive():
                self.fail(name, RookeryError("it did not take the last figures in time"))
        self._lanes = {}

    def state(self, name: str) -> dict[str, str]:
        """By what a tracker finds the run again; empty where it has not begun."""
        return self._states.get(name, {})

    def keep(self, name: str, state: dict[str, str]) -> None:
        """Write into the run folder by what a tracker finds the run again."""
        with self._lock:
            if self._states.get(name) != state:
                self._states[name] = state
                replace(self._file, (json.dumps(self._states, indent=2) + "\n").encode())

    def note(self, sentence: str) -> None:
        """Show a sentence."""
        self._note(sentence)

    def fail(self, name: str, error: BaseException) -> None:
        """Say, once for each tracker, that it gets nothing more of this run."""
        with self._lock:
            if name in self.failed:
                return
            text = (str(error).strip().splitlines() or [""])[0].rstrip(".:")
            self.failed[name] = text if isinstance(error, RookeryError) else f"{type(error).__name__}: {text:.300}"
        self._note(
            f"the tracker {name} failed ({self.failed[name]}) and gets no more of this run, whose figures are all in "
            "progress.csv."
        )

    def _put(self, call: str, *args: Any) -> None:
        for lane in self._lanes.values():
            if lane.is_alive():
                lane.calls.put((call, args))


class _Lane(threading.Thread):
    """The thread in which a tracker works.

    Args:
        name: of the tracker.
        tracking: whose it is.
    """

    def __init__(self, name: str, tracking: Tracking) -> None:
        super().__init__(name=f"tracker {name}", daemon=True)
        self.tracker = name
        self.tracking = tracking
        self.calls: queue.SimpleQueue[tuple[str, tuple[Any, ...]] | None] = queue.SimpleQueue()
        self.start()

    def finish(self, seconds: float) -> None:
        """Wait until all calls are made, at most so long."""
        self.calls.put(None)
        self.join(seconds)

    def run(self) -> None:
        try:
            tracker: RunTracker = find_tracker(self.tracker)()
            opened = tracker.open(self.tracking.run, self.tracking.state(self.tracker))
            self.tracking.keep(self.tracker, opened.state)
            if opened.place:
                self.tracking.note(f"{self.tracker}: {opened.place}")
            while (call := self.calls.get()) is not None:
                getattr(tracker, call[0])(*call[1])
        except BaseException as error:  # a library may even call sys.exit
            self.tracking.fail(self.tracker, error)


def _say(sentence: str) -> None:
    print(f"rookery: {sentence}", file=sys.stderr, flush=True)


def _read_states(file: Path) -> dict[str, dict[str, str]]:
    """The states kept in a run folder; none of a damaged file, with which trackers begin new runs."""
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: {k: str(v) for k, v in state.items()} for name, state in found.items() if isinstance(state, dict)}

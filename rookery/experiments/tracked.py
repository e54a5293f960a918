"""Evaluations and videos of a run, sent to the trackers of its training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.experiments.settings import FILE, read_table
from rookery.policies.tracking.tracker import TrackedRun
from rookery.policies.tracking.trackers import check_trackers
from rookery.policies.tracking.tracking import Tracking
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.sim.trust import refuse_untrusted
from rookery.sim.untrusted import read_json
from rookery.sim.values import NONE, convert

__all__ = ["refuse_untracked", "tracking_of"]


def refuse_untracked(run: Path) -> None:
    """Refuse a run without usable trackers, before minutes of work.

    Raises:
        RookeryError: it is no run of `rookery train`, or its trackers cannot be used.
    """
    _trackers(run)


@contextlib.contextmanager
def tracking_of(run: Path) -> Iterator[tuple[Tracking, int]]:
    """The trackers of a run's training, and the control steps that its policy was trained for.

    Raises:
        RookeryError: as `refuse_untracked`.
    """
    names, values = _trackers(run)
    try:
        provenance = dict(read_json(run / "contract.json")["provenance"])
        steps = int(provenance.pop("steps"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RookeryError(f"{run} does not say for how many steps it was trained: leave out --track.") from error
    task, algorithm = (str(values.pop(name, "")) for name in ("task", "algorithm"))
    tracking = Tracking(names, TrackedRun(run, steps, task, algorithm, values, provenance))
    tracking.open()
    try:
        yield tracking, steps
    finally:
        tracking.close("")


def _trackers(run: Path) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names of a run's trackers, and its settings."""
    if not (run / FILE).is_file():
        raise RookeryError(f"--track sends to the trackers of a training, and {run} is no run folder: leave it out.")
    values = read_table(run / FILE, "settings file")
    runner = values.get("runner", {})
    known = runner.get("trackers", RunnerConfig.trackers) if isinstance(runner, dict) else RunnerConfig.trackers
    names: tuple[str, ...] = convert(known, tuple[str, ...], f"trackers of {run / FILE}")
    if not names or NONE in names:
        raise RookeryError(f"{run} was trained without trackers: leave out --track.")
    for name in names:
        refuse_untrusted(name, "tracker")
    check_trackers(names)
    return names, values

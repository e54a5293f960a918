"""The trackers by name, for `rookery train --tracker NAME`: a new one is one file and one line below.

A tracker from outside this package is an entry point of an installed package::

    [project.entry-points."rookery.trackers"]
    lab-board = "my_lab.board:Board"

or a class in a file, ``--tracker my_tracker.py:Board``, or it is registered in Python by `register`. Importing this imports no
tracker.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from rookery.policies.tracking.tracker import RunTracker
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import entry_points, is_in_file, object_at, object_in_file, unknown_name
from rookery.sim.values import NONE

__all__ = ["TRACKERS", "absolute_tracker", "check_trackers", "find_tracker", "register", "tracker_names"]

ENTRY_POINTS = "rookery.trackers"

TRACKERS: dict[str, str | type[RunTracker]] = {
    "tensorboard": "rookery.policies.tracking.tensorboard:TensorBoard",
    "wandb": "rookery.policies.tracking.wandb_tracker:WandB",
    "mlflow": "rookery.policies.tracking.mlflow_tracker:MLflow",
}
"""By name the class, or its "module:Class"."""


def register(name: str, cls: type[RunTracker]) -> None:
    """Make a tracker known by a name, in this process.

    Raises:
        RookeryError: the name is taken, or the class is no tracker.
    """
    if name in TRACKERS or name == NONE:
        raise RookeryError(f"there is a tracker {name!r} already: choose another name.")
    TRACKERS[name] = _checked(cls, getattr(cls, "__name__", repr(cls)))


def tracker_names() -> list[str]:
    """All trackers: of this package, registered ones, and entry points of installed packages. Imports none of them."""
    return list(dict.fromkeys([*TRACKERS, *entry_points(ENTRY_POINTS)]))


def absolute_tracker(name: str) -> str:
    """The name with the full path of its file, for other folders; other names as they are."""
    path, sign, cls = name.rpartition(":")
    return f"{Path(path).resolve()}{sign}{cls}" if is_in_file(name) else name


def find_tracker(name: str) -> type[RunTracker]:
    """The class of a tracker.

    Raises:
        RookeryError: an unknown name, with the nearest match; one that fails to load; or a library that is not installed.
    """
    if is_in_file(name):
        found = _checked(object_in_file(name), name)
    else:
        known = TRACKERS.get(name) or entry_points(ENTRY_POINTS).get(name)
        if known is None:
            raise unknown_name("tracker", name, [*tracker_names(), NONE])
        found = _checked(object_at(known, "tracker", name), known) if isinstance(known, str) else known
    if found.needs and importlib.util.find_spec(found.needs) is None:
        extra = f"pip install 'rookery[{found.extra}]'" if found.extra else f"install {found.needs}"
        raise RookeryError(f"the tracker {name} needs {found.needs}, which is not installed: {extra}.")
    return found


def check_trackers(names: Iterable[str]) -> None:
    """Refuse trackers that cannot be used.

    Raises:
        RookeryError: as of `find_tracker`; or there is "none" beside others.
    """
    names = list(names)
    if NONE in names:
        if len(names) > 1:
            raise RookeryError("--tracker none is for no tracker at all: leave it out, or the others.")
        return
    for name in names:
        find_tracker(name)


def _checked(found: object, shown: str) -> type[RunTracker]:
    if not (isinstance(found, type) and issubclass(found, RunTracker)):
        raise RookeryError(
            f"{shown} is no tracker: give a class that derives from rookery.policies.tracking.tracker.RunTracker."
        )
    return found

"""A sweep in its folder: its plan, its trials, and what is refused before it begins."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from pathlib import Path

from rookery.experiments.runs import write_json
from rookery.experiments.sweep.objective import check_metric
from rookery.experiments.sweep.plan import FILE, SweepPlan, read_plan
from rookery.experiments.sweep.trial import Trial
from rookery.policies.training.lock import is_unused
from rookery.policies.training.store import unwritable
from rookery.sim.errors import RookeryError
from rookery.sim.trust import refuse_untrusted

__all__ = ["STORAGE", "SettingsSweep", "open_sweep", "try_folder"]

STORAGE = ".tune-"
"""Begins the name of Ray Tune's own folder, which holds checkpoints while they change hands."""


def open_sweep(
    folder: Path, samples: int | None = None, metric: str | None = None, minimize: bool = False
) -> SettingsSweep:
    """A sweep that goes on.

    Args:
        folder: of the sweep.
        samples: another number of trials; None keeps it.
        metric: another one; None keeps it.
        minimize: less of the other metric is better.

    Raises:
        RookeryError: there is no sweep in the folder, its files are damaged or name programs that are not trusted, or there is
            no such metric.
    """
    plan = read_plan(folder)
    for text in plan.texts():
        refuse_untrusted(text, "setting")
    begun = SettingsSweep(plan, folder).begun()
    if samples is not None and samples < len(begun):
        raise RookeryError(f"{folder} has {len(begun)} trials already: give --samples {len(begun)} or more.")
    plan = plan if samples is None else dataclasses.replace(plan, samples=samples)
    if metric is not None:
        plan = dataclasses.replace(plan, metric=metric, minimize=minimize)
        check_metric(plan.base, metric)
    return SettingsSweep(plan, folder)


def try_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written; one that did not exist does not exist after it.

    Raises:
        RookeryError: naming it.
    """
    made: list[Path] = []
    try:
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise unwritable(folder, error) from error
    finally:
        for each in made:
            with contextlib.suppress(OSError):  # another command may use it by now
                each.rmdir()


class SettingsSweep:
    """A sweep in its folder.

    Args:
        plan: of the sweep.
        folder: see `rookery.experiments.sweep.trial`.
    """

    def __init__(self, plan: SweepPlan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder.absolute()

    def numbers(self) -> list[int]:
        """Numbers of the trials that have begun."""
        stems = [file.stem for file in self.folder.glob("trials/*.json")]
        return sorted(int(stem) for stem in stems if stem.isdecimal() and stem == f"{int(stem):03d}")

    def begun(self) -> list[int]:
        """As `numbers`, each checked against the space.

        Raises:
            RookeryError: the note of a trial is damaged.
        """
        for trial in map(self.trial, self.numbers()):
            if not self.plan.space.holds(trial.read()[0]):
                raise trial.damaged()
        return self.numbers()

    def trial(self, number: int) -> Trial:
        """One of the trials."""
        return Trial(self.folder, number)

    def check(self) -> None:
        """Refuse what cannot be tried.

        Raises:
            RookeryError: a setting that does not exist or fit, or a folder that holds something.
        """
        try_folder(self.folder)
        if not is_unused(self.folder):
            more = f", or go on with the sweep in it by `rookery sweep --resume {self.folder}`"
            more = more if (self.folder / FILE).is_file() else ""
            raise RookeryError(f"{self.folder} is not empty: choose another --out{more}.")
        with tempfile.TemporaryDirectory(prefix="rookery-sweep-") as scratch:
            self.plan.space.check(self.plan.base, Path(scratch))
        check_metric(self.plan.base, self.plan.metric)
        self.plan.points()

    def save(self) -> None:
        """Write the plan.

        Raises:
            RookeryError: the folder cannot be written.
        """
        for left in self.folder.glob(f"{STORAGE}*"):  # of a sweep that was killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            (self.folder / "trials").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RookeryError(f"cannot make {self.folder} ({error.strerror}): choose another --out.") from error
        write_json(self.folder / FILE, self.plan.to_values())

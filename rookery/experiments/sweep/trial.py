"""One trial of a sweep: a training in a run folder of its own, in a process of Ray's.

All that a sweep knows lies in its folder, so that a sweep killed at any moment goes on from there:

    sweep.json              what is swept: base, space, points
    trials/007/             the run folder of a trial
    trials/007.json         its point, and how it ended
    trials/007.toml         its ranges of the randomization, where the space has some
    trials/007.txt          what its trackers have said
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from rookery.experiments.runs import write_json
from rookery.experiments.sweep.objective import column_of, objective, read_progress
from rookery.experiments.sweep.space import Point, SweepSpace
from rookery.sim.devices import nth_device
from rookery.sim.errors import Diverged, RookeryError
from rookery.sim.untrusted import parse_json, read_bytes, read_json

__all__ = ["BAD", "OPEN", "Trial", "TrialOrder", "as_point", "for_tune", "run_trial"]

STATUSES = ("running", "done", "stopped", "diverged", "failed")
"""Of trials that have begun, see `Trial.note`."""
OPEN = ("", "running", "failed")
"""Statuses of trials that are begun, or gone on with, when a sweep goes on."""
BAD = ("failed", "diverged")
"""Statuses of trials that have no policy to be ranked."""
OWNER = "trial.txt"
"""Beside a checkpoint that changes hands: the number of the trial that made it."""
LEFT_S = 180.0
"""s in which the processes of a killed sweep have ended."""
LIST = "list:"
"""Begins the text in place of a list."""
REPORTS = 20
"""Reports of a trial that makes all its steps, at least; a checkpoint is written before each."""


@dataclasses.dataclass(frozen=True)
class TrialOrder:
    """Everything that trials have in common.

    Args:
        folder: of the sweep.
        base: settings, JSON values.
        space: JSON values of `SweepSpace`.
        metric: see `rookery.experiments.sweep.objective`.
        population: trials take over each other's checkpoints.
        cwd: folder in which relative paths of the settings begin.
    """

    folder: str
    base: dict[str, Any]
    space: dict[str, Any]
    metric: str
    population: bool
    cwd: str


class Trial:
    """The files of a trial.

    Args:
        folder: of the sweep.
        number: of the trial.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.run = folder / "trials" / f"{number:03d}"
        self.note_file = self.run.with_suffix(".json")
        self.ranges = self.run.with_suffix(".toml")
        self.said = self.run.with_suffix(".txt")

    def note(self, point: Point, status: str, reason: str = "") -> None:
        """Write down the trial's point and how it stands: "running", "done", "stopped" (by the scheduler), "diverged", or
        "failed" for another reason, which need not come again."""
        self.run.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.note_file, {"point": point, "status": status, "reason": reason})

    def say(self, sentence: str) -> None:
        """Keep what a tracker says: Ray shows nothing that its processes print."""
        # no trial is to fail for what a tracker says
        with contextlib.suppress(OSError), open(self.said, "a", encoding="utf-8") as file:
            file.write(sentence + "\n")

    def sentences(self) -> list[str]:
        """All that was said in this trial; nothing where the file cannot be read."""
        try:
            return read_bytes(self.said).decode("utf-8", errors="replace").splitlines()
        except (OSError, ValueError):
            return []

    def read(self) -> tuple[Point, str, str]:
        """Point, status and reason; status "" for a trial that has not begun.

        Raises:
            RookeryError: the note is damaged.
        """
        if not self.note_file.exists():
            return {}, "", ""
        try:
            found = read_json(self.note_file)
            point, status, reason = as_point(found["point"]), str(found["status"]), str(found["reason"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.damaged() from error
        if status not in STATUSES:
            raise self.damaged()
        return point, status, reason

    def damaged(self) -> RookeryError:
        """The error for a note that does not say the trial's point and how it stands."""
        return RookeryError(
            f"{self.note_file} is damaged, and the settings of trial {self.number} are not known without it: put back its "
            f"copy, or remove it and {self.run}, and the trial is made anew."
        )


def as_point(values: Any) -> Point:
    """A point of JSON values, whose lists are tuples, or of Ray Tune's values."""
    read = {
        n: parse_json(v[len(LIST) :]) if isinstance(v, str) and v.startswith(LIST) else v for n, v in values.items()
    }
    return {name: tuple(v) if isinstance(v, list) else v for name, v in read.items()}


def for_tune(value: Any) -> Any:
    """A value as Ray Tune takes it, which looks for settings inside of lists: a text in place of a list."""
    return LIST + json.dumps(value) if isinstance(value, (list, tuple)) else value


def run_trial(config: Point, order: TrialOrder) -> None:
    """Train one trial, and report its objective at each checkpoint.

    Args:
        config: its point; with a population, as the scheduler has changed it.
        order: of the sweep.
    """
    from ray import tune

    from rookery.sim.cores import limit_cores
    from rookery.sim.threads import limit_threads

    limit_cores(1)
    limit_threads(1)
    with contextlib.suppress(OSError, ValueError):  # another machine need not have it
        os.chdir(order.cwd)
    trial = Trial(Path(order.folder), int(tune.get_context().get_trial_name()))
    point = as_point(config)
    _, status, _ = trial.read()
    given = tune.get_checkpoint() if order.population else None
    try:
        if given is None and status not in OPEN:
            _report_again(trial, order, status)
            return
        if status != "running" or order.population:
            trial.note(point, "running")
        _train(trial, point, order, given)
        trial.note(point, "done")
    except Diverged as error:
        trial.note(point, "diverged", str(error))
    except RookeryError as error:
        trial.note(point, "failed", str(error))


def _report_again(trial: Trial, order: TrialOrder, status: str) -> None:
    """The reports of a trial that a sweep before has finished, from which the scheduler learns as it did then."""
    if status in BAD:
        return
    rows = read_progress(trial.run)
    every = max(1, len(rows) // REPORTS)
    chosen = rows[-1:] if order.population else [*rows[every - 1 : -1 : every], *rows[-1:]]
    for row in chosen:
        _report(trial, order, int(row["steps"]), None)


def _train(trial: Trial, point: Point, order: TrialOrder, given: Any) -> None:
    from rookery.experiments.settings import RunSettings
    from rookery.experiments.training import resume, start
    from rookery.policies.training import checkpoint

    base = RunSettings.from_values(order.base)
    settings = SweepSpace.from_values(order.space).settings(base, point, trial.ranges)
    device = str(nth_device(settings.device, trial.number))
    settings = dataclasses.replace(_for_one_core(settings), device=device)
    _wait_for(trial.run)
    if given is not None:
        with given.as_directory() as folder:
            if int((Path(folder) / OWNER).read_text()) != trial.number:
                adopt(Path(folder), trial.run, settings)

    def saved(path: Path) -> None:
        _report(trial, order, checkpoint.steps_of(path), path if order.population else None)

    if not checkpoint.complete(trial.run):
        shutil.rmtree(trial.run, ignore_errors=True)  # killed before its first checkpoint
        start(settings, trial.run, saved=saved).run(lambda row: None, note=trial.say)
    elif checkpoint.steps_of(checkpoint.newest(trial.run)) >= settings.runner.total_steps:
        saved(checkpoint.newest(trial.run))
    else:
        resume(trial.run, saved=saved, device=device).run(lambda row: None, note=trial.say)


def _wait_for(run: Path) -> None:
    """Wait until nobody trains in a run folder: processes of a sweep that was killed end by themselves, in a minute or so."""
    from rookery.policies.training.lock import RunLock

    end = time.monotonic() + LEFT_S
    while run.is_dir():
        try:
            with RunLock(run):
                return
        except RookeryError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def _for_one_core(settings: Any) -> Any:
    """The settings of a trial: in one process, with checkpoints as often as it reports."""
    config = settings.algorithm_config
    per_update = settings.num_envs * getattr(config, "rollout_steps", 1)
    every = max(1, settings.runner.total_steps // per_update // REPORTS)
    runner = dataclasses.replace(settings.runner, checkpoint_every=min(every, settings.runner.checkpoint_every))
    return dataclasses.replace(settings, shards="1", runner=runner)


def _report(trial: Trial, order: TrialOrder, steps: int, path: Path | None) -> None:
    """Tell Ray Tune the objective at a checkpoint; with a population, hand over the checkpoint.

    Raises:
        RookeryError: the training has no such figure.
    """
    from ray import tune

    rows = read_progress(trial.run)
    value = objective(rows, order.metric, steps)
    column = column_of(order.metric, rows)
    if value is None:
        if any("episodes" in row for row in rows):
            known = sorted({name for row in rows for name in row})
            raise RookeryError(
                f"progress.csv has no column {column!r}: go on with the sweep by --resume, and --metric as one of "
                f"{', '.join(known)}."
            )
        return  # no episode has ended yet
    figures = {"objective": value, "steps": steps}
    if path is None:
        tune.report(figures)
        return
    with tempfile.TemporaryDirectory(prefix="rookery-sweep-") as folder:
        shutil.copytree(path, Path(folder) / "checkpoints" / path.name)
        shutil.copyfile(trial.run / "progress.csv", Path(folder) / "progress.csv")
        (Path(folder) / OWNER).write_text(str(trial.number))
        tune.report(figures, checkpoint=tune.Checkpoint.from_directory(folder))


def adopt(given: Path, run: Path, settings: Any) -> None:
    """Let a run go on from another one's checkpoint, with settings of its own.

    Args:
        given: folder with checkpoints/ and progress.csv.
        run: run folder, whose checkpoints are replaced.
        settings: of the run from now on.

    Raises:
        RookeryError: a damaged checkpoint.
    """
    from rookery.experiments.settings import FILE, save_settings
    from rookery.policies.training import checkpoint
    from rookery.sim.values import plain

    path = checkpoint.newest(given)
    state = checkpoint.read_state(path)
    tensors = checkpoint.read_tensors(path, state)
    own = plain(settings.algorithm_config)
    for name, x in tensors["algorithm"].items():
        if name.rpartition("/")[2] == "learning_rate":  # the rate of now, which a schedule has changed
            x *= own["learning_rate"] / state["config"]["learning_rate"]
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
    run.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(given / "progress.csv", run / "progress.csv")
    save_settings(run / FILE, settings)
    state = {k: v for k, v in state.items() if k not in ("format", "version", "torch", "files", "sha256")}
    state |= {"settings": settings.to_values(), "config": own}
    checkpoint.write(run, state["steps"], tensors, state)

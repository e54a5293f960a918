"""A sweep: its folder, its points, and Ray Tune that tries them (Liaw et al. 2018, arXiv 1807.05118)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rookery.experiments.ray_cluster import Cluster
from rookery.experiments.runs import write_json
from rookery.experiments.settings import RunSettings
from rookery.experiments.sweep.objective import check_metric
from rookery.experiments.sweep.space import Point, SweepSpace, SweptChoice, SweptInterval
from rookery.experiments.sweep.trial import BAD, OPEN, Trial, TrialOrder, for_tune, run_trial
from rookery.policies.training.lock import RunLock, is_unused
from rookery.policies.training.store import unwritable
from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.trust import refuse_untrusted
from rookery.sim.untrusted import read_json
from rookery.sim.values import convert, from_values

__all__ = ["FILE", "SAMPLERS", "SCHEDULERS", "SettingsSweep", "SweepPlan", "open_sweep"]

STORAGE = ".tune-"
"""Begins the name of Ray Tune's own folder, which holds checkpoints while they change hands."""
FILE = "sweep.json"
"""Plan of a sweep, in its folder."""
SCHEDULERS = ("asha", "pbt", "none")
SAMPLERS = ("random", "grid", "optuna")
REDUCTION = 3
"""ASHA keeps one trial in so many at each rung, and a rung has so many times the steps of the one before."""
RUNGS = 2
"""Of ASHA before the end: after a ninth and a third of the steps."""
EXCHANGES = 10
"""How often the trials of a population are compared."""
LOSSES = 3
"""How often a trial whose process is lost goes on from its checkpoint."""


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """Everything that a sweep is made from.

    Args:
        base: settings of all trials.
        space: over them.
        samples: number of trials; a grid has its own.
        scheduler: "asha" stops the worse trials early (Li et al. 2020, arXiv 1810.05934), "pbt" lets them take over the
            checkpoints and changed settings of the better ones (Jaderberg et al. 2017, arXiv 1711.09846), "none" runs all.
        sampler: "random", "grid" or "optuna" (a tree-structured Parzen estimator; Akiba et al. 2019, arXiv 1907.10902).
        metric: see `rookery.experiments.sweep.objective`.
        minimize: less is better.
        seed: of the points.
        cwd: folder in which relative paths of the settings begin.

    Raises:
        RookeryError: settings that do not fit together.
    """

    base: RunSettings
    space: SweepSpace
    samples: int = 16
    scheduler: str = "asha"
    sampler: str = "random"
    metric: str = "auto"
    minimize: bool = False
    seed: int = 0
    cwd: str = dataclasses.field(default_factory=os.getcwd)

    def __post_init__(self) -> None:
        for option, name, known in (("scheduler", self.scheduler, SCHEDULERS), ("sampler", self.sampler, SAMPLERS)):
            if name not in known:
                raise unknown(f"--{option}", name, known)
        if self.samples < 1:
            raise RookeryError(f"--samples must be at least 1, got {self.samples}.")
        if self.scheduler == "pbt":
            if self.sampler == "optuna":
                raise RookeryError("--scheduler pbt changes settings itself: leave out --sampler optuna.")
            if self.samples < 2 and self.sampler != "grid":
                raise RookeryError("--scheduler pbt is for a population: give --samples 4 or more.")
            self._check_population()

    def _check_population(self) -> None:
        """Refuse what cannot change while a policy learns."""
        own = self.base.algorithm
        config = self.base.to_values()[own]
        for name, dimension in self.space.dimensions.items():
            table, _, setting = name.partition(".")
            numbers = dimension.corners()
            real = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in numbers)
            if not real or not (
                table == "train_overrides" or (table == own and isinstance(config.get(setting), float))
            ):
                raise RookeryError(
                    f"--scheduler pbt changes numbers of [{own}] and [train_overrides] while a policy learns, and {name} is "
                    "none: leave it out of the space, or take --scheduler asha."
                )

    def points(self) -> list[Point]:
        """The points of the trials; of optuna none, which chooses them one after the other."""
        if self.sampler == "grid":
            return self.space.grid()
        if self.sampler == "optuna":
            return []
        generator = random.Random(self.seed)
        return [self.space.draw(generator) for _ in range(self.samples)]

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.space.grid()) if self.sampler == "grid" else self.samples

    def texts(self) -> list[str]:
        """All texts among the settings, of which some may name programs in files: a task, trackers or networks."""
        return list(_texts_in([self.base.to_values(), self.space.to_values()]))

    def to_values(self) -> dict[str, Any]:
        """JSON values."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return plain | {"base": self.base.to_values(), "space": self.space.to_values()}


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
    plan = _read_plan(folder)
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


def _read_plan(folder: Path) -> SweepPlan:
    """The plan of a sweep.

    Raises:
        RookeryError: there is none in the folder, or it is damaged.
    """
    try:
        values = convert(read_json(folder / FILE), dict[str, Any], FILE)
        base = RunSettings.from_values(convert(values.get("base"), dict[str, Any], "base"))
        if not base.task:
            raise RookeryError("base names no task: give one.")
        space = SweepSpace.from_values(convert(values.get("space"), dict[str, Any], "space"))
        return from_values(SweepPlan, values | {"base": base, "space": space}, f"value of {FILE}")
    except (OSError, ValueError, RookeryError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).removesuffix(".")
        raise RookeryError(
            f"{folder} is no folder of a sweep ({reason}): give one that `rookery sweep` made, or put back its {FILE}."
        ) from error


def _texts_in(value: Any) -> Iterator[str]:
    """All texts in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(inner)


def _try_folder(folder: Path) -> None:
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
        _try_folder(self.folder)
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

    def run(
        self, concurrent: int | None = None, address: str = "local", show: Callable[[str], None] = lambda line: None
    ) -> None:
        """Try all points, or what is left of them.

        Args:
            concurrent: trials at once, of a processor each; None takes all processors.
            address: of a Ray cluster, see `Cluster`.
            show: called with a sentence for each report.

        Raises:
            RookeryError: no cluster, one with fewer processors, other versions, a folder or own files that it does not
                share, or another process that sweeps in it.
        """
        _try_folder(self.folder)  # before Ray starts, which takes long
        at_once = concurrent or (min(usable_cores(), self.plan.trials) if address == "local" else 1)
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        begun = (self.folder / FILE).exists()
        with Cluster(address, at_once, 1.0, "trials", "give a smaller --concurrent") as cluster, RunLock(self.folder):
            self.save()
            try:
                cluster.check_folder(self.folder)
                cluster.check_own_files()
            except RookeryError:
                if not begun:
                    shutil.rmtree(self.folder, ignore_errors=True)
                raise
            logging.getLogger("ray").setLevel(logging.CRITICAL)
            warnings.filterwarnings("ignore", "Consider boosting PBT")  # by processes that keep what a trial left
            self._fit(None if concurrent is None and address != "local" else at_once, show)

    def _fit(self, at_once: int | None, show: Callable[[str], None]) -> None:
        from ray import tune

        search, names, count = self._search(at_once)
        if not any(self.trial(number).read()[1] in OPEN for number in names.numbers):
            return  # all is done
        watching = _watch(self, names, show)
        plan = self.plan
        population = plan.scheduler == "pbt"
        base, space = plan.base.to_values(), plan.space.to_values()
        order = TrialOrder(str(self.folder), base, space, plan.metric, population, plan.cwd)
        with tempfile.TemporaryDirectory(prefix=STORAGE, dir=self.folder) as storage:
            tuner = tune.Tuner(
                tune.with_resources(functools.partial(run_trial, order=order), {"cpu": 1}),
                param_space=self._domains() if self.plan.sampler != "optuna" else None,
                tune_config=tune.TuneConfig(
                    metric="objective",
                    mode=self._mode,
                    search_alg=search,
                    scheduler=self._scheduler(),
                    num_samples=count,
                    max_concurrent_trials=at_once if self.plan.sampler == "optuna" else None,
                    trial_name_creator=names,
                    trial_dirname_creator=names,
                ),
                run_config=tune.RunConfig(
                    name="tune",
                    storage_path=storage,
                    verbose=0,
                    failure_config=tune.FailureConfig(max_failures=LOSSES),
                    checkpoint_config=tune.CheckpointConfig(num_to_keep=4),
                    callbacks=[watching],
                ),
            )
            tuner.fit()

    @property
    def _mode(self) -> str:
        return "min" if self.plan.minimize else "max"

    def _domains(self) -> dict[str, Any]:
        """The space as Ray Tune has it."""
        from ray import tune

        out: dict[str, Any] = {}
        for name, d in self.plan.space.dimensions.items():
            if not isinstance(d, SweptInterval):
                out[name] = tune.choice([for_tune(v) for v in d.values])
            elif d.whole:
                out[name] = (tune.lograndint if d.log else tune.randint)(int(d.low), int(d.high) + 1)
            else:
                out[name] = (tune.loguniform if d.log else tune.uniform)(d.low, d.high)
        return out

    def _mutations(self) -> dict[str, Any]:
        """The space as population-based training has it: of a list it takes a neighbor."""
        lists = {n: list(d.values) for n, d in self.plan.space.dimensions.items() if isinstance(d, SweptChoice)}
        return self._domains() | lists

    def _search(self, at_once: int | None) -> tuple[Any, _Names, int]:
        """The searcher, the names of its trials, and how many there are."""
        begun = {number: self.trial(number).read() for number in self.numbers()}
        if self.plan.sampler != "optuna":
            from ray.tune.search.basic_variant import BasicVariantGenerator

            points = [_texts(begun[i][0] if i in begun else point) for i, point in enumerate(self.plan.points())]
            # a population takes turns on the processors: all of its trials must be known
            most = 0 if self.plan.scheduler == "pbt" else at_once or 0
            search = BasicVariantGenerator(points_to_evaluate=points, max_concurrent=most)
            return search, _Names(list(range(len(points)))), len(points)
        found, open_ones = self._optuna(begun)
        fresh = [i for i in range(self.plan.samples) if i not in begun]
        names = [*open_ones, *fresh]
        return found, _Names(names), len(names)

    def _optuna(self, begun: dict[int, tuple[Point, str, str]]) -> tuple[Any, list[int]]:
        """Optuna with what is known already, and the numbers of the trials that go on."""
        try:
            import optuna
            from ray.tune.search.optuna import OptunaSearch
        except ImportError as error:
            raise RookeryError("--sampler optuna needs Optuna: pip install 'rookery[optuna]'.") from error
        from rookery.experiments.sweep.table import row_of

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        open_ones = [i for i, (_, status, _) in begun.items() if status in OPEN]
        search = OptunaSearch(
            OptunaSearch.convert_search_space(self._domains()),
            metric="objective", mode=self._mode, sampler=optuna.samplers.TPESampler(seed=(self.plan.seed + len(begun)) % 2**32),
            points_to_evaluate=[_texts(begun[i][0]) for i in open_ones] or None,
        )  # fmt: skip
        for i, (point, status, _) in begun.items():
            value = row_of(self, i)["objective"]
            if status in ("done", "stopped") and value is not None:
                search.add_evaluated_point(_texts(point), value)
        return search, open_ones

    def _scheduler(self) -> Any:
        from ray.tune import schedulers

        total = self.plan.base.runner.total_steps
        if self.plan.scheduler == "asha":
            grace = max(1, total // REDUCTION**RUNGS)
            most = 2 * grace * REDUCTION ** (RUNGS - 1)  # the last rung lies below it, and no rung at the end
            return schedulers.AsyncHyperBandScheduler(
                time_attr="steps", max_t=most, grace_period=grace, reduction_factor=REDUCTION, stop_last_trials=False
            )
        if self.plan.scheduler == "pbt":
            return schedulers.PopulationBasedTraining(
                time_attr="steps", perturbation_interval=max(1, total // EXCHANGES),
                hyperparam_mutations=self._mutations(), custom_explore_fn=functools.partial(_within, space=self.plan.space),
            )  # fmt: skip
        return schedulers.FIFOScheduler()


QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that fails has none
    "RAY_AIR_NEW_OUTPUT": "0",
}
"""Variables of Ray Tune: the folder of a sweep has all logs, and Ctrl-C ends a sweep at once, whose trials have checkpoints."""


class _Names:
    """The number of each trial, as its name, in the order in which Ray Tune makes them.

    Args:
        numbers: in that order.
    """

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.known: dict[str, int] = {}

    def __deepcopy__(self, memo: Any) -> _Names:
        """The same: Ray Tune copies what makes names for each trial, and they must not all begin anew."""
        return self

    def __call__(self, trial: Any) -> str:
        if trial.trial_id not in self.known:
            self.known[trial.trial_id] = self.numbers[len(self.known)]
        return str(self.known[trial.trial_id])


def _texts(point: Point) -> Point:
    return {name: for_tune(value) for name, value in point.items()}


def _within(config: Point, space: SweepSpace) -> Point:
    """A changed point, inside its bounds: Ray Tune multiplies by 0.8 or 1.2."""
    out = dict(config)
    for name, d in space.dimensions.items():
        if isinstance(d, SweptInterval):
            out[name] = min(max(out[name], d.low), d.high)
    return out


def _watch(sweep: SettingsSweep, names: _Names, show: Callable[[str], None]) -> Any:
    """The callback of Ray Tune that shows reports and writes down how trials ended."""
    from ray import tune

    shown = {number: len(sweep.trial(number).sentences()) for number in sweep.numbers()}

    class Watch(tune.Callback):  # type: ignore[misc]
        """Made here, as its base class takes a second to import."""

        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            if "objective" in result:
                show(f"trial {names(trial)}: {result['objective']:.4g} after {result['steps']:,} steps")
            self._repeat(trial)

        def _repeat(self, trial: Any) -> None:
            """Show what the trackers of a trial have said since the last call."""
            number = int(names(trial))
            sentences = sweep.trial(number).sentences()
            for sentence in sentences[shown.get(number, 0) :]:
                show(f"trial {number}: {sentence}")
            shown[number] = len(sentences)

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            own = sweep.trial(int(names(trial)))
            point, status, reason = own.read()
            if status == "running":
                own.note(point, "stopped")
            if status in BAD:
                show(f"trial {names(trial)} {status}: {reason}")
            self._repeat(trial)

        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            own = sweep.trial(int(names(trial)))
            if own.read()[1] in BAD:
                return
            last = (str(trial.error_file and Path(trial.error_file).read_text()).strip().splitlines() or [""])[-1]
            own.note(own.read()[0], "failed", f"its process was lost {LOSSES + 1} times ({last:.200})")
            show(f"trial {names(trial)} failed: its process was lost")

    return Watch()

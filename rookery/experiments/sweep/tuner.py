"""The trials of a sweep, which Ray Tune chooses and stops (Liaw et al. 2018, arXiv 1807.05118)."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rookery.experiments.ray_cluster import Cluster
from rookery.experiments.sweep.plan import FILE, SweepPlan
from rookery.experiments.sweep.space import Point, SweepSpace, SweptChoice, SweptInterval
from rookery.experiments.sweep.sweep import STORAGE, SettingsSweep, try_folder
from rookery.experiments.sweep.table import row_of
from rookery.experiments.sweep.trial import BAD, OPEN, TrialOrder, for_tune, run_trial
from rookery.policies.training.lock import RunLock
from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError

__all__ = ["run_sweep"]

REDUCTION = 3
"""ASHA keeps one trial in so many at each rung, and a rung has so many times the steps of the one before."""
RUNGS = 2
"""Of ASHA before the end: after a ninth and a third of the steps."""
EXCHANGES = 10
"""How often the trials of a population are compared."""
LOSSES = 3
"""How often a trial whose process is lost goes on from its checkpoint."""
QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that fails has none
    "RAY_AIR_NEW_OUTPUT": "0",
}
"""Variables of Ray Tune: the folder of a sweep has all logs, and Ctrl-C ends a sweep at once, whose trials have checkpoints."""


def run_sweep(
    sweep: SettingsSweep,
    concurrent: int | None = None,
    address: str = "local",
    show: Callable[[str], None] = lambda line: None,
) -> None:
    """Try all points of a sweep, or what is left of them.

    Args:
        sweep: checked if it is new.
        concurrent: trials at once, of a processor each; None takes all processors.
        address: of a Ray cluster, see `Cluster`.
        show: called with a sentence for each report.

    Raises:
        RookeryError: no cluster, one with fewer processors, other versions, a folder or own files that it does not
            share, or another process that sweeps in it.
    """
    try_folder(sweep.folder)  # before Ray starts, which takes long
    at_once = concurrent or (min(usable_cores(), sweep.plan.trials) if address == "local" else 1)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    begun = (sweep.folder / FILE).exists()
    with Cluster(address, at_once, 1.0, "trials", "give a smaller --concurrent") as cluster, RunLock(sweep.folder):
        sweep.save()
        try:
            cluster.check_folder(sweep.folder)
            cluster.check_own_files()
        except RookeryError:
            if not begun:
                shutil.rmtree(sweep.folder, ignore_errors=True)
            raise
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", "Consider boosting PBT")  # by processes that keep what a trial left
        _fit(sweep, None if concurrent is None and address != "local" else at_once, show)


def _fit(sweep: SettingsSweep, at_once: int | None, show: Callable[[str], None]) -> None:
    from ray import tune

    search, names, count = _search(sweep, at_once)
    if not any(sweep.trial(number).read()[1] in OPEN for number in names.numbers):
        return  # all is done
    watching = _watch(sweep, names, show)
    plan = sweep.plan
    population = plan.scheduler == "pbt"
    base, space = plan.base.to_values(), plan.space.to_values()
    order = TrialOrder(str(sweep.folder), base, space, plan.metric, population, plan.cwd)
    with tempfile.TemporaryDirectory(prefix=STORAGE, dir=sweep.folder) as storage:
        tuner = tune.Tuner(
            tune.with_resources(functools.partial(run_trial, order=order), {"cpu": 1}),
            param_space=_domains(plan.space) if plan.sampler != "optuna" else None,
            tune_config=tune.TuneConfig(
                metric="objective",
                mode=_mode(plan),
                search_alg=search,
                scheduler=_scheduler(plan),
                num_samples=count,
                max_concurrent_trials=at_once if plan.sampler == "optuna" else None,
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


def _mode(plan: SweepPlan) -> str:
    return "min" if plan.minimize else "max"


def _domains(space: SweepSpace) -> dict[str, Any]:
    """The space as Ray Tune has it."""
    from ray import tune

    out: dict[str, Any] = {}
    for name, d in space.dimensions.items():
        if not isinstance(d, SweptInterval):
            out[name] = tune.choice([for_tune(v) for v in d.values])
        elif d.whole:
            out[name] = (tune.lograndint if d.log else tune.randint)(int(d.low), int(d.high) + 1)
        else:
            out[name] = (tune.loguniform if d.log else tune.uniform)(d.low, d.high)
    return out


def _mutations(space: SweepSpace) -> dict[str, Any]:
    """The space as population-based training has it: of a list it takes a neighbor."""
    lists = {n: list(d.values) for n, d in space.dimensions.items() if isinstance(d, SweptChoice)}
    return _domains(space) | lists


def _search(sweep: SettingsSweep, at_once: int | None) -> tuple[Any, _Names, int]:
    """The searcher, the names of its trials, and how many there are."""
    begun = {number: sweep.trial(number).read() for number in sweep.numbers()}
    if sweep.plan.sampler != "optuna":
        from ray.tune.search.basic_variant import BasicVariantGenerator

        points = [_texts(begun[i][0] if i in begun else point) for i, point in enumerate(sweep.plan.points())]
        # a population takes turns on the processors: all of its trials must be known
        most = 0 if sweep.plan.scheduler == "pbt" else at_once or 0
        search = BasicVariantGenerator(points_to_evaluate=points, max_concurrent=most)
        return search, _Names(list(range(len(points)))), len(points)
    found, open_ones = _optuna(sweep, begun)
    fresh = [i for i in range(sweep.plan.samples) if i not in begun]
    names = [*open_ones, *fresh]
    return found, _Names(names), len(names)


def _optuna(sweep: SettingsSweep, begun: dict[int, tuple[Point, str, str]]) -> tuple[Any, list[int]]:
    """Optuna with what is known already, and the numbers of the trials that go on."""
    try:
        import optuna
        from ray.tune.search.optuna import OptunaSearch
    except ImportError as error:
        raise RookeryError("--sampler optuna needs Optuna: pip install 'rookery[optuna]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    open_ones = [i for i, (_, status, _) in begun.items() if status in OPEN]
    search = OptunaSearch(
        OptunaSearch.convert_search_space(_domains(sweep.plan.space)),
        metric="objective",
        mode=_mode(sweep.plan),
        sampler=optuna.samplers.TPESampler(seed=(sweep.plan.seed + len(begun)) % 2**32),
        points_to_evaluate=[_texts(begun[i][0]) for i in open_ones] or None,
    )
    for i, (point, status, _) in begun.items():
        value = row_of(sweep, i)["objective"]
        if status in ("done", "stopped") and value is not None:
            search.add_evaluated_point(_texts(point), value)
    return search, open_ones


def _scheduler(plan: SweepPlan) -> Any:
    from ray.tune import schedulers

    total = plan.base.runner.total_steps
    if plan.scheduler == "asha":
        grace = max(1, total // REDUCTION**RUNGS)
        most = 2 * grace * REDUCTION ** (RUNGS - 1)  # the last rung lies below it, and no rung at the end
        return schedulers.AsyncHyperBandScheduler(
            time_attr="steps", max_t=most, grace_period=grace, reduction_factor=REDUCTION, stop_last_trials=False
        )
    if plan.scheduler == "pbt":
        return schedulers.PopulationBasedTraining(
            time_attr="steps",
            perturbation_interval=max(1, total // EXCHANGES),
            hyperparam_mutations=_mutations(plan.space),
            custom_explore_fn=functools.partial(_within, space=plan.space),
        )
    return schedulers.FIFOScheduler()


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

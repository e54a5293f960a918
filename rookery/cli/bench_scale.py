"""`rookery bench scale`: speed of a task by processes and threads, and what `--shards auto` takes from then on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rookery.cli.options import print_json, task_config
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.cli.bench import Args
    from rookery.experiments.settings import RunSettings
    from rookery.scaling.cost import StepCost, Way
    from rookery.scaling.measure import TimedIteration
    from rookery.scaling.record import MeasuredTask

SECONDS = 2.0
"""Of stepping in each way by default, s, in `ROUNDS` rounds."""
ROUNDS = 2


def run_scale(args: Args) -> int:
    """Measure, remember and print."""
    from rookery.scaling.cost import Way
    from rookery.scaling.measure import divisible, measure_iteration, measure_task
    from rookery.scaling.record import remember_task

    if args.shards != "auto":
        raise RookeryError("`rookery bench scale` tries all numbers of shards: leave out --shards.")
    settings = scale_settings(args)
    measured = measure_task(settings, (args.seconds or SECONDS) / ROUNDS, ROUNDS)
    assert settings.engine is not None  # of the preset
    file = remember_task(settings.task, settings.engine, measured)
    taken, why = measured.choice(settings.num_envs, divisible(settings))
    iterations: list[TimedIteration] = []
    if not args.steps_only:
        ways = dict.fromkeys((Way(1, 1), Way(1, measured.cores), taken))
        iterations = [measure_iteration(settings, way) for way in ways]
    if args.json:
        print_json(values_of(settings, measured, iterations, taken, why) | {"file": str(file)})
    else:
        _show(settings, measured, iterations, taken, why)
    return 0


def scale_settings(args: Args) -> RunSettings:
    """The settings of the training whose steps are measured: the task's preset, with what the command line changes."""
    from rookery.experiments.recipes import preset
    from rookery.sim.config import merge
    from rookery.tasks.registry import find

    entry = find(args.task)
    settings = preset(args.task)
    config = merge(settings.task_config, task_config(args.task_config, args.action, args.obs))
    return dataclasses.replace(
        settings,
        engine=entry.engines[0] if args.engine is None else entry.check(args.engine),
        num_envs=settings.num_envs if args.num_envs is None else args.num_envs,
        randomize=settings.randomize if args.randomize is None else args.randomize,
        seed=args.seed,
        task_config=config,
    )


def values_of(
    settings: RunSettings, measured: MeasuredTask, iterations: list[TimedIteration], taken: Way, why: str
) -> dict[str, Any]:
    """JSON values of a measurement."""
    steps = [
        {"shards": s.way.shards, "threads": s.way.threads, "num_envs": s.num_envs, "steps_per_s": s.rate}
        | {"model_steps_per_s": measured.cost.rate(s.way, s.num_envs, measured.cores)}
        for s in measured.steps
    ]
    return {
        "task": settings.task,
        "engine": settings.engine,
        "num_envs": settings.num_envs,
        "cores": measured.cores,
        "steps": steps,
        "cost": dataclasses.asdict(measured.cost),
        "iterations": [
            {"shards": i.way.shards, "threads": i.way.threads, "collect_s": i.collect_s, "learn_s": i.learn_s}
            for i in iterations
        ],
        "taken": {"shards": taken.shards, "threads": taken.threads},
        "why": why,
    }


def _show(
    settings: RunSettings, measured: MeasuredTask, iterations: list[TimedIteration], taken: Way, why: str
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    cores = measured.cores
    console.print(
        f"[bold]{settings.task}[/] on {settings.engine}, {settings.num_envs} worlds, {cores} processor{'s' * (cores > 1)}"
    )
    table = Table("", "steps/s", "of one thread", "model", "largest part", box=None, pad_edge=False)
    whole = [step for step in measured.steps if step.num_envs == settings.num_envs]
    for step in whole:
        modeled = measured.cost.rate(step.way, step.num_envs, cores)
        limit = measured.cost.limit(step.way, step.num_envs, cores)
        told = (f"{modeled:,.0f}", limit) if cores > 1 else ()  # one processor does not tell the parts apart
        table.add_row(str(step.way), f"{step.rate:,.0f}", f"{step.rate / whole[0].rate:.2f}x", *told)
    console.print(table)
    if cores > 1:
        console.print(_constants(measured.cost))
    for i in iterations:
        console.print(
            f"an iteration of {settings.algorithm}, {i.way}: collecting {i.collect_s:.2f} s, learning {i.learn_s:.2f} s "
            f"({i.learner_share:.0%})"
        )
    console.print(f"--shards auto takes {taken} from now on: {why}.")


def _constants(cost: StepCost) -> str:
    """The fitted constants in words."""
    us = {name: 1e6 * value for name, value in dataclasses.asdict(cost).items()}
    return (
        f"a step: Python {us['fixed_s']:.0f} us, and for each world {us['world_s']:.1f} us and physics "
        f"{us['physics_s']:.1f} us; a process {us['message_s']:.0f} us and {us['gather_s']:.1f} us for each world"
    )

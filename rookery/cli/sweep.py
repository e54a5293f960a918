"""`rookery sweep`: many trainings of one task with different settings, and which of them is the best."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import Json, Words, print_json
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.experiments.sweep.sweep import SettingsSweep

EXAMPLES = """
  rookery sweep drone-hover --space sweep.toml --samples 16
  rookery sweep drone-hover --space sweep.toml --sampler grid --scheduler none
  rookery sweep go2-velocity --space sweep.toml --samples 8 --scheduler pbt
  rookery sweep go2-velocity --space sweep.toml --samples 200 --sampler optuna --ray 10.0.0.4:6379 --out /shared/sweep
  rookery sweep --resume runs/sweeps/drone-hover
  rookery eval runs/sweeps/drone-hover/best
"""
MOST_SHOWN = 20
"""Trials in the printed table."""


@dataclass(frozen=True)
class Args:
    """Train a task with many different settings, by Ray Tune, and rank them.

    Each trial is a run folder that eval, play, export and train --resume take. Trials are ranked by the mean of the metric over
    the episodes of the latest tenth of their steps, with exploration. The folder gets table.csv, pictures and a link `best`;
    killed at any moment, --resume goes on.
    """

    task: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="TASK", help="Task, see `rookery list`; not needed with --resume."),
    ] = None
    space: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help="TOML file of the settings that differ between trials, see docs/sweep.md."),
    ] = None
    samples: Annotated[int | None, tyro.conf.arg(metavar="N", help="Trials; 16 by default. A grid has its own.")] = None
    scheduler: Annotated[
        str,
        tyro.conf.arg(
            metavar="NAME",
            help="asha: stop the worse trials early; pbt: population-based training; none: all trials to their end.",
        ),
    ] = "asha"
    sampler: Annotated[
        str, tyro.conf.arg(metavar="NAME", help="random, grid, or optuna (pip install 'rookery[optuna]').")
    ] = "random"
    metric: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help="success, return, or a column of progress.csv; by default success where the task has it. A sweep that goes on "
            "may have another one.",
        ),
    ] = None
    minimize: Annotated[bool, tyro.conf.arg(help="Less of the metric is better.")] = False
    steps: Annotated[
        float | None, tyro.conf.arg(metavar="N", help="Control steps of a trial; by default the preset's.")
    ] = None
    algorithm: Annotated[
        str | None, tyro.conf.arg(metavar="NAME", help="Learning algorithm; that of the preset by default.")
    ] = None
    config: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help="Settings that the space leaves as they are, such as settings.toml."),
    ] = None
    seed: Annotated[int, tyro.conf.arg(metavar="N", help="Seed of the points; that of the trainings is a setting.")] = 0
    device: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME", help="Where trials learn: cpu, or cuda, whose GPUs are dealt out to them in turn."
        ),
    ] = None
    tracker: Annotated[
        Words,
        tyro.conf.arg(
            metavar="NAME",
            help="Tracker of the trials, as of `rookery train`; none for no tracker. Repeatable.",
        ),
    ] = ()
    concurrent: Annotated[
        int | None, tyro.conf.arg(metavar="N", help="Trials at once, of one processor each; all processors by default.")
    ] = None
    ray: Annotated[
        str,
        tyro.conf.arg(
            metavar="ADDRESS", help="Cluster: local for this machine alone, auto for one that runs here, or HOST:PORT."
        ),
    ] = "local"
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Folder of the sweep; runs/sweeps/TASK if left out.")
    ] = None
    resume: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help="Go on with the sweep in this folder.")] = None
    json: Json = False


def run(args: Args) -> int:
    """Sweep, and print the table."""
    if args.concurrent is not None and args.concurrent < 1:
        raise RookeryError(f"--concurrent must be at least 1, got {args.concurrent}.")
    from rookery.experiments.sweep.table import tied
    from rookery.experiments.sweep.trial import BAD
    from rookery.experiments.sweep.tuner import run_sweep
    from rookery.kernels import announce_compiling

    announce_compiling()
    sweep = _resumed(args) if args.resume is not None else _begun(args)
    print(f"rookery: {sweep.plan.trials} trials of {sweep.plan.base.task}, in {sweep.folder}", file=sys.stderr)
    ended: BaseException | None = None
    try:
        run_sweep(sweep, args.concurrent, args.ray, lambda line: print(f"rookery: {line}", file=sys.stderr, flush=True))
    except (KeyboardInterrupt, SystemExit) as signal:
        ended = signal
    rows = _write(sweep) if sweep.numbers() else []
    if ended is not None:
        print(f"rookery: interrupted; go on with: rookery sweep --resume {sweep.folder}", file=sys.stderr)
        if isinstance(ended, SystemExit):
            raise ended
        return 130
    if args.json:
        print_json(rows)
    else:
        show(sweep, rows)
    if (sentence := tied(sweep, rows)) is not None:
        print(f"rookery: {sentence}", file=sys.stderr)
    if all(row["status"] in BAD for row in rows):
        raise RookeryError(
            f"all {len(rows)} trials failed; the first one: {rows[0]['reason'] if rows else 'none began'}"
        )
    return 0


def _begun(args: Args) -> SettingsSweep:
    """A new sweep, with everything checked."""
    import dataclasses

    from rookery.experiments.recipes import preset, varied
    from rookery.experiments.settings import RunSettings, read_settings
    from rookery.experiments.sweep.objective import AUTO
    from rookery.experiments.sweep.plan import SweepPlan
    from rookery.experiments.sweep.space import read_space
    from rookery.experiments.sweep.sweep import SettingsSweep
    from rookery.policies.tracking.trackers import absolute_tracker
    from rookery.sim.trust import remember
    from rookery.tasks.registry import find

    if args.task is None or args.space is None:
        raise RookeryError("`rookery sweep` needs TASK and --space FILE, or --resume DIR: see `rookery sweep --help`.")
    find(args.task)
    space = read_space(args.space)
    algorithm = args.algorithm or space.fixed.get("algorithm")
    base = preset(args.task, algorithm)
    if args.config is not None:
        stored = read_settings(args.config) | {"task": args.task, "algorithm": base.algorithm}
        base = varied(RunSettings.from_values(stored, base), algorithm)
    space.fixed.pop("algorithm", None)
    if args.steps is not None:
        if not 1 <= args.steps <= 1e12 or args.steps != int(args.steps):
            raise RookeryError(f"--steps needs a whole number such as 5e6, got {args.steps:g}.")
        base = dataclasses.replace(base, runner=dataclasses.replace(base.runner, total_steps=int(args.steps)))
    if args.device is not None:
        base = dataclasses.replace(base, device=args.device)
    if args.tracker:
        trackers = tuple(absolute_tracker(name) for name in args.tracker)
        base = dataclasses.replace(base, runner=dataclasses.replace(base.runner, trackers=trackers))
    samples = 16 if args.samples is None else args.samples
    plan = SweepPlan(base, space, samples, args.scheduler, args.sampler, args.metric or AUTO, args.minimize, args.seed)
    for text in plan.texts():
        remember(text)  # so that the sweep goes on here without a question
    sweep = SettingsSweep(plan, args.out or Path("runs") / "sweeps" / args.task.rpartition(":")[2])
    sweep.check()
    return sweep


def _resumed(args: Args) -> SettingsSweep:
    """A sweep that goes on."""
    from rookery.experiments.sweep.sweep import open_sweep
    from rookery.tasks.registry import find

    assert args.resume is not None
    like = Args()
    kept = (
        "space",
        "scheduler",
        "sampler",
        "steps",
        "algorithm",
        "config",
        "device",
        "tracker",
        "seed",
        "out",
    )
    for name in kept if args.metric is not None else (*kept, "minimize"):
        if getattr(args, name) != getattr(like, name):
            raise RookeryError(f"--resume keeps the sweep's own settings: leave out --{name}, or start a new sweep.")
    sweep = open_sweep(args.resume, args.samples, args.metric, args.minimize)
    if args.task not in (None, sweep.plan.base.task):
        raise RookeryError(
            f"{args.resume} is a sweep of {sweep.plan.base.task}, not of {args.task}: leave {args.task} out."
        )
    find(sweep.plan.base.task)
    return sweep


def _write(sweep: SettingsSweep) -> list[dict[str, Any]]:
    """Write the table and the pictures of what there is."""
    from rookery.experiments.sweep.pictures import draw_curves, draw_settings
    from rookery.experiments.sweep.table import rows_of, write_table
    from rookery.sim.files import replace

    rows = rows_of(sweep)
    write_table(sweep, rows)
    if any(row["objective"] is not None for row in rows):
        replace(sweep.folder / "curves.svg", draw_curves(sweep, rows).encode())
        replace(sweep.folder / "settings.svg", draw_settings(sweep, rows).encode())
    return rows


def show(sweep: SettingsSweep, rows: list[dict[str, Any]]) -> None:
    """The table for people."""
    from rich.console import Console
    from rich.table import Table

    from rookery.experiments.sweep.table import best_of
    from rookery.experiments.sweep.trial import BAD

    console = Console(highlight=False, soft_wrap=True)
    names = list(sweep.plan.space.dimensions)
    metric = rows[0]["metric"] if rows else sweep.plan.metric
    table = Table("trial", metric, "steps", "", *names, box=None, pad_edge=False)
    for row in rows[:MOST_SHOWN]:
        value = "" if row["objective"] is None else f"{row['objective']:.4g}"
        point = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in (row["point"].get(n) for n in names)]
        table.add_row(f"{row['trial']:03d}", value, f"{row['steps']:,}", row["status"], *point)
    console.print(table)
    if len(rows) > MOST_SHOWN:
        console.print(f"and {len(rows) - MOST_SHOWN} more in {sweep.folder / 'table.csv'}")
    for row in rows:
        if row["status"] in BAD:
            console.print(f"trial {row['trial']} {row['status']}: {row['reason']}", markup=False)
    best = best_of(rows)
    if best is not None:
        console.print(f"best: [bold]{best['run']}[/]")
        console.print(f"  rookery eval {sweep.folder / 'best'}")
        console.print(f"  rookery train --config {best['run']}/settings.toml --seed 1")

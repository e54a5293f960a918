"""`rookery train`: learn a policy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.options import Action, Config, Json, Obs, numbers, positive, print_json, task_config, values
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.training import Settings

EXAMPLES = """
  rookery train drone-hover
  rookery train drone-hover --randomize default --seed 3 --out runs/robust
  rookery train drone-hover --steps 5e6 --ppo learning_rate=5e-4 --ppo hidden=[128,128]
  rookery train drone-hover --config num_drones=3 --config reward.ang_vel=-0.01
  rookery train volley-solo-bump --algorithm imitate --steps 2e6 --out runs/script
  rookery train go2-velocity --algorithm imitate --teacher go2-velocity --config history=5 --out runs/student
  rookery train drone-hover --algorithm clone --data demos --out runs/clone
  rookery train --resume runs/drone-hover/latest
"""
ALGORITHMS = ("ppo", "imitate", "clone")


@dataclass(frozen=True)
class Args:
    """Learn a policy for a task, with live progress; Ctrl-C saves and says how to go on.

    The run folder gets the current policy with its contract, checkpoints, progress.csv and TensorBoard files. What is
    left out comes from the task's own training settings, or with --resume from the run.
    """

    task: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="TASK", help="Task, see `rookery list`; may be left out with --resume."),
    ] = None
    algorithm: Annotated[
        str,
        tyro.conf.arg(
            metavar="NAME",
            help="ppo; imitate: learn from the task's own classical controller, or from --teacher; clone: from --data.",
        ),
    ] = "ppo"
    teacher: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="RUN", help="Policy to imitate. It sees what its own config says, the student what this one says."
        ),
    ] = None
    data: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Demonstrations to clone, see `rookery demos record`.")
    ] = None
    steps: Annotated[
        float | None, tyro.conf.arg(metavar="N", help="Control steps over all worlds, those before a resume included.")
    ] = None
    num_envs: Annotated[int | None, tyro.conf.arg(metavar="N", help="Worlds that learn together.")] = None
    seed: Annotated[int | None, tyro.conf.arg(metavar="N", help="Seed of everything random; 0 if left out.")] = None
    engine: Annotated[str | None, tyro.conf.arg(metavar="NAME", help="Engine of the physics.")] = None
    randomize: Annotated[
        str | None,
        tyro.conf.arg(metavar="SPREAD", help="Spread of the physics: none, default or a TOML file of ranges."),
    ] = None
    action: Action = None
    obs: Obs = None
    set: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(metavar="NAME=VALUE", help="Physical parameter at one value, such as mass=1.2; may be repeated."),
    ] = ()
    config: Config = ()
    weights: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(metavar="NAME=VALUE", help="Weight of one objective of a vector reward; may be repeated."),
    ] = ()
    ppo: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(metavar="NAME=VALUE", help="Setting of PPO, such as learning_rate=5e-4; may be repeated."),
    ] = ()
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Run folder; runs/TASK/<time> if left out, linked as `latest`.")
    ] = None
    init: Annotated[
        Path | None,
        tyro.conf.arg(metavar="RUN", help="Start from the policy of this run; observation terms are matched by name."),
    ] = None
    resume: Annotated[
        Path | None, tyro.conf.arg(metavar="RUN", help="Go on with this run, as if it had not stopped.")
    ] = None
    json: Json = False


def run(args: Args) -> int:
    """Train; 130 after Ctrl-C."""
    from rookery.sim.errors import unknown
    from rookery.training import Settings, resume, start

    if args.algorithm not in ALGORITHMS:
        raise unknown("algorithm", args.algorithm, ALGORITHMS)
    if (args.data is not None) != (args.algorithm == "clone"):
        raise RookeryError("--algorithm clone and --data DIR go together: give both or none.")
    if args.teacher is not None and args.algorithm != "imitate":
        raise RookeryError(
            "--teacher RUN is for --algorithm imitate: give both, or use --init RUN to start from a policy."
        )
    if args.init is not None and args.algorithm != "ppo":
        raise RookeryError(
            f"--init RUN is for --algorithm ppo, and {args.algorithm} starts afresh: leave it out, or go on from the new run "
            "by --init afterwards."
        )
    if args.steps is not None:
        positive("--steps", args.steps)
    steps = None if args.steps is None else round(args.steps)
    if args.resume is not None:
        _refuse_settings(args)
        training = resume(args.resume, steps, args.task)
    elif args.task is None:
        raise RookeryError("`rookery train` needs TASK, or --resume RUN: see `rookery train --help`.")
    else:
        settings = Settings.of_task(
            args.task,
            steps=steps,
            num_envs=args.num_envs,
            seed=args.seed,
            engine=args.engine,
            randomize=args.randomize,
            fixed=numbers(args.set, "--set"),
            config=task_config(args.config, args.action, args.obs),
            weights=numbers(args.weights, "--weights") or None,
            ppo=values(args.ppo, "--ppo"),
            init=str(args.init) if args.init else None,
        )
        if args.algorithm != "ppo":
            return _imitate(settings, args, steps)
        training = start(settings, args.out)
    result = training.run()
    if args.json:
        print_json(result)
    elif not result["interrupted"]:
        _say_what_next(training.folder, result)
    return 130 if result["interrupted"] else 0


def _imitate(settings: Settings, args: Args, steps: int | None) -> int:
    from rookery.demonstrations import clone_run
    from rookery.imitation import imitate

    if args.data is not None:
        result = clone_run(settings, args.data, steps, args.out)
    else:
        result = imitate(settings, args.out, args.teacher)
    if args.json:
        print_json(result)
    else:
        _say_what_next(Path(result["run"]), result)
    return 0


def _refuse_settings(args: Args) -> None:
    """A resumed run keeps its own settings."""
    for f in dataclasses.fields(Args):
        if f.name not in ("task", "steps", "resume", "json") and getattr(args, f.name) != f.default:
            option = "--" + f.name.replace("_", "-")
            raise RookeryError(f"--resume goes on with the run's own settings: leave out {option}, or start a new run.")


def _say_what_next(folder: Path, result: dict[str, object]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    success = result["success"]
    reached = f", success {success:.1%} while exploring" if isinstance(success, float) else ""
    console.print(
        f"[green]trained[/] {result['steps']:,} steps in {result['seconds']:.0f} s{reached}: [bold]{folder}[/]"
    )
    console.print(f"  rookery play {folder} --out film.mp4")
    console.print(f"  rookery eval {folder} --episodes 256 --engine pybullet")
    console.print(f"  rookery export {folder} --out bundle")

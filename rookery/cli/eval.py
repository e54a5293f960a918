"""`rookery eval`: measure a policy, or a task's classical controller, over many episodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import (
    Controller,
    Engine,
    Fixed,
    Json,
    OtherTask,
    Randomize,
    Run,
    Seed,
    Shards,
    TaskConfig,
    announce,
    note_first,
    numbers,
    print_json,
    values,
    writable,
)
from rookery.sim.engines import find_engine
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env
    from rookery.sim.randomization.draw_log import DrawLog

EXAMPLES = """
  rookery eval runs/drone-hover/latest
  rookery eval runs/drone-hover/latest --engine pybullet --episodes 64
  rookery eval runs/drone-hover/latest --set mass=1.2 --set action_delay=0.02
  rookery eval drone-track --task-config path=circle --json
  rookery eval runs/ML10-train/latest --task ML10-test
  rookery eval drone-hover --controller classical
  rookery eval runs/drone-hover/latest --randomize all --log-draws draws.npz
  rookery eval runs/drone-hover/other --replay-draws draws.npz
"""
MOST_WORLDS = 512
"""Of an evaluation that names no number: one for each episode up to this, or to as many as the engine steps together well."""
DEFAULT_EPISODES = 256


@dataclass(frozen=True)
class Args:
    """Measure a policy over many episodes: success, return, and all of the task's own figures.

    The registered task judges: of the training's own config only what belongs to the policy holds, such as its robot and what
    it observes. --task-config changes the task. What is not as registered is printed first.

    Episodes are counted fairly: every world gives its first ones. The same seed gives the same figures.
    """

    run: Run
    episodes: Annotated[
        int | None,
        tyro.conf.arg(metavar="N", help="Episodes to average over; by default 256, or as many as --replay-draws has."),
    ] = None
    task: OtherTask = None
    engine: Engine = None
    set: Fixed = ()
    randomize: Randomize = "none"
    log_draws: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE", help="Write what was drawn for each episode, as .npz or .json, to play it again."
        ),
    ] = None
    replay_draws: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE", help="Play the episodes of a log again: same seed, worlds, starts, --set and draws."
        ),
    ] = None
    task_config: TaskConfig = ()
    controller: Controller = "policy"
    sample: Annotated[
        bool, tyro.conf.arg(help="Draw choices by their probabilities, in place of taking the likeliest options.")
    ] = False
    num_envs: Annotated[int | None, tyro.conf.arg(metavar="N", help="Worlds; by default what suits the engine.")] = None
    shards: Shards = "auto"
    seed: Seed = 0
    ray: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ADDRESS",
            help="Divide the worlds among processes of Ray, with the same figures: local, auto, or HOST:PORT of a cluster.",
        ),
    ] = None
    track: Annotated[
        bool, tyro.conf.arg(help="Send the figures to the trackers of the training, too, as eval/ENGINE/NAME.")
    ] = False
    json: Json = False


def run(args: Args) -> int:
    """Measure and print."""
    if args.episodes is not None and args.episodes < 1:
        raise RookeryError(f"--episodes must be at least 1, got {args.episodes}.")
    from rookery.experiments.run_env import judging_of, open_env
    from rookery.kernels import announce_compiling

    if args.track:
        from rookery.experiments.tracked import refuse_untracked

        refuse_untracked(args.run)
    fixed = numbers(args.set, "--set")
    config = values(args.task_config, "--task-config")
    episodes, worlds, seed, randomize = _what_to_play(args)
    judged = judging_of(args.run, config, controller=args.controller, task=args.task)
    announce_compiling()
    options: dict[str, Any] = {"controller": args.controller, "task": args.task, "config": config}
    options |= {"engine": args.engine, "seed": seed, "randomize": randomize, "fixed": fixed}
    if args.ray is not None:
        _refuse_ray(args)
        env, act = open_env(args.run, worlds, **options)
    else:
        env, act = open_env(args.run, worlds, shards=args.shards, sample=args.sample, **options)
    announce(args.run, args.controller)
    games = _of_games(args, env)
    note_first([*judged.lines(), *games], args.json)
    log = _log_of(args, env, seed)
    try:
        if args.ray is not None:
            result = measure_on(args.ray, env, args.run, worlds, episodes, options)
        else:
            result = measure(env, act, episodes, seed, None if log is None else log.add)
    finally:
        env.close()
    if log is not None and args.log_draws is not None:
        log.write(args.log_draws)
    result |= {"controller": args.controller, "engine": env.engine, "randomize": randomize}
    result |= {"sampled": args.sample} if args.sample else {}
    result |= {"plays_all_teams": True} if games else {}
    result |= {"seed": seed, "set": fixed, "judged_by": judged.to_json()}
    if args.track:
        _track(args.run, result)
    if args.json:
        print_json(result)
    else:
        show(result)
    return 0


def _of_games(args: Args, env: Env) -> list[str]:
    """Say of a game that a run plays against itself."""
    if not env.teams or args.controller != "policy":
        return []
    return [
        f"{args.run} plays all teams, so that success says nothing of other opponents: `rookery match {env.task_id} {args.run} "
        "controller` does"
    ]


def _track(run: Path, result: dict[str, Any]) -> None:
    """Send the figures to the trackers of the training."""
    from rookery.experiments.tracked import tracking_of

    changes = [*(f"{k}={v:g}" for k, v in result["set"].items()), *result["judged_by"]["changed"]]
    changes = [result["randomize"], *changes] if result["randomize"] != "none" else changes
    inside = "/".join(["eval", result["engine"], *changes])
    figures = {"success_rate": result["success_rate"], "return_mean": result["return_mean"], **result["metrics"]}
    figures |= {"episodes": result["episodes"], "episode_length_mean": result["episode_length_mean"]}
    with tracking_of(run) as (tracking, steps):
        tracking.evaluated(
            {f"{inside}/{k}": float(v) for k, v in figures.items() if v is not None and not math.isnan(v)}, steps
        )


def _what_to_play(args: Args) -> tuple[int, int, int, str]:
    """Number of episodes and worlds, seed and randomization: as asked for, or those of the log that is to be played again."""
    if args.replay_draws is None:
        episodes = DEFAULT_EPISODES if args.episodes is None else args.episodes
        batch = find_engine(args.engine).batch if args.engine else MOST_WORLDS
        worlds = min(episodes, MOST_WORLDS, batch)
        return episodes, worlds if args.num_envs is None else args.num_envs, args.seed, args.randomize
    from rookery.sim.randomization.draw_log import DrawLog

    log = DrawLog.read(args.replay_draws)
    own = args.randomize == "none" and args.num_envs is None and not args.set and args.seed in (0, log.seed)
    if not own:
        raise RookeryError(
            "--replay-draws has its own randomization, worlds, seed and held values: leave out --randomize, --num-envs, --seed "
            "and --set."
        )
    known = len(log.world)
    episodes = known if args.episodes is None else args.episodes
    if episodes > known:
        raise RookeryError(f"{args.replay_draws} has {known} episodes to play again: give --episodes {known} or fewer.")
    return episodes, log.num_envs, log.seed, str(args.replay_draws)


def _log_of(args: Args, env: Env, seed: int) -> DrawLog | None:
    """The log to be written, None where none is asked for."""
    if args.log_draws is None:
        return None
    from rookery.sim.randomization.draw_log import DrawLog, check_suffix

    check_suffix(args.log_draws)
    writable(args.log_draws, "--log-draws")
    if len(env.task_names) > 1:
        raise RookeryError(f"--log-draws is for one task, and {env.task_id} is a set of tasks: choose one of them.")
    return DrawLog(env.task_id, seed, env.num_envs)


def measure(
    env: Env, act: Act, episodes: int, seed: int, record: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """The figures of `evaluate` with the 95 % interval of one task's success, and the name and value of the task's headline
    figure; progress goes to standard error."""
    from rookery.cli.progress import Progress
    from rookery.policies.training.evaluate import evaluate

    with Progress("episodes", episodes) as progress:
        return _with_headline(env, evaluate(env, act, episodes, seed, progress, record))


def measure_on(
    address: str, env: Env, run: Path, worlds: int, episodes: int, options: dict[str, Any]
) -> dict[str, Any]:
    """The figures of `measure`, by processes of a Ray cluster; see `rookery.experiments.remote_evaluation`."""
    from rookery.cli.progress import Progress
    from rookery.experiments.remote_evaluation import evaluate_on

    with Progress("episodes", episodes) as progress:
        return _with_headline(env, evaluate_on(address, env, run, worlds, episodes, progress, **options))


def _refuse_ray(args: Args) -> None:
    """Refuse options that need all worlds in one process."""
    for name in ("sample", "log_draws", "replay_draws", "shards"):
        if getattr(args, name) != getattr(Args(args.run), name):
            raise RookeryError(f"--ray divides the worlds among processes: leave out --{name.replace('_', '-')}.")


def _with_headline(env: Env, figures: dict[str, Any]) -> dict[str, Any]:
    from rookery.sim2real.gate.intervals import wilson

    result = {"task": env.task_id, **figures}
    episodes = result["episodes"]
    if result["success_rate"] is not None and "tasks" not in result:
        result["success_interval"] = wilson(result["success_rate"] * episodes, episodes)
    name = env.headline
    return result | {"metric_name": name, "metric": result["metrics"].get(name)}


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    told = [f"{result['episodes']} episodes", f"seed {result['seed']}", result["controller"]]
    told += [f"randomization {result['randomize']}"] if result["randomize"] != "none" else ["nominal physics"]
    told += [f"{k}={v:g}" for k, v in result["set"].items()]
    console.print(f"[bold]{result['task']}[/] on {result['engine']}: {', '.join(told)}")
    table = Table(box=None, show_header=False, pad_edge=False)
    if result["success_rate"] is not None:
        low, high = result.get("success_interval", (None, None))
        sure = "" if low is None else f" ({low:.1%} to {high:.1%} at 95 %)"
        table.add_row("success", f"[bold]{result['success_rate']:.1%}[/]{sure}")
    for name, task in result.get("tasks", {}).items():
        if task["success_rate"] is not None:
            table.add_row(f"  {name}", f"{task['success_rate']:.1%}")
    for name, value in result["metrics"].items():
        if name != "success":
            missing = result["metrics_missing"].get(name, 0)
            but = f" (without {missing} episodes that have none)" if missing else ""
            table.add_row(name, "none: no episode has it" if math.isnan(value) else f"{value:.4g}{but}")
    table.add_row("return", f"{result['return_mean']:.4g} +- {result['return_std']:.3g}")
    table.add_row("episode length", f"{result['episode_length_mean']:.4g} control steps")
    table.add_row("ended by", ", ".join(f"{name} {n}" for name, n in result["causes"].items()))
    console.print(table)

"""`rookery eval`: measure a policy, or a task's classical controller, over many episodes."""

from __future__ import annotations

from dataclasses import dataclass
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
    numbers,
    print_json,
    values,
)
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env

EXAMPLES = """
  rookery eval runs/drone-hover/latest
  rookery eval runs/drone-hover/latest --engine pybullet --episodes 64
  rookery eval runs/drone-hover/latest --set mass=1.2 --set action_delay=0.02
  rookery eval policies/zoo/drone-track --task-config path=circle --json
  rookery eval runs/ML10-train/latest --task ML10-test
  rookery eval drone-hover --controller classical
"""
DEFAULT_WORLDS = {"pybullet": 16}
"""Engines that are slow to make worlds get fewer; the others one for each episode, up to MOST_WORLDS."""
MOST_WORLDS = 512


@dataclass(frozen=True)
class Args:
    """Measure a policy over many episodes: success, return, and all of the task's own figures.

    Episodes are counted fairly: every world gives its first ones. The same seed gives the same figures.
    """

    run: Run
    episodes: Annotated[int, tyro.conf.arg(metavar="N", help="Episodes to average over.")] = 256
    task: OtherTask = None
    engine: Engine = None
    set: Fixed = ()
    randomize: Randomize = "none"
    task_config: TaskConfig = ()
    controller: Controller = "policy"
    num_envs: Annotated[int | None, tyro.conf.arg(metavar="N", help="Worlds; by default what suits the engine.")] = None
    shards: Shards = "auto"
    seed: Seed = 0
    json: Json = False


def run(args: Args) -> int:
    """Measure and print."""
    if args.episodes < 1:
        raise RookeryError(f"--episodes must be at least 1, got {args.episodes}.")
    from rookery.kernels import announce_compiling
    from rookery.run_env import open_env

    announce_compiling()
    worlds = args.num_envs
    if worlds is None:
        worlds = min(args.episodes, DEFAULT_WORLDS.get(args.engine or "", MOST_WORLDS))
    fixed = numbers(args.set, "--set")
    env, act = open_env(
        args.run,
        worlds,
        controller=args.controller,
        task=args.task,
        config=values(args.task_config, "--task-config"),
        engine=args.engine,
        seed=args.seed,
        randomize=args.randomize,
        fixed=fixed,
        shards=args.shards,
    )
    announce(args.run, args.controller)
    try:
        result = measure(env, act, args.episodes, args.seed)
    finally:
        env.close()
    result |= {"controller": args.controller, "engine": env.engine, "randomize": args.randomize}
    result |= {"seed": args.seed, "set": fixed}
    if args.json:
        print_json(result)
    else:
        show(result)
    return 0


def measure(env: Env, act: Act, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of `evaluate` with the name and value of the task's headline figure; progress goes to standard error."""
    from rookery.cli.progress import Progress
    from rookery.policies.training.evaluate import evaluate

    with Progress("episodes", episodes) as progress:
        result = {"task": env.task_id, **evaluate(env, act, episodes, seed, progress)}
    name = env.headline
    return result | {"metric_name": name, "metric": result["metrics"].get(name)}


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    changes = ", ".join(f"{k}={v:g}" for k, v in result["set"].items())
    console.print(
        f"[bold]{result['task']}[/] on {result['engine']}, {result['episodes']} episodes, {result['controller']}"
        + (f", {changes}" if changes else "")
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    if result["success_rate"] is not None:
        table.add_row("success", f"[bold]{result['success_rate']:.1%}[/]")
    for name, task in result.get("tasks", {}).items():
        if task["success_rate"] is not None:
            table.add_row(f"  {name}", f"{task['success_rate']:.1%}")
    for name, value in result["metrics"].items():
        if name != "success":
            table.add_row(name, f"{value:.4g}")
    table.add_row("return", f"{result['return_mean']:.4g} +- {result['return_std']:.3g}")
    table.add_row("episode length", f"{result['episode_length_mean']:.4g} control steps")
    table.add_row("ended by", ", ".join(f"{name} {n}" for name, n in result["causes"].items()))
    console.print(table)

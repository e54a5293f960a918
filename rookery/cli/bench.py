"""`rookery bench env`: steps per second of an environment, and of its engine with no task around it; `scale`: bench_scale.py.

Both are measured in one process, in short slices that take turns, so that whatever else the machine does falls on both;
the figures are medians over slices, and the efficiency is the median of the ratios of neighboring slices.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import (
    Action,
    Engine,
    Json,
    Obs,
    Seed,
    Shards,
    Task,
    TaskConfig,
    positive,
    print_json,
    task_config,
)
from rookery.sim.errors import unknown

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.env import Env
    from rookery.sim.envs.vec_env import VecEnv
    from rookery.sim.world import World

EXAMPLES = """
  rookery bench env drone-hover
  rookery bench env drone-hover --action rotor_thrust --num-envs 1024 --seconds 10 --json
  rookery bench env drone-hover --engine pybullet --num-envs 8
  rookery bench scale go2-velocity
"""
SECONDS = 5.0
"""Wall time that an environment is measured for by default, s."""
WORLDS = 1024
SLICE_S = 0.25
"""Wall time of one slice, s: long compared with the clock's resolution, short compared with changes of the machine's load."""
RAW_STEPS = 10
"""Control steps after which the raw engine goes back to states of the environment: falling drones would soon all lie on
the ground, where contacts make a physics step more expensive than in the flight that it is compared with."""


@dataclass(frozen=True)
class Args:
    """Steps per second of an environment under random actions, and of its engine alone in the same process.

    raw = one call of the engine for the K physics steps of a control step, from the environment's own states;
    efficiency = physics steps per second in the environment / raw.

    scale: steps per second of a training's environment by processes and threads of this machine, the learner's share of an
    iteration, and what --shards auto takes from then on.
    """

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WHAT", help="What to measure: env or scale.")]
    task: Task
    engine: Engine = None
    action: Action = None
    obs: Obs = None
    num_envs: Annotated[
        int | None,
        tyro.conf.arg(
            metavar="N", help="Worlds stepped together; 1024 by default, of scale those of the task's preset."
        ),
    ] = None
    seconds: Annotated[
        float | None,
        tyro.conf.arg(
            metavar="S", help="Wall time to measure for, 5 by default; of scale in each way, 2. Warming up is extra."
        ),
    ] = None
    randomize: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="RANGES",
            help="Domain randomization: none, default, all, or a TOML file of ranges; none by default, of scale the preset's.",
        ),
    ] = None
    task_config: TaskConfig = ()
    shards: Shards = "auto"
    seed: Seed = 0
    steps_only: tyro.conf.FlagCreatePairsOff[
        Annotated[bool, tyro.conf.arg(help="Leave out the iterations of the preset's training that scale measures.")]
    ] = False
    json: Json = False


def run(args: Args) -> int:
    """Measure and print."""
    if args.what not in ("env", "scale"):
        raise unknown("benchmark", args.what, ["env", "scale"])
    if args.seconds is not None:
        positive("--seconds", args.seconds)
    if args.what == "scale":
        from rookery.cli.bench_scale import run_scale

        return run_scale(args)
    from rookery import make

    config = task_config(args.task_config, args.action, args.obs)
    env = make(
        args.task, WORLDS if args.num_envs is None else args.num_envs, engine=args.engine, seed=args.seed,
        randomize=args.randomize or "none", config=config, shards=args.shards,
    )  # fmt: skip
    result = {"task": args.task, "engine": env.engine} | measure(env, args.seconds or SECONDS)
    env.close()
    if args.json:
        print_json(result)
    else:
        show(result)
    return 0


def measure(env: Env, seconds: float) -> dict[str, Any]:
    """Speed of an environment and of its engine.

    Args:
        env: any; it is reset.
        seconds: wall time to measure for, s.

    Returns:
        env_steps_per_s, agent_steps_per_s, physics_steps_per_s, raw_physics_steps_per_s, counted over all worlds;
        efficiency; stages, the share of each of `rookery.experiments.step_times.STAGES` in a step, empty for shards;
        num_envs, shards, actions (the kind, by group) and slices.
    """
    from rookery.scaling.measure import env_slice, random_actions
    from rookery.sim.engines import make_world
    from rookery.sim.envs.concat_env import only_task
    from rookery.sim.envs.sharded_env import ShardedEnv

    whole = env.unwrapped
    shards = whole.shards if isinstance(whole, ShardedEnv) else 1
    inner = whole if isinstance(whole, ShardedEnv) else only_task(env)
    task = inner.one.task if isinstance(inner, ShardedEnv) else inner.task
    k = task.physics_steps
    raw = make_world(env.engine, task.scene(), env.num_envs)
    actions = random_actions(env)
    env.reset()
    env.stagger()
    slice_s = min(SLICE_S, seconds / 4)
    env_slice(env, actions, slice_s)  # compiles kernels, fills caches
    _raw_slice(inner, raw, k, slice_s)
    rates: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while not rates or time.perf_counter() < end:
        pair = {}
        # Who goes first alternates too: a machine that slows down must not favor one of the two.
        for which in ("env", "raw") if len(rates) % 2 == 0 else ("raw", "env"):
            pair[which] = env_slice(env, actions, slice_s) if which == "env" else _raw_slice(inner, raw, k, slice_s)
        rates.append((pair["env"], pair["raw"]))
    raw.close()
    stages = {}
    if not isinstance(inner, ShardedEnv):
        stages = _stage_shares(env, inner, actions, slice_s * max(1, len(rates) // 4))
    control = statistics.median(r for r, _ in rates)
    return {
        "num_envs": env.num_envs,
        "shards": shards,
        "actions": {name: group.action.kind for name, group in env.groups.items()},
        "env_steps_per_s": control * env.num_envs,
        "agent_steps_per_s": control * env.num_envs * sum(g.count for g in env.groups.values()),
        "physics_steps_per_s": control * env.num_envs * k,
        "raw_physics_steps_per_s": statistics.median(r for _, r in rates) * env.num_envs * k,
        "efficiency": statistics.median(e / r for e, r in rates),
        "stages": stages,
        "slices": len(rates),
    }


def _stage_shares(env: Env, inner: VecEnv, actions: list[dict[str, Tensor]], seconds: float) -> dict[str, float]:
    """Share of each stage in the steps of some seconds, which the other figures do not contain: timing takes time."""
    from rookery.experiments.step_times import stage_clock
    from rookery.scaling.measure import env_slice

    with stage_clock(inner) as clock:
        start = time.perf_counter()
        env_slice(env, actions, seconds)
        return clock.shares(time.perf_counter() - start)


def _raw_slice(env: Env, raw: World, k: int, seconds: float) -> float:
    """Control steps per second of the engine alone; going back to the environment's states is not timed."""
    snapshot = {k[len("world.") :]: v for k, v in env.state_dict().items() if k.startswith("world.")}
    elapsed = 0.0
    steps = 0
    while elapsed < seconds:
        raw.restore(snapshot)
        start = time.perf_counter()
        for _ in range(RAW_STEPS):
            raw.step(k)
        elapsed += time.perf_counter() - start
        steps += RAW_STEPS
    return steps / elapsed


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    from rich.console import Console
    from rich.table import Table

    kinds = ", ".join(f"{name}: {kind}" for name, kind in result["actions"].items())
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, label in (
        ("env_steps_per_s", "environment steps/s"),
        ("agent_steps_per_s", "agent steps/s"),
        ("physics_steps_per_s", "physics steps/s"),
        ("raw_physics_steps_per_s", "physics steps/s of the engine alone"),
    ):
        table.add_row(label, f"{result[key]:>14,.0f}")
    table.add_row("efficiency", f"[bold]{result['efficiency']:>14.2f}[/]")
    for stage, share in result["stages"].items():
        table.add_row(f"  share of {stage}", f"{share:>14.0%}")
    console = Console()
    console.print(f"[bold]{result['task']}[/] on {result['engine']}, {result['num_envs']} worlds, {kinds}")
    console.print(table)

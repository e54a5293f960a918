"""`rookery match`: two policies or controllers against each other, from both sides."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import (
    Engine,
    Fixed,
    Json,
    Randomize,
    Seed,
    Task,
    TaskConfig,
    announce,
    note_first,
    numbers,
    print_json,
    values,
)
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.experiments.match_env import Player
    from rookery.policies.multiagent.match import MatchResult, Tally

EXAMPLES = """
  rookery match volley-1v1 runs/volley-1v1/latest controller
  rookery match volley-3v3 runs/new runs/old --episodes 200 --randomize default
  rookery match volley-1v1 runs/new runs/old --seed 7 --json
"""
MOST_WORLDS = 512
"""Where no number of worlds is named."""
WHO = "Run folder, a zoo policy's name, or controller for the task's classical controller."


@dataclass(frozen=True)
class Args:
    """Let two policies or controllers play a task with two teams: who wins how often, from which side, and why.

    A plays the first team in half of the episodes and the second team in the other half, from the same starts. Policies of the
    task against a frozen opponent play, too. Where A or B has a policy of one role alone, such as of pursuers, each plays its
    role in all episodes. The same seed gives the same result.
    """

    task: Task
    a: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="A", help=WHO)]
    b: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="B", help="The other, in the same words.")]
    episodes: Annotated[int, tyro.conf.arg(metavar="N", help="Episodes, even: half of them from each side.")] = 1000
    engine: Engine = None
    set: Fixed = ()
    randomize: Randomize = "none"
    task_config: TaskConfig = ()
    num_envs: Annotated[
        int | None, tyro.conf.arg(metavar="N", help="Worlds, even; by default one for each episode, 512 at most.")
    ] = None
    seed: Seed = 0
    json: Json = False


def run(args: Args) -> int:
    """Play and print."""
    num_envs = min(args.episodes, MOST_WORLDS) if args.num_envs is None else args.num_envs
    for option, count in (("--episodes", args.episodes), ("--num-envs", num_envs)):
        if count < 2 or count % 2:
            raise RookeryError(f"{option} must be even and at least 2, as both sides are played, got {count}.")
    from rookery.cli.progress import Progress
    from rookery.experiments.match_env import find_player, open_match
    from rookery.kernels import announce_compiling
    from rookery.policies.multiagent.match import match

    fixed = numbers(args.set, "--set")
    config = values(args.task_config, "--task-config")
    a, b = (find_player(name, args.task, config) for name in (args.a, args.b))
    announce_compiling()
    meeting = open_match(
        args.task, a, b, num_envs, engine=args.engine, seed=args.seed, randomize=args.randomize, fixed=fixed
    )
    env = meeting.env
    try:
        for player in (a, b):
            if player.policies is not None:
                announce(Path(player.name))
        note_first(_notes(a, b), args.json)
        with Progress("episodes", args.episodes) as progress:
            played = match(env, meeting.a, meeting.b, args.episodes, args.seed, progress, meeting.team)
        engine = env.engine
    finally:
        env.close()
    result = {"task": args.task, "a": args.a, "b": args.b, "episodes": args.episodes, **report(played)}
    result |= {"engine": engine, "randomize": args.randomize, "seed": args.seed, "num_envs": num_envs, "set": fixed}
    if args.json:
        print_json(result | {"judged_by": {"a": a.judged.to_json(), "b": b.judged.to_json()}})
    else:
        show(result)
    if played.distinct is not None and 2 * played.distinct < args.episodes:
        print(
            f"rookery: only {played.distinct} of the {args.episodes} episodes differ, the others repeat them, and the "
            "intervals take repetitions for chance: give --randomize default, with which no episode is like another.",
            file=sys.stderr,
        )
    return 0


def _notes(a: Player, b: Player) -> list[str]:
    """Sentences on what is not as registered; what holds for both once."""
    one, other = a.judged.lines(), b.judged.lines()
    both = [line for line in one if line in other]
    own = [f"{p.name}: {line}" for p in (a, b) for line in p.judged.lines() if line not in both]
    return both + own


def report(played: MatchResult) -> dict[str, Any]:
    """The figures of a match, with 95 % intervals."""
    import numpy as np

    from rookery.sim2real.gate.intervals import rate_of_pairs

    outcome = played.outcome.numpy()
    won, decided = outcome > 0, outcome != 0
    rate, *interval = rate_of_pairs(won, np.ones_like(won))
    share, *limits = rate_of_pairs(won, decided) if decided.any() else (None, None, None)
    return {
        "wins": _tally(played.total),
        "win_rate": rate,
        "win_interval": interval,
        "decided_rate": share,
        "decided_interval": None if share is None else limits,
        "a_played": {team: _tally(tally) for team, tally in played.sides.items()},
        "causes": played.causes,
        "shares": {name: {who: _tally(t) for who, t in by.items()} for name, by in played.shares.items()},
        "metrics": played.metrics,
        "distinct_episodes": played.distinct,
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {"episodes": tally.episodes, "a": tally.a, "b": tally.b, "nobody": tally.nobody}


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(result['task'])}[/] on {result['engine']}, {result['episodes']} episodes")
    console.print(f"A is {escape(result['a'])}\nB is {escape(result['b'])}")
    low, high = result["win_interval"]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("A wins", f"[bold]{result['win_rate']:.1%}[/] ({low:.1%} to {high:.1%} at 95 %)")
    if result["decided_rate"] is None:
        table.add_row("of those somebody won", "nobody won any")
    else:
        low, high = result["decided_interval"]
        table.add_row("of those somebody won", f"{result['decided_rate']:.1%} ({low:.1%} to {high:.1%} at 95 %)")
    console.print(table)
    table = Table(box=None, pad_edge=False)
    for name in ("", "episodes", "A wins", "B wins", "nobody"):
        table.add_column(name, justify="right" if name else "left")
    rows = {"all": result["wins"]} | {f"A plays {team}": tally for team, tally in result["a_played"].items()}
    for name, by in result["shares"].items():
        rows |= {f"{name} by A": by["a"], f"{name} by B": by["b"]}
    for name, tally in rows.items():
        table.add_row(name, *(str(tally[k]) for k in ("episodes", "a", "b", "nobody")))
    console.print(table)
    for who, name in (("a", "A won"), ("b", "B won"), ("nobody", "nobody won")):
        if result["causes"][who]:
            console.print(f"{name} by " + ", ".join(f"{cause} {n}" for cause, n in result["causes"][who].items()))

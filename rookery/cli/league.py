"""`rookery league`: populations that are trained against each other, and what they are worth."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import Json, print_json
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.experiments.league.remote import LeagueCluster
    from rookery.experiments.league.run import League

EXAMPLES = """
  rookery league volley-1v1 --solver psro-nash --iterations 8 --steps 2e6
  rookery league drone-tag --solver pfsp --first untrained controller --out runs/tag
  rookery league runs/tag
  rookery league runs/tag --iterations 12
  rookery league runs/tag --exploitability 4e6 --at 0 4 8
  rookery league runs/tag --iterations 16 --ray 10.0.0.4:6379
"""
SOLVER = "self-play, fictitious, pfsp, psro-uniform, psro-nash, alpha-rank or replicator; psro-nash by default."


@dataclass(frozen=True)
class Args:
    """Train populations of policies against mixtures of each other, or judge a league by fresh best responses.

    Each candidate is trained against the mixture of its opponents that the solver gives, from its parent, and becomes a member
    if the interval of its score against them is above what its population scores already. A task whose teams are alike has one
    population, one with roles two. Everything is in one folder; stopped at any moment, `rookery league RUN` goes on.
    """

    target: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(
            metavar="TASK|RUN", help="Task with two teams, to begin a league; or the folder of one, to go on."
        ),
    ]
    solver: Annotated[str | None, tyro.conf.arg(metavar="NAME", help=f"How opponents are mixed: {SOLVER}")] = None
    iterations: Annotated[
        int | None,
        tyro.conf.arg(metavar="N", help="Candidates of each population; 8 by default. A league may get more."),
    ] = None
    steps: Annotated[
        float | None, tyro.conf.arg(metavar="N", help="Control steps of an attempt of a candidate; 1e6 by default.")
    ] = None
    attempts: Annotated[
        int | None, tyro.conf.arg(metavar="N", help="Attempts before a candidate is given up; 2 by default.")
    ] = None
    accept: Annotated[
        float | None,
        tyro.conf.arg(
            metavar="SHARE",
            help="By how much of the episodes a candidate's interval must be better; 0 by default, -1 accepts everybody.",
        ),
    ] = None
    episodes: Annotated[int | None, tyro.conf.arg(metavar="N", help="Episodes of each pair, even; 256 by default.")] = (
        None
    )
    first: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="WHO", help="First members: untrained, controller, run folders, zoo policies; untrained by default."
        ),
    ] = ()
    init: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="RUN",
            help="Best responses, and candidates without a parent, begin from this policy and not from nothing.",
        ),
    ] = None
    config: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE", help="Settings of the trainings in TOML, in place of those of the task's preset."
        ),
    ] = None
    seed: Annotated[int | None, tyro.conf.arg(metavar="N", help="Seed of trainings and matches; 0 by default.")] = None
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Folder of a new league; runs/TASK-league/<time> if left out.")
    ] = None
    exploitability: Annotated[
        float | None,
        tyro.conf.arg(metavar="STEPS", help="Train fresh best responses for so many steps against the frozen mixture."),
    ] = None
    at: Annotated[
        tuple[int, ...],
        tyro.conf.arg(metavar="N", help="Iterations to judge by --exploitability; the last by default."),
    ] = ()
    ray: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ADDRESS",
            help="Play and train in processes of Ray, with the same results: local, auto, or HOST:PORT of a cluster.",
        ),
    ] = None
    report: Annotated[bool, tyro.conf.arg(help="Write the report of a league alone, and train nothing.")] = False
    json: Json = False


CHANGEABLE = ("iterations", "steps", "attempts", "accept")
"""Settings that a league may change while it goes on."""
FIXED = ("solver", "episodes", "seed", "config", "out", "first", "init")


def run(args: Args) -> int:
    """Begin a league or go on with one, and print its report."""
    from rookery.experiments.league.report import write_report
    from rookery.experiments.league.run import LeagueStopped
    from rookery.experiments.league.state import check_members
    from rookery.kernels import announce_compiling

    if args.at and args.exploitability is None:
        raise RookeryError("--at names iterations that --exploitability STEPS judges: give both.")
    if args.report and args.ray is not None:
        raise RookeryError("--report plays and trains nothing: leave out --ray.")
    steps = None if args.exploitability is None else _whole("--exploitability", args.exploitability)
    with _cluster(args.ray) as cluster:
        league = _open(args)
        league.cluster = cluster
        announce_compiling()
        try:
            if steps is not None:
                league.exploit(steps, *args.at)
            elif not args.report:
                league.run()
        except LeagueStopped:
            print(f"rookery: interrupted and saved; go on with: rookery league {league.folder}", file=sys.stderr)
            return 130
    if args.report:
        try:
            check_members(league.folder, league.state)
        except RookeryError as e:
            _tell(f"the report is of what was played before; the league cannot go on: {e}")
    found = write_report(league.folder, league.state)
    if args.json:
        print_json({"folder": str(league.folder)} | found)
    else:
        show(league.folder, found)
    return 0


@contextlib.contextmanager
def _cluster(address: str | None) -> Iterator[LeagueCluster | None]:
    """The cluster that plays and trains; None without --ray."""
    if address is None:
        yield None
        return
    from rookery.experiments.league.remote import LeagueCluster
    from rookery.experiments.ray_cluster import Cluster

    with Cluster.of_processes(address) as cluster:
        yield LeagueCluster(cluster, _tell)


def _open(args: Args) -> League:
    from rookery.experiments.league.run import League, new_league, open_league
    from rookery.experiments.league.state import FILE, LeagueSettings
    from rookery.experiments.runs import open_run
    from rookery.experiments.settings import read_settings
    from rookery.tasks.registry import is_task

    given = {name: getattr(args, name) for name in (*CHANGEABLE, *FIXED) if getattr(args, name) not in (None, ())}
    if "steps" in given:
        given["steps"] = _whole("--steps", given["steps"])
    folder = Path(args.target)
    if (folder / FILE).exists() or not is_task(args.target):
        fixed = [name for name in FIXED if name in given]
        if fixed:
            raise RookeryError(f"{folder} has its own {fixed[0]}: leave out --{fixed[0]}, or begin another league.")
        return open_league(folder, _tell, **given)
    if args.exploitability is not None or args.report:
        raise RookeryError(
            "--exploitability and --report judge a league that is there: give its folder in place of TASK."
        )
    out, config = given.pop("out", None), given.pop("config", None)
    training = {} if config is None else read_settings(config)
    if args.init is not None:
        open_run(Path(args.init))
    settings = LeagueSettings(args.target, training=training, **given)
    folder, state = new_league(settings, out)
    _tell(f"league of {args.target} by {settings.solver} in {folder}, populations: {', '.join(state.populations)}")
    return League(folder, state, _tell)


def _whole(option: str, value: float) -> int:
    if value < 1 or value != int(value):
        raise RookeryError(f"{option} must be a whole number of at least 1, got {value:g}.")
    return int(value)


def _tell(line: str) -> None:
    print(f"rookery: {line}", file=sys.stderr, flush=True)


def show(folder: Path, found: dict[str, Any]) -> None:
    """The report for people."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(found['task'])}[/] by {found['solver']}")
    table = Table(box=None, pad_edge=False)
    for name in ("member", "steps", "Elo", "score", "probability", "alpha-rank"):
        table.add_column(name, justify="left" if name == "member" else "right")
    for m in found["members"]:
        table.add_row(
            escape(m["name"]), f"{m['steps']:,}", f"{m['elo']:.0f} ± {m['elo_half_width']:.0f}", f"{m['score']:.1%}",
            f"{m['probability']:.1%}", f"{m['alpha_rank']:.1%}",
        )  # fmt: skip
    console.print(table)
    console.print(escape(found["cyclic"]))
    for row in found["exploitability"]:
        for b in row.get("best_responses", []):
            console.print(
                f"iteration {row['iteration']}: exploitability {b['exploitability']:.3f} ± {b['half_width']:.3f}, by best "
                f"responses of {b['steps']:,} steps"
            )
    console.print(f"report, table and pictures: [bold]{escape(str(folder / 'report.md'))}[/]")

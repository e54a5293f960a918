"""`rookery gate`: whether a policy stands what hardware would do to it."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import Json, Run, Seed, Words, announce, note_first, print_json, writable
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.experiments.ray_cluster import Cluster
    from rookery.sim2real.gate.gate import GateSettings
    from rookery.sim2real.gate.report import Report

EXAMPLES = """
  rookery gate runs/drone-hover/latest
  rookery gate go2-velocity --episodes 40 --rounds 1 --out gate/go2
  rookery gate runs/my-task/latest --profile my_robot.toml --json
  rookery gate runs/drone-hover/latest --checkpoints
  rookery gate go2-velocity --ray 10.0.0.4:6379
"""


@dataclass(frozen=True)
class Args:
    """Stress a policy: other engines, other physics steps, every factor swept until it fails, the worst combinations, and
    the exported C in place of torch. The verdict is against a profile of hardware.

    The registered task judges, and a policy whose training changed what is judged is refused. Exit code 0: it passes; 1: it
    does not; 2: something is to be put right first, such as a compiler that is missing for the exported C. Writes gate.json
    and gate.html.
    """

    run: Run
    profile: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help="crazyflie-indoor, drone-outdoor, go2-lab, panda-bench, or a TOML file; by default by the task's robot.",
        ),
    ] = None
    episodes: Annotated[int, tyro.conf.arg(metavar="N", help="Episodes at each point.")] = 64
    interval: Annotated[
        float, tyro.conf.arg(metavar="X", help="Greatest half-width of the 95 % interval at the required success.")
    ] = 0.1
    rounds: Annotated[
        int, tyro.conf.arg(metavar="N", help="Rounds that narrow the margins, each to a quarter; 0: the verdict alone.")
    ] = 2
    combinations: Annotated[int, tyro.conf.arg(metavar="N", help="Combinations of factors drawn from the profile.")] = (
        32
    )
    engines: Annotated[
        Words,
        tyro.conf.arg(
            metavar="NAME", help="Other engine to try, or none; repeatable; all that the task has by default."
        ),
    ] = ()
    sweeps_only: Annotated[bool, tyro.conf.arg(help="Leave out engines, physics steps and the exported C.")] = False
    required_only: Annotated[
        bool, tyro.conf.arg(help="Sweep no farther than the profile requires: the verdict and the score, in less time.")
    ] = False
    as_registered: Annotated[
        bool, tyro.conf.arg(help="Judge by the registered task a policy whose training changed what is judged.")
    ] = False
    checkpoints: Annotated[bool, tyro.conf.arg(help="Score every checkpoint of the run instead, by the sweeps.")] = (
        False
    )
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="Folder for gate.json and gate.html.")] = Path("gate")
    seed: Seed = 0
    ray: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ADDRESS",
            help="Play batches and cases in processes of Ray, with the same report: local, auto, or HOST:PORT of a cluster.",
        ),
    ] = None
    json: Json = False


def run(args: Args) -> int:
    """Test, write and print; the exit code is the verdict."""
    from rookery.experiments.gating import gate, other_engines
    from rookery.experiments.judging import judging
    from rookery.experiments.runs import open_run
    from rookery.kernels import announce_compiling
    from rookery.sim2real.gate.gate import GateSettings

    _check(args)
    _, contract = open_run(args.run)
    engines = other_engines(contract.task_id, args.engines)
    settings = GateSettings(
        args.episodes, args.interval, args.rounds, args.combinations, engines, args.seed, not args.sweeps_only,
        not args.required_only,
    )  # fmt: skip
    note_first(judging(contract).lines(), json=True)
    announce_compiling()
    announce(args.run)
    with _cluster(args.ray) as cluster:
        if args.checkpoints:
            return _checkpoints(args, settings, cluster)
        report = gate(args.run, args.profile, settings, _note, args.as_registered, cluster)
    _write(args.out, report)
    if args.json:
        print_json(report.to_json())
    else:
        show(report, args.out)
    for case in report.cases:
        if case.verdict == "skipped":
            _note(f"{case.name} was not run: {case.note}")
    return {"pass": 0, "fail": 1, "incomplete": 2}[report.verdict]


@contextlib.contextmanager
def _cluster(address: str | None) -> Iterator[Cluster | None]:
    """Processes of Ray; None without --ray."""
    if address is None:
        yield None
        return
    from rookery.experiments.ray_cluster import Cluster

    with Cluster.of_processes(address) as cluster:
        yield cluster


def _check(args: Args) -> None:
    for option, value, least in (("--rounds", args.rounds, 0), ("--combinations", args.combinations, 0)):
        if value < least:
            raise RookeryError(f"{option} must be at least {least}, got {value}.")
    if args.out.exists() and not args.out.is_dir():
        raise RookeryError(f"--out {args.out} is a file: give a folder.")
    writable(args.out / "gate.json", "--out")


def _note(line: str) -> None:
    print(f"rookery: {line}", file=sys.stderr, flush=True)


def _write(folder: Path, report: Report) -> None:
    from rookery.experiments.runs import write_json
    from rookery.sim.files import replace
    from rookery.sim2real.gate.page import page

    _make_folder(folder)
    try:
        replace(folder / "gate.html", page(report).encode())
    except OSError as e:
        raise RookeryError(f"cannot write to {folder} ({e.strerror}): choose another --out.") from e
    write_json(folder / "gate.json", report.to_json())


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise RookeryError(f"cannot make the folder {folder} ({e.strerror}): choose another --out.") from e


def _checkpoints(args: Args, settings: GateSettings, cluster: Cluster | None) -> int:
    """Scores of all checkpoints as checkpoints.json and a table; the exit code is 1 where the last one fails: none can pass by
    factors alone."""
    from rookery.experiments.gating import checkpoint_policies, gate_policies
    from rookery.experiments.runs import write_json

    quick = dataclasses.replace(settings, cases=False)
    rows: list[dict[str, Any]] = []
    for steps, policies, contract in checkpoint_policies(args.run):
        _note(f"checkpoint of {steps:,} steps")
        report = gate_policies(
            policies, contract, args.profile, quick, f"{args.run}, {steps} steps", lambda line: None, args.as_registered,
            cluster,
        )  # fmt: skip
        success = report.cases[0].success
        verdict = report.verdict
        rows.append({"steps": steps, "score": report.score, "nominal_success": success, "verdict": verdict})
        rows[-1] |= {"failures": report.failures, "not_as_registered": report.not_as_registered}
        rows[-1] |= {"left_out": report.left_out}
    _make_folder(args.out)
    write_json(args.out / "checkpoints.json", {"run": str(args.run), "checkpoints": rows})
    if args.json:
        print_json(rows)
    else:
        _table(("steps", "score", "nominal success", "verdict"), rows, lambda r: _checkpoint_row(r))
    return int(rows[-1]["verdict"] == "fail")


def _checkpoint_row(row: dict[str, Any]) -> tuple[str, ...]:
    return f"{row['steps']:,}", f"{row['score']:.3f}", f"{row['nominal_success']:.3f}", row["verdict"]


def _table(head: tuple[str, ...], rows: list[Any], cells: Callable[[Any], tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*cells(row))
    Console(highlight=False, soft_wrap=True).print(table)


def show(report: Report, folder: Path) -> None:
    """The short table for people."""
    from rookery.sim2real.gate.page import asked, mean_of, number, reached

    note_first(report.not_as_registered, json=False)
    but = f", not run: {', '.join(report.skipped)}" if report.skipped else ""
    but += f", left out on request: {', '.join(report.left_out)}" if report.left_out else ""
    tried = f"success at least {report.required:g}, {report.episodes} episodes at each point"
    print(f"{report.task} against {report.profile}, {tried}: {report.verdict}, score {report.score:.3f}{but}")
    cases = [(c.name, "" if c.success is None else f"{c.success:.3f}", c.verdict, c.note) for c in report.cases]
    if report.combinations is not None:
        c = report.combinations
        for name, rate, least in (
            (f"{c.drawn} combinations", c.success, report.required_combinations),
            ("worst combination", c.worst_success, report.required_worst),
        ):
            cases.append((name, f"{rate:.3f}", "pass" if rate >= least else "fail", f"at least {least:g}"))
    _table(("case", "success", "verdict", ""), cases, lambda r: r)
    if report.figures:
        figures = [(f.name, mean_of(f), "pass" if f.passes else "fail", asked(f)) for f in report.figures]
        _table(("beside success", "mean", "verdict", ""), figures, lambda r: r)
    required = [m for m in report.margins if m.required is not None]
    _table(
        ("factor", "required", "margin", "fails at", "verdict"),
        required,
        lambda m: (
            m.factor, number(m.required, m.unit), reached(m), "" if m.beyond is None else number(m.beyond, m.unit), m.verdict
        ),
    )  # fmt: skip
    if report.lacking:
        print(f"skipped, which the task lacks: {', '.join(report.lacking)}")
    if report.without_effect:
        print(f"without any effect: {', '.join(report.without_effect)}")
    print(f"written: {folder / 'gate.html'} and {folder / 'gate.json'} ({report.seconds:.0f} s)")

"""`rookery sysid`: physical parameters of a robot from its log."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rookery.cli.options import Json, print_json, writable
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim2real.sysid.logs import JointLog
    from rookery.sim2real.sysid.settings import LogSettings

EXAMPLES = """
  rookery sysid log.npz --robot go2 --kp 20 --kd 1.5 --to-randomization ranges.toml
  rookery sysid log.csv --robot go2 --kp 20 --kd 1.5 --columns 'position=q_*' --columns 'target=cmd_*' --hold-out 0.3
  rookery sysid other.npz --robot go2 --kp 20 --kd 0.5 --rate 200 --apply report.json
"""


@dataclass(frozen=True)
class Args:
    """Identify a robot's physical parameters from a log, with intervals, and say what the log does not show.

    Logs: ours (.mcap of `rookery fly --log`), .npz, .csv, PX4's .ulg, ROS 2 bags and .mcap, Crazyflie logs. Jointed robots are
    held by the base, clear of the ground. What a log does not say of itself is given by the options here, or by a TOML file
    beside it; docs/sysid.md has both.
    """

    log: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="LOG", help="The log.")]
    robot: Annotated[str | None, tyro.conf.arg(metavar="NAME", help="Robot: go2, panda, or its URDF or MJCF file.")] = (
        None
    )
    fit: Annotated[str | None, tyro.conf.arg(metavar="A,B", help="Quantities to identify; all by default.")] = None
    each: Annotated[
        str | None, tyro.conf.arg(metavar="A,B", help="Of these, one number for each joint and not for each kind.")
    ] = None
    profile: Annotated[
        str | None, tyro.conf.arg(metavar="A,B", help="Quantities whose intervals are profiled; none: nothing.")
    ] = None
    hold_out: Annotated[float, tyro.conf.arg(help="Share at the log's end that is judged and not fitted.")] = 0.0
    validate: Annotated[
        tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="LOG", help="Judge the result on this log too.")
    ] = ()  # fmt: skip
    apply: Annotated[
        Path | None, tyro.conf.arg(metavar="REPORT", help="Fit nothing: judge the parameters of a report on the log.")
    ] = None
    kp: Annotated[str | None, tyro.conf.arg(metavar="N,N", help="N m/rad, of the drives: one, or one a joint.")] = None
    kd: Annotated[str | None, tyro.conf.arg(metavar="N,N", help="N m s/rad, likewise.")] = None
    rate: Annotated[float | None, tyro.conf.arg(help="Hz, of a log without times.")] = None
    joints: Annotated[str | None, tyro.conf.arg(metavar="A,B", help="Names of the log's joints, in its order.")] = None
    columns: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="OURS=THEIRS", help="Name of a column in the file, * for the joint: position=q_*."),
    ] = ()
    degrees: Annotated[bool, tyro.conf.arg(help="Angles are in degrees.")] = False
    time_unit: Annotated[Literal["s", "ms", "us", "ns"] | None, tyro.conf.arg(help="Of the log's times.")] = None
    skip_gaps: Annotated[bool, tyro.conf.arg(help="Take the stretches between gaps, each by itself.")] = False
    report: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Write the report, .json.")] = None
    plots: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Write predicted against logged, .html.")] = None
    to_randomization: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="Write ranges for --randomize, .toml.")
    ] = None
    to_robot: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="Write values for the robot's file, .toml.")
    ] = None
    json: Json = False


def run(args: Args) -> int:
    """Identify, judge and write."""
    for path, option in (
        (args.report, "--report"), (args.plots, "--plots"), (args.to_randomization, "--to-randomization"),
        (args.to_robot, "--to-robot"),
    ):  # fmt: skip
        if path is not None:
            writable(path, option)
    if not 0.0 <= args.hold_out <= 0.8:
        raise RookeryError(f"--hold-out must be a share from 0 to 0.8, got {args.hold_out:g}.")
    return _jointed(args)


def _jointed(args: Args) -> int:
    from rookery.sim2real.sysid import ranges
    from rookery.sim2real.sysid.jointed import identification
    from rookery.sim2real.sysid.jointed.robot import find_robot
    from rookery.sim2real.sysid.plots import page
    from rookery.sim2real.sysid.readers.reading import read_table
    from rookery.sim2real.sysid.report import reported, write_json, write_text

    table = read_table(args.log)
    name = args.robot or table.robot
    if name is None:
        raise RookeryError(f"{args.log} does not say of which robot it is: give --robot, such as --robot go2.")
    robot = find_robot(name)
    log = _log(args, args.log, robot)
    if args.apply is not None:
        parameters, x = reported(args.apply, identification.all_parameters(robot))
        errors = identification.judge(robot, log, parameters, x)
        lines = [f"error on {log.source}: {model} {_millis(of)}" for model, of in errors.items()]
        if args.json:
            print_json({"errors": errors, "notes": list(log.notes)})
        else:
            print("\n".join([*(f"note: {n}" for n in log.notes), *lines]))
        if args.plots is not None:
            write_text(
                args.plots, page(f"{name}: {log.source}", identification.signals(robot, log, parameters, x), lines)
            )
        return 0
    report = identification.identify_joints(
        robot, log, fit=words(args.fit), each=words(args.each),
        profiled=identification.PROFILED if args.profile is None else [w for w in words(args.profile) or () if w != "none"],
        hold_out=args.hold_out, others=[_log(args, path, robot) for path in args.validate], say=say,
    )  # fmt: skip
    lines = report.text()
    if args.json:
        print_json(report.to_json())
    else:
        print("\n".join(lines))
    if args.report is not None:
        write_json(args.report, report)
    if args.to_randomization is not None:
        write_text(args.to_randomization, ranges.randomization(report))
    if args.to_robot is not None:
        write_text(args.to_robot, ranges.robot_values(report))
    if args.plots is not None:
        fit = report.identified.fit
        curves = identification.signals(robot, log, fit.problem.parameters, fit.x)
        write_text(args.plots, page(f"{name}: {log.source}", curves, lines))
    return 0


def _log(args: Args, path: Path, robot) -> JointLog:  # type: ignore[no-untyped-def]
    from rookery.sim2real.sysid.readers.reading import read_table
    from rookery.sim2real.sysid.settings import beside, joint_log

    return joint_log(read_table(path), settings(args).over(beside(path)), robot)


def settings(args: Args) -> LogSettings:
    """The options about the log."""
    from rookery.sim2real.sysid.settings import from_table

    given: dict[str, object] = {
        "rate": args.rate, "time_unit": args.time_unit, "joints": words(args.joints), "kp": numbers(args.kp, "--kp"),
        "kd": numbers(args.kd, "--kd"), "degrees": args.degrees or None, "skip_gaps": args.skip_gaps or None,
    }  # fmt: skip
    pairs = [word.partition("=") for word in args.columns]
    if any(not ours or not theirs for ours, _, theirs in pairs):
        raise RookeryError(f"--columns must be OURS=THEIRS, such as 'position=q_*', got {' '.join(args.columns)!r}.")
    given["columns"] = {ours: theirs for ours, _, theirs in pairs}
    return from_table("the options", {name: value for name, value in given.items() if value is not None})


def words(text: str | None) -> list[str] | None:
    """Words between commas."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str | None, option: str) -> list[float] | None:
    """Numbers between commas."""
    listed = words(text)
    try:
        return None if listed is None else [float(word) for word in listed]
    except ValueError:
        raise RookeryError(f"{option} must be numbers with commas between them, got {text!r}.") from None


def say(text: str) -> None:
    """Tell how far it is, where a person waits."""
    if sys.stderr.isatty():
        print(f"rookery: {text}", file=sys.stderr, flush=True)


def _millis(errors: dict[str, float]) -> str:
    return ", ".join(f"{name} {1e3 * value:.2f} mrad" for name, value in errors.items())

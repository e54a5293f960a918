"""`rookery sysid`: physical parameters of a robot from its log."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from rookery.cli.options import Json, print_json, writable
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim2real.sysid.report import FitReport
    from rookery.sim2real.sysid.settings import LogSettings

EXAMPLES = """
  rookery sysid log.npz --robot go2 --kp 20 --kd 1.5 --to-randomization ranges.toml
  rookery sysid log.csv --robot go2 --kp 20 --kd 1.5 --columns 'position=q_*' --columns 'target=cmd_*' --hold-out 0.3
  rookery sysid flight.ulg --robot iris --report report.json --plots flight.html
  rookery sysid --design go2 --motion motion.npz
  rookery sysid other.npz --robot go2 --kp 20 --kd 0.5 --rate 200 --apply report.json
"""


@dataclass(frozen=True)
class Args:
    """Identify a robot's physical parameters from a log, with intervals, and say what the log does not show.

    Logs: ours (.mcap of `rookery fly --log`), .npz, .csv, PX4's .ulg, ROS 2 bags and .mcap, Crazyflie logs. Jointed robots are
    held by the base, clear of the ground. What a log does not say of itself is given by the options here, or by a TOML file
    beside it; docs/sysid.md has both.
    """

    log: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="LOG", help="The log.")] = None
    robot: Annotated[
        str | None, tyro.conf.arg(metavar="NAME", help="Robot: go2, panda, a drone, or its URDF or MJCF file.")
    ] = None
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
    pole_pairs: Annotated[
        int | None,
        tyro.conf.arg(metavar="N", help="Of the motor, where a propeller's test has its electrical speed undivided."),
    ] = None
    design: Annotated[
        str | None,
        tyro.conf.arg(metavar="ROBOT", help="No log: choose a motion that shows the parameters of its joints."),
    ] = None
    motion: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="With --design: write it here, .npz.")] = None
    seconds: Annotated[float, tyro.conf.arg(help="With --design: s, of the motion.")] = 20.0
    rehearse: Annotated[
        Path | None,
        tyro.conf.arg(metavar="FILE", help="With --design: log of a simulated robot that follows it, .npz."),
    ] = None
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
    if args.design is not None:
        return _design(args)
    if args.log is None:
        raise RookeryError("give a log, or --design ROBOT for a motion to log.")
    return _identify(args, args.log)


def _design(args: Args) -> int:
    from rookery.sim2real.sysid.excitation import design, rehearse, save
    from rookery.sim2real.sysid.jointed.robot import find_robot

    if args.log is not None or args.motion is None:
        raise RookeryError("--design takes a robot and --motion FILE.npz, and no log.")
    writable(args.motion, "--motion")
    robot = find_robot(str(args.design))
    kp, kd = robot.kp, robot.kd
    for text, option, values in ((args.kp, "--kp", kp), (args.kd, "--kd", kd)):
        given = numbers(text, option)
        if given is not None:
            if len(given) not in (1, len(values)):
                raise RookeryError(f"{option} must be one number, or one for each of the {len(values)} joints.")
            values[:] = given
    found = design(robot, kp, kd, args.seconds, fit=words(args.fit))
    save(args.motion, robot, kp, kd, found)
    truth = {} if args.rehearse is None else rehearse(args.rehearse, robot, kp, kd, found)
    if args.json:
        print_json({"condition": found.condition, "expected": found.expected, "rehearsed": truth})
        return 0
    print(f"{robot.name}: {args.seconds:g} s in {args.motion}, condition {found.condition:.3g}")
    print("  expected half of the 95 % interval: " + ", ".join(f"{n} {v:.2g}" for n, v in found.expected.items()))
    if truth:
        print(f"  {args.rehearse}: " + ", ".join(f"{n} {v:.4g}" for n, v in truth.items()))
    return 0


def _identify(args: Args, path: Path) -> int:
    from rookery.sim2real.sysid import ranges
    from rookery.sim2real.sysid.plots import page
    from rookery.sim2real.sysid.propellers import is_propeller, propeller
    from rookery.sim2real.sysid.readers.reading import read_table
    from rookery.sim2real.sysid.report import reported, write_json, write_text

    table = read_table(path)
    if is_propeller(table):
        found = propeller(table, args.pole_pairs)
        if args.json:
            print_json(dataclasses.asdict(found))
        else:
            print("\n".join(found.text()))
        return 0
    name = args.robot or table.robot
    if name is None:
        raise RookeryError(f"{path} does not say of which robot it is: give --robot, such as --robot go2.")
    kind = _kind(args, name)
    log = kind.read(path)
    if args.apply is not None:
        parameters, x = reported(args.apply, kind.module.all_parameters(kind.robot))
        return _applied(args, kind, log, parameters, x)
    profiled = kind.module.PROFILED if args.profile is None else [w for w in words(args.profile) or () if w != "none"]
    report = kind.identify(
        kind.robot, log, fit=words(args.fit), each=words(args.each), profiled=profiled, hold_out=args.hold_out,
        others=[kind.read(other) for other in args.validate], say=say,
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
        curves = kind.module.signals(kind.robot, log, fit.problem.parameters, fit.x)
        write_text(args.plots, page(f"{name}: {log.source}", curves, lines))
    return 0


def _applied(args: Args, kind: _Kind, log: Any, parameters: Any, x: Any) -> int:
    from rookery.sim2real.sysid.plots import page
    from rookery.sim2real.sysid.report import errors_text, write_text

    errors = kind.module.judge(kind.robot, log, parameters, x)
    lines = [f"note: {n}" for n in log.notes]
    lines += [f"error on {log.source}: {errors_text(model, of)}" for model, of in errors.items()]
    if args.json:
        print_json({"errors": errors, "notes": list(log.notes)})
    else:
        print("\n".join(lines))
    if args.plots is not None:
        write_text(args.plots, page(log.source, kind.module.signals(kind.robot, log, parameters, x), lines))
    return 0


@dataclass(frozen=True)
class _Kind:
    """A robot, the module that identifies its like, and how its logs are read."""

    robot: Any
    module: Any
    identify: Callable[..., FitReport]
    read: Callable[[Path], Any]


def _kind(args: Args, name: str) -> _Kind:
    from rookery.robots import load
    from rookery.robots.drones.table import DRONES, find_drone
    from rookery.robots.own.reading import is_file
    from rookery.sim2real.sysid.readers.reading import read_table
    from rookery.sim2real.sysid.settings import beside, joint_log

    if name in DRONES or (is_file(name) and load(name).family == "drone"):
        from rookery.sim2real.sysid.multirotor import identification as flown
        from rookery.sim2real.sysid.multirotor.reading import flight_log

        drone = find_drone(name)
        read_flight = lambda path: flight_log(read_table(path), settings(args).over(beside(path)), drone)  # noqa: E731
        return _Kind(drone, flown, flown.identify_multirotor, read_flight)
    from rookery.sim2real.sysid.jointed import identification as jointed
    from rookery.sim2real.sysid.jointed.robot import find_robot

    robot = find_robot(name)
    read_joints = lambda path: joint_log(read_table(path), settings(args).over(beside(path)), robot)  # noqa: E731
    return _Kind(robot, jointed, jointed.identify_joints, read_joints)


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

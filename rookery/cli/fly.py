"""`rookery fly`: a bundle flies, walks or reaches on a real or a simulated vehicle."""

from __future__ import annotations

import contextlib
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.fly_view import FlightPageOptions, flight_page
from rookery.cli.options import Json, print_json
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.cli.cockpit import Cockpit
    from rookery.sim2real.runtime.loop import ControlLoop
    from rookery.sim2real.runtime.motion import JointMotion
    from rookery.sim2real.runtime.pilot import Pilot, StepRecord

EXAMPLES = """
  rookery fly bundle --dry-run
  rookery fly bundle --dry-run --command velocity=0.5,0,0
  rookery fly bundle --link mavlink://:14540 --seconds 30
  rookery fly bundle --link mavlink://:14540?hover=0.5 --command target=0,0,1.5 --safety safety.toml --log flight.mcap
  rookery fly bundle --link crazyflie://127.0.0.1:19850
  rookery fly bundle --link "betaflight:///dev/ttyACM0?hover=0.4&tracker=14810"
  rookery fly reach --link "canopen://can0?nodes=1-7&gripper=8&tracker=14810"
  rookery fly lift --link "dynamixel:///dev/ttyUSB0?ids=1-7&gripper=8&tracker=14810"
  rookery fly walk --link unitree://eth0 --command velocity=0.5,0,0
  rookery fly reach --link "ros2://eth0?domain=0&tracker=14810"
  rookery fly walk --link unitree://eth0 --estimator my_estimator.py:Mine
  rookery fly walk --dry-run --gamepad /dev/input/js0
  rookery fly walk --dry-run --motion motion.npz --log log.mcap
  rookery fly bundle --link mavlink://:14540 --link mavlink://:14541
"""

Say = Callable[[str], None]
HOLD_IT = "rookery: a motion is played: the robot must hang by its trunk, clear of everything."
SECONDS = 30.0  # s, that a policy flies by default
READING_S = 1.0  # s, for a vehicle's first measurements
SETTLE_S = 1.0  # s of a walk's beginning that its velocity error leaves out, as tasks' metrics do
NO_PRIORITY = (
    "rookery: no real-time priority, so other programs of this machine may delay the loop: run as root, or allow it in "
    "/etc/security/limits.conf (rtprio)."
)


@dataclass(frozen=True)
class Args:
    """Fly a bundle.

    The vehicle is asked who it is, and refused where the contract does not fit it. Then it takes off (or stands up), the policy
    flies for --seconds, and it comes down. A safety filter watches every step, and always wins; docs/fly.md has its limits and
    what follows each. Ctrl-C ends the policy and lands; a second one lands at once. In a terminal a live panel shows what
    happens, and keys steer: space lands at once. Try it with --dry-run first: it flies a simulated vehicle in this process,
    faster than real time.
    """

    bundle: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="BUNDLE", help="Folder of `rookery export`.")]
    link: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="URL", help="Address of a vehicle, protocol://host:port; give one for each vehicle."),
    ] = ()
    dry_run: Annotated[bool, tyro.conf.arg(help="Fly a simulated vehicle in this process.")] = False
    real_time: Annotated[
        bool, tyro.conf.arg(help="Let a dry run take as long as a flight; so it does with --gamepad and --viewer.")
    ] = False
    seconds: Annotated[float | None, tyro.conf.arg(help="s that the policy flies; 30 by default.")] = None
    command: Annotated[
        tuple[str, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(
            metavar="NAME=V,V", help='Value of a quantity that no vehicle measures, such as "target=0,0,1.5".'
        ),
    ] = ()
    motion: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE",
            help="Play a motion of `rookery sysid --design` in place of the policy, with the robot held.",
        ),
    ] = None
    estimator: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="FILE.py:CLASS",
            help="Estimate what a walking robot does not measure by a class of your own, or by none; leg-odometry by default.",
        ),
    ] = None
    gamepad: Annotated[
        Path | None, tyro.conf.arg(metavar="DEVICE", help="Steer by a gamepad too, such as /dev/input/js0.")
    ] = None
    controls: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="What axes and buttons do, and ranges of commands, in TOML.")
    ] = None
    safety: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Limits and reactions in TOML.")] = None
    group: Annotated[str | None, tyro.conf.arg(help="Agent group of the bundle; of one group it is that.")] = None
    log: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Write a flight log, .mcap.")] = None
    run_c: Annotated[
        bool, tyro.conf.arg(help="Also run C that was edited or written by someone else, with your rights.")
    ] = False
    page: FlightPageOptions = field(default_factory=FlightPageOptions)
    json: Json = False


def run(args: Args) -> int:
    """Fly; 1 where a fault ended the flight of a vehicle, or one did not come to where the policy begins."""
    if args.dry_run == bool(args.link):
        raise RookeryError("give --link URL, or --dry-run to fly a simulated vehicle first.")
    if args.real_time and not args.dry_run:
        raise RookeryError("--real-time is for a dry run: add --dry-run, or leave it out.")
    if args.seconds is not None and not args.seconds > 0.0:
        raise RookeryError(f"--seconds must be above 0, got {args.seconds:g}.")
    if args.motion is not None and args.seconds is not None:
        raise RookeryError("--motion has a length of its own: leave --seconds out.")
    values = commands(args.command)
    args.page.check()
    if args.controls is not None and not args.controls.is_file():
        raise RookeryError(f"there is no file {args.controls}: --controls takes one, see docs/fly.md.")
    from rookery.cli.cockpit import Cockpit
    from rookery.sim2real.runtime.flight_log import FlightLog
    from rookery.sim2real.runtime.motion import read_motion
    from rookery.sim2real.runtime.priority import real_time

    with tempfile.TemporaryDirectory(prefix="rookery-fly-") as build, contextlib.ExitStack() as stack:
        cockpit = Cockpit(args.json, args.controls, args.gamepad)
        motion = None if args.motion is None else read_motion(args.motion)
        opened = _dry if args.dry_run else _real
        pilots, clock, advance = opened(args, motion, values, Path(build), cockpit.say)
        log = None
        if args.log is not None:
            log = stack.enter_context(FlightLog(args.log, pilots[0].controller.contract.to_json()))
        page = flight_page(args.page, args.bundle, pilots[0].controller.group, len(pilots), cockpit.say)
        seen_by = [cockpit.seen, stack.enter_context(page)]
        if not args.dry_run and not stack.enter_context(real_time()):
            cockpit.say(NO_PRIORITY)
        if args.motion is not None:
            cockpit.say(HOLD_IT)
        report = _fly(pilots, clock, advance, log, cockpit, seen_by)
    if args.json:
        print_json(report)
    else:
        _print(report)
    if log is not None and log.error:
        raise RookeryError(log.error)
    return 1 if any(v["fault"] or v["entry_failed"] for v in report["vehicles"]) else 0


def commands(words: Sequence[str]) -> dict[str, Any]:
    """Values by name of ``name=1,2,3``.

    Raises:
        RookeryError: a word says something else.
    """
    import numpy as np

    out = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        try:
            value = np.array([float(v) for v in text.split(",")], np.float32)
        except ValueError:
            value = np.array([math.nan], np.float32)
        if not equals or not np.isfinite(value).all():
            raise RookeryError(f"--command must be NAME=number,number,..., got {word!r}.")
        out[name.strip()] = value
    return out


def _pilots(
    args: Args, motion: JointMotion | None, values: dict[str, Any], build: Path, clock: Any, links: Any, say: Say
) -> list[Pilot]:
    from rookery.sim2real.runtime.estimators import find_estimator
    from rookery.sim2real.runtime.motion import MotionController
    from rookery.sim2real.runtime.onnx_controller import open_controller
    from rookery.sim2real.runtime.pilot import Pilot, commanded
    from rookery.sim2real.runtime.safety import load_filter
    from rookery.sim2real.runtime.settings import safety_settings

    seconds = (SECONDS if args.seconds is None else args.seconds) if motion is None else motion.seconds
    chosen = None if args.estimator is None else find_estimator(args.estimator)
    library = load_filter(build)
    out = []
    for make in links:
        if motion is None:
            controller = open_controller(args.bundle, args.group, args.run_c)
        else:
            controller = MotionController(args.bundle, args.group, motion)
        settings = safety_settings(controller.contract, controller.group, args.safety)
        link = make(controller)
        if chosen is not None:
            link.estimate_by(chosen)
        out.append(
            Pilot(
                controller,
                link,
                library,
                settings,
                clock,
                commanded(values),
                seconds,
                say,
            )
        )
    return out


def _real(
    args: Args, motion: JointMotion | None, values: dict[str, Any], build: Path, say: Say
) -> tuple[list[Pilot], Any, None]:
    from rookery.sim2real.links.opening import open_link
    from rookery.sim2real.runtime.clock import MonotonicClock

    if len(set(args.link)) < len(args.link):
        raise RookeryError("two links have the same address: give one for each vehicle.")
    clock = MonotonicClock()
    links = [lambda controller, url=url: open_link(url, controller.spec, clock) for url in args.link]
    return _pilots(args, motion, values, build, clock, links, say), clock, None


def _dry(
    args: Args, motion: JointMotion | None, values: dict[str, Any], build: Path, say: Say
) -> tuple[list[Pilot], Any, Any]:
    """A simulated vehicle that waiting steps."""
    import rookery
    from rookery.sim2real.runtime.clock import SteppedClock
    from rookery.sim2real.runtime.controller import group_of
    from rookery.sim2real.runtime.onnx_controller import read_contract
    from rookery.sim2real.vehicles.dry_run import period_of, simulated

    made: list[Any] = []

    def link(controller: Any) -> Any:
        made.append(simulated(controller, clock, rookery.make, held=motion is not None))
        return made[-1]

    def step() -> None:
        for one in made:
            one.advance()

    contract = read_contract(args.bundle)
    group = contract.groups[group_of(contract, args.group)]
    period = period_of(contract, group) if motion is None else motion.dt
    clock = SteppedClock(step, period, real_time=args.real_time or args.gamepad is not None or args.page.viewer)
    return _pilots(args, motion, values, build, clock, [link], say), clock, step


def _fly(
    pilots: list[Pilot], clock: Any, advance: Any, log: Any, cockpit: Cockpit,
    seen_by: Sequence[Callable[[int, StepRecord], None]],
) -> dict[str, Any]:  # fmt: skip
    from rookery.sim2real.runtime.loop import ControlLoop
    from rookery.sim2real.runtime.pilot import Phase
    from rookery.sim2real.runtime.watchdog import Watchdog

    errors: list[list[float]] = [[] for _ in pilots]
    slips: list[list[float]] = [[] for _ in pilots]  # m/s, of walking robots, after SETTLE_S
    steps = [0] * len(pilots)

    def seen(i: int, record: StepRecord) -> None:
        steps[i] += record.phase is Phase.POLICY
        if record.phase is Phase.POLICY and record.distance == record.distance:
            errors[i].append(record.distance)
        settled = steps[i] * pilots[i].controller.control_dt > SETTLE_S
        if record.phase is Phase.POLICY and settled and record.velocity_error == record.velocity_error:
            slips[i].append(record.velocity_error)
        if log is not None:
            log.write(i, record)
        for watcher in seen_by:
            watcher(i, record)

    loop = ControlLoop(pilots, clock, seen)
    with cockpit.open(pilots, loop):
        try:
            for pilot in pilots:
                pilot.check()
            if advance is not None:
                advance()
            else:
                _await_readings(pilots)
            if log is not None:
                log.tell_estimators([pilot.identity.estimator for pilot in pilots if pilot.identity is not None])
            cockpit.checked()
            for pilot in pilots:
                pilot.start()
            with _interrupts(pilots), Watchdog(pilots, clock) if advance is None else contextlib.nullcontext():
                loop.run()
        finally:
            for pilot in pilots:
                pilot.link.close()
    return _report(pilots, loop, errors, slips, steps)


def _await_readings(pilots: Sequence[Pilot]) -> None:
    """Wait for where the vehicles are, as long as READING_S: commands are held against that. The loop judges silent ones."""
    until = time.monotonic() + READING_S
    while any(pilot.link.read() is None for pilot in pilots) and time.monotonic() < until:
        time.sleep(0.005)


@contextlib.contextmanager
def _interrupts(pilots: Sequence[Pilot]) -> Iterator[None]:
    """Ctrl-C ends the policies; a second one, SIGTERM and a terminal that is gone (SIGHUP) bring the vehicles down at once.
    Ctrl-Z, which would leave them to themselves, does nothing."""
    count = 0

    def interrupt(number: int, frame: Any) -> None:
        nonlocal count
        count += 1
        for pilot in pilots:
            pilot.commands.finish = True
            pilot.commands.stop |= count > 1 or number != signal.SIGINT

    wanted: dict[int, Any] = {
        signal.SIGINT: interrupt,
        signal.SIGTERM: interrupt,
        signal.SIGHUP: interrupt,
        signal.SIGTSTP: signal.SIG_IGN,
    }
    ignored = [n for n in (signal.SIGHUP,) if signal.getsignal(n) == signal.SIG_IGN]  # under nohup
    before = {n: signal.signal(n, do) for n, do in wanted.items() if n not in ignored}
    try:
        yield
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)


def _report(
    pilots: Sequence[Pilot], loop: ControlLoop, errors: Sequence[Sequence[float]], slips: Sequence[Sequence[float]],
    steps: Sequence[int],
) -> dict[str, Any]:  # fmt: skip
    import dataclasses

    from rookery.sim2real.runtime.settings import family_of

    vehicles = []
    for pilot, distances, off, count in zip(pilots, errors, slips, steps, strict=True):
        mean = sum(distances) / len(distances) if distances else None
        fault = None if pilot.fault is None else pilot.fault.name
        vehicles.append({
            "link": pilot.link.url, "family": family_of(pilot.controller.spec),
            "policy_s": round(count * pilot.controller.control_dt, 3),
            "distance_m": mean, "largest_distance_m": max(distances, default=None), "fault": fault,
            "fault_text": pilot.fault_text, "entry_failed": pilot.entry_failed, "on_ground": pilot.on_ground,
            "success": None if _asks_another(pilot) else pilot.link.success,
            "connection": dict(pilot.link.statistics()),
            "velocity_error": math.sqrt(sum(e * e for e in off) / len(off)) if off else None,
        })  # fmt: skip
    return {"vehicles": vehicles, "timing": dataclasses.asdict(loop.timing())}


def _asks_another(pilot: Pilot) -> bool:
    """True where the operator gives what the vehicle would tell, such as its task's goal, by which the vehicle judges."""
    return pilot.identity is not None and not pilot.commands.values.keys().isdisjoint(pilot.identity.quantities)


def _print(report: dict[str, Any]) -> None:
    for v in report["vehicles"]:
        near = f", {v['policy_s']:g} s by the policy" + (", which its entry did not reach" if v["entry_failed"] else "")
        if v["distance_m"] is not None:
            mean, most = 100 * v["distance_m"], 100 * v["largest_distance_m"]
            near += f" at {mean:.1f} cm from the target, at most {most:.1f}, by its own measurements"
        near += ", on the ground when that was over" if v["on_ground"] else ""
        if v["success"] is not None:
            near += ", the task is done" if v["success"] else ", the task is not done"
        if v["velocity_error"] is not None:
            near += f" with a velocity error of {v['velocity_error']:.2f} m/s (rms, by its own estimate)"
        end = {"multirotor": "landed", "joints": "lies", "arm": "is home"}[v["family"]]
        if "cycles" in v["connection"]:
            near += f"; {v['connection']['cycles']:,.0f} cycles of the arm, {v['connection']['lost_cycles']:.0f} lost"
        print(f"{v['link']}: {'ended by the fault ' + v['fault'] if v['fault'] else end}{near}")
    t = report["timing"]
    print(
        f"{t['steps']:,} control steps, {t['missed']} late; past the deadline {t['jitter_ms'][0]:.2f} ms (median), "
        f"{t['jitter_ms'][1]:.2f} (99 %); measurements {t['age_ms'][0]:.1f} ms old; a step takes {t['cycle_us'][0]:.0f} us"
    )

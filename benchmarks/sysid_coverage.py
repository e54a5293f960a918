"""How often the intervals of `rookery sysid` hold the true values of simulated logs.

    python benchmarks/sysid_coverage.py [--logs 100] [--robot leg] [--seconds 8] [--out benchmarks/results/sysid-coverage.json]

A leg of three joints moves in Bullet, another engine than the one that identifies it, with other parameters, delay, encoders'
noise and motion in each log. With another `--robot` each log is one of `rookery sysid --design ROBOT --rehearse`, of the engine
that identifies it: parameters drawn about the nominal ones, encoders' noise, one designed motion for all. Logs that are there
already, of the same options, are not identified again, so that the command goes on after a stop.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from machine import commit
from result_file import RESULTS, told, write_result

from rookery.cli.main import guarded
from rookery.sim2real.gate.intervals import wilson
from rookery.sim2real.sysid.excitation import design, rehearse
from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.intervals import LEVEL
from rookery.sim2real.sysid.jointed.identification import PROFILED
from rookery.sim2real.sysid.jointed.parameters import joint_parameters
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.robot import JointedRobot, find_robot
from rookery.sim2real.sysid.logs import JointLog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.sim2real.sysid.simulated import Motion, Truth, log_of, nominal_leg

LEG = "leg"
FIT = ("armature", "damping", "friction", "delay")
"""Quantities of which a rehearsal draws the truth."""
COLUMNS = (
    {"key": "case", "title": "quantity", "format": ""},
    {"key": "held", "title": "intervals that hold the truth", "format": "d"},
    {"key": "of", "title": "of", "format": "d"},
    {"key": "share", "title": "share", "format": ".3f"},
    {"key": "sure", "title": "95 % of this share", "format": ""},
    {"key": "error", "title": "error over half of the interval, rms", "format": ".2f"},
    {"key": "half", "title": "half of the interval, median", "format": ".3g"},
    {"key": "off", "title": "error, median", "format": ".3g"},
    {"key": "near", "title": "values within 5 % of the truth", "format": ".3f"},
    {"key": "unit", "title": "unit", "format": ""},
)
METRICS = {
    "held": f"intervals of {100 * LEVEL:.0f} %, of all joints or kinds of joints that have a number of their own",
    "sure": "Wilson's, as if the parameters of one log were independent",
    "error": "0.51 where values are right on average, errors are Gaussian and the intervals are as wide as they should be",
}


class Rehearsals:
    """Logs of `rookery sysid --design ROBOT --rehearse`.

    Args:
        name: of the robot.
        seconds: of the motion that all of them have.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self.robot = find_robot(name)
        self._motion = design(self.robot, self.robot.kp, self.robot.kd, seconds, fit=FIT)

    def log(self, seed: int) -> tuple[JointLog, dict[str, float]]:
        """A log and the truth, by parameter."""
        kp, kd = self.robot.kp, self.robot.kd
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "log.npz"
            truth = rehearse(file, self.robot, kp, kd, self._motion, seed)
            with np.load(file) as found:
                joints = self.robot.joints
                return JointLog(f"log {seed}", joints, found["time"], found["position"], found["target"], kp, kd), truth


class Legs:
    """Logs of a leg in Bullet: parameters between the ends of `DRAWN`, delays to 15 ms, noise of 0.5 mrad.

    Args:
        seconds: of each log.
    """

    def __init__(self, seconds: float) -> None:
        self.robot = nominal_leg()
        self._seconds = seconds

    def log(self, seed: int) -> tuple[JointLog, dict[str, float]]:
        """A log and the truth, by parameter."""
        rng = np.random.default_rng(seed)
        each = {name: _three(rng, *ends) for name, ends in DRAWN.items()}
        delay = float(rng.uniform(0.0, 0.015))
        truth = {f"{name}:{j}": v for name, of in each.items() for j, v in zip(self.robot.joints, of, strict=True)}
        return log_of(Truth(**each, delay=delay), Motion(self._seconds, seed)), truth | {"delay": delay}


DRAWN = {"armature": (0.005, 0.02), "damping": (0.05, 0.3), "friction": (0.1, 0.8)}
"""Between which values each joint's are drawn: kg m^2, N m s/rad, N m."""


def _three(rng: np.random.Generator, low: float, high: float) -> tuple[float, float, float]:
    a, b, c = rng.uniform(low, high, 3).tolist()
    return a, b, c


def one(logs: Rehearsals | Legs, seed: int, profiled: Sequence[str]) -> dict[str, Any]:
    """Make and identify a log: by parameter the truth, the value, and the interval's ends and kind."""
    start = time.perf_counter()
    log, truth = logs.log(seed)
    got = identify(JointProblem(logs.robot, log, joint_parameters(logs.robot, FIT)), profiled)
    out = {
        e.parameter.name: (truth[e.parameter.name], e.value, e.interval.low, e.interval.high, e.interval.by)
        for e in got.parameters
    }
    return {"seed": seed, "parameters": out, "commit": commit(), "wall_s": round(time.perf_counter() - start, 1)}


def rows_of(logs: Sequence[Mapping[str, Any]], robot: JointedRobot) -> list[dict[str, Any]]:
    """A row for each quantity."""
    units = {p.quantity: p.unit for p in joint_parameters(robot, FIT)}
    out = []
    for quantity in FIT:
        found = [v for log in logs for name, v in log["parameters"].items() if name.partition(":")[0] == quantity]
        held = sum(low <= truth <= high for truth, _, low, high, _ in found)
        halves = [0.5 * (high - low) for _, _, low, high, _ in found]
        errors = [(value - truth) / half for (truth, value, *_), half in zip(found, halves, strict=True) if half > 0.0]
        off = np.array([abs(value - truth) for truth, value, *_ in found])
        near = off <= 0.05 * np.array([truth for truth, *_ in found])
        least, most = wilson(float(held), len(found))
        out.append({
            "case": quantity, "held": held, "of": len(found), "share": held / len(found), "sure": f"{least:.3f} to {most:.3f}",
            "error": math.sqrt(float(np.mean(np.square(errors)))), "half": float(np.median(halves)),
            "off": float(np.median(off)), "near": float(near.mean()), "unit": units[quantity],
        })  # fmt: skip
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--robot", default=LEG, help="leg, in Bullet, or one of `rookery sysid --design`")
    parser.add_argument("--seconds", type=float, default=8.0, help="of the motion")
    parser.add_argument("--profile", nargs="*", default=list(PROFILED), help="quantities whose intervals are profiled")
    parser.add_argument("--out", type=Path, default=RESULTS / "sysid-coverage.json")
    args = parser.parse_args()
    start = time.perf_counter()
    made = Legs(args.seconds) if args.robot == LEG else Rehearsals(args.robot, args.seconds)
    asked = {"robot": args.robot, "seconds": args.seconds, "profile": args.profile}
    before = json.loads(args.out.read_text()) if args.out.exists() else {}
    logs = {log["seed"]: log for log in before.get("logs", ()) if before["asked"] == asked}
    words = ["--robot", args.robot, "--seconds", f"{args.seconds:g}", "--profile", *args.profile]
    for seed in range(args.logs):
        if seed in logs:
            continue
        logs[seed] = one(made, seed, args.profile)
        rows = rows_of([*logs.values()], made.robot)
        command = f"python benchmarks/sysid_coverage.py --logs {len(logs)} {shlex.join(words)}"
        more = {"asked": asked, "logs": [*logs.values()], **told([*logs.values()])}
        write_result(args.out, command, start, COLUMNS, rows, METRICS, **more)
        print(f"log {seed}: " + ", ".join(f"{r['case']} {r['held']}/{r['of']}" for r in rows), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))

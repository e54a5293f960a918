"""How often the intervals of `rookery sysid` hold the true values: rehearsed logs, of which the truth is known.

    python benchmarks/sysid_coverage.py [--logs 100] [--robot go2] [--seconds 6] [--out benchmarks/results/sysid-coverage.json]

Each log is one of `rookery sysid --design ROBOT --rehearse`: parameters drawn about the nominal ones, encoders' noise, one
designed motion for all. Logs that are there already, of the same options, are not identified again, so that the command goes on
after a stop.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
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
from rookery.sim2real.sysid.excitation import Design, design, rehearse
from rookery.sim2real.sysid.identify import identify
from rookery.sim2real.sysid.intervals import LEVEL
from rookery.sim2real.sysid.jointed.identification import PROFILED
from rookery.sim2real.sysid.jointed.parameters import joint_parameters
from rookery.sim2real.sysid.jointed.problem import JointProblem
from rookery.sim2real.sysid.jointed.robot import JointedRobot, find_robot
from rookery.sim2real.sysid.logs import JointLog

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
    {"key": "unit", "title": "unit", "format": ""},
)
METRICS = {
    "held": f"intervals of {100 * LEVEL:.0f} %, of all joints or kinds of joints that have a number of their own",
    "sure": "Wilson's, as if the parameters of one log were independent",
    "error": "0.51 where values are right on average, errors are Gaussian and the intervals are as wide as they should be",
}


def one(robot: JointedRobot, motion: Design, seed: int, profiled: Sequence[str]) -> dict[str, Any]:
    """Rehearse and identify a log: by parameter the truth, the value, and the interval's ends and kind."""
    start = time.perf_counter()
    kp, kd = robot.kp, robot.kd
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.npz"
        truth = rehearse(file, robot, kp, kd, motion, seed)
        with np.load(file) as found:
            log = JointLog(f"rehearsal {seed}", robot.joints, found["time"], found["position"], found["target"], kp, kd)
    got = identify(JointProblem(robot, log, joint_parameters(robot, FIT)), profiled)
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
        least, most = wilson(float(held), len(found))
        out.append({
            "case": quantity, "held": held, "of": len(found), "share": held / len(found), "sure": f"{least:.3f} to {most:.3f}",
            "error": math.sqrt(float(np.mean(np.square(errors)))), "half": float(np.median(halves)), "unit": units[quantity],
        })  # fmt: skip
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--robot", default="go2")
    parser.add_argument("--seconds", type=float, default=6.0, help="of the motion")
    parser.add_argument("--profile", nargs="*", default=list(PROFILED), help="quantities whose intervals are profiled")
    parser.add_argument("--out", type=Path, default=RESULTS / "sysid-coverage.json")
    args = parser.parse_args()
    start = time.perf_counter()
    robot = find_robot(args.robot)
    asked = {"robot": args.robot, "seconds": args.seconds, "profile": args.profile}
    before = json.loads(args.out.read_text()) if args.out.exists() else {}
    logs = {log["seed"]: log for log in before.get("logs", ()) if before["asked"] == asked}
    motion = design(robot, robot.kp, robot.kd, args.seconds, fit=FIT)
    words = ["--robot", args.robot, "--seconds", f"{args.seconds:g}", "--profile", *args.profile]
    for seed in range(args.logs):
        if seed in logs:
            continue
        logs[seed] = one(robot, motion, seed, args.profile)
        rows = rows_of([*logs.values()], robot)
        command = f"python benchmarks/sysid_coverage.py --logs {len(logs)} {shlex.join(words)}"
        more = {"asked": asked, "logs": [*logs.values()], **told([*logs.values()])}
        write_result(args.out, command, start, COLUMNS, rows, METRICS, **more)
        print(f"log {seed}: " + ", ".join(f"{r['case']} {r['held']}/{r['of']}" for r in rows), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))

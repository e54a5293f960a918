"""Speed of environments against another checkout's, in turn, in one run.

    python benchmarks/environments.py --before /old/.venv/bin/python [--after /new/.venv/bin/python] [--seconds 4] [--rounds 3]

Cases of many worlds are measured by `rookery bench env` (random actions, episodes spread over their length), single worlds
through gymnasium by a loop of `env.step`. The two Pythons, each with its own Rookery, take turns: the ratio of medians counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import commit, machine

RESULTS = Path(__file__).resolve().parent / "results"
CASES = (
    ("drone-hover", 512, "default"),
    ("drone-hover", 1024, "none"),
    ("volley-3v3", 1024, "none"),
    ("swarm-surround", 1024, "none"),
    ("table-reach", 256, "none"),
    ("table-pick-place", 256, "none"),
    ("go2-velocity", 512, "none"),
)
"""Task, worlds, randomization."""
SINGLE = ("drone-hover", "table-reach")
"""Tasks of one world through gymnasium."""
ELSEWHERE = tempfile.gettempdir()
"""Where commands run: in a checkout, Python would take the packages in the current folder instead of the installed ones."""
LOOP = """
import sys, time, gymnasium, numpy, rookery
env = gymnasium.make(f"rookery/{sys.argv[1]}-v0")
env.reset(seed=0)
action = numpy.zeros(env.action_space.shape, numpy.float32)
def steps(count):
    for _ in range(count):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
steps(200)
start = time.perf_counter()
count = 0
while time.perf_counter() - start < float(sys.argv[2]):
    steps(100)
    count += 100
print(count / (time.perf_counter() - start))
"""


def many(python: str, task: str, worlds: int, randomize: str, seconds: float) -> tuple[float, float | None]:
    """Steps per second over all worlds, and efficiency."""
    command = [python, "-m", "rookery", "bench", "env", task, "--num-envs", str(worlds), "--randomize", randomize]
    command += ["--seconds", str(seconds), "--json"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, cwd=ELSEWHERE
    )
    result = json.loads(done.stdout)
    return result["env_steps_per_s"], result["efficiency"]


def single(python: str, task: str, seconds: float) -> tuple[float, float | None]:
    """Steps per second of one world."""
    command = [python, "-c", LOOP, task, str(seconds)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, cwd=ELSEWHERE
    )
    return float(done.stdout), None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", required=True, help="Python of the checkout to compare with")
    parser.add_argument("--after", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for task, worlds, randomize in (*CASES, *((task, 1, "none") for task in SINGLE)):
        measured: dict[str, list[tuple[float, float | None]]] = {args.before: [], args.after: []}
        for i in range(args.rounds):
            for python in (args.before, args.after) if i % 2 == 0 else (args.after, args.before):
                one = worlds == 1
                figures = (
                    single(python, task, args.seconds) if one else many(python, task, worlds, randomize, args.seconds)
                )
                measured[python].append(figures)
        old, new = ([m[0] for m in measured[python]] for python in (args.before, args.after))
        shares = [[m[1] for m in measured[python] if m[1] is not None] for python in (args.before, args.after)]
        row: dict[str, Any] = {"task": task, "worlds": worlds, "randomize": randomize, "how": "bench env"}
        row |= {"before": statistics.median(old), "after": statistics.median(new)}
        row["ratio"] = statistics.median(n / o for n, o in zip(new, old, strict=True))
        row["efficiency_before"], row["efficiency"] = (statistics.median(s) if s else None for s in shares)
        if worlds == 1:
            row["how"] = "gymnasium"
        rows.append(row)
        print(row, flush=True)
    result = {
        "name": "environments",
        "command": f"python benchmarks/environments.py --before OLD --seconds {args.seconds:g} --rounds {args.rounds}",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {
            "before": "env steps per second over all worlds at commit 950c36e, medians over rounds",
            "ratio": "median over rounds of after / before, measured in turn",
            "efficiency": "physics steps per second in the environment over those of the engine alone in one process",
        },
        "columns": [
            {"key": "task", "title": "task"},
            {"key": "worlds", "title": "worlds", "format": ",d"},
            {"key": "randomize", "title": "randomization"},
            {"key": "how", "title": "by"},
            {"key": "before", "title": "before, steps/s", "format": ",.0f"},
            {"key": "after", "title": "after, steps/s", "format": ",.0f"},
            {"key": "ratio", "title": "ratio", "format": ".2f"},
            {"key": "efficiency_before", "title": "efficiency before", "format": ".2f"},
            {"key": "efficiency", "title": "efficiency", "format": ".2f"},
        ],
        "rows": rows,
    }
    (RESULTS / "environments.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

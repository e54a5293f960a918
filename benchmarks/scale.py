"""Speed of tasks by processes and threads of this machine, beside what the model of cost says from one and two processors.

    python benchmarks/scale.py                                   # drone-hover, go2-velocity and table-reach
    python benchmarks/scale.py go2-velocity --num-envs 8192 --cores 8

The model (rookery/scaling/cost.py) is fitted to the ways that take one or two processors, and to all of them. Iterations are
those of the task's preset.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from machine import commit
from result_file import RESULTS, write_result

from rookery.cli.main import guarded
from rookery.experiments.recipes import preset
from rookery.scaling.cost import StepCost, TimedStep, Way
from rookery.scaling.measure import TimedIteration, at_most, measure_iteration, measure_task
from rookery.sim.cores import usable_cores

TASKS = ("drone-hover", "go2-velocity", "table-reach")
COLUMNS = (
    {"key": "task", "title": "task"},
    {"key": "way", "title": "way"},
    {"key": "measured", "title": "measured, steps/s", "format": ",.0f"},
    {"key": "fitted", "title": "fitted, steps/s", "format": ",.0f"},
    {"key": "predicted", "title": "predicted, steps/s", "format": ",.0f"},
    {"key": "ratio", "title": "measured / predicted", "format": ".2f"},
    {"key": "collect_s", "title": "collecting, s", "format": ".2f"},
    {"key": "learn_s", "title": "learning, s", "format": ".2f"},
    {"key": "share", "title": "learner's share", "format": ".0%"},
)
METRICS = {
    "fitted": "by the model, fitted to all of them",
    "predicted": "by the model, fitted to the ways of one and two processors alone",
    "measured": "control steps of worlds per second with random actions, all worlds together, by the median step",
    "collect_s": "of an iteration of PPO at the task's preset, with its own number of worlds, the second after the start",
    "learn_s": "of the same; of shards the learner has all processors",
}


def rows_of(task: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a task."""
    settings = preset(task)
    stepped = replace(settings, num_envs=args.num_envs)
    measured = measure_task(stepped, args.seconds, args.rounds, oversubscribed=True, told=lambda s: _tell(task, s))
    cores = measured.cores
    cost = StepCost.fitted([step for step in measured.steps if step.way.processors <= 2], cores)
    times = {step.way: step for step in measured.steps if step.num_envs == args.num_envs}
    few = {step.way: step.rate for step in measured.steps if step.num_envs < args.num_envs}
    iterations = {i.way: i for i in _iterations(settings, list(times), cores)}
    rows = []
    for way, timed in times.items():
        predicted = cost.rate(way, args.num_envs, cores)
        name = f"{way} on {cores} processors" if way.processors > cores else str(way)
        row: dict[str, Any] = {"task": task, "way": name, "shards": way.shards, "threads": way.threads}
        row |= {"predicted": predicted, "measured": timed.rate, "ratio": timed.rate / predicted}
        row |= {"fitted": measured.cost.rate(way, args.num_envs, cores), "cores": cores, "num_envs": args.num_envs}
        found = iterations.get(way)
        row |= {"collect_s": found and found.collect_s, "learn_s": found and found.learn_s}
        row |= {"share": found and found.learner_share, "cost": asdict(cost), "fitted_cost": asdict(measured.cost)}
        rows.append(row | {"few_steps_per_s": few.get(way)})
    return rows


def _iterations(settings: Any, ways: Iterable[Way], cores: int) -> Iterable[TimedIteration]:
    """Iterations with each number of threads, and with as many processes as there are processors."""
    for way in ways:
        if way.shards in (1, cores):
            timed = measure_iteration(settings, way)
            print(timed, flush=True)
            yield timed


def _tell(task: str, step: TimedStep) -> None:
    print(f"{task}, {step.way}, {step.num_envs} worlds: {step.rate:,.0f} steps/s", flush=True)


def _notes(rows: list[dict[str, Any]], num_envs: int) -> str:
    """The constants of each task's fit in words."""
    text = [
        f"{num_envs} worlds, {rows[0]['cores']} processors. Constants in us, fitted to all ways (to one and two processors):"
    ]
    names = {"fixed": "c", "world": "v", "physics": "p", "message": "h", "gather": "g"}
    for task, k, near in {row["task"]: (row["task"], row["fitted_cost"], row["cost"]) for row in rows}.values():
        pairs = (f"{short} {1e6 * k[f'{name}_s']:.2f} ({1e6 * near[f'{name}_s']:.2f})" for name, short in names.items())
        text.append(f"{task} {', '.join(pairs)};")
    return " ".join(text).rstrip(";") + "."


def main() -> int:
    """Measure, and write the result after each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=1.0, help="of stepping, for each way in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cores", type=int, default=0, help="use no more processors than that")
    parser.add_argument("--commit", default=None, help="of the package, where this is no checkout of git")
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    args = parser.parse_args()
    start = time.perf_counter()

    def measure() -> int:
        rows: list[dict[str, Any]] = []
        words = [*(args.tasks if tuple(args.tasks) != TASKS else ()), f"--num-envs {args.num_envs}"]
        words += [
            f"--seconds {args.seconds:g}",
            f"--rounds {args.rounds}",
            *([f"--cores {args.cores}"] * bool(args.cores)),
        ]
        command = " ".join(["python benchmarks/scale.py", *words])
        for task in args.tasks:
            with at_most(args.cores or usable_cores()):
                rows += rows_of(task, args)
            more = {"notes": _notes(rows, args.num_envs), "commit": args.commit or commit()}
            write_result(args.out, command, start, COLUMNS, rows, METRICS, **more)
        return 0

    return guarded(measure)


if __name__ == "__main__":
    raise SystemExit(main())

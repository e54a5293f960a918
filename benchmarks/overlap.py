"""Gain of collecting while the learner learns, before it is built: both at once beside one after the other, in one process.

    python benchmarks/overlap.py

Two trainings of a task's preset with PPO stand for the halves of a double buffer: one collects while the other updates from its
own rollout. That is all that overlap with a staleness of one iteration could gain; exchanging weights and buffers costs more.
In turns of alternating order; with all threads for the engine and for the learner, and with half of them for each.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from result_file import RESULTS, write_result

from rookery.cli.main import guarded
from rookery.experiments.algorithm import begin
from rookery.experiments.recipes import preset
from rookery.experiments.settings import RunSettings
from rookery.policies.training.runner import Runner
from rookery.scaling.measure import at_most
from rookery.sim.cores import usable_cores

TASKS = ("go2-velocity", "drone-hover")
COLUMNS = (
    {"key": "task", "title": "task"},
    {"key": "threads", "title": "threads of each", "format": "d"},
    {"key": "collect_s", "title": "collecting, s", "format": ".3f"},
    {"key": "learn_s", "title": "learning, s", "format": ".3f"},
    {"key": "bound", "title": "bound", "format": ".2f"},
    {"key": "gain", "title": "gain", "format": ".2f"},
)
METRICS = {
    "collect_s": "of an iteration of the preset without the update, alone; learning, s: the update alone; medians",
    "bound": "both in turn over the longer of the two: the gain with a processor for everything",
    "gain": "both in turn over both at once, the median of turns",
}


class Pair:
    """Two trainings, of which one collects and the other learns.

    Args:
        settings: of both, with another seed for the second.
        folder: for what they would write.
    """

    def __init__(self, settings: RunSettings, folder: Path) -> None:
        both = []
        for seed in (0, 1):
            own, algorithm, _ = begin(replace(settings, seed=seed, shards="1"), settings.randomize)
            both.append(Runner(algorithm, own.runner, folder / str(seed)))
        self.collects, self.learns = both
        for runner in both:
            runner.iterate()

    def turn(self, at_once: bool) -> tuple[float, float, float]:
        """Seconds of collecting, of learning and of both, one after the other or at once."""
        self.learns._collect()
        spent: dict[str, float] = {}

        def timed(name: str, work: Callable[[], Any]) -> None:
            start = time.perf_counter()
            work()
            spent[name] = time.perf_counter() - start

        start = time.perf_counter()
        learner = threading.Thread(target=timed, args=("learn", lambda: self.learns.algorithm.update(0.0)))
        if at_once:
            learner.start()
        timed("collect", self.collects._collect)
        if not at_once:
            learner.start()
        learner.join()
        whole = time.perf_counter() - start
        self.collects.algorithm.update(0.0)
        return spent["collect"], spent["learn"], whole

    def close(self) -> None:
        """End both."""
        for runner in (self.collects, self.learns):
            runner.algorithm.close()
            runner.env.close()


def row_of(task: str, threads: int, turns: int) -> dict[str, Any]:
    """The figures of a task with so many threads for engine and learner each."""
    limit: AbstractContextManager[None] = at_most(threads) if threads < usable_cores() else nullcontext()
    alone, together = [], []
    with limit, TemporaryDirectory() as folder:
        pair = Pair(preset(task), Path(folder))
        for turn in range(turns):
            for at_once in (False, True) if turn % 2 == 0 else (True, False):
                (together if at_once else alone).append(pair.turn(at_once))
        pair.close()
    collect, learn, _ = (statistics.median(t[i] for t in alone) for i in range(3))
    gain = statistics.median(a[2] / b[2] for a, b in zip(alone, together, strict=True))
    row = {"task": task, "threads": threads, "collect_s": collect, "learn_s": learn, "gain": gain}
    times = {"alone_s": statistics.median(t[2] for t in alone), "together_s": statistics.median(t[2] for t in together)}
    return row | times | {"bound": (collect + learn) / max(collect, learn), "cores": usable_cores()}


def main() -> int:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "overlap.json")
    args = parser.parse_args()
    start = time.perf_counter()

    def measure() -> int:
        rows: list[dict[str, Any]] = []
        for task in args.tasks:
            cores = usable_cores()
            for threads in dict.fromkeys((cores, max(1, cores // 2))):
                rows.append(row_of(task, threads, args.turns))
                print(rows[-1], flush=True)
        words = args.tasks if tuple(args.tasks) != TASKS else ()
        command = " ".join(["python benchmarks/overlap.py", *words, f"--turns {args.turns}"])
        write_result(args.out, command, start, COLUMNS, rows, METRICS, notes=f"{usable_cores()} processors.")
        return 0

    return guarded(measure)


if __name__ == "__main__":
    raise SystemExit(main())

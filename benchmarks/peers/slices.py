"""Speeds in short slices that take turns: what the benchmarks of `rotor` and of its peers have in common.

Every simulator runs in a process of its own (`serve`), builds what it is asked for, warms it up, and then waits for
orders. Who measures (`Worker`, `alternate`) lets one run for a moment, then the other, and again in the opposite order, so
that whatever else the machine does falls on all of them alike. Standard library only: peers have environments of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Slice = Callable[[float], float]
"""Runs for about so many seconds and gives drone steps per second: worlds x drones x steps / time."""


def timed(drones: int, prepare: Callable[[], None], run: Callable[[], int]) -> Slice:
    """A slice that repeats an untimed preparation and a timed run.

    Args:
        drones: in all worlds together.
        prepare: brings the simulator back to where a run begins.
        run: steps all drones, waits for the result, and tells how many steps each of them made.
    """

    def rate(seconds: float) -> float:
        spent = 0.0
        steps = 0
        while True:
            prepare()
            start = time.perf_counter()
            steps += run()
            spent += time.perf_counter() - start
            if spent >= seconds:
                return drones * steps / spent

    rate(0.0)  # the first calls compile
    rate(0.0)
    return rate


def serve(build: Callable[[str], Slice]) -> None:
    """Answer orders {"case": name, "seconds": s} on standard input, one JSON line each, until it closes.

    Args:
        build: makes a case by name; what it raises becomes the answer {"error": ...}.
    """
    built: dict[str, Slice] = {}
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["case"] not in built:
                built[order["case"]] = build(order["case"])
            answer: dict[str, Any] = {"rate": built[order["case"]](order["seconds"])}
        except Exception as e:  # whatever is wrong with one simulator, the others go on
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


def alone(doc: str, names: Sequence[str], build: Callable[[str], Slice]) -> None:
    """Command line of one simulator's script: measure cases by itself, a JSON line each, or `serve`."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(names), help=f"some of {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one slice")
    parser.add_argument("--rounds", type=int, default=5, help="slices of each case")
    parser.add_argument("--serve", action="store_true", help="take orders on standard input (for run.py)")
    args = parser.parse_args()
    if args.serve:
        serve(build)
        return
    for name in args.cases:
        start = time.perf_counter()
        rate = build(name)
        ready = time.perf_counter() - start
        rates = [rate(args.seconds) for _ in range(args.rounds)]
        figures = {"case": name, "best": max(rates), "median": statistics.median(rates), "unit": "drone steps/s"}
        print(json.dumps(figures | {"build_s": round(ready, 1)}), flush=True)


class Worker:
    """A process that serves cases.

    Args:
        label: how its figures are headed.
        command: starts it.
        threads: processors it may use; None is all that this process may use.
    """

    def __init__(self, label: str, command: Sequence[str], threads: int | None = None) -> None:
        self.label = label
        processors = sorted(os.sched_getaffinity(0))[:threads]
        count = str(len(processors))
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by close()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": count, "NUMBA_NUM_THREADS": count},
        )
        os.sched_setaffinity(self._process.pid, processors)

    def rate(self, case: str, seconds: float) -> float:
        """Drone steps per second in a slice of a case, which is built at first use. RuntimeError says what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"case": case, "seconds": seconds}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died: the empty answer tells
        line = self._process.stdout.readline()
        while line and not line.startswith("{"):  # simulators greet on standard output
            line = self._process.stdout.readline()
        if not line:
            self._stderr.seek(0)
            said = self._stderr.read().strip().splitlines()
            raise RuntimeError(f"{self.label} ended: {said[-1] if said else 'without a word'}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.label}: {answer['error']}")
        return float(answer["rate"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._stderr.close()


@dataclass(frozen=True)
class Rates:
    """Drone steps per second of one case in every round."""

    label: str
    case: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def best(self) -> float:
        return max(self.rounds)

    def over(self, other: Rates) -> tuple[float, float, float]:
        """Least, median and greatest ratio to another's rate in the same round."""
        ratios = [a / b for a, b in zip(self.rounds, other.rounds, strict=True)]
        return min(ratios), statistics.median(ratios), max(ratios)


def alternate(entries: Sequence[tuple[Worker, str]], seconds: float, rounds: int) -> list[Rates]:
    """Run cases by turns, in the opposite order at every second round.

    Args:
        entries: worker and case, two or more.
        seconds: of a slice.
        rounds: slices of each.
    """
    for worker, case in entries:
        worker.rate(case, 0.0)  # builds and compiles
    rates: list[list[float]] = [[] for _ in entries]
    for r in range(rounds):
        order = range(len(entries)) if r % 2 == 0 else reversed(range(len(entries)))
        for i in order:
            worker, case = entries[i]
            rates[i].append(worker.rate(case, seconds))
    return [Rates(w.label, case, tuple(x)) for (w, case), x in zip(entries, rates, strict=True)]

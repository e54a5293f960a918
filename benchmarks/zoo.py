"""Evaluates, judges and films every policy that comes with the package; stores new ones.

    python benchmarks/zoo.py [--only drone-hover table-push] [--parts nominal default] [--processes 2]
    python benchmarks/zoo.py --dry-run                      # what is not current, why, and how long it takes
    python benchmarks/zoo.py --store runs/table-push/latest [--name table-push]

Parts: success with `nominal` physics, with the `default` randomization, with the `delay` of the gate's profile and on another
`engine`; the `gate`; the `film` in docs/videos; the `picture` of its task. What is current is not done again: figures and
verdicts of these weights, these files of the task and this commit of the package, films and pictures of these weights and
files. So an interrupted run goes on. Each part takes one core; --processes says how many run at a time, all cores by default.

--store copies the policy of a run into policies/zoo and makes all its parts. In the end the tables are written.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import tables
from policy_key import ROOT, ZOO, code, policies
from zoo_parts import GUESS_S, PARTS, SCRIPTED, Job, do, jobs, pinned, why_not_current
from zoo_results import Zoo

from rookery.cli.main import ending_in_order, guarded
from rookery.experiments.runs import find_run
from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError, unknown
from rookery.sim2real.provenance import tracked

GATE = ("--episodes", "16", "--rounds", "1", "--combinations", "32", "--interval", "0.5", "--required-only")
"""Options of `rookery gate`: a quarter of its own episodes, so that the whole zoo takes hours and not a day."""
FILES = ("contract.json", "policy*.safetensors", "randomization.toml")
"""Of a run, that a policy of the zoo consists of."""


def store(run: Path, name: str | None, place: Path | None = None) -> str:
    """Copy the policy of a run into the zoo.

    Args:
        run: its folder.
        name: in the zoo; None for its task.
        place: folder of the policies; None for the zoo.

    Returns:
        The name.

    Raises:
        RookeryError: there is no policy, or its contract names no clean commit, or a file that the repository has not, so that
            it could not be made again.
    """
    folder = find_run(run)
    contract = json.loads((folder / "contract.json").read_text())
    commit = contract["provenance"].get("commit")
    if not commit or commit.endswith("-dirty"):
        raise RookeryError(
            f"{run} was trained at {commit or 'no commit'}, so it cannot be made again: train it in a checkout without changes."
        )
    files = [Path(file).resolve() for file in contract["provenance"].get("files", {})]
    if foreign := [file for file in files if not (file.is_relative_to(ROOT) and tracked(file))]:
        raise RookeryError(
            f"{run} was trained by {foreign[0]}, which is not in the repository, so it cannot be made again: commit that file "
            "and train by it."
        )
    target = (place or ZOO) / (name or contract["task_id"])
    fresh = target.with_name(f".{target.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for file in (f for pattern in FILES for f in sorted(folder.glob(pattern))):
        shutil.copyfile(file, fresh / file.name)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return target.name


def planned(zoo: Zoo, names: Sequence[str], parts: Sequence[str], again: bool) -> list[tuple[Job, float]]:
    """Jobs that are not current with the seconds that each takes, the longest first: as long as before, or as others of its
    part."""
    known = zoo.parts.values()
    lasting = {part: [p[part]["wall_s"] for p in known if part in p] for part in PARTS}
    lasting["gate"] = [r["wall_s"] for r in zoo.gates.values()]
    out = []
    for job in (job for name in names for job in jobs(name) if job.part in parts):
        record = zoo.record(job)
        if again or why_not_current(job, record):
            usual = statistics.median(lasting[job.part]) if lasting[job.part] else GUESS_S[job.part]
            out.append((job, float((record or {}).get("wall_s") or usual)))
    return sorted(out, key=lambda pair: -pair[1])


def lasts(seconds: float) -> str:
    """A duration for people."""
    return (
        f"{seconds / 3600:.1f} h"
        if seconds > 5400
        else f"{seconds / 60:.0f} min"
        if seconds > 90
        else f"{seconds:.0f} s"
    )


class Work:
    """Does jobs side by side, each on a core of its own, and keeps every record at once.

    Args:
        zoo: takes the records.
        plan: jobs with their seconds.
        args: of the command line.
    """

    def __init__(self, zoo: Zoo, plan: Sequence[tuple[Job, float]], args: argparse.Namespace) -> None:
        self.zoo = zoo
        self.plan = plan
        self.args = args
        self.left = sum(seconds for _, seconds in plan)
        self.lock = threading.Lock()
        self.cores: SimpleQueue[int] = SimpleQueue()
        self.processes: list[subprocess.Popen[str]] = []
        self.stopped = False
        self.failed: list[str] = []

    def run(self) -> None:
        """Do all; Ctrl-C and SIGTERM end what runs and keep what is done."""
        allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(usable_cores()))
        for i in range(self.args.processes):
            self.cores.put(allowed[i % len(allowed)])
        with ThreadPoolExecutor(self.args.processes) as pool:
            try:
                for result in [pool.submit(self._do, job, seconds) for job, seconds in self.plan]:
                    result.result()
            except BaseException:
                self.stopped = True
                for process in self.processes:
                    process.kill()
                pool.shutdown(cancel_futures=True)
                print("stopped: the parts that are done are kept, and the same command goes on", file=sys.stderr)
                raise

    def _started(self, process: subprocess.Popen[str]) -> None:
        """Keep a process in mind; one that began while the others were ended is ended, too."""
        self.processes.append(process)
        if self.stopped:
            process.kill()

    def _do(self, job: Job, seconds: float) -> None:
        core = self.cores.get()
        try:
            if self.stopped:
                return
            record = do(job, pinned(core, self._started), self.args.episodes, self.args.gate)
        except (RuntimeError, OSError, ValueError, LookupError) as error:
            record = None
            if not self.stopped:
                self.failed.append(f"{job}: {error}")
        finally:
            self.cores.put(core)
        with self.lock:
            self.left -= seconds
            if record is not None:
                self.zoo.put(job, record)
                self.zoo.save(self.args.command)
                told = next((record[k] for k in ("refused", "verdict", "success") if k in record), "done")
                print(
                    f"{job}: {told} ({record['wall_s']:.0f} s; {lasts(self.left / self.args.processes)} left)",
                    flush=True,
                )


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One process at a time writes the results.

    Raises:
        RookeryError: another one does.
    """
    file = ROOT / "runs" / ".zoo.lock"
    file.parent.mkdir(exist_ok=True)
    with file.open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RookeryError(
                "another benchmarks/zoo.py runs in this checkout: wait for its end, or stop it."
            ) from None
        yield


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line's."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="policies; all without it")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--gate", type=shlex.split, default=list(GATE), help="options of `rookery gate`, as one word")
    parser.add_argument("--processes", type=int, default=usable_cores())
    parser.add_argument("--again", action="store_true", help="also what is current")
    parser.add_argument("--dry-run", action="store_true", help="say what is to be done, why, and how long it takes")
    parser.add_argument("--store", type=Path, metavar="RUN", help="put the policy of a run into the zoo first")
    parser.add_argument("--name", help="of the policy that is stored; its task by default")
    args = parser.parse_args(words)
    gate = GATE if args.only or args.store else args.gate  # what some are judged by does not speak for the others
    args.command = f"python benchmarks/zoo.py --episodes {args.episodes} --gate {shlex.quote(shlex.join(gate))}"
    return args


def work(args: argparse.Namespace) -> int:
    """Do what the command line asks for.

    Raises:
        RookeryError: an unknown policy, or one that cannot be stored.
    """
    if args.processes < 1:
        raise RookeryError(f"--processes must be at least 1, got {args.processes}.")
    if args.name and not args.store:
        raise RookeryError("--name is of a policy that is stored: give --store RUN with it.")
    for name in args.only:
        if name not in policies():
            raise unknown("policy of the zoo", name, policies())
    with alone():
        if args.store and not args.dry_run:
            args.only = [store(args.store, args.name)]
        zoo = Zoo()
        plan = planned(zoo, args.only or [*policies(), *(f.of for f in SCRIPTED)], args.parts, args.again)
        total = sum(seconds for _, seconds in plan)
        print(
            f"{len(plan)} parts to do at {code()}, about {lasts(total / args.processes)} in {args.processes} processes"
        )
        if code().endswith("-dirty"):
            print("the package has changes that are not committed: figures of it are never current, and say so")
        if args.dry_run:
            for job, seconds in plan:
                why = why_not_current(job, zoo.record(job)) or "done again"
                print(f"{job}, about {lasts(seconds)}: {why}")
            return 0
        start = time.perf_counter()
        doing = Work(zoo, plan, args)
        doing.run()
        zoo.save(args.command)
        tables.main([])
        print(f"done in {lasts(time.perf_counter() - start)}")
        for line in doing.failed:
            print(f"failed: {line}", file=sys.stderr)
        return 1 if doing.failed else 0


def main(words: Sequence[str] | None = None) -> int:
    args = arguments(words)
    with ending_in_order():
        return guarded(lambda: work(args))


if __name__ == "__main__":
    sys.exit(main())

"""Changes files at random and reads them; says which changes end in anything but a sentence or an answer.

    python -m tests.fuzz.run --count 1000000 --seed 1        # `make fuzz`
    python -m tests.fuzz.run --only "sealed policy" --seed 7 --first 1234 --count 1

A fault is a traceback, more than 2 s, or more than 1 GB.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.targets import TARGETS, Target

SECONDS = 2.0
"""s of the processor."""
WAIT = 60.0
"""s of the clock: it waits for something that never comes."""
MEMORY = 1 << 30


class TooSlow(BaseException):
    """More than SECONDS; no reader may catch it."""


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Of time and address space, for this process."""

    def stop(*_: Any) -> None:
        raise TooSlow

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: other processes do not count
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for number, handler in before.items():
            signal.signal(number, handler)


def attempt(target: Target, good: Path, seed: int, i: int) -> str | None:
    """Mutation i of a target: None, or what went wrong."""
    rng = random.Random(f"{target.name} {seed} {i}")
    with tempfile.TemporaryDirectory(prefix="rookery-fuzz-") as place:
        folder = Path(place) / "files"
        shutil.copytree(good, folder)
        file = folder / target.file
        file.write_bytes(target.mutate(file.read_bytes(), rng))
        target.seal(folder)
        quiet = io.StringIO()
        try:
            with limits(), contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
                target.read(folder)
        except target.errors as error:
            return (
                None if len(str(error)) < 3000 and "\n" not in str(error).strip() else f"a long message: {error!r:.300}"
            )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return traceback.format_exc()
    return None


def fuzz(target: Target, count: int, seed: int, first: int = 0, most: int = 5) -> list[str]:
    """Faults of `count` mutations of a target (fewer of one that is slow, see Target.cost), at most `most` of them."""
    faults = []
    with tempfile.TemporaryDirectory(prefix="rookery-fuzz-") as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = Path(place)
        target.make(good)
        target.read(good)  # the example itself is right
        for i in range(first, first + -(-count // target.cost)):
            fault = attempt(target, good, seed, i)
            if fault is not None:
                faults.append(f"{target.name!r}, --seed {seed} --first {i}:\n{fault}")
                if len(faults) == most:
                    break
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only")
    args = parser.parse_args()
    chosen = [t for t in TARGETS if args.only in (None, t.name)]
    bad = 0
    for target in chosen:
        start = time.monotonic()
        faults = fuzz(target, -(-args.count // len(chosen)), args.seed, args.first)
        bad += len(faults)
        print(*faults, f"{target.name}: {len(faults)} faults, {time.monotonic() - start:.0f} s", sep="\n", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())

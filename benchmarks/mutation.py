"""Mutation testing: faults put into the package's logic, and whether the tests notice.

    python benchmarks/mutation.py [--mutants 60] [--seed 0] [--modules sim/envs/delays.py ...] [--out FILE]
    python benchmarks/mutation.py --again --seed 0 --out FILE     # survivors of a sample, with the tests that there are now

A line of code is drawn at random and one place of it changed (see mutants.py) in a copy of the repository, where the tests near
to the module (see mutation_tests.py) then run until the first failure. A mutant that no test notices survives. Some are
equivalent (a bound that no value reaches): look at each, and write the reason into FILE by hand, as "equivalent".

Of a report of `pytest --junitxml`, --durations learns how long each test takes, so that those of a mutant take no more than
--budgets seconds: the least of them at first, and then, for those that have survived, what the next adds to it. No budget is
all of `make test`, so that what survives is an upper bound. A mutant that makes tests three times as long is noticed, too.
FILE keeps the other samples that are in it, and the same command goes on with a sample that was interrupted, or that --stop
ended.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import commit, machine
from mutants import Mutant, mutants
from mutation_tests import ALARMS, IMPORTED, ROOT, UNKNOWN_S, compiled, distances, drawn, durations, importers, tests_of

from rookery.sim2real.gate.intervals import wilson

LEFT_BEHIND = (".git", ".venv*", ".site*", ".types", ".hypothesis", ".run", "runs", ".*_cache", "shared")
"""Of the repository, what the copy has not."""
STARTING_S = 30.0
COMPILING_S = 90.0
WAITING = 4.0  # s of the clock for each of the processor that tests may take


@dataclass(frozen=True)
class Bench:
    """Where and how tests run.

    Args:
        copy: of the repository.
        seconds: by file and by test, see `durations`.
    """

    copy: Path
    seconds: Mapping[str, float]


IMPORTS = """
import sys
from importlib.machinery import PathFinder


class Copy:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "rookery" or name in {names}:
            return PathFinder.find_spec(name, [{copy!r}])


sys.meta_path.insert(0, Copy)
"""


def copy_repository(to: Path) -> None:
    """The repository in `to`/repository, times of files included, so that Numba's caches hold, and in `to`/imports what lets
    every Python that finds that folder import `rookery` from there."""
    copy = to / "repository"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    shutil.copytree(ROOT / "tests" / "shared", copy / "tests" / "shared")
    names = {f"rookery.{package}" for package in IMPORTED if package != "rookery"}
    (to / "imports").mkdir()
    (to / "imports" / "sitecustomize.py").write_text(IMPORTS.format(names=names, copy=str(copy)))


def environment(copy: Path) -> dict[str, str]:
    """Variables for processes that import the copy."""
    return os.environ | {"PYTHONPATH": str(copy.parent / "imports"), "PYTHONDONTWRITEBYTECODE": "1"}


def check_copy(copy: Path) -> None:
    """Refuse to go on where the repository itself is imported."""
    command = [sys.executable, "-c", "import rookery.sim.errors as e, rookery.cli as c; print(e.__file__, c.__file__)"]
    found = subprocess.run(command, cwd=copy, env=environment(copy), capture_output=True, text=True, check=True).stdout
    if not all(Path(file).is_relative_to(copy) for file in found.split()):
        raise SystemExit(f"tests would not run on the copy but on {found}")


def notice(bench: Bench, module: str, tests: list[str], budget_s: float) -> tuple[str, str]:
    """The verdict, and the test that it is by: "killed", "timeout" or "survived".

    Args:
        bench: where tests run.
        module: the changed one, or "".
        tests: files, or node ids.
        budget_s: that they were chosen for. A test that takes a quarter of it gives way to the others, in the first file one
            that takes it all.
    """
    of_file = {name: bench.seconds.get(name, UNKNOWN_S) for name in tests}
    long = too_long(bench, tests, budget_s)
    for name in long:
        of_file[name.partition("::")[0]] -= bench.seconds[name]
    limit = round(STARTING_S + 3.0 * sum(of_file.values()) + (COMPILING_S if module and compiled(module) else 0.0))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow",
               *(f"--ignore={alarm}" for alarm in ALARMS), *(f"--deselect={name}" for name in long), *tests]  # fmt: skip
    # Of processor time, which other work on the machine does not lengthen; of the clock for those that wait for ever.
    command = ["bash", "-c", f'ulimit -t {limit}; exec "$@"', "bash", *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(
        command, cwd=bench.copy, env=environment(bench.copy), text=True, start_new_session=True, **pipes
    ) as process:
        try:
            out = process.communicate(timeout=WAITING * limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "timeout", ""
    if process.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        return "timeout", ""
    if process.returncode == 4:
        raise SystemExit(f"pytest does not run:\n{out}")
    if process.returncode in (0, 5):  # 5: none of the tests is left
        return "survived", ""
    failed = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "killed", failed[0].split(" - ")[0] if failed else out[-200:]


def too_long(bench: Bench, tests: list[str], budget_s: float) -> list[str]:
    """Tests of files that a budget leaves out, see `notice`."""
    most = {file: budget_s if file == tests[0] else budget_s / 4 for file in tests}
    of_file = ((name, name.partition("::")) for name in bench.seconds)
    return [name for name, (file, _, case) in of_file if case and bench.seconds[name] > most.get(file, math.inf)]


def further(bench: Bench, module: str, budget_s: float, passed_s: float) -> list[str]:
    """Files of tests for a mutant that has survived those of a smaller budget, 0 for none, less those that it has met whole."""
    tests = tests_of(module, bench.seconds, budget_s)
    if not passed_s:
        return tests
    passed = tests_of(module, bench.seconds, passed_s)
    left = {name.partition("::")[0] for name in too_long(bench, passed, passed_s)}
    return [test for test in tests if test not in passed or test in left]


def draw(copy: Path, modules: list[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants of a copy of the repository, one of each of as many lines, which are all as likely."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for module in sorted(modules):
        for mutant in mutants(module, (copy / module).read_text()):
            lines.setdefault((module, mutant.line), []).append(mutant)
    chance = random.Random(seed)
    return [chance.choice(lines[line]) for line in chance.sample(sorted(lines), min(count, len(lines)))]


def tried(bench: Bench, mutant: Mutant, budget_s: float, passed_s: float) -> dict[str, Any]:
    """Put a mutant into the copy, run its tests, take it out: "verdict", "by", "budget_s" and "seconds"; see `further`."""
    start = time.monotonic()
    file = bench.copy / mutant.module
    original = file.read_bytes()
    kept = file.stat()
    with set_aside(bench.copy, mutant.module):
        file.write_bytes(original[: mutant.start] + mutant.new.encode() + original[mutant.stop :])
        # Another time for what Python and Numba keep of the file, and none that makes the others' kernels look outdated.
        os.utime(file, (kept.st_atime, kept.st_mtime - 10.0 - random.randrange(10**6)))
        try:
            tests = further(bench, mutant.module, budget_s, passed_s)
            verdict, by = notice(bench, mutant.module, tests, budget_s) if tests else ("survived", "")
        finally:
            file.write_bytes(original)
            os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    print(f"{mutant.module}:{mutant.line} {mutant.old!r} -> {mutant.new!r}: {verdict} {by}", flush=True)
    return {"verdict": verdict, "by": by, "budget_s": budget_s, "seconds": round(time.monotonic() - start, 1)}


@contextmanager
def set_aside(copy: Path, module: str) -> Iterator[None]:
    """Hide what Numba has compiled of a module, and of those that may have its functions inside, until the end."""
    of = [copy / name for name in distances(module) if not name.startswith("tests/")] if compiled(module) else []

    def kept() -> list[Path]:
        return [file for path in of for file in path.parent.glob(f"__pycache__/{path.stem}.*.nb[ic]")]

    with tempfile.TemporaryDirectory(dir=copy) as aside:
        moved = {file: Path(aside, str(i)) for i, file in enumerate(kept())}
        for file, place in moved.items():
            file.rename(place)
        try:
            yield
        finally:
            for file in kept():
                file.unlink()
            for file, place in moved.items():
                place.rename(file)


def located(copy: Path, row: Mapping[str, Any]) -> Mutant | None:
    """A row's mutant where its place is now, None where the code is gone."""
    if not (copy / row["module"]).exists():
        return None
    now = mutants(row["module"], (copy / row["module"]).read_text())
    same = [m for m in now if (m.old, m.new, m.text) == (row["old"], row["new"], row["text"])]
    return min(same, key=lambda m: abs(m.line - row["line"]), default=None)


def check_tests(bench: Bench, rows: list[dict[str, Any]]) -> bool:
    """Take the verdict from mutants that a test has noticed which fails without any mutant, too; True where there are none."""
    named = [str(row.get("by")).partition(" ")[2] for row in rows if "::" in str(row.get("by"))]
    whole = sorted({name.partition("[")[0] for name in named})  # all cases of each
    bad: list[str] = []
    while tests := [name for name in whole if name not in bad]:
        verdict, by = notice(bench, "", tests, 1e3)
        if verdict != "killed":
            break
        bad.append(by.split(" ", 1)[-1].partition("[")[0])
        print(f"fails without any mutant, and so counts for nothing: {by}", flush=True)
    for row in rows:
        if str(row.get("by")).partition(" ")[2].partition("[")[0] in bad:
            row.clear() if "module" not in row else row.pop("verdict")
    return not bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--modules", nargs="+", default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budgets", type=float, nargs="+", default=[12.0, 40.0, 120.0],
                        help="seconds of tests for one mutant: at first, and then for those that have survived")  # fmt: skip
    parser.add_argument("--durations", type=Path, default=None, help="report of pytest --junitxml")
    parser.add_argument(
        "--stop", type=float, default=float("inf"), help="seconds after which no further mutant is tried"
    )
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--again", action="store_true", help="try a sample's survivors")
    args = parser.parse_args()
    samples: list[dict[str, Any]] = []
    if args.out is not None and args.out.exists():
        samples = json.loads(args.out.read_text())["samples"]
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(Path(temporary, "repository"), durations(args.durations))
        sample = next((s for s in samples if s["seed"] == args.seed), None)
        about = {"commit": commit(), "date": str(datetime.date.today())}  # of what is copied: work may go on meanwhile
        copy_repository(Path(temporary))
        check_copy(bench.copy)
        importers()  # read now, too
        if sample is None:
            found = draw(bench.copy, args.modules or drawn(), args.mutants, args.seed)
            sample = {
                "seed": args.seed,
                **about,
                "wall_s": 0.0,
                "checked": False,
                "mutants": [asdict(m) for m in found],
            }
            samples.append(sample)
        run(bench, sample, args, lambda: save(samples, args))
    verdicts = [row.get("verdict", "untried") for row in sample["mutants"]]
    print(", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in sorted(set(verdicts))))
    return 0


def run(bench: Bench, sample: dict[str, Any], args: argparse.Namespace, save: Callable[[], None]) -> None:
    """Try the mutants of a sample that have not been tried, or its survivors."""
    start, before = time.monotonic(), sample["wall_s"]
    if args.again:
        begin_again(sample, max(args.budgets))
    for budget_s in args.budgets:
        for row in sample["mutants"]:
            if "again" in row and not args.again:
                continue  # there may be tests now that were written for it
            into = row.get("again") if args.again else row
            if into is None or into.get("verdict") in ("killed", "gone") or into.get("budget_s", 0.0) >= budget_s:
                continue
            if time.monotonic() - start > args.stop:
                return
            mutant = located(bench.copy, row)
            passed_s = into.get("budget_s", 0.0)
            gone = {"verdict": "gone", "by": "", "seconds": 0.0}
            into |= tried(bench, mutant, budget_s, passed_s) if mutant else gone
            sample |= {"wall_s": round(before + time.monotonic() - start, 1), "checked": False}
            save()
    if not sample["checked"] and time.monotonic() - start <= args.stop:
        sample["checked"] = check_tests(bench, [row.get("again", row) for row in sample["mutants"]])
        save()


def begin_again(sample: dict[str, Any], budget_s: float) -> None:
    """Let survivors that are not equivalent be tried with the tests of now, or go on with a round of that which was stopped."""
    left = [row for row in sample["mutants"] if row.get("verdict") == "survived" and not row.get("equivalent")]
    open_ = [row for row in left if row.get("again", {}).get("verdict", "survived") == "survived"]
    over = all(row.get("again", {}).get("budget_s", 0.0) >= budget_s for row in open_)
    for row in open_:
        row["again"] = {} if over else row.get("again", {})


def save(samples: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Write --out, see tables.py; notes that stand in the file stay."""
    if args.out is None:
        return
    before = json.loads(args.out.read_text()) if args.out.exists() else {}
    titles = {"seed": "sample", "mutants": "mutants", "killed": "noticed", "timeout": "of these by time", "survived": "survive",
              "equivalent": "equivalent", "share": "share of the others", "now": "survive now",
              "share_now": "share now"}  # fmt: skip
    made = {
        "name": "mutation",
        "command": "python benchmarks/mutation.py " + " / ".join(f"--seed {s['seed']}" for s in samples),
        "commit": ", ".join(dict.fromkeys(str(s["commit"]) for s in samples)),
        "machine": machine(),
        "date": samples[-1]["date"],
        "wall_s": round(sum(s["wall_s"] for s in samples), 1),
        "metrics": {
            "seed": "by its seed",
            "killed": "a test near to the module failed, or took three times as much time",
            "survived": "all of these tests passed in spite of the change, when it was drawn",
            "equivalent": "of the survivors, changes that change no result; the reason is in the file",
            "share": "of mutants that are not equivalent, with its 95 % interval (Wilson)",
            "now": "survivors that the tests written for them and for their like do not notice either",
        },
        "columns": [{"key": key, "title": title} for key, title in titles.items()],
        "rows": [row for sample in samples if (row := line(sample))],
        "notes": before.get("notes", ""),
        "samples": samples,
    }
    args.out.write_text(json.dumps(made, indent=1) + "\n")


def line(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample's line of the table: of what has been tried."""
    tried = [row for row in sample["mutants"] if row.get("verdict") in ("killed", "timeout", "survived")]
    if not tried:
        return {}
    survived = [row for row in tried if row["verdict"] == "survived"]
    holes = [row for row in survived if not row.get("equivalent")]
    counted = len(tried) - len(survived) + len(holes)
    now = sum(row.get("again", row).get("verdict", "survived") == "survived" for row in holes)
    return {
        "seed": sample["seed"],
        "mutants": len(tried),
        "killed": len(tried) - len(survived),
        "timeout": sum(row["verdict"] == "timeout" for row in tried),
        "survived": len(survived),
        "equivalent": len(survived) - len(holes),
        "share": share(len(holes), counted),
        "now": now,
        "share_now": share(now, counted),
    }


def share(part: int, of: int) -> str:
    """Such as "5 % (2 to 14)"."""
    low, high = wilson(part, of) if of else (0.0, 1.0)
    return f"{100 * part / max(of, 1):.0f} % ({100 * low:.0f} to {100 * high:.0f})"


if __name__ == "__main__":
    sys.exit(main())

"""Mutation testing: faults put into reward terms, observation terms and learning code, and whether the tests notice.

    python benchmarks/mutation.py [--mutants 60] [--modules tasks/drones/hover.py ...] [--seed 0] [--out FILE]
    python benchmarks/mutation.py --again FILE      # its survivors, with the tests that there are now

Each mutant changes one place of one module (an operator, a sign, a constant, an index, the direction of a comparison, a
function for its opposite) in a copy of the repository, where the module's tests then run until the first failure. A mutant
that no test notices survives. Some are equivalent (another tolerance of a guard against division by zero): look at each.

The places are drawn at random, and so is the order of the modules, which have equal shares. A test that does not end within
--limit seconds has noticed; kernels take up to a minute to compile, so give more than the default to samples of them.
FILE holds every mutant; to one that is equivalent write the reason by hand, as "equivalent".
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import commit, machine
from mutation_tests import compiled, drawn, tests_of

ROOT = Path(__file__).parents[1]
PACKAGES = ("assets", "sim", "robots", "tasks", "policies", "sim2real")
ALARMS = ("tests/tasks/test_reference_rollouts.py", "tests/policies/test_reference_runs.py")
"""Written-down numbers, which take no part."""

OPERATORS: dict[type[ast.AST], ast.AST] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Div(), ast.Div: ast.Mult(), ast.Pow: ast.Mult(),
    ast.FloorDiv: ast.Mult(), ast.Lt: ast.Gt(), ast.Gt: ast.Lt(), ast.LtE: ast.GtE(), ast.GtE: ast.LtE(),
    ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(), ast.And: ast.Or(), ast.Or: ast.And(), ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(), ast.Is: ast.IsNot(), ast.IsNot: ast.Is(),
}  # fmt: skip
SCRIPTS = ("controller", "expert_targets", "markers", "scene", "safety_limits")
"""Functions of tasks that are neither rewards nor observations: their places are left out."""
NAMES = {"sin": "cos", "cos": "sin", "amin": "amax", "amax": "amin", "minimum": "maximum", "maximum": "minimum", "sum": "mean",
         "mean": "sum", "min": "max", "max": "min", "clamp_min": "clamp_max", "terminated": "truncated",
         "truncated": "terminated", "abs": "neg", "square": "abs", "any": "all", "all": "any"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One changed place.

    Args:
        module: path in the repository.
        line: of the place.
        start, stop: its characters in the file.
        old, new: its text before and after.
        text: the first line that it is in.
    """

    module: str
    line: int
    start: int
    stop: int
    old: str
    new: str
    text: str


def mutants(module: str, source: str) -> list[Mutant]:
    """All places of a module's functions that can be changed."""
    tree = ast.parse(source)
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text.encode()))
    raw = source.encode()
    found = []
    for node in (node for function in _functions(tree) for node in _expressions(function)):
        for new in _changes(node):
            start = starts[node.lineno - 1] + node.col_offset
            stop = starts[node.end_lineno - 1] + node.end_col_offset
            old = raw[start:stop].decode()
            text = ast.unparse(ast.fix_missing_locations(new))
            bare = isinstance(new, ast.Constant | ast.Attribute)
            line = source.splitlines()[node.lineno - 1].strip()
            found.append(Mutant(module, node.lineno, start, stop, old, text if bare else f"({text})", line))
    return found


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    """The outermost functions. Numbers outside of them are chosen, such as defaults of configs: nothing says what is right."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child)


def _expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that compute something: no docstrings, annotations, messages, decorators or default arguments."""
    if isinstance(tree, ast.Raise | ast.Assert | ast.arguments | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(tree, ast.FunctionDef) and tree.name in SCRIPTS:
        return
    if (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Name)
        and tree.func.id in ("print", "Term", "isinstance")
    ):
        return
    if isinstance(tree, ast.expr):
        yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(tree, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _expressions(child)


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield ast.BinOp(node.left, OPERATORS[type(node.op)], node.right)  # type: ignore[arg-type]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
        yield ast.Compare(node.left, [OPERATORS[type(node.ops[0])]], node.comparators)  # type: ignore[list-item]
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(OPERATORS[type(node.op)], node.values)  # type: ignore[arg-type]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert | ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield ast.Constant(1.0 if node.value == 0.0 else 1.5 * node.value)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)


def copy_repository(to: Path) -> None:
    """The packages as one importable `rookery`, with the tests and their settings; times of files stay, so that Numba's caches
    hold."""
    shutil.copytree(ROOT / "rookery", to / "rookery")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, to / "rookery" / package)
        (to / package).symlink_to(to / "rookery" / package)
    shutil.copytree(ROOT / "tests", to / "tests")
    shutil.copytree(ROOT / "docs" / "examples", to / "docs" / "examples")
    shutil.copy(ROOT / "pyproject.toml", to)


def notice(copy: Path, tests: tuple[str, ...], limit_s: float, cache: str = "") -> str | None:
    """The test that fails, "time" for one that does not end, None where all pass.

    Args:
        copy: of the repository.
        tests: files.
        limit_s: for all of them.
        cache: folder in which Numba keeps what it compiles, in place of the copy's.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow",
               *(f"--ignore={alarm}" for alarm in ALARMS), *(t for t in tests if t not in ALARMS)]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    if cache:
        environment["NUMBA_CACHE_DIR"] = cache
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "time"
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else done.stdout[-200:] + done.stderr[-200:]


def draw(copy: Path, modules: list[str], count: int, seed: int) -> list[Mutant]:
    """`count` mutants of a copy of the repository, modules having equal shares."""
    chance = random.Random(seed)
    modules = chance.sample(modules, len(modules))
    by_module = {m: mutants(m, (copy / m).read_text()) for m in modules}
    for found in by_module.values():
        chance.shuffle(found)
    turns = [m for k in range(count) for m in modules if k < len(by_module[m])]
    used: dict[str, int] = dict.fromkeys(modules, 0)
    drawn = []
    for module in turns[:count]:
        drawn.append(by_module[module][used[module]])
        used[module] += 1
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--modules", nargs="+", default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for the tests of one mutant")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--again", type=Path, default=None, help="a file of --out, whose survivors are tried")
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    if args.again is not None:
        args.out = args.again
        rows = json.loads(args.again.read_text())["mutants"]
    args.about = {"commit": commit(), "machine": machine()}  # of what is copied: work may go on meanwhile
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        copy_repository(copy)
        if args.again is not None:
            run_again(copy, rows, args.limit)
        else:
            for mutant in draw(copy, args.modules or drawn(), args.mutants, args.seed):
                rows.append(asdict(mutant) | {"noticed": tried(copy, mutant, args.limit)})
                save(rows, args, time.monotonic() - start)
        save(rows, args, time.monotonic() - start)
        check_tests(copy, rows, 10 * args.limit)
    survivors = sum(row.get("again", row["noticed"]) is None for row in rows)
    print(f"{survivors} of {len(rows)} mutants survive")
    return 0


def check_tests(copy: Path, rows: list[dict[str, object]], limit_s: float) -> None:
    """Refuse a sample in which a test noticed that fails without any mutant, too."""
    noticed = [str(row.get("again", row["noticed"])) for row in rows]
    tests = [text.split(" ", 1)[1].partition("[")[0] for text in noticed if text.startswith(("FAILED ", "ERROR "))]
    if tests and (failed := notice(copy, tuple(dict.fromkeys(tests)), limit_s)) is not None:
        raise SystemExit(f"tests fail without any mutant, and so count for nothing: {failed}")


def tried(copy: Path, mutant: Mutant, limit_s: float) -> str | None:
    """Put a mutant into the copy, run its tests, take it out; see `notice`."""
    file = copy / "rookery" / mutant.module
    original = file.read_bytes()
    kept = file.stat()
    file.write_bytes(original[: mutant.start] + mutant.new.encode() + original[mutant.stop :])
    with tempfile.TemporaryDirectory() as folder:  # other kernels are compiled with the mutated one inside
        noticed = notice(copy, tests_of(mutant.module), limit_s, folder if compiled(mutant.module) else "")
    file.write_bytes(original)
    os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    print(f"{mutant.module}:{mutant.line} {mutant.old!r} -> {mutant.new!r}: {noticed or 'SURVIVES'}", flush=True)
    return noticed


def run_again(copy: Path, rows: list[dict[str, object]], limit_s: float) -> None:
    """Set "again" of the survivors among `rows`: as "noticed", or that the code is no longer there."""
    for row in rows:
        if row["noticed"] is not None:
            continue
        module, line = str(row["module"]), int(str(row["line"]))
        now = mutants(module, (copy / module).read_text())
        same = [m for m in now if (m.old, m.new, m.text) == (row["old"], row["new"], row["text"])]
        nearest = min(same, key=lambda m: abs(m.line - line), default=None)
        row["again"] = "the code is gone" if nearest is None else tried(copy, nearest, limit_s)


def save(rows: list[dict[str, object]], args: argparse.Namespace, wall_s: float) -> None:
    """Write --out; a run of survivors keeps what the file says of the first run."""
    if args.out is None:
        return
    made = result(rows, args, wall_s)
    if args.again is not None:
        first = json.loads(args.again.read_text())
        made |= {key: first[key] for key in ("command", "commit", "date", "wall_s")}
    args.out.write_text(json.dumps(made, indent=1) + "\n")


def result(rows: list[dict[str, object]], args: argparse.Namespace, wall_s: float) -> dict[str, object]:
    """What goes to --out, see tables.py."""
    groups = {"tasks": "tasks: terms of reward and observation", "sim": "environments", "policies": "learning"}
    table = []
    counted = {
        "mutants": lambda row: True,
        "survive": lambda row: row["noticed"] is None,
        "again": lambda row: row.get("again", row["noticed"]) is None,
        "equivalent": lambda row: bool(row.get("equivalent")),
    }
    for package, title in groups.items():
        mine = [row for row in rows if str(row["module"]).startswith(f"{package}/")]
        table.append({"code": title, **{key: sum(map(holds, mine)) for key, holds in counted.items()}})
    total = {"code": "all", **{key: sum(int(row[key]) for row in table) for key in counted}}
    titles = {"code": "code", **dict(zip(counted, ("mutants", "survive", "survive now", "equivalent"), strict=True))}
    return {
        "name": "mutation",
        "command": f"python benchmarks/mutation.py --mutants {args.mutants} --seed {args.seed}"
        + (f" --modules {' '.join(args.modules)}" if args.modules else ""),
        **args.about,
        "date": str(datetime.date.today()),
        "wall_s": round(wall_s, 1),
        "metrics": {
            "survive": "the related tests passed in spite of the change when it was drawn",
            "again": "they still do with the tests that were written for survivors",
            "equivalent": "of those that survived at first, changes that change no number; the reason is in the file",
        },
        "columns": [{"key": key, "title": title} for key, title in titles.items()],
        "rows": [*table, total],
        "mutants": rows,
    }


if __name__ == "__main__":
    sys.exit(main())

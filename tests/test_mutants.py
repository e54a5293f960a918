"""Faults that benchmarks/mutation.py draws: every kind of them, each a program, and none in what is only said."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


SOURCE = '''
LIMIT = 3 + 1

def f(self, x: "a - b" = 1 + 1) -> "a * b":
    """Text with a - b."""
    if x is None or not x:
        raise ValueError(f"{x + 1} is wrong" + " - no")
    self.total = self.total + x[1]
    self.note(x)
    for i in range(3):
        x = min(x, i) if i <= 2 else -x
    return x.sum() < 2 - (x).any()

def __repr__(self):
    return "a" if self.x > 1 else "b"
'''
EXPECTED = {
    ("x is None or not x", "(x is None and (not x))"), ("x is None or not x", "True"), ("x is None or not x", "False"),
    ("x is None", "(x is not None)"), ("not x", "(x)"), ("self.total = self.total + x[1]", "pass"),
    ("self.total + x[1]", "(self.total - x[1])"), ("1", "2"), ("self.note(x)", "pass"), ("3", "4"), ("2", "3"),
    ("min(x, i) if i <= 2 else -x", "(min(x, i))"), ("min(x, i) if i <= 2 else -x", "(-x)"), ("min(x, i)", "max(x, i)"),
    ("i <= 2", "(i > 2)"), ("i <= 2", "(i < 2)"), ("-x", "(x)"), ("x.sum", "x.mean"), ("(x).any", "x.all"),
    ("x.sum() < 2 - (x).any()", "(x.sum() >= 2 - x.any())"), ("x.sum() < 2 - (x).any()", "(x.sum() <= 2 - x.any())"),
    ("x.sum() < 2 - (x).any()", "(not (x.sum() < 2 - x.any()))"), ("2 - (x).any()", "(2 + x.any())"),
}  # fmt: skip


def test_every_kind_of_fault_is_drawn_and_nothing_else():
    from mutants import mutants

    found = mutants("some.py", SOURCE)
    assert {(m.old, m.new) for m in found} == EXPECTED
    raw = SOURCE.encode()
    for m in found:
        assert raw[m.start : m.stop].decode() == m.old
        changed = (raw[: m.start] + m.new.encode() + raw[m.stop :]).decode()
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))


@pytest.mark.slow
def test_tests_are_found_by_what_they_import_and_name():
    from mutation_tests import distances, tests_of

    near = distances("sim2real/gate/intervals.py")
    assert near["tests/sim2real/gate/test_intervals.py"] == 1 and near["sim2real/gate/trials.py"] == 1
    assert distances("tasks/drones/land.py")["tests/tasks/test_land.py"] == 1  # it names the task
    first = tests_of("sim2real/gate/intervals.py", {}, 20.0)
    assert first[0] == "tests/sim2real/gate/test_intervals.py" and len(first) == 4
    engine = distances("sim/engines/rotor/world.py")
    assert "tests/tasks/test_hover.py" in engine, "by the names of registries, too"


@pytest.mark.slow
def test_alarms_judge_no_mutant():
    from mutation_tests import ALARMS, tests_of

    assert all((ROOT / alarm).exists() for alarm in ALARMS)
    assert not set(ALARMS) & set(tests_of("tasks/drones/hover.py", {}, 1e6))

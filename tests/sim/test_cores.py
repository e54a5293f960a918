"""How many processors a process may use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rookery.scaling.measure import at_most
from rookery.sim.cores import limit_cores, usable_cores


def test_a_process_on_one_processor_has_one():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from rookery.sim.cores import usable_cores; print(usable_cores(), os.cpu_count())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out[0] == "1"


def test_a_limit_ends_with_what_asked_for_it():
    before = limit_cores(0)
    try:
        for limit in (0, 1):
            limit_cores(limit)
            with at_most(1):
                assert usable_cores() == 1
            assert limit_cores(limit) == limit
    finally:
        limit_cores(before)


def test_where_the_system_does_not_tell_it_is_all(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert usable_cores() == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


@pytest.mark.slow
def test_environments_are_made_where_the_system_does_not_tell():
    """As on macOS."""
    code = (
        "import os; del os.sched_getaffinity\n"
        "import rookery\n"
        "for engine in ('rotor', 'mujoco', 'pybullet'): rookery.make('drone-hover', 2, engine=engine).reset(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

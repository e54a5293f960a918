"""The compiled code is as exact for other processors as for this one: the tests of bits, run again for another target.

Vector width and fused instructions differ between targets, and with them how a loop is split into vector code and a scalar
remainder. Defects of that kind show on some processors only. The target is without fused instructions, which processors of
today have, the one that runs the tests among them.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
SELECTED = [
    "sim/engines/rotor/test_threads.py::test_each_world_is_computed_alike_in_any_number_of_worlds",
    "sim/engines/rotor/test_threads.py::test_a_world_does_not_depend_on_how_many_there_are",
    "sim/engines/rotor/test_threads.py::test_the_bits_do_not_depend_on_threads",
    "tasks/test_drone_kernels.py::test_each_world_is_computed_alike_in_any_number_of_worlds",
]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the targets are x86-64 processors")
@pytest.mark.parametrize("target", ["generic"])
def test_bits_on_another_target(target, tmp_path):
    here = Path(__file__).parent
    env = {**os.environ, "NUMBA_CPU_NAME": target, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(TESTS / name) for name in SELECTED),
    ]
    run = subprocess.run(command, env=env, cwd=here, capture_output=True, text=True, check=False)
    if run.returncode == -signal.SIGILL:
        pytest.skip(f"this processor lacks instructions of the target {target}")
    assert run.returncode == 0, run.stdout + run.stderr
    assert any(tmp_path.rglob("*.nbc")), "nothing was compiled for the target"

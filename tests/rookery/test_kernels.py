"""Kernels are compiled ahead for every task, and a command that compiles says so, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.kernels import LEARNING_NOTICE, NOTICE, cases
from rookery.robots.drones.drone import LEVELS
from rookery.tasks.registry import OWN_TASKS, find

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """
from numba import njit
@njit(cache=True)
def twice(x):
    return 2 * x
@njit(cache=True)
def thrice(x):
    return 3 * x
"""


def test_every_task_engine_and_action_kind_is_compiled_for():
    listed = list(cases())
    assert {c.task for c in listed} == {name for name in OWN_TASKS if not find(name).members}
    assert {c.engine for c in listed if c.task == "drone-hover"} == {None, "mujoco", "pybullet"}
    assert {c.randomize for c in listed} == {"none", "default", "all"}
    for engine in (None, "mujoco"):
        actions = {c.config.get("action") for c in listed if c.task == "drone-hover" and c.engine == engine}
        assert set(LEVELS) <= actions


@pytest.mark.slow
def test_the_kernels_of_the_gradient_steps_are_announced_too(tmp_path):
    """They are compiled long after those of the simulation, whose notice is forgotten by then."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = (
        "from rookery.kernels import announce_compiling; announce_compiling(); import kernel, numpy; kernel.twice(3);"
        "from rookery.policies.nn.elementwise import activate; activate(numpy.ones(3, numpy.float32), 0);"
        "activate(numpy.ones(3), 0); kernel.thrice(3)"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    assert said == [f"{NOTICE}\n{LEARNING_NOTICE}\n", ""]


@pytest.mark.slow
def test_compiling_is_announced_once_and_a_cached_kernel_is_not(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = "from rookery.kernels import announce_compiling as a; a(); a(); import kernel; kernel.twice(3), kernel.thrice(3)"
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    assert said == [NOTICE + "\n", ""]


def compile_all() -> int:
    """How many kernels a process of its own had to compile."""
    command = [sys.executable, "-m", "rookery", "doctor", "--compile", "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)["compiled"]


@pytest.mark.slow
def test_nothing_is_left_to_compile_after_compile_all():
    """A process finds every kernel in the caches, also those of a training with other sizes: at once where `make install` has
    filled them, else the second time."""
    assert compile_all() == 0 or compile_all() == 0


@pytest.mark.slow
def test_a_long_compilation_says_how_far_it_is(tmp_path):
    """A line at the beginning of each function here, as none is too soon after the last."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = (
        "from rookery import kernels; kernels.PROGRESS_S = 0.0; kernels.announce_compiling();"
        "import kernel; kernel.twice(3), kernel.thrice(3)"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stderr
    assert said.splitlines() == [NOTICE, "rookery: functions compiled so far: 1"]

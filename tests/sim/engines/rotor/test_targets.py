"""Compiled code does the same on other processors as on this one: its tests run again, compiled for another target.

Vector width and fused instructions differ between targets, and with them how a loop is split into vector code and a scalar
remainder, tile sizes, and how a sum is rounded. Defects of that kind show on some processors only. NumPy's and PyTorch's own
kernels are held to the same instructions.
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
FUSED_AND_WIDE = ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd")
TARGETS = {
    "generic": {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default",
                "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "haswell": {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2",
                "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
}  # fmt: skip
"""Any x86-64, and AVX2 without AVX-512."""
COMPILED = (
    "sim/engines/rotor/test_threads.py", "sim/engines/test_engines_agree.py", "sim/randomization", "sim/envs/test_vec_env.py",
    "sim/envs/test_observation.py", "robots/test_kernels.py", "tasks/test_drone_kernels.py",
    "tasks/test_reference_rollouts.py", "policies/nn", "policies/algorithms/test_ppo_compiled.py",
    "policies/algorithms/test_sac_compiled.py", "policies/test_reference_runs.py",
)  # fmt: skip
"""Tests of functions that Numba compiles, and the alarms, which compare numbers of another processor."""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the targets are x86-64 processors")
@pytest.mark.parametrize("target", TARGETS)
def test_compiled_code_on_another_target(target, tmp_path):
    env = {**os.environ, **TARGETS[target], "NUMBA_CACHE_DIR": str(tmp_path)}
    if target == "haswell":
        env["NUMBA_CPU_FEATURES"] = "+avx,+avx2,+fma,+bmi,+bmi2,+sse4.2,+popcnt," + ",".join(
            f"-{f}" for f in FUSED_AND_WIDE
        )
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
    command += [str(TESTS / name) for name in COMPILED]
    run = subprocess.run(command, env=env, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    if run.returncode == -signal.SIGILL:
        pytest.skip(f"this processor lacks instructions of the target {target}")
    assert run.returncode == 0, run.stdout + run.stderr
    assert any(tmp_path.rglob("*.nbc")), "nothing was compiled for the target"

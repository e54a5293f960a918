"""The `rotor` engine on a GPU, as far as a machine without one can tell: under Numba's simulator it does what the CPU does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rotor_scenes import scene

from rookery.sim.errors import RookeryError
from rookery.sim.rotor import cuda_world, device_rows, rows
from rookery.sim.rotor.layout import LANES

TWIN = Path(__file__).parent / "cuda_twin.py"
GPU = torch.cuda.is_available()


MOVED = {
    "free": ("bodies", "gust", "memory", "force", "control", "mass", "moments"),
    "volleybots": ("bodies", "force", "speed", "wake", "impulse", "when"),
    "gym-pybullet-drones": ("bodies", "force", "speed", "wake", "impulse", "when"),
    "realistic": ("bodies", "force", "speed", "wake", "impulse", "when"),
    "ball": ("bodies", "state", "impulse", "when", "failures"),
}
"""What a case moves, by case."""


@pytest.fixture(scope="module")
def beside() -> dict[str, dict[str, dict[str, float]]]:
    """Greatest differences between CPU and simulated GPU, over 1 + |value|, and greatest values, by case and name."""
    done = subprocess.run(
        [sys.executable, str(TWIN), *MOVED], capture_output=True, text=True, check=False,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", MOVED)
def test_a_thread_for_each_world_gives_the_states_of_the_cpu(case, beside):
    found = beside[case]
    assert max(found["apart"].values()) < 1e-6, found["apart"]
    assert all(found["largest"][name] > 0.0 for name in MOVED[case]), found["largest"]


@pytest.mark.skipif(GPU, reason="has a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(RookeryError, match="use device='cpu'"):
        cuda_world.CudaWorld(scene(), 1)


def test_rows_by_torch_are_those_of_the_compiled_loops():
    n, blocks, generator = 19, 2, np.random.default_rng(0)
    members, ids = np.array([2, 0]), np.array([0, 5, 16, 18])
    lanes = generator.normal(size=(blocks, 3, 39 * LANES))
    one, other = lanes.copy(), torch.from_numpy(lanes.copy())
    fields, states = generator.normal(size=(4, 2, 5)), generator.normal(size=(4, 2, 13))
    rows.scatter(one, members, 7, ids, fields)
    device_rows.scatter(other, members, 7, ids, fields)
    rows.put_state(one, members, ids, states)
    device_rows.put_state(other, members, ids, torch.from_numpy(states))
    np.testing.assert_allclose(other.numpy(), one, rtol=1e-14)
    assert not np.array_equal(one, lanes)
    a, b = np.zeros((n, 2, 6)), torch.zeros(n, 2, 6, dtype=torch.float64)
    rows.gather(one, members, 5, a)
    device_rows.gather(other, members, 5, b)
    np.testing.assert_allclose(b.numpy(), a, rtol=1e-14)
    np.testing.assert_array_equal(a[17, 0], one[1, 2, 5 * LANES + 1 :: LANES][:6])


@pytest.mark.parametrize("what", ["state", "motors"])
def test_rows_by_torch_find_the_worlds_that_diverged(what):
    lanes = np.zeros((2, 3, 39 * LANES))
    if what == "state":
        lanes[1, 2, 4 * LANES + 1], lanes[0, 0, 3] = np.nan, 2e7
    else:  # a ball has no motors
        lanes[1, 1, 35 * LANES + 1] = lanes[0, 0, 34 * LANES + 3] = lanes[0, 2, 34 * LANES] = np.nan
    a, b = np.zeros(19, bool), torch.zeros(19, dtype=torch.bool)
    assert rows.diverged(lanes, 2, 1e7, a)
    assert device_rows.diverged(torch.from_numpy(lanes), 2, 1e7, b)
    assert b.tolist() == a.tolist()
    assert np.flatnonzero(a).tolist() == [3, 17]

"""Settings of all tests: threads, random examples, and a folder of its own for every run of the command line."""

from __future__ import annotations

import os

# Under xdist the workers share the cores: one computing thread each, or they wait for one another. Set before torch and
# NumPy are imported, here and in the processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import pytest
from hypothesis import settings

# The same examples at every run, and no deadline: a loaded machine is no bug.
settings.register_profile("rookery", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("rookery")


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    """Run the test in an empty folder; gives that folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

"""Settings of all tests: threads, random examples, and a folder of its own for every run of the command line."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "shared"))  # helpers of tests in several folders

# Tests start some 200 processes. Where a container sets this variable, each would compile our modules again, 0.4 s of the 2 s
# that a short command computes, and every run would rewrite the assertions of all tests, 12 s.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# Set before torch and NumPy are imported, here and in the processes that tests start. Threads without work sleep, as `import
# rookery` has it where torch comes later: on busy cores 100 steps of 16 worlds of go2arm-reach took 5 s of computing while they
# spun and 0.3 s while they slept. Under xdist the workers share the cores: one computing thread each.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

# A shell's background job ignores Ctrl-C, one under nohup a hang-up, and so would what they start: tests that send them would
# wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What trainings remember of the user's tasks is not the user's here.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="rookery-tests-")

import pytest
from hypothesis import settings
from skips import refused

# The same examples at every run, and no deadline: a loaded machine is no bug.
settings.register_profile("rookery", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("quick", settings.get_profile("rookery"), max_examples=30)
settings.load_profile("rookery")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Fewer random examples in `make test`; `make test-all` tries hypothesis' own hundred."""
    if config.getoption("markexpr") == "not slow":
        settings.load_profile("quick")


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    """Run the test in an empty folder; gives that folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Let a report of a skip fail where nothing may be skipped for want of what can be installed."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if reason and not hasattr(report, "wasxfail") and (why := refused(reason)):
        report.outcome = "failed"
        report.longrepr = why


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report


LONGEST = (
    "test_docs.py",
    "test_benchmark_scripts.py",
    "test_targets.py",
    "test_training_crashes.py",
    "test_recipes.py",
)
"""Files whose tests take up to a minute: they come first, so that at the end of a run no worker waits for one of them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the garbage collector, which takes a fifth of the time and finds nothing. It looks at none of that later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)

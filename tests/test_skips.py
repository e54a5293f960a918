"""A test that is skipped for want of something that can be installed has failed where CI=true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODULE = """
import pytest

def test_peer():
    pytest.importorskip("no_such_trainer", reason="the extra `trainers` is not installed")

@pytest.mark.skipif(True, reason="there is a CUDA device")
def test_without_a_gpu(): ...

def test_passes(): ...
"""
WHOLE = 'import pytest\npytest.importorskip("no_such_trainer", reason="the extra `trainers` is not installed")\n'


@pytest.mark.parametrize(("ci", "outcome"), [("true", (1, 1, 1, 1)), ("", (0, 0, 1, 3))])
def test_what_cannot_be_skipped_fails(ci, outcome, tmp_path):
    """Failed, errors of collection, passed, skipped."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "skips.py").write_text((ROOT / "tests" / "shared" / "skips.py").read_text())
    (tmp_path / "test_some.py").write_text(MODULE)
    (tmp_path / "test_whole.py").write_text(WHOLE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", "."]
    env = {**os.environ, "CI": ci}
    said = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False).stdout
    counts = [said.count(f"\n{word} ") for word in ("FAILED", "ERROR")]
    summary = said.splitlines()[-1]
    assert counts == list(outcome[:2]), said
    assert f"{outcome[2]} passed" in summary and f"{outcome[3]} skipped" in summary

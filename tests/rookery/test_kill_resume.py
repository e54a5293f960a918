"""Trainings that are killed at random moments and resumed end with the same bits (see benchmarks/kill_resume.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_resume.py"


SLOW = (
    "sac", "sac-demonstrations", "sac-gru", "dagger", "dagger-gru", "dagger-MT10", "bc", "ppo-skills", "ppo-skills-by-turns",
    "ppo-shards", "ppo-viewer",
)  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "moments"), [("ppo", 1), *(pytest.param(a, 2, marks=pytest.mark.slow) for a in ("ppo", *SLOW))]
)
def test_killed_and_resumed_it_ends_with_the_same_bits(algorithm: str, moments: int, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, str(SCRIPT), "--moments", str(moments), "--algorithms", algorithm, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert row["algorithm"] == algorithm and row["kills"] == row["equal"] == moments
    assert row["tensors"] >= 17 and all(moment["differences"] == [] for moment in row["moments"])
    if algorithm == "ppo-viewer":
        assert all(moment["page_bytes"] >= 100_000 and moment["viewer_ended"] for moment in row["moments"])

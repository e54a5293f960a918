"""The scripts of docs/other_libraries.md run, are short, and take the library's own trainer."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


@pytest.mark.parametrize(
    ("name", "amount", "trainer"),
    [
        ("rsl_rl", 1, "OnPolicyRunner"),
        ("sb3", 16384, "model.learn"),
        ("skrl", 32, "SequentialTrainer"),
        ("torchrl", 1, "ClipPPOLoss"),
    ],
)
def test_script_runs(name, amount, trainer, in_tmp, monkeypatch, capsys):
    script = EXAMPLES / f"hover_{name}.py"
    body = script.read_text().split('"""', 2)[2]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 30
    assert trainer in body
    # the same script with a few worlds: what is tested is that all its parts fit
    small = in_tmp / script.name
    small.write_text(body.replace("512", "64").replace("16384", "2048").replace("128", "8"))
    monkeypatch.setattr(sys, "argv", [script.name, str(amount // 8 if name == "sb3" else amount)])
    runpy.run_path(str(small), run_name="__main__")
    assert re.search(r"^success [01]\.\d+$", capsys.readouterr().out, re.MULTILINE)

"""The scripts of docs/other_libraries.md run, are short, and take the library's own trainer."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from rookery.cli.main import main

pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")

DOCS = Path(__file__).resolve().parents[3] / "docs"
EXAMPLES = DOCS / "examples"
PAGE = (DOCS / "other_libraries.md").read_text()


@pytest.mark.parametrize(
    ("name", "amount", "trainer"),
    [
        ("rsl_rl", 1, "OnPolicyRunner"),
        ("sb3", 16384, "model.learn"),
        ("skrl", 32, "SequentialTrainer"),
        ("torchrl", 1, "ClipPPOLoss"),
        ("rl_games", 1, "runner.run"),
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
    if name in ("torchrl", "rl_games"):
        return
    # the page goes on from the file that the script has saved
    assert f"python docs/examples/{script.name}" in PAGE
    (out,) = re.findall(rf"^\$ rookery import hover_{name}\.\w+ .*--out (\S+)$", PAGE, re.MULTILINE)
    lines = [line[2:].split() for line in PAGE.splitlines() if line.startswith("$ rookery ") and out in line.split()]
    assert lines[0][1] == "import"
    for _, command, *words in lines:
        few = ["--episodes", "8", "--num-envs", "8"] if command == "eval" else []
        assert main([command, *words, *few]) == 0
    assert (in_tmp / out / "policy.safetensors").is_file()

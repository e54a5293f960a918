"""The scripts of docs/other_libraries.md run, are short, and take the library's own trainer."""

from __future__ import annotations

import atexit
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


def run_small(script: Path, amount: int, trainer: str, folder: Path, monkeypatch, capsys) -> None:
    """A script is short, takes this trainer, and runs with a few worlds: what is tested is that all its parts fit."""
    body = script.read_text().split('"""', 2)[2]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 30
    assert trainer in body
    small = folder / script.name
    small.write_text(body.replace("512", "64").replace("16384", "2048").replace("128", "8"))
    monkeypatch.setattr(sys, "argv", [script.name, str(amount)])
    monkeypatch.setattr(
        atexit, "register", lambda function: function
    )  # skrl would log after pytest has closed its streams
    runpy.run_path(str(small), run_name="__main__")
    assert re.search(r"^success [01]\.\d+$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "amount", "trainer"),
    [
        pytest.param("skrl_ippo", 32, "SequentialTrainer", marks=pytest.mark.slow),
        ("skrl_mappo", 32, "SequentialTrainer"),
        ("torchrl", 1, "ClipPPOLoss"),
        ("pettingzoo", 20, "ParallelEnv"),
    ],
)
def test_script_with_several_agents_runs(name, amount, trainer, in_tmp, monkeypatch, capsys):
    script = EXAMPLES / f"surround_{name}.py"
    run_small(script, amount, trainer, in_tmp, monkeypatch, capsys)
    assert f"python docs/examples/{script.name}" in PAGE


@pytest.mark.parametrize(
    ("name", "amount", "trainer"),
    [
        ("rsl_rl", 1, "OnPolicyRunner"),
        ("sb3", 2048, "model.learn"),
        ("skrl", 32, "SequentialTrainer"),
        ("torchrl", 1, "ClipPPOLoss"),
        ("rl_games", 1, "runner.run"),
    ],
)
def test_script_runs(name, amount, trainer, in_tmp, monkeypatch, capsys):
    script = EXAMPLES / f"hover_{name}.py"
    run_small(script, amount, trainer, in_tmp, monkeypatch, capsys)
    if name == "rl_games":  # it names its files by the time
        (file,) = in_tmp.glob("runs/hover_*/nn/*.pth")
        words = ["--activation", "tanh", "--squash", "clip", "--out", "run"]
        assert main(["import", str(file), "drone-hover", *words]) == 0
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

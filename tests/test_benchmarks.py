"""The command lines of benchmarks: what they record, and what they refuse."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rookery.experiments.zoo import zoo
from tests.test_docs import ROOT

BENCHMARKS = ROOT / "benchmarks"
CASES = ("calm", "in the wind")


@pytest.fixture
def result_file(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("result_file")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two policies."""
    for name in ("drone-hover", "drone-track"):
        shutil.copytree(zoo()[name], tmp_path / name)
    return [tmp_path / "drone-hover", tmp_path / "drone-track"]


def measure(
    result_file: ModuleType, monkeypatch: pytest.MonkeyPatch, out: Path, *words: object, commit: str = "a"
) -> int:
    """The exit code of a benchmark whose figure is the number of episodes."""

    def row(run: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
        return {"case": case, "episodes": episodes}

    monkeypatch.setattr(sys, "argv", ["script", *map(str, words), "--out", str(out)])
    monkeypatch.setattr(result_file, "commit", lambda: commit)
    script = BENCHMARKS / "walking.py"
    return int(result_file.measure_cases(script, "", Path("nosuch"), 5, CASES, row, out, [{"key": "case"}], {}))


def test_a_row_keeps_its_command_and_commit(result_file, runs, monkeypatch, tmp_path):
    out = tmp_path / "out.json"
    run = runs[0]
    assert measure(result_file, monkeypatch, out, run) == 0
    whole = f"python benchmarks/walking.py {run} --episodes 5 --seed 0"
    assert json.loads(out.read_text())["command"] == whole
    assert measure(result_file, monkeypatch, out, run, "--only", "in the wind", "--episodes", 7, commit="b") == 0
    got = json.loads(out.read_text())
    again = f"python benchmarks/walking.py {run} --episodes 7 --seed 0 --only 'in the wind'"
    assert (got["command"], got["commit"]) == (f"{whole}; {again}", "a; b")
    assert [(r["episodes"], r["command"], r["commit"]) for r in got["rows"]] == [(5, whole, "a"), (7, again, "b")]
    assert got["wall_s"] == pytest.approx(sum(r["wall_s"] for r in got["rows"]))


def test_rows_of_two_policies_are_refused_in_one_file(result_file, runs, monkeypatch, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert measure(result_file, monkeypatch, out, runs[0]) == 0
    before = out.read_text()
    assert measure(result_file, monkeypatch, out, runs[1], "--only", "calm") == 2
    assert "has rows of another policy, or of one that it does not tell (in the wind)" in capsys.readouterr().err
    assert out.read_text() == before
    assert measure(result_file, monkeypatch, out, runs[1]) == 0
    old = json.loads(out.read_text())
    for row in old["rows"]:
        del row["policy_sha256"]
    out.write_text(json.dumps(old))
    assert measure(result_file, monkeypatch, out, runs[1], "--only", "calm") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("walking.py nosuch", "rookery: there is no folder 'nosuch'"),
        ("contacts.py --legs nosuch", "rookery: there is no folder 'nosuch'"),
        ("contacts.py --legs --starts 3", "--starts has no effect with --legs"),
        ("contacts.py --carried --seed 3", "--seed has no effect with --carried"),
        ("contacts.py --balls --tasks table-push", "--tasks has no effect with --balls"),
        ("contacts.py --limits --tasks table-push", "--tasks has no effect with --limits"),
        ("contacts.py --balls --legs", "not allowed with argument"),
    ],
)
def test_what_a_benchmark_cannot_do_is_one_sentence(words, said, monkeypatch, capsys):
    script, *options = words.split()
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module(script.removesuffix(".py"))
    monkeypatch.setattr(sys, "argv", [script, *options])
    try:
        code = module.main()
    except SystemExit as stop:  # argparse's
        code = stop.code
    assert code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]

"""`rookery gate`: exit codes, files, and errors in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.cli.main import main

QUICK = ["--episodes", "2", "--interval", "0.9", "--rounds", "0", "--combinations", "2"]


def profile(folder: Path, high: float) -> str:
    file = folder / "own.toml"
    file.write_text(
        f'success = 0.9\ncombinations = 0.4\nworst = 0.4\n[factors.mass]\nlow = 1.0\nhigh = {high}\nsource = "a test"\n'
    )
    return str(file)


def test_the_exit_code_is_the_verdict(tmp_path, capsys):
    for high, code in ((1.02, 0), (1.4, 1)):
        out = tmp_path / str(code)
        words = ["--profile", profile(tmp_path, high), "--sweeps-only", "--out", str(out), *QUICK]
        assert main(["gate", "drone-hover", *words, "--json"]) == code
        printed = json.loads(capsys.readouterr().out)
        assert printed == json.loads((out / "gate.json").read_text())
        assert printed["verdict"] == ("fail" if code else "pass") and (out / "gate.html").is_file()
        assert [m["verdict"] for m in printed["margins"] if m["factor"] == "mass"] == ["", printed["verdict"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episodes", "5"], "5 episodes are too few for a 95 % interval of +-0.1"),
        (["--profile", "panda"], "unknown profile 'panda': did you mean 'panda-bench'"),
        (["--rounds", "-1"], "--rounds must be at least 0"),
        (["--engines", "bullet"], "unknown engine of drone-hover 'bullet': did you mean 'pybullet'"),
        (["--checkpoints"], "holds no checkpoints"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, capsys, words, message):
    assert main(["gate", "drone-hover", *words, "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("rookery: ") and message in err

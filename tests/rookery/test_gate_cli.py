"""`rookery gate`: exit codes, files, and errors in one sentence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.experiments.gating import other_engines
from rookery.sim2real.gate.report import Case, Report

LEFT_OUT = ["engine mujoco", "engine pybullet", "physics steps", "exported C"]
QUICK = ["--episodes", "2", "--interval", "0.9", "--rounds", "0", "--combinations", "2"]


def profile(folder: Path, high: float) -> str:
    file = folder / "crazyflie-indoor.toml"  # the name of a profile of the package does not hide that it is none
    file.write_text(
        f'success = 0.9\ncombinations = 0.4\nworst = 0.4\n[factors.mass]\nlow = 1.0\nhigh = {high}\nsource = "a test"\n'
    )
    return str(file)


@pytest.mark.slow
@pytest.mark.parametrize(("high", "code"), [(1.02, 2), (1.4, 1)])
def test_the_exit_code_is_the_verdict(high, code, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["--profile", profile(tmp_path, high), "--sweeps-only", "--out", str(out), *QUICK]
    assert main(["gate", "drone-hover", *words, "--json"]) == code
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "gate.json").read_text())
    assert printed["verdict"] == ("fail" if code == 1 else "incomplete") and (out / "gate.html").is_file()
    assert [m["verdict"] for m in printed["margins"] if m["factor"] == "mass"] == ["", "fail" if code == 1 else "pass"]
    assert printed["profile_sha256"] == hashlib.sha256(Path(words[1]).read_bytes()).hexdigest()
    assert printed["profile"] == words[1] and printed["left_out"] == LEFT_OUT


def test_nothing_passes_of_which_parts_were_left_out_on_request(tmp_path, capsys):
    words = ["--sweeps-only", "--required-only", "--combinations", "0", *QUICK[:6]]
    assert main(["gate", "drone-hover", "--profile", profile(tmp_path, 1.02), *words, "--out", str(tmp_path)]) == 2
    line = capsys.readouterr().out.splitlines()[0]
    assert f"{tmp_path}/crazyflie-indoor.toml, success at least 0.9, 2 episodes at each point: incomplete, " in line
    assert line.endswith(f", left out on request: {', '.join([*LEFT_OUT, 'combinations'])}")
    assert "Left out on request: engine mujoco, " in (tmp_path / "gate.html").read_text()


def test_a_case_that_could_not_be_run_is_no_pass(tmp_path, capsys, monkeypatch):
    """Exit code 2, and the first line and the JSON name the case."""
    cases = [Case("nominal", "pass", 1.0, 0.9, 1.0, 0.9), Case("exported C", "skipped", note="there is no C compiler.")]
    report = Report("drone-hover", "r", "rotor", "p", "s", 64, 0.1, 0, 0.9, cases, [], None, 0.8, 0.5, [], [])
    monkeypatch.setattr("rookery.experiments.gating.gate", lambda *_: report)
    assert main(["gate", "drone-hover", "--out", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == (
        "drone-hover against p, success at least 0.9, 64 episodes at each point: incomplete, score 1.000, not run: exported C"
    )
    assert err.splitlines()[-1] == "rookery: exported C was not run: there is no C compiler."
    assert main(["gate", "drone-hover", "--out", str(tmp_path), "--json"]) == 2
    printed = json.loads(capsys.readouterr().out)
    assert (printed["verdict"], printed["skipped"]) == ("incomplete", ["exported C"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episodes", "5"], "5 episodes are too few for a 95 % interval of +-0.1"),
        (["--profile", "panda"], "unknown profile 'panda': did you mean 'panda-bench'"),
        (["--rounds", "-1"], "--rounds must be at least 0"),
        (["--engines", "bullet"], "unknown engine of drone-hover 'bullet': did you mean 'pybullet'"),
        (["--engines", "rotor"], "rotor is the engine of drone-hover itself"),
        (["--checkpoints"], "holds no checkpoints"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, capsys, words, message):
    assert main(["gate", "drone-hover", *words, "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("rookery: ") and message in err


def test_a_set_of_tasks_is_refused(tmp_path, capsys):
    assert main(["gate", "MT10", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "rookery: MT10 is a set of tasks: the gate takes policies of a single task."
    )


def test_engines_besides_the_tasks_own():
    assert other_engines("drone-hover") == ("mujoco", "pybullet")
    assert (
        other_engines("drone-hover", ("pybullet",)) == ("pybullet",) and other_engines("drone-hover", ("none",)) == ()
    )


@pytest.mark.slow
def test_checkpoints_of_a_run_are_scored(tmp_path, capsys):
    """Of a training with a curriculum, whose checkpoints' settings alone make no environment without randomization."""
    run = tmp_path / "run"
    words = ["--num-envs", "8", "--rollout-steps", "16", "--hidden", "8", "--checkpoint-every", "1", "--steps", "256"]
    words += ["--randomize", "default", "--randomize-curriculum"]
    assert main(["train", "drone-hover", "--out", str(run), *words]) == 0
    capsys.readouterr()
    options = ["--profile", profile(tmp_path, 1.02), "--out", str(tmp_path / "scores"), *QUICK, "--json"]
    assert main(["gate", str(run), "--checkpoints", *options]) == 1  # nobody hovers after two updates
    rows = json.loads(capsys.readouterr().out)
    assert [r["steps"] for r in rows] == [128, 256] and [r["verdict"] for r in rows] == ["fail", "fail"]
    assert json.loads((tmp_path / "scores" / "checkpoints.json").read_text())["checkpoints"] == rows
    assert main(["gate", str(run), "--checkpoints", *options, "--ray", "local"]) == 1
    assert json.loads(capsys.readouterr().out) == rows

"""Figures, verdicts, films and pictures of the zoo are of its policies of today, and benchmarks/zoo.py knows which are not."""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file, save_file

from rookery.sim.errors import RookeryError
from tests.test_docs import ROOT

ZOO = ROOT / "policies" / "zoo"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ...]:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    names = ("policy_key", "zoo_parts", "zoo_results", "zoo", "zoo_gate")
    return tuple(importlib.import_module(name) for name in names)


def test_nothing_is_older_than_its_policy(modules):
    _, _, results, *_ = modules
    assert results.stale(results.Zoo()) == [], "run `python benchmarks/zoo.py --only` with these policies"


def test_every_policy_has_its_figures_and_every_film_its_policy(modules):
    keys, _, results, *_ = modules
    zoo = results.Zoo()
    assert all({"nominal", "default"} <= set(zoo.parts.get(name, ())) for name in keys.policies())
    videos = {f"videos/{f.name}" for f in (ROOT / "docs" / "videos").iterdir()}
    assert videos == {name for name in zoo.films if name.startswith("videos/")}
    assert all((ROOT / "docs" / name.partition("#")[0]).is_file() for name in zoo.films)
    families = importlib.import_module("zoo_parts").FAMILIES
    shown = (ROOT / "docs" / "site" / "readme_video.py").read_text()
    assert all(f'("{name}", ' in shown for name in families) and shown.count('", ') >= len(families)


def test_weights_are_told_by_their_numbers_and_not_their_names(modules, tmp_path):
    keys = modules[0]
    source = load_file(ZOO / "drone-hover" / "policy.safetensors")
    renamed, other = tmp_path / "renamed", tmp_path / "other"
    for folder in (renamed, other):
        folder.mkdir()
    save_file({f"z.{i}": v for i, v in enumerate(source.values())}, renamed / "policy.safetensors", {"stages": "none"})
    name, value = max(source.items(), key=lambda pair: pair[1].numel())
    changed = value.clone()
    changed.view(-1)[0] = torch.nextafter(changed.view(-1)[0], torch.tensor(9.0))
    save_file(source | {name: changed}, other / "policy.safetensors")
    assert keys.weights(renamed) == keys.weights(ZOO / "drone-hover")
    assert keys.weights(other) != keys.weights(ZOO / "drone-hover") != keys.weights(ZOO / "drone-track")


@pytest.mark.parametrize(
    ("found", "nominal", "film"),
    [
        ({}, "", ""),
        ({"commit": "old"}, "of old", ""),
        ({"policy": "old"}, "of other weights", "of other weights"),
        ({"task": "old"}, "of other files of its task", "of other files of its task"),
    ],
)
def test_what_is_current_is_not_done_again(modules, monkeypatch, found, nominal, film):
    keys, parts, *_ = modules
    monkeypatch.setattr(keys, "code", lambda: "new")
    record = {"key": keys.key("drone-hover") | found}
    told = [parts.why_not_current(parts.Job("drone-hover", part), record) for part in ("nominal", "film")]
    assert told == [nominal, film]
    assert parts.why_not_current(parts.Job("drone-hover", "nominal"), None) == "not done yet"


def test_figures_of_changes_that_are_not_committed_are_never_current(modules, monkeypatch):
    keys, parts, *_ = modules
    monkeypatch.setattr(keys, "code", lambda: "new-dirty")
    record = {"key": keys.key("drone-hover")}
    assert "not committed" in parts.why_not_current(parts.Job("drone-hover", "gate"), record)
    assert parts.why_not_current(parts.Job("drone-hover", "picture"), record) == ""


def test_a_refusal_is_kept_and_another_failure_is_not(modules):
    parts = modules[1]

    def run(words):
        return subprocess.CompletedProcess(words, code, "", "rookery: using it\nrookery: a set of tasks.\n")

    code = 2
    record = parts.do(parts.Job("MT10", "gate"), run, 4, ())
    assert (record["verdict"], record["why"]) == ("not judged", "a set of tasks.")
    code = 1
    with pytest.raises(RuntimeError, match="ended with 1"):
        parts.do(parts.Job("MT10", "gate"), run, 4, ())


def test_rows_are_written_and_read_again(modules, tmp_path):
    keys, parts, results, command, _ = modules
    for folder in ("benchmarks/results", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    zoo = results.Zoo(tmp_path)
    key = keys.key("swarm-surround")
    figures = {"success": 0.5, "metric_name": "success", "metric": 0.5, "length": 7.0, "episodes": 4, "engine": "rotor"}
    job = parts.Job("swarm-surround", "nominal")
    zoo.put(job, figures | {"key": key, "commit": "abc", "wall_s": 8.0})
    zoo.put(parts.Job("swarm-surround", "picture"), {"key": key, "commit": "abc", "wall_s": 4.0})
    zoo.save("command")
    again = results.Zoo(tmp_path)
    assert again.record(job)["success"] == 0.5 and results.stale(again) == []
    (row,) = json.loads((tmp_path / "benchmarks" / "results" / "zoo.json").read_text())["rows"]
    assert (row["nominal"], row["default"], row["gate"]) == (0.5, None, "not judged yet")
    assert set(again.films) == {"images/tasks/swarm-surround.jpg", "images/families.gif#swarm-surround"}
    again.parts["swarm-surround"]["nominal"]["key"]["policy"] = "other"
    assert results.stale(again) == ["swarm-surround nominal"]
    plan = command.planned(again, ["swarm-surround"], ("nominal", "picture"), False)
    assert plan == [(job, 8.0)]


def test_the_gates_reasons(modules):
    gate = modules[4]
    case = {"name": "nominal", "verdict": "pass", "success": 1.0, "required": 0.9, "note": ""}
    margin = {"factor": "mass", "direction": "up", "required": 1.1, "unit": "1", "value": 1.0, "coverage": 0.0}
    report = {
        "cases": [case, case | {"name": "engine mujoco", "verdict": "fail", "success": 0.5}],
        "figures": [
            {"name": "yaw_drift", "value": 0.2, "least": None, "most": 0.05},
            {"name": "crawl", "value": None, "least": None, "most": 0.05},
        ],
        "margins": [margin | {"verdict": "fail"}, margin | {"verdict": "pass"}],
        "combinations": {"success": 0.9, "worst_success": 0.25},
        "required_combinations": 0.8,
        "required_worst": 0.5,
        "verdict": "fail",
    }
    assert gate.why(report) == [
        "mujoco 0.50 of 0.9",
        "yaw_drift 0.2 of at most 0.05",
        "crawl in no episode",
        "mass 1 of 1.1",
        "worst combination 0.25 of 0.5",
    ]
    report["cases"][0] = case | {"verdict": "fail", "success": 0.4}
    assert gate.why(report) == ["nominal success 0.40 of 0.9: nothing else was swept"]


def test_a_stored_policy_names_a_clean_commit(modules, monkeypatch, tmp_path):
    command = modules[3]
    monkeypatch.setattr(command, "ZOO", tmp_path / "zoo")
    (tmp_path / "zoo").mkdir()
    run = Path(shutil.copytree(ZOO / "drone-hover-gru", tmp_path / "run"))
    (run / "checkpoints").mkdir()
    assert command.store(run, "other") == "other"
    kept = {f.name for f in (tmp_path / "zoo" / "other").iterdir()}
    assert kept == {"contract.json", "policy.safetensors", "randomization.toml"}
    contract = json.loads((run / "contract.json").read_text())
    contract["provenance"]["commit"] += "-dirty"
    (run / "contract.json").write_text(json.dumps(contract))
    with pytest.raises(RookeryError, match="without changes"):
        command.store(run, "third")
    assert not (tmp_path / "zoo" / "third").exists()


def test_a_stored_policy_names_files_of_the_repository(modules, monkeypatch, tmp_path):
    command = modules[3]
    monkeypatch.setattr(command, "ZOO", tmp_path / "zoo")
    (tmp_path / "zoo").mkdir()
    run = Path(shutil.copytree(ZOO / "drone-hover-gru", tmp_path / "run"))
    contract = json.loads((run / "contract.json").read_text())
    (tmp_path / "own.toml").write_text("")
    for name, refused in (("policies/recipes/drone-hover.toml", False), (str(tmp_path / "own.toml"), True)):
        contract["provenance"]["files"] = {str(ROOT / name): "0"}
        (run / "contract.json").write_text(json.dumps(contract))
        if refused:
            with pytest.raises(RookeryError, match="which is not in the repository"):
                command.store(run, "refused")
        else:
            assert command.store(run, "kept") == "kept"
    assert not (tmp_path / "zoo" / "refused").exists()


WORK = """
import sys, threading, time
sys.path.insert(0, {benchmarks!r})
import zoo, zoo_parts
from rookery.cli.main import ending_in_order, guarded

class Kept:
    def put(self, job, record):
        print("kept", job, flush=True)
    def save(self, command):
        pass

def do(job, run, episodes, gate):
    seconds = 0.0 if job.policy == "one" else 600.0
    done = run([sys.executable, "-c", f"import os, time; print(os.getpid(), flush=True); time.sleep({{seconds}})"])
    if done.returncode:
        raise RuntimeError("ended")
    return {{"success": 1.0, "wall_s": 0.0}}

zoo.do = do
args = zoo.arguments(["--processes", "2"])
work = zoo.Work(Kept(), [(zoo_parts.Job(name, "gate"), 1.0) for name in ("one", "two", "three", "four")], args)

def watch():
    while len(work.processes) < 3:
        time.sleep(0.01)
    print("pids", *[p.pid for p in work.processes], flush=True)

threading.Thread(target=watch, daemon=True).start()
with ending_in_order():
    code = guarded(work.run)
sys.exit(code)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_zoo_that_is_stopped_ends_its_processes_and_keeps_what_is_done(number, code):
    script = WORK.format(benchmarks=str(ROOT / "benchmarks"))
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    while not lines or not lines[-1].startswith("pids"):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code and "the same command goes on" in err and "Traceback" not in err
    assert "kept one gate" in "".join(lines) + out and "kept two" not in out
    pids = [int(pid) for line in lines for pid in line.split()[1:] if line.startswith("pids")]
    assert len(pids) == 3 and not any(Path(f"/proc/{pid}").exists() for pid in pids)

"""No candidate chooses its own exam: the registered task judges, and what is not as registered is said first."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from sampled import slow_but

from rookery.cli.main import main
from rookery.experiments.gating import gate_policies
from rookery.experiments.judging import interface_of, judging
from rookery.experiments.run_env import make_env
from rookery.experiments.runs import open_run
from rookery.experiments.zoo import zoo
from rookery.making import full_config
from rookery.policies.policy import Policy
from rookery.policies.stages.chain import StageChain
from rookery.policies.stages.controller import ControllerStage
from rookery.policies.stages.module import Module
from rookery.policies.training.store import save_policy
from rookery.sim.errors import RookeryError
from rookery.sim.trust import TRUSTED
from rookery.sim.values import plain
from rookery.sim2real.contract import Contract, Provenance
from rookery.sim2real.gate.gate import Gate, GateSettings
from rookery.sim2real.gate.report import Report
from rookery.sim2real.task_source import task_source
from rookery.tasks.registry import TASKS, find

EASY = {"episode_s": 1.0, "settled_s": 0.2, "success_m": 2.5}
QUICK = ["--episodes", "4", "--interval", "0.5", "--rounds", "0", "--combinations", "0", "--sweeps-only"]
SAID = "trained with episode_s=1 (registered: 10), settled_s=0.2 (registered: 2), success_m=2.5 (registered: 0.05)"


def contract_for(task: str, **config: Any) -> Contract:
    """A contract that names a task and a config, and nothing else that `judging` reads."""
    return Contract(task, 0.01, 0.002, {}, task_config=config)


def with_config(run: Path, **config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policies of a run, and the values of its contract with another task config."""
    policies, contract = open_run(run)
    values = contract.to_json()
    return policies, values | {"task_config": values["task_config"] | config}


def gate_of(run: Path, out: Path, *words: str) -> int:
    profile = out / "own.toml"
    profile.write_text(
        'success = 0.9\ncombinations = 0.8\nworst = 0.5\n[factors.mass]\nlow = 1.0\nhigh = 1.02\nsource = "a test"\n'
    )
    return main(["gate", str(run), "--profile", str(profile), "--out", str(out), *QUICK, *words])


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After one update on an exam of its own, which whoever stays in the air for a second passes."""
    run = tmp_path_factory.mktemp("easy") / "run"
    words = ["--steps", "128", "--num-envs", "8", "--rollout-steps", "16", "--hidden", "8", "--out", str(run)]
    for name, value in EASY.items():
        words += ["--task-config", f"{name}={value}"]
    assert main(["train", "drone-hover", *words]) == 0
    return run


def test_the_gate_refuses_an_untrained_policy_with_an_exam_of_its_own(untrained, tmp_path, capsys):
    """By the registered task it fails; by its own it would succeed, so that the refusal is what stops it."""
    capsys.readouterr()
    assert gate_of(untrained, tmp_path) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines()[0] == f"rookery: {SAID}; judged by the registered drone-hover"
    assert f"the policy was {SAID}" in err.splitlines()[-1] and "--as-registered" in err.splitlines()[-1]
    assert not (tmp_path / "gate.json").exists()
    assert gate_of(untrained, tmp_path, "--as-registered") == 1
    assert capsys.readouterr().out.splitlines()[0] == f"rookery: {SAID}; judged by the registered drone-hover"
    report = json.loads((tmp_path / "gate.json").read_text())
    assert report["judged_by"]["replaced"]["success_m"] == {"value": 2.5, "registered": 0.05}
    assert SAID in report["not_as_registered"][0] and SAID[:30] in (tmp_path / "gate.html").read_text()[:6000].lower()


def test_eval_judges_by_the_registered_task_and_says_first_what_is_not(untrained, capsys):
    capsys.readouterr()
    assert main(["eval", str(untrained), "--episodes", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"rookery: {SAID}; judged by the registered drone-hover"
    assert [line.split()[1] for line in lines if line.startswith("success")] == ["0.0%"]
    easy = [word for name, value in EASY.items() for word in ("--task-config", f"{name}={value}")]
    assert main(["eval", str(untrained), "--episodes", "4", "--json", *easy]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["success_rate"] == 1.0 and result["judged_by"]["replaced"] == {}
    assert {k: v["value"] for k, v in result["judged_by"]["changed"].items()} == EASY
    said = [
        line for line in err.splitlines() if "not as registered, by --task-config: episode_s=1 (registered: 10)" in line
    ]
    assert len(said) == 1


@pytest.mark.slow
def test_a_hover_that_commands_no_roll_and_no_pitch_fails(tmp_path, capsys):
    """Within .4 s nobody falls: the horizon is the registered task's too."""
    for name, config in (("short", {"episode_s": 0.4, "settled_s": 0.2, "success_m": 2.5}), ("whole", {})):
        policies, values = with_config(zoo()["drone-hover"], **config)
        last = [p for p in policies["drone"].parameters() if p.shape[0] == 4][-2:]
        with torch.no_grad():
            for p in last:
                p[1:3] = 0.0
        save_policy(tmp_path / name, policies, values)
    assert gate_of(tmp_path / "short", tmp_path) == 2
    assert gate_of(tmp_path / "short", tmp_path, "--as-registered") == 1
    assert gate_of(tmp_path / "whole", tmp_path) == 1
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "short"), "--episodes", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["success_rate"] < 0.5


def test_the_gate_refuses_a_policy_that_acts_on_what_the_simulation_alone_knows(tmp_path, capsys):
    """The classical controller reads the true state, with no noise and no delay of an observation: it would pass."""
    policies, values = with_config(zoo()["drone-hover"])
    size = policies["drone"].observation_size
    values["groups"]["drone"].pop("stages")
    save_policy(tmp_path / "peeks", {"drone": Policy([ControllerStage(size, 4)])}, values)
    assert gate_of(tmp_path / "peeks", tmp_path) == 2
    assert (
        "a robot can run, and a skill of this policy is the task's classical"
        in capsys.readouterr().err.splitlines()[-1]
    )
    assert main(["eval", str(tmp_path / "peeks"), "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["success_rate"] == 1.0


OF_EACH_FAMILY = (
    "drone-hover-any",
    "swarm-surround",
    "volley-solo-bump",
    "go2-velocity",
    "go2-navigate",
    "panda-lift",
    "MT10",
)


@pytest.mark.parametrize("name", slow_but(OF_EACH_FAMILY, sorted(zoo())))
def test_policies_of_the_zoo_are_judged_in_the_task_that_their_contract_keeps(name):
    """None was trained for an exam of its own; robots, scenes and observations are theirs."""
    _, contract = open_run(zoo()[name])
    judged = judging(contract)
    assert not judged.replaced and not judged.changed
    task = contract.task_id
    assert full_config(task, judged.config) == full_config(task, contract.task_config)


@pytest.mark.slow
def test_a_policy_with_a_robot_of_its_own_passes_and_the_report_names_it(tmp_path, capsys):
    assert gate_of(zoo()["drone-hover-any"], tmp_path, "--json") == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == "rookery: judged with the policy's own drone=hummingbird (registered: crazyflie21)"
    judged = json.loads(out)["judged_by"]
    assert judged["interface"] == {"drone": {"value": "hummingbird", "registered": "crazyflie21"}}
    file = Path(__file__).parents[3] / "tasks" / "drones" / "hover.py"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert judged["source"]["sha256"]["rookery.tasks.drones.hover"] == digest


ATTACKS: list[tuple[str, dict[str, Any]]] = [
    ("drone-hover", {"bounds_m": 1e3}), ("drone-hover", {"dt": 0.01}), ("drone-hover", {"control_dt": 5.0}),
    ("drone-hover", {"start_box_m": 0.0}), ("drone-hover", {"effects": "none"}), ("drone-hover", {"target_box_m": 0.0}),
    ("drone-hover", {"reward": {"alive": 1e3}}), ("drone-formation", {"num_drones": 1}), ("drone-track", {"speed": 0.0}),
    ("drone-track", {"path": "circle"}), ("swarm-surround", {"starts": "published"}), ("drone-navigate", {"rows": 1}),
    ("uav-coverage", {"speed": 500.0}), ("volley-1v1", {"apart_m": 0.1}), ("volley-hit", {"racket_radius_m": 2.0}),
    ("volley-1v1-frozen", {"frozen": "drone-hover"}), ("go2-velocity", {"max_vx": 0.0}),
    ("go2-velocity", {"terrain_level": 0}), ("go2-velocity", {"fall_up": -1.0}), ("go2arm-reach", {"success_m": 9.0}),
    ("go2arm-loco-manipulation", {"tasks": "reach"}), ("go2arm-loco-manipulation", {"library_seed": 3}),
    ("table-push", {"stop_at_success": True}), ("hand-grasp", {"grasp_seed": 5}), ("MT10", {"tasks": ["table-reach"]}),
    ("MT10", {"table-push": {"episode_s": 60.0}}), ("ML10-train", {"hide_goal": False}),
    ("hand-grasp-objects", {"mug": {"object": "ball"}}),
]  # fmt: skip
"""Configs that make a task easier, or another."""


@pytest.mark.parametrize(("task", "config"), ATTACKS)
def test_what_makes_a_task_easier_is_the_registered_one(task, config):
    judged = judging(contract_for(task, **config))
    assert full_config(task, judged.config) == full_config(task, {})
    assert judged.replaced and not judged.interface
    chosen = judging(contract_for(task, **config), config)  # the person who judges asks for it
    assert full_config(task, chosen.config) == full_config(task, config)
    assert chosen.changed and not chosen.replaced


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_policy_brings_its_period_but_not_one_that_skips_the_exam(ratio):
    """The judged seconds are counted at control steps."""
    near, far = (judging(contract_for("drone-hover", control_dt=0.01 * r)) for r in (ratio, ratio**1.5))
    assert near.config == {"control_dt": 0.01 * ratio} and "control_dt" in near.interface
    assert far.config == {} and "control_dt" in far.replaced


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, Mapping):
        return {k: v + 1.0 for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [other(v) for v in value]
    if isinstance(value, (bool, str)):
        return f"{value}x" if isinstance(value, str) else not value
    return value + 1 if isinstance(value, int) else 1.5 * value + 1.0


JUDGED = (
    "dt",
    "episode_s",
    "reward",
    "num_drones",
    "success",
    "start",
    "settle",
    "hold",
    "bounds",
    "fall",
    "push",
    "max_",
)
"""Begins the names of what no task may leave to a policy."""


@pytest.mark.parametrize("task", sorted(t for t in TASKS if not TASKS[t].members))
def test_every_config_value_belongs_to_the_policy_or_is_judged(task):
    """All values changed at once: those of the interface stay the policy's, all others are the registered ones again."""
    entry = find(task)
    cls = entry.load()
    registered = full_config(task, {})
    interface = interface_of(entry)
    assert interface <= set(registered) and "control_dt" in interface
    assert not any(name.startswith(JUDGED) for name in interface)
    assert not interface & {limit for limit, _ in cls.deciding.values()}
    whole = {name: other(value) for name, value in registered.items() if name != "control_dt"}
    judged = judging(contract_for(task, **whole))
    assert judged.config == {name: whole[name] for name in interface - {"control_dt"}}
    assert {name.partition(".")[0] for name in judged.replaced} == set(registered) - interface
    assert {f.name for f in dataclasses.fields(cls.Config)} <= {
        *judged.interface,
        *map(_head, judged.replaced),
        "control_dt",
    }


def _head(name: str) -> str:
    return name.partition(".")[0]


def test_a_new_value_is_judged_until_a_task_says_that_it_belongs_to_a_policy(tmp_path, monkeypatch):
    file = tmp_path / "my_hover.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom rookery.tasks.drones.hover import Hover, HoverConfig\n\n\n"
        "@dataclass(frozen=True)\nclass MyConfig(HoverConfig):\n    patience: float = 1.0\n    paint: str = 'red'\n\n\n"
        "class Mine(Hover):\n    Config = MyConfig\n    interface = ('paint',)\n"
    )
    task = f"{file}:Mine"
    monkeypatch.setenv(TRUSTED, str(file))
    judged = judging(contract_for(task, patience=9.0, paint="blue", drone="iris"))
    assert judged.config == {"paint": "blue", "drone": "iris"} and set(judged.replaced) == {"patience"}
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert judged.lines()[-1] == f"the task is {file}, sha256 {digest}, in no git commit"
    assert judged.source.sha256["my_hover.py"] == digest and "rookery.tasks.drones.hover" in judged.source.sha256


def test_the_report_says_where_the_task_has_changed_since_the_training(tmp_path):
    then = task_source("drone-hover").to_json()
    contract = contract_for("drone-hover")
    known = dataclasses.replace(contract, provenance=Provenance(more={"task_source": then}))
    assert judging(known).outdated == () and judging(contract).outdated == ()
    then["sha256"]["rookery.tasks.drones.hover"] = "0" * 64
    assert judging(known).lines() == ["drone-hover has changed since the training, in rookery.tasks.drones.hover"]


def test_what_all_tasks_of_a_set_have_alike_is_said_once():
    judged = judging(open_run(zoo()["MT10"])[1], {"table-push": {"episode_s": 60.0}})
    assert judged.lines() == [
        "not as registered, by --task-config: table-push.episode_s=60 (registered: 6.25)",
        "judged with the policy's own observation=full (registered: meta_world)",
    ]


def test_the_report_has_the_digest_of_a_robots_file(tmp_path):
    file = tmp_path / "dog.urdf"
    file.write_text("<robot/>")
    judged = judging(contract_for("go2-velocity", robot=str(file), terrain="stairs"))
    assert judged.to_json()["files"] == {"robot": hashlib.sha256(b"<robot/>").hexdigest()}


@pytest.mark.parametrize("named", ["net.py", "rookery.net.py", "rookery.policies.net.py"])
def test_the_report_names_code_that_the_policy_brings(tmp_path, monkeypatch, named):
    """It could read the simulation's true state, and where it has no C the gate compares no export of it. No name of a file,
    given from its folder or in full, makes it pass for a module of Rookery."""
    _, contract = open_run(zoo()["drone-hover"])
    assert judging(contract).lines() == [] and judging(contract).to_json()["own_code"] == {}
    file = tmp_path / named
    file.write_text("nothing runs it\n")
    monkeypatch.chdir(tmp_path)
    for path in (str(file), named):
        chain = StageChain((Module(contract.groups["drone"].stages.inputs, 4, f"{path}:make"),))
        groups = {"drone": dataclasses.replace(contract.groups["drone"], stages=chain)}
        judged = judging(dataclasses.replace(contract, groups=groups))
        assert judged.lines() == [f"the policy runs code from outside of Rookery: {path}:make"]
        assert judged.to_json()["own_code"] == {f"{path}:make": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_the_gate_names_code_of_a_checkpoint_whose_contract_has_no_stages(tmp_path, monkeypatch):
    """Those are of before the training; the policies bring the code all the same."""
    _, contract = open_run(zoo()["drone-hover"])
    file = tmp_path / "net.py"
    file.write_text("import torch\n\n\ndef make(inputs, outputs):\n    return torch.nn.Linear(inputs, outputs)\n")
    chain = StageChain((Module(contract.groups["drone"].stages.inputs, 4, f"{file}:make"),))
    bare = {"drone": dataclasses.replace(contract.groups["drone"], stages=None)}
    report = Report("drone-hover", "", "rotor", "", "", 4, 0.5, 0, 0.9, [], [], None, 0.8, 0.5, [], [])
    monkeypatch.setattr(Gate, "__init__", lambda self, *args: None)
    monkeypatch.setattr(Gate, "run", lambda self, name: report)
    found = gate_policies(
        {"drone": Policy(chain.links)}, dataclasses.replace(contract, groups=bare), None, GateSettings(), "", print
    )
    assert found.not_as_registered == [f"the policy runs code from outside of Rookery: {file}:make"]
    assert [*found.judged_by["own_code"]] == [f"{file}:make"]


def test_what_a_contract_says_does_nothing_to_a_terminal():
    (line,) = judging(contract_for("drone-hover", drone="\x1b[2Jx", success_m=2.5)).lines()[1:]
    assert line.isprintable() and "x1b" in line


def test_a_task_in_a_checkout_has_its_commit(tmp_path):
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True
        ).stdout

    text = "from rookery.tasks.drones.hover import Hover\n\n\nclass {}(Hover):\n    pass\n"
    for name in ("First", "Second"):
        (tmp_path / f"{name.lower()}_task.py").write_text(text.format(name))
    git("init", "-q")
    git("add", "first_task.py")
    git("commit", "-q", "-m", "one")
    head = git("rev-parse", "HEAD").strip()
    assert task_source(f"{tmp_path}/first_task.py:First").commit == head
    assert task_source(f"{tmp_path}/second_task.py:Second").commit is None  # it lies there, and belongs to nothing


def test_noise_and_delays_are_the_tasks_and_what_does_not_fit_is_refused(tmp_path):
    """A contract without noise changes nothing; one with another scale, or a registered value that changes the interface, is
    no policy of the task."""
    _, contract = open_run(zoo()["drone-hover"])
    values = contract.to_json()
    for term in values["groups"]["drone"]["observation"]:
        term |= {"noise": 0.0, "bias": 0.0, "delay": 0.0}
    env = make_env(Contract.from_json(values), 1)
    assert [t.noise for t in env.groups["drone"].observation] == [
        t.noise for t in contract.groups["drone"].spec.observation
    ]
    assert any(t.noise for t in env.groups["drone"].observation)
    env.close()
    values["groups"]["drone"]["observation"][0]["scale"] = 0.01
    with pytest.raises(RookeryError, match=r"observation\[0\].scale"):
        make_env(Contract.from_json(values), 1)
    _, values = with_config(zoo()["drone-hover"], control_dt=0.05)
    with pytest.raises(RookeryError, match=r"trained with control_dt=0.05 .*cannot be judged .*--task-config"):
        make_env(Contract.from_json(values | {"control_dt": 0.05}), 1)


def test_what_was_trained_is_still_to_be_seen():
    """Films and demonstrations are of the training's own task."""
    _, values = with_config(zoo()["drone-hover"], **EASY)
    for as_trained, seconds in ((True, 1.0), (False, 10.0)):
        env = make_env(Contract.from_json(values), 1, as_trained=as_trained)
        assert env.max_episode_steps * env.control_dt == pytest.approx(seconds)
        env.close()
    assert plain(env.task.cfg)["success_m"] == 0.05

"""A high level that decides at events: in the contract, in C and ONNX, before the gate and in the runtime.

`near` of the task here follows from what is measured, and the C finds it out; the `bell` has to be told.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from policies_fake import FakeEnv
from random_policy import random_policy
from ringing import RingingOpener, ringing_env, ringing_policy
from skilled import skilled

import rookery
from rookery.policies.policy import Policy
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.events import falling_below
from rookery.sim.terms import Quantity
from rookery.sim2real.build import build_contract, describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.golden import answers_on, golden_observations
from rookery.sim2real.export.int8 import MOST_DIFFERENCE, rounded
from rookery.sim2real.export.mcu import check_mcu
from rookery.sim2real.gate.gate import Gate, GateSettings
from rookery.sim2real.gate.onnx_answers import onnx_difference
from rookery.sim2real.gate.report import Case
from rookery.sim2real.links.link import Identity
from rookery.sim2real.runtime.checks import check_vehicle
from rookery.sim2real.runtime.controller import Controller

BELL = "event bell"
THREE = {
    "plain": {"policy": "plain", "command": {"speed": [[-1.0, 1.0], 0.3, 0.0]}},
    "again": {"policy": "plain", "finished": "norm(offset) > 2.5"},
    "other": {"policy": "plain", "shift": {"offset": 0.5}},
}
ONE = {"inner": {"policy": "inner", "shift": {"state": 0.3}}}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Policy]:
    env = ringing_env(1)
    policy = ringing_policy(env)
    folder = tmp_path_factory.mktemp("events") / "bundle"
    return export_bundle({"point": policy}, build_contract(env, {"point": policy}), folder), policy


def quantities(env: VecEnv) -> dict[str, np.ndarray]:
    """What the robot of the only world measures, and is told."""
    measured = {name: x[0, 0].numpy().copy() for name, x in env.task.measured()["point"].items()}
    bell = env.latest_events.get("bell", torch.zeros(1))
    return measured | {BELL: bell.float().numpy()}


def follow(controller: Controller, policy: Policy, steps: int = 150) -> tuple[float, set[tuple[bool, bool]]]:
    """The largest difference of the C's commands from those of torch in the task, and the events that there were."""
    env = ringing_env(1)
    act = act_with({"point": policy}, env)
    obs, _ = env.reset(1)
    worst, events = 0.0, set()
    for _ in range(steps):
        if bool(env.episode_start[0]):
            controller.begin()
        elif env.latest_events:
            events.add((bool(env.latest_events["near"][0]), bool(env.latest_events["bell"][0])))
        command = controller.step(quantities(env))
        action = act(obs)
        worst = max(worst, float(np.abs(command - 2.0 * action["point"][0, 0].clamp(-1.0, 1.0).numpy()).max()))
        obs = env.step(action)[0]
    return worst, events


@pytest.mark.slow
def test_the_runtime_decides_when_the_task_does(bundle: tuple[Path, Policy]) -> None:
    """Over episodes with both events, one of which the C computes; a policy that is told of none goes another way."""
    folder, policy = bundle
    controller = Controller(folder)
    assert [q.name for q in controller.wanted] == ["target", "position", "velocity", BELL]
    worst, events = follow(controller, policy)
    assert worst < 1e-5 and {(False, False), (False, True), (True, False)} <= events
    deaf = Controller(folder)
    step = deaf.step
    deaf.step = lambda values: step({**values, BELL: np.zeros(1, np.float32)})  # type: ignore[method-assign]
    assert follow(deaf, policy)[0] > 0.1


def test_the_bundle_says_who_decides_when(bundle: tuple[Path, Policy]) -> None:
    folder, _ = bundle
    errors = check_bundle(folder)
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5
    contract = Contract.read(folder)
    near, bell = contract.groups["point"].events
    assert (near.name, near.told, bell.name, bell.told) == ("near", False, "bell", True)
    lines = json.loads((folder / "contract.json").read_text())["groups"]["point"]["events"]
    assert lines[0]["formula"].startswith("1 where length of (target - position) is below 1.2 m, else 0")
    assert lines[1]["expression"] == {"kind": "quantity", "name": BELL, "count": 1, "doc": "somebody rings a bell"}
    readme = (folder / "README.md").read_text()
    assert "| `gru` | 25 | 0.5 |  | always |" in readme and "| length of offset > 2.5 m |" in readme
    assert "| `bell` | `state.event_bell` | somebody rings a bell |" in readme
    header = (folder / "policy.h").read_text()
    assert "near, at the events" not in header and "and at the events near, bell" in header
    assert "const unsigned char events[2]" in header


@pytest.mark.slow
def test_golden_vectors_run_over_switches_at_events(bundle: tuple[Path, Policy]) -> None:
    folder, policy = bundle
    golden = np.load(folder / "golden.npz")
    state, switched = policy.initial_state(1), [0, 0]
    with torch.no_grad():
        for row, start, events in zip(golden["observations"], golden["start"], golden["events"], strict=True):
            state = policy.initial_state(1) if start else state
            left, skill = float(state[0, 0]), float(state[0, 1])
            told = torch.from_numpy(events[None])
            _, after = policy.step(torch.from_numpy(row[None]), state, events=told)
            _, deaf = policy.step(torch.from_numpy(row[None]), state)
            if left > 0.0 and events.any():
                assert float(after[0, 0]) == 24.0  # decided anew
                switched[int(events[1])] += float(after[0, 1]) != skill and float(deaf[0, 1]) == skill
            state = after
    assert min(switched) > 15


@pytest.mark.slow
def test_an_event_that_is_no_number_begins_anew(bundle: tuple[Path, Policy]) -> None:
    folder, _ = bundle
    controller, fresh, env = Controller(folder), Controller(folder), ringing_env(1)
    env.reset(0)
    values = quantities(env)
    first = controller.step(values)
    assert np.isfinite(first).all()
    assert np.isnan(controller.step(values | {BELL: np.full(1, np.nan, np.float32)})).all()
    assert np.array_equal(controller.step(values), fresh.step(values))


def test_a_vehicle_that_cannot_tell_is_refused(bundle: tuple[Path, Policy]) -> None:
    controller = Controller(bundle[0])
    has = ("position", "velocity", "target")
    blind = Identity("joints", "box", ("push",), has, 100.0)
    with pytest.raises(
        RookeryError, match=r"groups\.point\.events: it wants to be told of 'event bell' \(somebody rings"
    ):
        check_vehicle(controller, blind, "sim://0", {})
    check_vehicle(controller, dataclasses.replace(blind, quantities=(*has, BELL)), "sim://0", {})
    with pytest.raises(RookeryError, match="the policy needs 'event bell' "):
        controller.step({name: np.zeros(3, np.float32) for name in has})


@pytest.mark.slow
def test_a_contract_of_other_events_is_refused(bundle: tuple[Path, Policy]) -> None:
    values = json.loads((bundle[0] / "contract.json").read_text())
    near, bell = values["groups"]["point"]["events"]

    def told(events: list[Any]) -> Contract:
        values["groups"]["point"]["events"] = events
        return Contract.from_json(values)

    for wrong in ([bell, near], [near], [near, bell, bell], [near, {**bell, "name": "gong"}]):
        with pytest.raises(RookeryError, match=r"groups\.point\.events is .*, but it must be \['near', 'bell'\]"):
            told(wrong)
    with pytest.raises(RookeryError, match=r"events\[0\]\.formula is .*as its expression has it"):
        told([{**near, "formula": "now and then"}, bell])
    vector = {"kind": "quantity", "name": "position", "count": 3, "unit": "m"}
    with pytest.raises(RookeryError, match=r"events\[1\]\.expression .* one number without a unit"):
        told([near, {"name": "bell", "formula": "position", "expression": vector}])
    del values["groups"]["point"]["events"]
    assert all(event.told for event in Contract.from_json(values).groups["point"].events)


def test_a_run_keeps_the_events_at_which_its_policy_decides(bundle: tuple[Path, Policy], tmp_path: Path) -> None:
    env, policy = ringing_env(1), bundle[1]
    before = build_contract(env)
    assert [event.name for event in before.groups["point"].events] == ["bell", "near"]
    save_policy(tmp_path / "run", {"point": policy}, before.to_json())
    _, values = load_policy(tmp_path / "run")
    assert Contract.from_json(values).groups["point"].events == Contract.read(bundle[0]).groups["point"].events
    save_policy(tmp_path / "flat", {"point": random_policy(env.groups["point"], 0)}, before.to_json())
    assert Contract.read(tmp_path / "flat").groups["point"].events == ()


def test_golden_vectors_without_their_events_are_refused(bundle: tuple[Path, Policy], tmp_path: Path) -> None:
    folder, policy = bundle
    shutil.copytree(folder, tmp_path / "bundle")
    golden = dict(np.load(folder / "golden.npz"))
    events = golden.pop("events")
    np.savez(tmp_path / "bundle" / "golden.npz", **golden)
    with pytest.raises(RookeryError, match=r"golden\.npz is damaged"):
        check_bundle(tmp_path / "bundle")
    for wrong in (events[:, :1], events.astype(np.uint8)):
        np.savez(tmp_path / "bundle" / "golden.npz", events=wrong, **golden)
        with pytest.raises(RookeryError, match=r"must hold events of \(\d+, 2\) booleans"):
            check_bundle(tmp_path / "bundle")
    with pytest.raises(RookeryError, match=r"decides at 2 events \(near, bell\), got \[1, 3\]"):
        policy.step(torch.zeros(1, 6), policy.initial_state(1), events=torch.zeros(1, 3, dtype=torch.bool))


@pytest.mark.slow
def test_decisions_within_skills_hear_their_own_events(tmp_path: Path) -> None:
    """A hierarchy as a skill of another one: the flags of both are told apart."""
    env = FakeEnv(2)
    env.event_names = ("bell", "tap", "gong")
    group = env.groups["point"]
    inner = skilled(env, {"a": random_policy(group, 1), "b": random_policy(group, 2)}, every=20, events=["gong", "tap"])
    skills = {"inner": inner.deployed({"point": random_policy(inner.groups["point"], 3)})["point"]}
    outer = skilled(env, skills, every=15, events=["bell", "tap"], skills=ONE)
    policy = outer.deployed({"point": random_policy(outer.groups["point"], 4)})["point"]
    assert policy.events == ("bell", "tap", "gong")
    due = []
    with torch.no_grad():
        _, state = policy.step(torch.zeros(1, 3), policy.initial_state(1))
        for k in range(3):
            _, after = policy.step(torch.zeros(1, 3), state, events=torch.eye(3, dtype=torch.bool)[k : k + 1])
            due.append(
                [float(after[0, node.state.start]) == node.link.rules.steps[0] - 1 for node in policy.chain.decisions]
            )
    assert due == [[True, False], [True, True], [False, True]]
    contract = with_stages(describe("fake", {"point": group}, 0.01), {"point": policy})
    errors = check_bundle(export_bundle({"point": policy}, contract, tmp_path / "bundle"))
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5


def test_an_event_that_the_task_lacks_is_refused(bundle: tuple[Path, Policy]) -> None:
    env = ringing_env(1)
    env.event_names = ("near",)
    with pytest.raises(RookeryError, match="decides at the event 'bell', and the task has near"):
        act_with({"point": bundle[1]}, env)


@pytest.mark.slow
def test_a_policy_of_one_event_that_the_c_computes_needs_no_telling(tmp_path: Path) -> None:
    env = ringing_env(1)
    policy = ringing_policy(env, events=["near"])
    folder = export_bundle({"point": policy}, build_contract(env, {"point": policy}), tmp_path / "bundle")
    controller = Controller(folder)
    assert [q.name for q in controller.wanted] == ["target", "position", "velocity"]
    worst, events = follow(controller, policy)
    assert worst < 1e-5 and (True, False) in events


@pytest.mark.slow
def test_a_number_that_only_an_event_reads_begins_anew_where_it_is_none(tmp_path: Path) -> None:
    env = ringing_env(1)
    policy = ringing_policy(env)
    near = falling_below(Quantity("range to the door", 1, "m"), 1.0)
    env.task.event_expressions = lambda: {"near": near}
    folder = export_bundle({"point": policy}, build_contract(env, {"point": policy}), tmp_path / "bundle")
    controller = Controller(folder)
    env.reset(0)
    values = quantities(env) | {"range to the door": np.ones(1, np.float32)}
    assert np.isfinite(controller.step(values)).all()
    values["range to the door"][:] = np.nan
    assert np.isnan(controller.step(values)).all()


def test_an_expression_of_no_event_is_refused() -> None:
    env = ringing_env(1)
    found = env.task.event_expressions()
    env.task.event_expressions = lambda: {"neer": found["near"]}
    with pytest.raises(RookeryError, match=r"unknown event in event_expressions.*'neer': did you mean 'near'"):
        env.deployment()


@pytest.mark.slow
def test_a_microcontroller_and_eight_bits_answer_too(bundle: tuple[Path, Policy], tmp_path: Path) -> None:
    assert check_mcu(bundle[0])["mcu_max_error"] <= 1e-5
    env = ringing_env(1)
    policy = ringing_policy(env, skills=THREE)
    rows = golden_observations(policy)
    before, after = (answers_on(p, rows) for p in (policy, rounded({"point": policy}, build_contract(env))[0]["point"]))
    assert (
        np.abs(before - after).max() > MOST_DIFFERENCE
    )  # where it chooses another of two skills that are about equally good
    folder = export_bundle({"point": policy}, build_contract(env, {"point": policy}), tmp_path / "bundle", int8=True)
    assert check_bundle(folder)["c_max_error"] <= 1e-5
    read = Contract.read(folder).groups["point"]
    assert [event.name for event in read.events] == ["near", "bell"] and read.quantization is not None


@pytest.mark.slow
def test_the_linux_program_has_the_event_among_its_quantities_and_a_flight_controller_refuses_it(
    tmp_path: Path,
) -> None:
    env = rookery.make("drone-hover", 1)
    group = env.groups["drone"]
    policies = {"a": random_policy(group, 1), "b": random_policy(group, 2)}
    made = skilled(env, policies, every=9, events=["crash"])
    policy = made.deployed({"drone": random_policy(made.groups["drone"], 3)})
    contract = build_contract(env, policy)
    folder = export_bundle(policy, contract, tmp_path / "linux", target="linux")
    assert '{"event crash", "1", 1, ' in (folder / "linux" / "bundle.cpp").read_text()
    subprocess.run(["make", "-C", folder / "linux", "bundle.o", "policy.o"], check=True, capture_output=True)
    for target in ("crazyflie", "px4"):
        with pytest.raises(RookeryError, match="does not give the quantity 'event crash'"):
            export_bundle(policy, contract, tmp_path / target, target=target)


@pytest.mark.slow
def test_the_gate_judges_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C and ONNX answer to the events of the task's own rules; C that is told of none fails."""
    policy = ringing_policy(ringing_env(1))
    contract = build_contract(ringing_env(1), {"point": policy})
    file = tmp_path / "ringing.toml"
    file.write_text(
        'success = 0.9\ncombinations = 0.8\nworst = 0.5\nsummary = "toy"\n'
        '[factors.wind]\nlow = -0.5\nhigh = 0.5\nsource = "a test"\n'
    )
    settings = GateSettings(20, 0.3, rounds=1, combinations=0)

    def exported() -> Case:
        report = Gate(RingingOpener(policy), str(file), settings, {"point": policy}, contract).run()
        return next(c for c in report.cases if c.name == "exported C")

    assert exported().verdict == "pass" and "largest difference of actions from torch" in exported().note
    env = ringing_env(4)
    assert onnx_difference({"point": policy}, contract, env, act_with({"point": policy}, env), tmp_path) < 1e-5
    none = lambda env, group, names: torch.zeros(env.num_envs, 1, len(names), dtype=torch.bool)  # noqa: E731
    monkeypatch.setattr("rookery.sim2real.gate.exported.events_now", none)
    assert exported().verdict == "fail"

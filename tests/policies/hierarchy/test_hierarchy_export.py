"""One bundle of a hierarchy: its C and ONNX hold the high level, the skills, their rates and the switch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from policies_fake import FakeEnv
from random_policy import random_policy
from sampled import slow_but
from skilled import constant, skilled

from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export import int8
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.golden import golden_observations
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header

SKILLS = {
    "gru": {"policy": "gru", "shift": {"state": [0.5, [-0.2, 0.6], 0.1]}, "finished": "norm(state) < 1.5"},
    "plain": {"policy": "plain", "every": 5, "command": {"state": [[-1.0, 1.0], 0.3, 0.0]}},
    "again": {"policy": "plain", "every": 2, "allowed": "state[1] > -0.5"},
}


def deployed(memory: int = 0, **settings: object) -> tuple[Policy, Group]:
    """A policy with three skills, one of which remembers, under a random high level."""
    env = FakeEnv(2)
    group = env.groups["point"]
    policies = {"gru": random_policy(group, 1, memory=5), "plain": random_policy(group, 2)}
    made = skilled(env, policies, **({"every": 3, "skills": SKILLS} | settings))
    high = random_policy(made.groups["point"], 3, memory)
    return made.deployed({"point": high})["point"], group


def contract_of(policy: Policy, group: Group) -> Contract:
    return with_stages(describe("fake", {"point": group}, 0.01), {"point": policy})


@pytest.mark.slow
@pytest.mark.parametrize("memory", slow_but([0], [0, 4]))
def test_c_and_onnx_answer_as_torch_does_over_switches(memory: int, tmp_path: Path) -> None:
    policy, group = deployed(memory)
    contract = contract_of(policy, group)
    errors = check_bundle(export_bundle({"point": policy}, contract, tmp_path / "bundle"))
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5
    golden = np.load(tmp_path / "bundle" / "golden.npz")
    state, used, decided = policy.initial_state(1), [], 0
    with torch.no_grad():
        for row, start in zip(golden["observations"], golden["start"], strict=True):
            state = policy.initial_state(1) if start else state
            due = float(state[0, 0]) <= 0.0
            _, state = policy.step(torch.from_numpy(row[None]), state)
            decided += due
            used.append(int(state[0, 1]))
    switches = sum(a != b for a, b in zip(used, used[1:], strict=False))
    assert set(used) == {0, 1, 2} and switches > 30 and decided < len(used) / 1.5
    names = json.loads((tmp_path / "bundle" / "contract.json").read_text())["groups"]["point"]["stages"][0]["branches"][
        1
    ][0]
    assert (names["stage"], names["names"], names["steps"]) == ("decide", ["gru", "plain", "again"], [3, 5, 2])
    assert Contract.read(tmp_path / "bundle") == contract


@pytest.mark.slow
def test_c_follows_other_observations_too(tmp_path: Path) -> None:
    policy, group = deployed()
    export_bundle({"point": policy}, contract_of(policy, group), tmp_path / "bundle")
    library = compile_library(tmp_path / "bundle" / "policy.c", tmp_path)
    native = NativePolicy(library, read_header(tmp_path / "bundle" / "policy.h"))
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((600, 3)) * rng.choice([0.3, 1.0, 3.0], (600, 1))).astype(np.float32)
    start = np.arange(600) % 50 == 0
    got = native.follow(x, start)
    state = policy.initial_state(1)
    with torch.no_grad():
        for i in range(600):
            state = policy.initial_state(1) if start[i] else state
            action, state = policy.step(torch.from_numpy(x[i : i + 1]), state)
            np.testing.assert_allclose(got[i], action[0].numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_one_skill_with_a_command_is_exported(tmp_path: Path) -> None:
    policy, group = deployed(every=4, skills={"plain": SKILLS["plain"]})
    errors = check_bundle(export_bundle({"point": policy}, contract_of(policy, group), tmp_path / "bundle"))
    assert errors["onnx_max_error"] <= 1e-5 and errors["c_max_error"] <= 1e-5


def test_what_no_robot_has_is_not_exported(tmp_path: Path) -> None:
    env = FakeEnv(2)
    env.controller = lambda: lambda obs: {"point": torch.zeros(2, 1, 1)}
    group = env.groups["point"]
    made = skilled(env, {"a": constant(group, 0.1)}, skills={"a": {"policy": "a"}, "pid": {"policy": "controller"}})
    policy = made.deployed({"point": random_policy(made.groups["point"], 0)})["point"]
    for target in ("bundle", "onnx"):
        with pytest.raises(RookeryError, match="classical controller, which cannot be exported"):
            export_bundle({"point": policy}, contract_of(policy, group), tmp_path / "bundle", target=target)


def layers(policy: Policy, rows: np.ndarray, steps: bool) -> np.ndarray:
    """What a small policy's network gives before it chooses and clips, by NumPy in double precision; with `steps` each row of a
    matrix is rounded to 127 steps."""
    w = {name: t.numpy().astype(float) for name, t in policy.state_dict().items()}
    x = np.clip((rows - w["normalize.mean"]) / w["normalize.std"], -10.0, 10.0)
    for k in range(2):
        weight = w[f"perceptron.weight_{k}"]
        step = np.abs(weight).max(axis=1, keepdims=True) / 127.0
        x = x @ (np.round(weight / step) * step if steps else weight).T + w[f"perceptron.bias_{k}"]
        x = np.tanh(x) if k == 0 else x
    return x


def test_eight_bits_are_judged_network_by_network() -> None:
    """A choice counts by how much smaller its logit is, not by how far apart the skills' actions are."""
    env = FakeEnv(2)
    group = env.groups["point"]
    skills = {"a": random_policy(group, 1), "b": random_policy(group, 2)}
    three = {"a": {"policy": "a", "shift": {"state": 0.5}}, "b": {"policy": "b"}, "again": {"policy": "b", "every": 2}}
    made = skilled(env, skills, every=9, skills=three)
    high = random_policy(made.groups["point"], 3)
    worst = []
    for policy in (high, *skills.values()):
        rows = golden_observations(policy)
        wanted, given = (layers(policy, rows, steps) for steps in (False, True))
        differences = np.abs(np.clip(given, -1.0, 1.0) - np.clip(wanted, -1.0, 1.0))
        if policy is high:
            size = np.maximum(1.0, np.abs(wanted[:, :3]))
            every = np.arange(len(rows))
            best = wanted[:, :3].argmax(1)
            chosen = given[:, :3].argmax(1)
            gap = wanted[every, best] - wanted[every, chosen]
            assert 0 < (best != chosen).sum() < 30
            differences[:, :3] = np.abs(given - wanted)[:, :3] / size
            differences[:, 0] = np.maximum(differences[:, 0], gap / np.maximum(1.0, np.abs(wanted[every, best])))
        worst.append(differences.max())
    policies = made.deployed({"point": high})
    contract = contract_of(policies["point"], group)
    said = int8.rounded(policies, contract)[1].groups["point"].quantization
    assert said is not None and said.largest_difference == pytest.approx(max(worst), abs=1e-4)
    assert list(int8.network_differences(policies["point"], int8.rounded(policies, contract)[0]["point"]).values()) == (
        pytest.approx(worst, abs=1e-4)
    )


def test_eight_bits_that_a_network_suffers_from_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, group = deployed()
    monkeypatch.setattr(int8, "network_differences", lambda *given: {"network 1: a": 0.1, "network 2: b": 0.3})
    with pytest.raises(
        RookeryError, match=r"action of the group 'point' \(network 2: b\) differs by 0.3 of its range of 2"
    ):
        int8.rounded({"point": policy}, contract_of(policy, group))

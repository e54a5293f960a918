"""Policies with memory: contract, C, ONNX, microcontroller and bundle against torch, step by step and through resets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from sampled import slow_but

import rookery
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.mcu import COMPILER, EMULATOR, SIZE, check_mcu
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header
from rookery.sim2real.gate.exported import Compared, NativeAct, compile_policies
from tests.sim2real.conftest import make_env
from tests.sim2real.independent_runtime import Runtime

FRAME, HISTORY, MEMORY = 5, 3, 12
TERMS = (Term("angle", 2, "rad", scale=0.5), Term("rate", 3, "rad/s", "body", clip=4.0))
ACTION = ActionSpec("push", ("a", "b"), (-1.0, -2.0), (1.0, 2.0), ("N", "N"), (0.0, 0.0))
TARGETS = (Term("velocity", 3, "m/s", "body", scale=0.5),)


def group(estimates: bool = False) -> Group:
    return Group(1, TERMS, ACTION, HISTORY if estimates else 1, TARGETS if estimates else ())


def made(estimates: bool = False, **more: Any) -> Policy:
    """A policy with large weights and a normalizer far from the identity."""
    generator = torch.Generator().manual_seed(0)
    settings: dict[str, Any] = {"hidden": (16,), "obs_clip": 5.0, "memory_size": MEMORY} | more
    if estimates:
        settings |= {"actor_inputs": FRAME, "estimator": (8,), "targets": 3}
    policy = Policy(standard(FRAME * (HISTORY if estimates else 1), 2, **settings))
    with torch.no_grad():
        for name, x in policy.state_dict().items():
            if name.endswith("std"):
                x.uniform_(0.2, 3.0, generator=generator)
            else:
                x.normal_(0.0, x.shape[-1] ** -0.5 if "weight" in name else 0.3, generator=generator)
    return policy.eval()


def contract_of(policy: Policy) -> Contract:
    return build_contract(make_env(leg=group(policy.targets > 0)), {"leg": policy})


def native_of(policy: Policy, folder: Path) -> NativePolicy:
    code, header = c_source(contract_of(policy), "leg", policy_arrays(policy), "rookery", "policy.h")
    (folder / "policy.c").write_text(code)
    (folder / "policy.h").write_text(header)
    return NativePolicy(compile_library(folder / "policy.c", folder), read_header(folder / "policy.h"))


def steps(policy: Policy, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observations [n, O] one after the other, starts of episodes [n] at irregular places, and torch's actions [n, D]."""
    rng = np.random.default_rng(seed)
    obs = (rng.standard_normal((300, policy.observation_size)) * 2.0).astype(np.float32)
    start = rng.random(300) < 0.05
    start[0] = True
    actions = []
    with torch.no_grad():
        for row, new in zip(torch.from_numpy(obs), start, strict=True):
            state = policy.initial_state() if new else state  # noqa: F821
            action, state = policy.step(row, state)
            actions.append(action.numpy())
    assert 5 < start.sum() < 50 and (np.abs(actions) < 1.0).mean() > 0.3
    return obs, start, np.stack(actions)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle; read it, do not change it."""
    policy = made()
    return export_bundle({"leg": policy}, contract_of(policy), tmp_path_factory.mktemp("export") / "bundle")


@pytest.fixture
def bundle(shared: Path, tmp_path: Path) -> Path:
    """A good bundle of the test's own, to be broken."""
    return Path(shutil.copytree(shared, tmp_path / "bundle"))


# Torch, and the contract's equations


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def test_torch_steps_by_the_equations_of_the_contract() -> None:
    policy = made()
    values = contract_of(policy).to_json()["groups"]["leg"]
    formula = values["stages"][1]["formula"]
    assert values["stages"][1]["stage"] == "gru" and values["stages"][1]["size"] == MEMORY
    assert "r and z are sigmoid(W x + b + U h + c), n is tanh(W x + b + r (U h + c))" in formula
    assert "h = (1 - z) n + z h" in formula and "h is zero at an episode's start" in formula
    a = {name: x.numpy().astype(float) for name, x in policy.state_dict().items()}
    obs, start, wanted = steps(policy)
    for i, row in enumerate(obs):
        h = np.zeros(MEMORY) if start[i] else h  # noqa: F821
        x = np.clip((row - a["normalize.mean"]) / a["normalize.std"], -5.0, 5.0)
        wx = (a["gru.weight_ih"] @ x + a["gru.bias_ih"]).reshape(3, MEMORY)
        uh = (a["gru.weight_hh"] @ h + a["gru.bias_hh"]).reshape(3, MEMORY)
        r, z = sigmoid(wx[:2] + uh[:2])
        h = (1.0 - z) * np.tanh(wx[2] + r * uh[2]) + z * h
        hidden = np.tanh(a["perceptron.weight_0"] @ h + a["perceptron.bias_0"])
        action = np.clip(a["perceptron.weight_1"] @ hidden + a["perceptron.bias_1"], -1.0, 1.0)
        np.testing.assert_allclose(wanted[i], action, atol=1e-5)


def test_a_stored_policy_is_the_same_policy(tmp_path: Path) -> None:
    policy = made()
    save_policy(tmp_path, {"leg": policy}, build_contract(make_env(leg=group())).to_json())
    policies, contract = load_policy(tmp_path)
    assert Contract.from_json(contract).to_json() == contract_of(policy).to_json()
    again = policies["leg"]
    obs, _, wanted = steps(policy)
    state = again.initial_state()
    assert state.shape == (MEMORY,) and not state.any()
    with torch.no_grad():
        assert np.array_equal(again.step(torch.from_numpy(obs[0]), state)[0].numpy(), wanted[0])
    with pytest.raises(RookeryError, match=r"has memory: call step\(obs, state\)"):
        again(torch.from_numpy(obs[0]))


# C


@pytest.mark.parametrize("hidden", [(), (16,), (8, 24)])
def test_the_c_answers_as_torch_does(hidden: tuple[int, ...], tmp_path: Path) -> None:
    policy = made(hidden=hidden, activation="elu")
    native = native_of(policy, tmp_path)
    obs, start, wanted = steps(policy)
    assert np.abs(native.follow(obs, start) - wanted).max() <= 1e-5
    elsewhere = np.roll(start, 1) | (np.arange(len(start)) == 0)
    assert np.abs(native.follow(obs, elsewhere) - wanted).max() > 0.05


def test_the_c_with_a_state_estimator(tmp_path: Path) -> None:
    policy = made(estimates=True)
    native = native_of(policy, tmp_path)
    obs, start, wanted = steps(policy)
    assert np.abs(native.follow(obs, start) - wanted).max() <= 1e-5
    known = np.random.default_rng(2).standard_normal((len(obs), 3)).astype(np.float32)
    known[:, 0] = np.nan
    with torch.no_grad():
        action, state = policy.step(torch.from_numpy(obs[0]), policy.initial_state(), torch.from_numpy(known[0]))
        second, _ = policy.step(torch.from_numpy(obs[1]), state, torch.from_numpy(known[1]))
    got = native.follow(obs[:2], start[:1].repeat(2) & [True, False], known[:2])
    np.testing.assert_allclose(got, np.stack([action.numpy(), second.numpy()]), atol=1e-5)


def test_each_row_of_a_batch_has_its_own_memory(tmp_path: Path) -> None:
    policy = made()
    native = native_of(policy, tmp_path)
    obs, _, _ = steps(policy)
    memory = np.full((2, MEMORY), np.nan, np.float32)
    native.reset(memory)
    assert not memory.any()
    together = [native.policy(np.stack((obs[i], obs[i + 50])), memory) for i in range(20)]
    fresh = np.arange(20) == 0
    np.testing.assert_array_equal(np.stack(together)[:, 0], native.follow(obs[:20], fresh))
    np.testing.assert_array_equal(np.stack(together)[:, 1], native.follow(obs[50:70], fresh))
    with pytest.raises(ValueError, match="float32 array"):
        native.policy(obs[:2])


def test_the_header_says_what_the_memory_is(tmp_path: Path) -> None:
    native_of(made(), tmp_path)
    text = (tmp_path / "policy.h").read_text()
    for line in (
        "#define ROOKERY_POLICY_MEMORY 12",
        "void rookery_reset(rookery_memory *memory);",
        "void rookery_policy(const float obs[5], rookery_memory *memory, float action[2]);",
        "GRU 5 -> 12; multilayer perceptron 12 -> 16 -> 2, tanh",
    ):
        assert line in text, line


# ONNX and the bundle


@pytest.mark.slow
def test_onnx_hands_its_state_on(shared: Path) -> None:
    session = ort.InferenceSession(shared / "policy.onnx", providers=["CPUExecutionProvider"])
    assert [(i.name, i.shape) for i in session.get_inputs()] == [("obs", [1, FRAME]), ("h_in", [1, MEMORY])]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [("action", [1, 2]), ("h_out", [1, MEMORY])]
    obs, start, wanted = steps(made())
    for i, row in enumerate(obs):
        h = np.zeros((1, MEMORY), np.float32) if start[i] else h  # noqa: F821
        action, h = session.run(["action", "h_out"], {"obs": row[None], "h_in": h})
        np.testing.assert_allclose(action[0], wanted[i], atol=1e-5)


@pytest.mark.parametrize("estimates", slow_but([False], [False, True]))
def test_the_bundle_proves_itself(estimates: bool, shared: Path, tmp_path: Path) -> None:
    folder = shared
    if estimates:
        policy = made(estimates=True)
        folder = export_bundle({"leg": policy}, contract_of(policy), tmp_path / "bundle")
    errors = check_bundle(folder)
    assert 0.0 < errors["onnx_max_error"] <= 1e-5 and 0.0 < errors["c_max_error"] <= 1e-5
    golden = np.load(folder / "golden.npz")
    assert golden["start"][0] and 10 < golden["start"].sum() < 100


def change_golden(folder: Path, **arrays: Any) -> None:
    stored = dict(np.load(folder / "golden.npz"))
    np.savez(folder / "golden.npz", **(stored | arrays))


def test_resets_at_other_places_are_found(bundle: Path) -> None:
    start = np.load(bundle / "golden.npz")["start"].copy()
    start[20] = True
    change_golden(bundle, start=start)
    with pytest.raises(RookeryError, match=r"at golden observation 2[0-9], "):
        check_bundle(bundle)


@pytest.mark.parametrize("start", [np.zeros(3, bool), np.arange(1147) % 47, np.arange(1147) % 47 == 1])
def test_golden_vectors_without_starts_are_refused(start: Any, bundle: Path) -> None:
    change_golden(bundle, start=start)
    with pytest.raises(RookeryError, match="episodes start: export the bundle again"):
        check_bundle(bundle)


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda g: g["stages"][1].pop("size"), r"stages\[1\].size is missing"),
        (lambda g: g["stages"][1].update(stage="lstm"), r"stages\[1\].stage"),
        (lambda g: g["stages"].pop(1), "stages: the stage perceptron takes 12 numbers, and gets 5"),
        (lambda g: g["stages"][1].update(formula="some memory"), r"stages\[1\].formula"),
    ],
)
def test_contracts_that_do_not_say_what_the_memory_is_are_refused(edit: Any, line: str) -> None:
    values = json.loads(contract_of(made()).dumps())
    edit(values["groups"]["leg"])
    with pytest.raises(RookeryError, match=f"contract line groups.leg.{line}"):
        Contract.from_json(values)


def test_c_with_another_memory_is_refused(bundle: Path) -> None:
    path = bundle / "policy.h"
    path.write_text(path.read_text().replace("POLICY_MEMORY 12", "POLICY_MEMORY 11"))
    with pytest.raises(RookeryError, match="has 11 as the size memory, and the contract 12"):
        check_bundle(bundle)


@pytest.mark.slow
def test_c_that_forgets_its_reset_is_found(bundle: Path) -> None:
    path = bundle / "policy.c"
    path.write_text(path.read_text().replace("memory->h[i] = 0.0f;", "(void)memory;"))
    with pytest.raises(RookeryError, match="is not run"):
        check_bundle(bundle)
    with pytest.raises(RookeryError, match="differs from the torch policy"):
        check_bundle(bundle, run_c=True)


def test_on_a_microcontroller(shared: Path) -> None:
    missing = [tool for tool in (COMPILER, SIZE, EMULATOR) if shutil.which(tool) is None]
    if missing:
        why = f"{missing} not installed: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
        pytest.skip(why)
    assert 0.0 < check_mcu(shared)["mcu_max_error"] <= 1e-5


def test_a_runtime_without_rookery(shared: Path) -> None:
    robot = Runtime(shared)
    obs, start, wanted = steps(made())
    for i, row in enumerate(obs):
        if start[i] and i:
            robot.start()
        np.testing.assert_allclose(robot.network(row), wanted[i], atol=1e-5)


def test_the_gates_c_and_torch_remember_alike(tmp_path: Path) -> None:
    env = rookery.make("drone-hover", 3, config={"episode_s": 0.2})
    spec = env.groups["drone"]
    policy = Policy(standard(spec.observation_size, 4, (8,), memory_size=6)).eval()
    with torch.no_grad():
        policy.get_parameter("gru.weight_hh").mul_(3.0)
        layers_of(policy)[-1].weight.mul_(3.0)
    contract = build_contract(env, {"drone": policy})
    native = NativeAct(compile_policies({"drone": policy}, contract, tmp_path), env)
    compared = Compared(native, act_with({"drone": policy}, env), env)
    obs, _ = env.reset(0)
    for _ in range(50):
        obs = env.step(compared(obs))[0]
    assert compared.difference < 1e-5
    env.close()

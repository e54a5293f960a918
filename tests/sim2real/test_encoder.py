"""Policies with an encoder of pictures: contract, C, ONNX, microcontroller and bundle against torch."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from rookery.policies.fuse import fuse_policies
from rookery.policies.low_pass import low_pass
from rookery.policies.policy import Policy
from rookery.policies.stages.pictures import Convolutions, pictures_of
from rookery.policies.stages.standard import standard
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.build import build_contract
from rookery.sim2real.compatibility import check_compatible
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.mcu import COMPILER, EMULATOR, SIZE, check_mcu
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header
from tests.sim2real.conftest import make_env

ACTION = ActionSpec("push", ("a", "b"), (-1.0, -2.0), (1.0, 2.0), ("N", "N"), (0.0, 0.0))
DEPTH = Term("depth", 2 * 7 * 9, "m", "cameras", scale=0.1, shape=(2, 7, 9, 1))
RGB = Term("rgb", 7 * 9 * 3, "1/255", "camera", shape=(1, 7, 9, 3))
RATE = Term("rate", 3, "rad/s", "body", clip=4.0)
LAST = Term("last_action", 2, "1")
DEFAULT = ((3, 4), (3, 2), (2, 1))
CASES: dict[str, tuple[Group, tuple[Any, ...], dict[str, Any]]] = {
    "depth": (Group(1, (RATE, DEPTH, LAST), ACTION), DEFAULT, {}),
    "picture alone": (Group(1, (DEPTH,), ACTION), ((3,), (4,), (3,)), {"hidden": ()}),
    "two terms": (Group(1, (DEPTH, RATE, RGB), ACTION), DEFAULT, {"squash": "tanh", "activation": "relu"}),
    "history": (Group(1, (RATE, RGB), ACTION, 3), ((3, 4, 2), (3, 2, 1), (2, 1, 1)), {"activation": "elu"}),
    "newest": (Group(1, (RGB, RATE), ACTION, 3), DEFAULT, {"actor_inputs": 2 * 192}),
    "memory": (Group(1, (RATE, DEPTH), ACTION), DEFAULT, {"memory_size": 5}),
}


def made(name: str = "depth") -> tuple[Policy, Group]:
    """A policy with large weights and a normalizer far from the identity."""
    group, lists, more = CASES[name]
    pictures = pictures_of((t.size, t.shape) for t in group.observation)
    settings: dict[str, Any] = {"hidden": (12,), "obs_clip": 5.0, "activation": "tanh"} | more
    frames = settings.get("actor_inputs", group.observation_size) // group.frame_size
    stage = Convolutions(group.frame_size, frames, tuple(pictures), *lists, settings["activation"])
    policy = Policy(standard(group.observation_size, 2, **settings, encoder=stage.beside_numbers()))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, x in policy.state_dict().items():
            if key.endswith("std"):
                x.uniform_(0.2, 3.0, generator=generator)
            else:
                inputs = x[0].numel() if "weight" in key else 1
                x.normal_(0.0, inputs**-0.5 if "weight" in key else 0.3, generator=generator)
    return policy.eval(), group


def contract_of(policy: Policy, group: Group) -> Contract:
    return build_contract(make_env(eye=group), {"eye": policy})


def questions(policy: Policy) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.standard_normal((200, policy.observation_size)) * 2.0).astype(np.float32)


def answers(policy: Policy, obs: np.ndarray) -> np.ndarray:
    """Torch's actions, one episode from the first row to the last."""
    rows = torch.from_numpy(obs)
    with torch.no_grad():
        if not policy.state_size:
            return policy(rows).numpy()
        out = []
        state = policy.initial_state()
        for row in rows:
            action, state = policy.step(row, state)
            out.append(action.numpy())
    return np.stack(out)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle; read it, do not change it."""
    policy, group = made()
    return export_bundle({"eye": policy}, contract_of(policy, group), tmp_path_factory.mktemp("export") / "bundle")


# Contract


@pytest.mark.parametrize("name", CASES)
def test_a_stored_policy_is_the_same_policy(name: str, tmp_path: Path) -> None:
    policy, group = made(name)
    save_policy(tmp_path, {"eye": policy}, build_contract(make_env(eye=group)).to_json())
    policies, values = load_policy(tmp_path)
    contract = Contract.from_json(values)
    assert contract.to_json() == contract_of(policy, group).to_json()
    assert contract.groups["eye"].spec.observation == group.observation
    assert contract.groups["eye"].trained == policy.chain
    obs = questions(policy)
    want = answers(policy, obs)
    assert np.array_equal(answers(policies["eye"], obs), want)
    assert (np.abs(want) < 1.0).mean() > 0.3 and want.std() > 0.1


STAGE = "stages.1.branches.1.0"
AT = r"stages\[1\].branches\[1\]\[0\]"


def edit(values: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for name in folders:
        values = values[int(name)] if isinstance(values, list) else values[name]
    if value is None:
        del values[last]
    else:
        values[last] = value


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("observation.1.shape", [2, 9, 7, 1], AT),
        ("observation.1.shape", [2, 7, 9, 2], r"observation\[1\]\.shape"),
        ("observation.1.shape", [14, 9], r"observation\[1\]\.shape"),
        ("observation.1.shape", None, AT),
        (f"{STAGE}.frame", 130, r"stages\[1\]: the stage pictures takes 130 numbers, and gets 131"),
        (f"{STAGE}.channels", [3], AT + ": an encoder has as many"),
        (f"{STAGE}.kernels", [8, 4], AT + ": a picture of 7 rows and 9 columns is too small"),
        (f"{STAGE}.kernels", ["a", 4], AT + r"\.kernels\[0\]"),
        (f"{STAGE}.strides", None, AT + r"\.strides is missing"),
    ],
)
def test_a_wrong_line_is_named(path: str, value: Any, line: str) -> None:
    values = contract_of(*made()).to_json()
    edit(values["groups"]["eye"], path, value)
    with pytest.raises(RookeryError, match=f"contract line groups.eye.{line}"):
        Contract.from_json(values)


def test_a_contract_from_before_shapes_fits_where_the_picture_goes_to_a_perceptron() -> None:
    _, group = made()
    env = make_env(eye=group)
    values = build_contract(env, {"eye": Policy(standard(group.observation_size, 2))}).to_json()
    edit(values["groups"]["eye"], "observation.1.shape", None)
    check_compatible(Contract.from_json(values), env)


def test_a_picture_that_stands_upright_is_another() -> None:
    policy, group = made()
    upright = dataclasses.replace(DEPTH, shape=(2, 9, 7, 1))
    env = make_env(eye=dataclasses.replace(group, observation=(RATE, upright, LAST)))
    check_compatible(contract_of(policy, group), make_env(eye=group))
    with pytest.raises(RookeryError, match=r"observation\[1\]\.shape\[1\]"):
        check_compatible(contract_of(policy, group), env)


# C and ONNX


@pytest.mark.parametrize("name", CASES)
def test_the_c_answers_as_torch_does(name: str, tmp_path: Path) -> None:
    policy, group = made(name)
    code, header = c_source(contract_of(policy, group), "eye", policy_arrays(policy), "rookery", "policy.h")
    (tmp_path / "policy.c").write_text(code)
    (tmp_path / "policy.h").write_text(header)
    assert "malloc" not in code and "convolutions of pictures 7 x 9" in header.lower()
    native = NativePolicy(compile_library(tmp_path / "policy.c", tmp_path), read_header(tmp_path / "policy.h"))
    obs = questions(policy)
    got = native.follow(obs, np.arange(len(obs)) == 0) if policy.state_size else native.policy(obs)
    assert np.abs(got - answers(policy, obs)).max() <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_bundle_proves_itself(name: str, tmp_path: Path) -> None:
    policy, group = made(name)
    folder = export_bundle({"eye": policy}, contract_of(policy, group), tmp_path / "bundle")
    errors = check_bundle(folder)
    assert 0.0 < errors["onnx_max_error"] <= 1e-5 and 0.0 < errors["c_max_error"] <= 1e-5


def test_onnx_answers_as_torch_does(shared: Path) -> None:
    policy, _ = made()
    session = ort.InferenceSession(shared / "policy.onnx", providers=["CPUExecutionProvider"])
    obs = questions(policy)
    got = np.concatenate([session.run(["action"], {"obs": row[None]})[0] for row in obs])
    np.testing.assert_allclose(got, answers(policy, obs), atol=1e-5)


def test_changed_weights_of_a_convolution_are_noticed(shared: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(shared, tmp_path / "bundle"))
    text = (bundle / "policy.c").read_text()
    at = text.index("pictures_bias_1_0")
    end = text.index("};", at)
    (bundle / "policy.c").write_text(text[:end].rstrip() + ", 0.5f\n" + text[end:])
    with pytest.raises(RookeryError, match="is not run"):
        check_bundle(bundle)


@pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in (COMPILER, SIZE, EMULATOR)), reason="needs the Cortex-M tools"
)
def test_the_microcontroller_answers_as_torch_does(shared: Path) -> None:
    assert 0.0 < check_mcu(shared)["mcu_max_error"] <= 1e-5


# What makes no sense with an encoder


def test_other_tools_refuse() -> None:
    policy, group = made()
    with pytest.raises(RookeryError, match="convolutions of pictures"):
        low_pass(policy, group, 0.5)
    with pytest.raises(RookeryError, match=r"only perceptrons .* convolutions of pictures"):
        fuse_policies((policy, group), (Policy(standard(group.observation_size, 2, (8,))), group), group)

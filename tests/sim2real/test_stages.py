"""Policies with a history of observations and a state estimator: contract, C, ONNX and bundle against torch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.build import build_contract
from rookery.sim2real.compatibility import check_groups
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.golden import golden_observations
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header
from tests.sim2real.conftest import make_env

FRAME = 5
HISTORY = 4
TARGETS = 7
TERMS = (Term("angle", 2, "rad", scale=0.5), Term("rate", 3, "rad/s", "body", clip=4.0))
ACTION = ActionSpec("push", ("a", "b"), (-1.0, -2.0), (1.0, 2.0), ("N", "N"), (0.0, 0.0))
POINTS = (Term("velocity", 3, "m/s", "body", scale=0.5), Term("path", 4, "m"))


def group(history: int = HISTORY, targets: tuple[Term, ...] = POINTS) -> Group:
    return Group(1, TERMS, ACTION, history, targets, ("path",) if targets else ())


def made(
    actor_inputs: int = FRAME, estimator: tuple[int, ...] = (24, 12), targets: int = TARGETS, **more: Any
) -> Policy:
    """A policy with large weights and normalizers far from the identity."""
    generator = torch.Generator().manual_seed(0)
    settings = {"hidden": (16, 32), "activation": "elu", "obs_clip": 5.0} | more
    policy = Policy(
        standard(FRAME * HISTORY, 2, actor_inputs=actor_inputs, estimator=estimator, targets=targets, **settings)
    )
    with torch.no_grad():
        for name, x in policy.state_dict().items():
            if name.endswith("std"):
                x.uniform_(0.2, 3.0, generator=generator)
            else:
                x.normal_(0.0, x.shape[-1] ** -0.5 if "weight" in name else 0.3, generator=generator)
    return policy


SHAPES = {
    "two stages": {},
    "linear estimator": {"estimator": ()},
    "linear actor": {"hidden": (), "activation": "tanh"},
    "deep": {"estimator": (8, 9, 10), "hidden": (32, 8, 16, 4), "activation": "relu"},
    "two frames": {"actor_inputs": 2 * FRAME},
    "history alone": {"actor_inputs": FRAME * HISTORY, "targets": 0},
    "tanh squash": {"squash": "tanh"},
    "newest frame alone": {"actor_inputs": FRAME, "targets": 0},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle of the policy with everything; read it, do not change it."""
    policy = made()
    folder = tmp_path_factory.mktemp("export") / "bundle"
    return export_bundle({"leg": policy}, build_contract(make_env(leg=group()), {"leg": policy}), folder)


@pytest.fixture
def bundle(shared: Path, tmp_path: Path) -> Path:
    """A good bundle of the test's own, to be broken."""
    return Path(shutil.copytree(shared, tmp_path / "bundle"))


def questions(policy: Policy) -> tuple[Any, Any]:
    """Observations [n, O], and targets [n, M] of which the first three must be predicted."""
    obs = golden_observations(policy)
    known = np.random.default_rng(1).standard_normal((len(obs), policy.targets)).astype(np.float32)
    known[:, :3] = np.nan
    return obs, known


@pytest.mark.parametrize("shape", SHAPES)
def test_the_c_answers_as_torch_does(shape: str, tmp_path: Path) -> None:
    policy = made(**SHAPES[shape])
    contract = build_contract(make_env(leg=group()), {"leg": policy})
    code, header = c_source(contract, "leg", policy_arrays(policy), "rookery", "policy.h")
    (tmp_path / "policy.c").write_text(code)
    (tmp_path / "policy.h").write_text(header)
    native = NativePolicy(compile_library(tmp_path / "policy.c", tmp_path), read_header(tmp_path / "policy.h"))
    obs, known = questions(policy)
    with torch.no_grad():
        want = policy(torch.from_numpy(obs)).numpy()
        assert ((np.abs(want) < 1.0).mean()) > 0.1, "a test of clipped actions only would prove nothing"
        assert np.abs(native.policy(obs) - want).max() <= 1e-5
        if policy.targets:
            wanted = policy(torch.from_numpy(obs), torch.from_numpy(known)).numpy()
            assert np.abs(wanted - want).max() > 0.1, "known targets must count"
            assert np.abs(native.policy_known(obs, known) - wanted).max() <= 1e-5
            assert np.abs(native.predict(obs) - policy.predict(torch.from_numpy(obs)).numpy()).max() <= 1e-4


def test_the_bundle_answers_as_torch_does(shared: Path) -> None:
    errors = check_bundle(shared)
    assert 0.0 < errors["onnx_max_error"] <= 1e-5 and 0.0 < errors["c_max_error"] <= 1e-5
    policy = made()
    obs, known = questions(policy)
    session = ort.InferenceSession(shared / "policy.onnx", providers=["CPUExecutionProvider"])
    out = [
        session.run(["action"], {"obs": o[None], "known_targets": g[None]})[0] for o, g in zip(obs, known, strict=True)
    ]
    with torch.no_grad():
        wanted = policy(torch.from_numpy(obs), torch.from_numpy(known)).numpy()
    assert np.abs(np.concatenate(out) - wanted).max() <= 1e-5
    assert [t.name for t in session.get_inputs()] == ["obs"], "the second input may be left out"


@pytest.mark.slow
def test_frames_are_stacked_oldest_first(bundle: Path, tmp_path: Path) -> None:
    native = NativePolicy(compile_library(bundle / "policy.c", tmp_path), read_header(bundle / "policy.h"))
    frames = np.arange(6.0 * FRAME, dtype=np.float32).reshape(6, FRAME)
    assert np.array_equal(native.remember(frames), frames[-HISTORY:].ravel())
    raw = np.full((1, FRAME), 10.0, np.float32)
    assert native.observe(raw).tolist() == [[5.0, 5.0, 4.0, 4.0, 4.0]]
    header = " ".join((bundle / "policy.h").read_text().split())
    for words in (
        "One of the 4 frames of an observation, frame[i] =",
        "* 0..2 velocity m/s body 0.5 none",
        "state estimator 20 -> 24 -> 12 -> 7, elu; multilayer perceptron 12 -> 16 -> 32 -> 2, elu; final clip",
        "void rookery_remember(const float frame[5], float obs[20]);",
    ):
        assert words in header
    broken = (bundle / "policy.c").read_text().replace("obs[15 + i] = frame[i]", "obs[i] = frame[i]")
    (bundle / "policy.c").write_text(broken)
    with pytest.raises(RookeryError, match="stacks frames otherwise"):
        check_bundle(bundle, run_c=True)


@pytest.mark.slow
def test_actions_for_known_targets_are_checked_too(bundle: Path) -> None:
    code = (bundle / "policy.c").read_text()
    (bundle / "policy.c").write_text(code.replace("(known[i] - estimator_mean[i])", "(known[i] + estimator_mean[i])"))
    with pytest.raises(RookeryError, match=r"policy\.c differs"):
        check_bundle(bundle, run_c=True)


def test_the_contract_says_it_all(tmp_path: Path) -> None:
    policy = made()
    contract = build_contract(make_env(leg=group()), {"leg": policy})
    leg = contract.to_json()["groups"]["leg"]
    assert [(t["slice"], t["history"]) for t in leg["observation"]] == [([0, 2], 4), ([2, 5], 4)]
    assert "oldest first" in leg["frames"] and leg["future"] == ["path"]
    assert leg["targets"][1] == {
        "name": "path", "size": 4, "slice": [3, 7], "unit": "m", "frame": "", "scale": 1.0, "clip": None, "formula": "path",
        "expression": {"kind": "quantity", "name": "path", "count": 4, "unit": "m"},
    }  # fmt: skip
    frame, predicts = (branch[0] for branch in leg["stages"][1]["branches"])
    assert frame["slices"] == [[15, 20]] and (predicts["outputs"], predicts["hidden"]) == (7, [24, 12])
    save_policy(tmp_path, {"leg": policy}, contract.to_json())
    back, read = load_policy(tmp_path)
    obs = torch.randn(3, FRAME * HISTORY)
    assert Contract.from_json(read) == contract and torch.equal(back["leg"](obs), policy(obs))
    plain = build_contract(make_env(leg=group(1, ()))).to_json()["groups"]["leg"]
    assert not {"frames", "targets", "future"} & plain.keys() and plain["observation"][0]["history"] == 1


@pytest.mark.parametrize(
    ("line", "value", "words"),
    [
        ("observation.1.history", 2, r"observation\[1\]\.history is 2, but it must be 4"),
        ("frames", None, r"frames is None"),
        ("future.0", "pace", r"future\[0\] is 'pace'"),
        (
            "stages.1.branches.0.0.slices",
            [[14, 21]],
            r"stages\[1\].branches\[0\]\[0\]: the slice \[14, 21\] is no part of a row of 20",
        ),
        ("stages.1.branches.1.0.outputs", 6, "takes 12 numbers, and gets 11"),
        ("targets.1.size", 5, r"targets\[1\]\.slice"),
        ("observation.0.history", 4.0, r"observation\[0\]\.history"),
        ("targets.0.slice", [1, 4], r"targets\[0\]\.slice"),
    ],
)
def test_contracts_that_contradict_themselves_are_refused(line: str, value: Any, words: str) -> None:
    contract = build_contract(make_env(leg=group()), {"leg": made()}).to_json()
    at: Any = contract["groups"]["leg"]
    *path, last = (int(k) if k.isdigit() else k for k in line.split("."))
    for key in path:
        at = at[key]
    at[last] = value
    if value is None:
        del at[last]
    with pytest.raises(RookeryError, match=words):
        Contract.from_json(contract)


def test_a_policy_goes_only_where_history_and_targets_mean_the_same() -> None:
    contract = build_contract(make_env(leg=group()), {"leg": made()})
    check_groups(contract, {"leg": group()})
    with pytest.raises(RookeryError, match="history"):
        check_groups(contract, {"leg": group(3)})
    other = (Term("velocity", 3, "m/s", "world", scale=0.5), POINTS[1])
    with pytest.raises(RookeryError, match=r"targets\[0\]\.frame"):
        check_groups(contract, {"leg": group(targets=other)})
    alone = build_contract(make_env(leg=group()), {"leg": made(actor_inputs=20, targets=0)})
    check_groups(alone, {"leg": group(targets=other)})  # it does not predict them

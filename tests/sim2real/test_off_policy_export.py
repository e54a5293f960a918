"""Policies of SAC and TD3 with memories and encoders, from `rookery train` to the C of their bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from rookery.cli.main import main
from rookery.policies.training.store import load_policy
from tests.sim2real.independent_runtime import Runtime

SMALL = (
    "--steps 768 --num-envs 8 --rollout-steps 8 --hidden 16 --batch 32 --learning-starts 128 --buffer-size 2000 --n-step 1 "
    "--learning-rate 0.003 --task-config episode_s=0.3 --task-config settled_s=0.1"
)
GRU = "--memory gru --memory-size 6 --memory-steps 8"
CNN = "--obs depth --encoder cnn --encoder-channels 4 6 --encoder-kernels 8 2 --encoder-strides 4 2"
CASES = {
    "sac gru": f"sac {GRU}",
    "sac cnn": f"sac {CNN}",
    "sac cnn gru": f"sac {CNN} {GRU}",
    "td3 gru": f"td3 {GRU}",
    "td3 cnn": f"td3 {CNN}",
}


QUICK = ("sac gru",)


@pytest.fixture(
    scope="module", params=[name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run and its bundle."""
    folder = tmp_path_factory.mktemp("off-policy")
    run, bundle = folder / "run", folder / "bundle"
    assert (
        main(["train", "drone-hover", "--algorithm", *CASES[request.param].split(), *SMALL.split(), "--out", str(run)])
        == 0
    )
    assert main(["export", str(run), "--out", str(bundle)]) == 0
    return run, bundle


def observations(policy: Any, count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Rows [n, O] about as the policy meets them, and where episodes begin [n]."""
    rng = np.random.default_rng(3)
    mean, std = (policy.get_buffer(f"normalize.{name}").numpy() for name in ("mean", "std"))
    rows = mean + 2.0 * std * rng.standard_normal((count, policy.observation_size))
    start = rng.random(count) < 0.05
    start[0] = True
    return rows.astype(np.float32), start


def followed(policy: Any, rows: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Torch's actions [n, D], one step after the other."""
    actions = []
    with torch.no_grad():
        for row, new in zip(torch.from_numpy(rows), start, strict=True):
            state = policy.initial_state() if new else state  # noqa: F821
            action, state = policy.step(row, state)
            actions.append(action.numpy())
    return np.stack(actions)


@pytest.mark.slow
def test_the_bundle_proves_itself(trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run, bundle = trained
    capsys.readouterr()
    assert main(["export", "--check", str(bundle), "--json"]) == 0
    errors = json.loads(capsys.readouterr().out)
    assert 0.0 < errors["onnx_max_error"] <= 1e-5 and 0.0 < errors["c_max_error"] <= 1e-5
    golden = np.load(bundle / "golden.npz")
    policy = load_policy(run)[0]["drone"]
    wanted = followed(
        policy, golden["observations"], golden["start"] if policy.state_size else np.ones(len(golden["actions"]))
    )
    np.testing.assert_allclose(golden["actions"], wanted, atol=1e-5)
    assert (golden["start"].sum() if policy.state_size else 0) < 0.1 * len(wanted)  # sequences of many steps
    assert np.abs(wanted).max() <= 1.0 and wanted.std(0).min() > 1e-3  # squashed, and no constant


def test_c_and_onnx_follow_the_policy_through_episodes(trained: tuple[Path, Path]) -> None:
    """With a runtime that knows nothing of Rookery, and the state of ONNX handed on by hand."""
    run, bundle = trained
    policy = load_policy(run)[0]["drone"]
    rows, start = observations(policy)
    wanted = followed(policy, rows, start)
    compiled = Runtime(bundle)
    session = ort.InferenceSession(bundle / "policy.onnx", providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["obs", *(["h_in"] if policy.state_size else [])]
    for row, new, action in zip(rows, start, wanted, strict=True):
        if new:
            compiled.start()
            state = {"h_in": np.zeros((1, policy.state_size), np.float32)} if policy.state_size else {}
        np.testing.assert_allclose(compiled.network(row), action, atol=1e-5)
        got, *after = session.run(None, {"obs": row[None], **state})
        state = dict(zip(state, after, strict=True))
        np.testing.assert_allclose(got[0], action, atol=1e-5)
    if policy.state_size:  # the state matters
        assert np.abs(followed(policy, rows, np.ones(len(rows), bool)) - wanted).max() > 1e-3


def test_it_is_evaluated(trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Twice with the same figures."""
    run, _ = trained
    results = []
    for _ in range(2):
        capsys.readouterr()
        assert main(["eval", str(run), "--episodes", "6", "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1] and results[0]["episodes"] == 6 and np.isfinite(results[0]["return_mean"])

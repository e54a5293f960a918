"""Weights of 8 bits: what the contract says of their error is true, every check of a bundle holds, and the flash shrinks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sampled import slow_but

from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export import int8
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from rookery.sim2real.export.golden import act_golden, golden_observations
from rookery.sim2real.export.int8_c import quantized
from rookery.sim2real.export.mcu import check_mcu
from tests.sim2real.conftest import make_env, make_policy


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_rounding_is_within_half_a_step_and_done_once(rows: int, columns: int, seed: int, size: float) -> None:
    weight = (np.random.default_rng(seed).standard_normal((rows, columns)) * size).astype(np.float32)
    weight[0] = 0.0  # a row of zeros stays one
    q, scale = quantized(weight)
    again = q * scale[:, None]
    assert np.abs(q).max(axis=1)[1:].tolist() == [127] * (rows - 1)
    assert (np.abs(again - weight) <= 0.5001 * scale[:, None]).all()
    np.testing.assert_array_equal(quantized(again)[0], q)


def independent(policy: Policy, rows: np.ndarray) -> np.ndarray:
    """Actions of the policy with weights rounded here, by NumPy in double precision."""
    w = {name: t.numpy().astype(float) for name, t in policy.state_dict().items()}
    x = np.clip((rows - w["normalize.mean"]) / w["normalize.std"], -5.0, 5.0)
    layers = sum(".weight_" in name for name in w)
    for k in range(layers):
        weight = w[f"perceptron.weight_{k}"]
        step = np.abs(weight).max(axis=1, keepdims=True) / 127.0
        x = x @ (np.round(weight / step) * step).T + w[f"perceptron.bias_{k}"]
        x = np.tanh(x) if k < layers - 1 else x
    return np.clip(x, -1.0, 1.0)


def test_the_contract_says_how_far_actions_are(tmp_path: Path) -> None:
    policy = make_policy()
    folder = export_bundle({"drone": policy}, build_contract(make_env()), tmp_path / "out", int8=True)
    said = Contract.read(folder).groups["drone"].quantization
    assert said is not None
    rows = golden_observations(policy)
    with torch.no_grad():
        before = act_golden(policy, rows)
    assert said.largest_difference == pytest.approx(np.abs(independent(policy, rows) - before).max(), abs=1e-4)
    assert said.largest_difference > 1e-3
    assert f"{said.largest_difference:.3g}" in (folder / "policy.h").read_text()
    result = check_bundle(folder)  # ONNX, C and golden vectors are of the rounded network
    assert max(result["onnx_max_error"], result["c_max_error"]) <= 1e-5
    with np.load(folder / "golden.npz") as golden:
        np.testing.assert_allclose(golden["actions"], independent(policy, golden["observations"]), atol=1e-5)


def test_a_policy_that_suffers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MOST_DIFFERENCE", 1e-3)
    with pytest.raises(RookeryError, match="export it without --int8"):
        export_bundle({"drone": make_policy()}, build_contract(make_env()), tmp_path / "out", int8=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "task", slow_but(["drone-hover", "go2-velocity"], ["drone-hover", "go2-velocity", "drone-hover-gru"])
)
def test_stored_policies_take_it(task: str, tmp_path: Path) -> None:
    policies, contract = open_run(Path(task))
    _, said = int8.rounded(policies, contract)
    for group in said.groups.values():
        assert group.quantization is not None
        assert 0.0 < group.quantization.largest_difference <= int8.MOST_DIFFERENCE


@pytest.mark.slow
def test_flash_on_the_microcontroller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "drone-hover", "--out", str(tmp_path / "out"), "--int8", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 0.0 < said["int8_largest_difference"]["drone"] <= int8.MOST_DIFFERENCE
    result = check_mcu(tmp_path / "out")
    weights = 16 * 64 + 64 * 64 + 64 * 4
    saved = result["mcu_flash_bytes_float32"] - result["mcu_flash_bytes"]
    assert saved == pytest.approx(3 * weights - 4 * (64 + 64 + 4), abs=200)
    assert result["mcu_flash_bytes"] < 14_000
